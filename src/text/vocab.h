/* vocab.h - a model's vocabulary: ids, texts, types, merges, and the two tokenizers over it.
 *
 * Read-only once opened, so any thread may use it. Copies what it needs out of the GGUF file (the
 * file can be closed afterwards). Knows nothing of Vulkan. The public vklm_vocab is this struct.
 */
#ifndef VKI_VOCAB_H
#define VKI_VOCAB_H

#include "file/gguf.h"

/* Builds *vocab_out from the tokenizer.* keys. UNSUPPORTED names an unknown tokenizer model or
 * pre-tokenizer; a file without tokenizer.ggml.model, or with "none" or "no_vocab", gives VKLM_OK
 * and NULL. */
vklm_status vki_vocab_create(const vki_gguf *gguf, const vki_host *host, vklm_error *error,
                             vklm_vocab **vocab_out);

/* What vklm_message.role may be. */
enum { VKI_ROLES = 3 };
extern const char *const vki_roles[VKI_ROLES];

/* The visible bytes of one token (empty for control tokens); borrowed from the vocabulary.
 * id in range. Byte tokens give their one byte. */
vki_string vki_vocab_token_text(const vklm_vocab *vocab, vklm_token id);

#endif
