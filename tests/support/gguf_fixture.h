/* gguf_fixture.h - what the tests of the GGUF reader share: a known file, and what must be refused or accepted. */
#ifndef GGUF_FIXTURE_H
#define GGUF_FIXTURE_H

#include <check.h>
#include <string.h>

#include "file/format.h"
#include "file/gguf.h"
#include "support/gguf_writer.h"

enum { F32 = 0, F16 = 1, Q4_0 = 2, IQ4_XS = 23 }; /* ids of the format */

static vki_host host;
static vki_gguf gguf;
static vklm_error error;

static inline void setup(void)
{
    vki_host_init(&host, NULL, NULL);
    memset(&gguf, 0, sizeof gguf);
    memset(&error, 0, sizeof error);
}

static inline void teardown(void)
{
    vki_gguf_close(&gguf);
}

static inline vklm_status parse(const uint8_t *bytes, size_t size)
{
    vki_gguf_close(&gguf);
    return gguf_parse(&gguf, &host, "some.gguf", bytes, size, &error);
}

#define expect_ok(call)                                                                            \
    do {                                                                                           \
        const vklm_status status = (call);                                                         \
        ck_assert_msg(status == VKLM_OK, "%s: %s", vklm_status_name(status), error.text);          \
    } while (0)

static inline void expect_words(const char *file, const char *a, const char *b)
{
    ck_assert_msg(strstr(error.text, file) == error.text, "no file: %s", error.text);
    ck_assert_msg(!a || strstr(error.text, a), "no \"%s\": %s", a, error.text);
    ck_assert_msg(!b || strstr(error.text, b), "no \"%s\": %s", b, error.text);
}

/* Refused with this status, in a sentence that begins with the file and holds both words. */
static inline void refused(const uint8_t *bytes, size_t size, vklm_status wanted, const char *a,
                    const char *b)
{
    const vklm_status status = parse(bytes, size);
    ck_assert_msg(status == wanted, "%s: %s, wanted \"%s\"", vklm_status_name(status), error.text,
                  a);
    ck_assert_int_eq(error.status, wanted);
    expect_words("some.gguf: ", a, b);
    ck_assert_ptr_null(gguf.host);
    ck_assert_int_eq(gguf_parse(&gguf, &host, "some.gguf", bytes, size, NULL), wanted);
}

/* The same of all that a writer holds; frees the writer. */
static inline void refused_file(gguf_writer *w, const char *a, const char *b)
{
    uint8_t *bytes;
    size_t size;
    gguf_writer_finish(w, &bytes, &size);
    refused(bytes, size, VKLM_BAD_FILE, a, b);
    gguf_writer_free(w);
}

/* The writer stays alive: values point into its bytes. */
static inline void accepted_file(gguf_writer *w)
{
    uint8_t *bytes;
    size_t size;
    gguf_writer_finish(w, &bytes, &size);
    expect_ok(parse(bytes, size));
}

/* ---- A known file -------------------------------------------------------------------------- */

/* Written down byte by byte from the definition of the format, and accepted by ggml's reader. */
static const uint8_t known_file[0x120] = "GGUF\3\0\0\0\2\0\0\0\0\0\0\0"
                                         "\3\0\0\0\0\0\0\0\x14\0\0\0\0\0\0\0general.architec"
                                         "ture\10\0\0\0\5\0\0\0\0\0\0\0"
                                         "llama\x11\0\0\0\0\0\0\0lla"
                                         "ma.block_count\4\0"
                                         "\0\0\1\0\0\0\3\0\0\0\0\0\0\0a."
                                         "b\11\0\0\0\5\0\0\0\3\0\0\0\0\0\0"
                                         "\0\1\0\0\0\2\0\0\0\3\0\0\0\1\0\0"
                                         "\0\0\0\0\0w\2\0\0\0\3\0\0\0\0\0"
                                         "\0\0\2\0\0\0\0\0\0\0\0\0\0\0\0\0"
                                         "\0\0\0\0\0\0\1\0\0\0\0\0\0\0v\1"
                                         "\0\0\0\2\0\0\0\0\0\0\0\1\0\0\0\x20"
                                         "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                                         "\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x40"
                                         "\0\0\xa0\x40\0\0\xc0\x40\0\0\0\0\0\0\0\0"
                                         "\0\x47\0\x48";

static const float known_w[6] = {1, 2, 3, 4, 5, 6};
static const uint16_t known_v[2] = {0x4700, 0x4800};

static inline gguf_writer *known_writer(void)
{
    gguf_writer *w = gguf_writer_new();
    gguf_put_string(w, "general.architecture", "llama");
    gguf_put_u32(w, "llama.block_count", 1);
    gguf_put_i32s(w, "a.b", 3, (int32_t[]){1, 2, 3});
    gguf_put_tensor(w, "w", F32, 2, (uint64_t[]){3, 2}, known_w, sizeof known_w);
    gguf_put_tensor(w, "v", F16, 1, (uint64_t[]){2}, known_v, sizeof known_v);
    return w;
}

#endif
