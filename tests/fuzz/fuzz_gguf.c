/* libFuzzer target: the GGUF reader over any bytes, in memory and read by calls. Of a file that is accepted, every value is read
 * through the typed reads, every tensor's data byte by byte, and the matrices of the formats that
 * vklm runs are repacked. seed_gguf.c writes files to start from. */
#include <stdlib.h>
#include <string.h>

#include "file/format.h"
#include "ref/formats_ref.h"
#include "support/gguf_writer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint64_t sink; /* keeps reads from being optimised away */

static void read_bytes(const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    uint64_t sum = 0;
    for (size_t i = 0; i < size; i++) sum += at[i];
    sink += sum;
}

static void read_scalar(const vki_gguf *gguf, const char *key)
{
    vklm_error error;
    uint64_t wide = 0;
    uint32_t narrow = 0;
    float number = 0;
    bool flag = false, found = false;
    vki_string text = {0};
    (void)vki_gguf_u64(gguf, key, INT64_MAX, &error, &wide, &found);
    (void)vki_gguf_u32(gguf, key, &error, &narrow, NULL);
    (void)vki_gguf_f32(gguf, key, &error, &number, &found);
    (void)vki_gguf_bool(gguf, key, &error, &flag, &found);
    (void)vki_gguf_string(gguf, key, &error, &text, &found);
    if (!found) abort();
    read_bytes(text.text, text.len);
    sink += wide + narrow + (uint64_t)flag + (number > 0);
}

static void read_array(const vki_gguf *gguf, const char *key)
{
    const vki_gguf_value *strings, *ints, *floats;
    (void)vki_gguf_array_of(gguf, key, VKI_GGUF_STRINGS, NULL, &strings);
    (void)vki_gguf_array_of(gguf, key, VKI_GGUF_INTS, NULL, &ints);
    (void)vki_gguf_array_of(gguf, key, VKI_GGUF_FLOATS, NULL, &floats);
    for (uint64_t i = 0; strings && i < strings->count; i++) {
        const vki_string text = vki_gguf_string_at(strings, i);
        read_bytes(text.text, text.len);
    }
    for (uint64_t i = 0; ints && i < ints->count; i++) sink += (uint64_t)vki_gguf_int_at(ints, i);
    for (uint64_t i = 0; floats && i < floats->count; i++) sink += vki_gguf_float_at(floats, i) > 0;
}

static void repack(const vki_gguf_tensor *tensor)
{
    vki_format format;
    vki_planes planes;
    const uint64_t rows = tensor->ne[1] * tensor->ne[2] * tensor->ne[3], cols = tensor->ne[0];
    if (tensor->size_bytes == 0 || !vki_format_from_ggml(tensor->ggml_id, &format)) return;
    if (!vki_planes_init(&planes, format, rows, cols)) return;
    uint8_t *base = malloc(planes.size_bytes);
    float *weights = malloc((size_t)planes.units * VKI_UNIT_WEIGHTS * sizeof *weights);
    for (uint32_t row = 0; base && weights && row < rows; row++) {
        const uint8_t *from = tensor->data + tensor->size_bytes / rows * row;
        vki_planes_pack_row(&planes, from, cols, row, base);
        ref_decode_planes(&planes, base, row, weights);
        read_bytes(weights, (size_t)cols * sizeof *weights);
    }
    free(base);
    free(weights);
}

typedef struct input {
    const uint8_t *data;
    size_t size;
} input;

static bool read_input(void *user, uint64_t offset, void *bytes, size_t n)
{
    const input *in = user;
    if (offset > in->size || n > in->size - offset) abort();
    memcpy(bytes, in->data + offset, n);
    return true;
}

/* Reading by calls says the same, and gives the same tensors. */
static void check_by_calls(const input *in, const vki_host *host, const vki_gguf *whole, const vklm_error *expected)
{
    vki_gguf gguf;
    vklm_error error = {0};
    const vklm_source source = {.struct_size = sizeof source, .kind = VKLM_SOURCE_READ, .name = "fuzz",
                                .size = in->size, .read = read_input, .user = (void *)(uintptr_t)in};
    const vklm_status status = vki_gguf_open(&gguf, host, &(vki_input){.sources = &source}, &error);
    if (status != expected->status || strcmp(error.text, expected->text) != 0) abort();
    if (status != VKLM_OK) return;
    if (gguf.n_values != whole->n_values || gguf.n_tensors != whole->n_tensors) abort();
    for (size_t i = 0; i < gguf.n_tensors; i++) {
        const size_t n = (size_t)gguf.tensors[i].size_bytes;
        uint8_t *bytes = malloc(n ? n : 1);
        if (!bytes || vki_gguf_read_tensor(&gguf, &gguf.tensors[i], 0, n, NULL, bytes) != VKLM_OK ||
            memcmp(bytes, whole->tensors[i].data, n) != 0)
            abort();
        free(bytes);
    }
    for (size_t i = 0; i < gguf.n_values; i++) read_array(&gguf, gguf.values[i].key);
    vki_gguf_close(&gguf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const input in = {data, size};
    vki_host host;
    vki_gguf gguf;
    vklm_error error = {0};
    vki_host_init(&host, NULL, NULL);
    if (gguf_parse(&gguf, &host, "fuzz", data, size, &error) != VKLM_OK) {
        if (!strstr(error.text, "fuzz")) abort(); /* every error names the file */
        check_by_calls(&in, &host, NULL, &error);
        return 0;
    }
    error = (vklm_error){0};
    check_by_calls(&in, &host, &gguf, &error);
    for (size_t i = 0; i < gguf.n_values; i++) {
        const char *key = gguf.values[i].key;
        if (vki_gguf_find(&gguf, key) != &gguf.values[i]) abort();
        read_scalar(&gguf, key);
        read_array(&gguf, key);
    }
    for (size_t i = 0; i < gguf.n_tensors; i++) {
        const vki_gguf_tensor *tensor = &gguf.tensors[i];
        if (vki_gguf_find_tensor(&gguf, tensor->name) != tensor) abort();
        read_bytes(tensor->data, (size_t)tensor->size_bytes);
        repack(tensor);
    }
    vki_gguf_close(&gguf);
    return 0;
}
