/* sample.h - drawing a token from logits on the host.
 *
 * Order and definitions: penalties over the last tokens, top-k, top-p, min-p, temperature last, then
 * one draw; each truncation renormalises. Greedy consumes no random number.
 */
#ifndef VKI_SAMPLE_H
#define VKI_SAMPLE_H

#include "base/host.h"

typedef struct vki_candidate {
    float logit;
    vklm_token id;
} vki_candidate;

typedef struct vki_sampler {
    const vki_host *host;      /* borrowed */
    vklm_sampling params;      /* resolved: no zero that means a default */
    uint64_t state;            /* of the generator */
    vki_candidate *candidates; /* owned, [n_vocab] once used */
    size_t capacity;
} vki_sampler;

/* Fills in what is zero from `recommended`, then from the defaults; checks ranges. */
vklm_status vki_sampling_resolve(const vklm_sampling *asked, const vklm_sampling *recommended,
                                 vklm_error *error, vklm_sampling *resolved);

/* Keeps the sampler's memory. */
void vki_sampler_start(vki_sampler *sampler, const vki_host *host, const vklm_sampling *resolved);
void vki_sampler_free(vki_sampler *sampler);

/* Draws from logits [n_vocab]; history: all tokens so far, prompt included. DRIVER_ERROR where the logits
 * are not numbers. */
vklm_status vki_sampler_draw(vki_sampler *sampler, const float *logits, uint32_t n_vocab,
                             const vklm_token *history, size_t n_history, vklm_error *error,
                             vklm_token *id_out);

#endif
