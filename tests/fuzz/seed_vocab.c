/* Writes the files that fuzzing of vocabularies starts from: seed_vocab FOLDER. */
#include <stdio.h>
#include <stdlib.h>

#include "support/tiny_vocab.h"

int main(int argc, char **argv)
{
    static const char *const pres[] = {"gpt-2", "llama-bpe", "deepseek-llm", "tekken", NULL};
    static const char *const templates[] = {
        "{{ bos_token }}<|im_start|><|im_end|>", "<start_of_turn>model<end_of_turn>",
        "'[INST]' + message['content'] + '[/INST]'", "<|start_header_id|><|eot_id|>", NULL};
    if (argc != 2) {
        fprintf(stderr, "usage: seed_vocab FOLDER\n");
        return EXIT_FAILURE;
    }
    for (size_t i = 0; i < 6; i++) {
        tiny_vocab tiny = i < 5 ? tiny_bpe : tiny_spm;
        tiny.with_bytes = i % 2;
        tiny.pre = i < 5 ? pres[i] : NULL;
        tiny.chat_template = templates[i % 5];
        tiny.name = i == 5 ? "phi-3" : NULL;
        char path[4096];
        snprintf(path, sizeof path, "%s/vocab-%zu.gguf", argv[1], i);
        gguf_writer *w = tiny_vocab_write(&tiny);
        const bool saved = gguf_writer_save(w, path);
        gguf_writer_free(w);
        if (saved) continue;
        fprintf(stderr, "%s: cannot be written\n", path);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
