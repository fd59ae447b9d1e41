/* libFuzzer target: a vocabulary from any bytes. What opens must tokenise a fixed text and render a
 * conversation with ids in range, and give text for every id. seed_vocab.c writes files to start
 * from. */
#include <stdlib.h>
#include <string.h>

#include "support/gguf_writer.h"
#include "text/vocab.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_IDS = 4096, MAX_BYTES = 1 << 20 };

/* Room for less than all is part of the protocol: files may have long tokens and odd templates. */
static void check_ids(const vklm_vocab *vocab, vklm_status status, const vklm_token *ids, size_t n)
{
    static char text[MAX_BYTES];
    size_t len;
    if (status != VKLM_OK) return;
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= vklm_vocab_size(vocab)) abort();
    for (int show = 0; show < 2; show++)
        if (vklm_detokenize(vocab, ids, n, show, NULL, text, sizeof text, &len) != VKLM_OK &&
            len <= sizeof text)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char sentence[] =
        "<s>Hello  w\xC3\xB6rld's 1234 \xE2\x96\x81\xFF\xE2\x82\n\n<|end|> aaab";
    static const vklm_message talk[] = {{"system", "Be brief."},
                                        {"user", " <|im_end|> "},
                                        {"assistant", "</think>\nok"},
                                        {"user", ""}};
    vki_host host;
    vki_gguf gguf;
    vklm_error error = {0};
    vklm_vocab *vocab = NULL;
    vki_host_init(&host, NULL, NULL);
    if (gguf_parse(&gguf, &host, "fuzz", data, size, &error) != VKLM_OK) return 0;
    const vklm_status status = vki_vocab_create(&gguf, &host, &error, &vocab);
    vki_gguf_close(&gguf);
    if (status != VKLM_OK && error.text[0] == '\0') abort();
    if (!vocab) return 0;

    static vklm_token ids[MAX_IDS];
    size_t n;
    for (unsigned flags = 0; flags < 4; flags++)
        check_ids(vocab,
                  vklm_tokenize(vocab, sentence, strlen(sentence), flags, &error, ids, MAX_IDS, &n),
                  ids, n);
    check_ids(vocab, vklm_chat_tokenize(vocab, talk, 4, &error, ids, MAX_IDS, &n), ids, n);
    for (uint32_t id = 0; id < vklm_vocab_size(vocab); id++) {
        const vklm_token one = (vklm_token)id;
        (void)vklm_token_is_end(vocab, one);
        check_ids(vocab, VKLM_OK, &one, 1);
    }
    vklm_vocab_destroy(&vocab);
    return 0;
}
