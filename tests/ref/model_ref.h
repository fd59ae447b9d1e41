/* model_ref.h - the forward pass of the four architectures in double precision, for model tests.
 *
 * Straight from the GGUF: it reads keys and tensors itself, in the file's layout and rotary order, and shares with
 * the library only the GGUF reader. Every sum and every activation is a double, so that its own error is far below
 * any bound a test states. Against the peer's CPU backend with an f32 KV cache: normalised error 1e-13 and less,
 * gemma3 through the f16 table of GELU 1e-10, without it 5e-8 (the peer rounds arguments and results of GELU to f16).
 */
#ifndef MODEL_REF_H
#define MODEL_REF_H

#include "file/gguf.h"

typedef struct model_ref model_ref;

/* Aborts with a message where the file is not a sound model: tests give it sound ones. The weights
 * are decoded here, so the file may be closed afterwards. */
model_ref *model_ref_new(const vki_gguf *gguf);
void model_ref_free(model_ref *m);

uint32_t model_ref_n_vocab(const model_ref *m);

/* GELU as the peer's CPU backend computes it, through a table of f16 arguments and results. */
void model_ref_use_f16_gelu(model_ref *m);

/* The logits of every position of a sequence that begins with these ids: n rows of n_vocab. */
void model_ref_logits(const model_ref *m, const int32_t *ids, size_t n, double *logits);

#endif
