/* sampler.h - how tokens are drawn: parameters, and the draw on the host, which is shaders/sample.comp's twin.
 *
 * Order and definitions: bias, penalties over the last tokens, top-k, top-p, min-p, temperature last, then one draw;
 * each truncation renormalises. The random number of a draw depends on the seed and on how many tokens stand before
 * it alone. Greedy consumes none.
 */
#ifndef VKI_SAMPLER_H
#define VKI_SAMPLER_H

#include "base/host.h"

struct sampling; /* shaders/lib/push.h */

typedef struct vki_candidate {
    float logit;
    vklm_token id;
    uint32_t count;            /* of it in the window, until the penalty has met it */
} vki_candidate;

typedef struct vki_sampler {
    const vki_host *host;      /* borrowed */
    vklm_sampling params;      /* resolved: no zero that means a default */
    uint64_t offset;           /* of random numbers, to the length of the history; modulo 2^32 */
    vklm_logit_bias *bias;     /* owned: ids rising, each once */
    size_t n_bias, bias_capacity;
    vki_candidate *candidates; /* owned, [n_vocab] once used */
    size_t capacity;
} vki_sampler;

/* Fills in what is zero from `recommended`, then from the defaults; checks ranges. */
vklm_status vki_sampling_resolve(const vklm_sampling *asked, const vklm_sampling *recommended,
                                 vklm_error *error, vklm_sampling *resolved);

/* Keeps the sampler's memory; without a bias or an offset. */
void vki_sampler_start(vki_sampler *sampler, const vki_host *host, const vklm_sampling *resolved);
void vki_sampler_free(vki_sampler *sampler);
/* Copies; an id that stands there twice gets the sum. INVALID_ARGUMENT for ids outside the vocabulary, biases that are
 * NaN or +infinity, and where every token is banned. */
vklm_status vki_sampler_set_bias(vki_sampler *sampler, const vklm_logit_bias *bias, size_t n, uint32_t n_vocab,
                                 vklm_error *error);

/* Whether any of the penalties changes a logit. */
bool vki_sampler_penalises(const vki_sampler *sampler);
/* The device's form; the addresses and n_history are the caller's to fill in. */
void vki_sampler_write(const vki_sampler *sampler, struct sampling *out);

/* In [0, 1), in steps of 2^-32: the number that draws the token behind so many others. */
double vki_random_at(uint64_t seed, uint32_t n_history);
/* DRIVER_ERROR where one of them is no finite number. */
vklm_status vki_logits_check(const float *logits, uint32_t n_vocab, vklm_error *error);
/* Draws from logits [n_vocab]; history: all tokens so far, prompt included. DRIVER_ERROR where the logits
 * are not numbers. */
vklm_status vki_sampler_draw(vki_sampler *sampler, const float *logits, uint32_t n_vocab,
                             const vklm_token *history, size_t n_history, vklm_error *error,
                             vklm_token *id_out);
/* The same with a random number of the caller's. */
vklm_status vki_sampler_pick(vki_sampler *sampler, const float *logits, uint32_t n_vocab, const vklm_token *history,
                             size_t n_history, double random, vklm_error *error, vklm_token *id_out);

#endif
