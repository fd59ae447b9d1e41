/* exact_sampling.h - the distribution of a drawn token, straight from the definitions, for small vocabularies. */
#ifndef EXACT_SAMPLING_H
#define EXACT_SAMPLING_H

#include "run/sampler.h"

enum { EXACT_MOST_TOKENS = 64 };

/* Everything off: a draw from the softmax of the logits. */
vklm_sampling exact_plain(void);
/* Probabilities of all n tokens; params are resolved. */
void exact_probabilities(const vklm_sampling *params, const float *logits, uint32_t n, const vklm_token *history,
                         size_t n_history, double *probability);
/* The chi-square statistic of what was drawn must lie within five deviations of its mean, and nothing that is
 * cut may be drawn. */
void exact_check_counts(const double *probability, const uint32_t *counts, uint32_t n, uint32_t n_draws);

#endif
