#include "support/exact_sampling.h"

#include <check.h>
#include <math.h>

vklm_sampling exact_plain(void)
{
    return (vklm_sampling){.temperature = 1, .top_k = -1, .top_p = 1, .min_p = -1, .repeat_penalty = 1,
                           .repeat_last_n = -1, .seed = 1};
}

static void penalise_exactly(const vklm_sampling *params, const vklm_token *history, size_t n_history,
                             double *logits, uint32_t n)
{
    for (uint32_t id = 0; id < n; id++) {
        double count = 0;
        for (size_t i = 0; i < n_history; i++) {
            const bool seen = params->repeat_last_n < 0 || n_history - i <= (size_t)params->repeat_last_n;
            count += seen && history[i] == (vklm_token)id;
        }
        if (count == 0) continue;
        const double r = (double)params->repeat_penalty;
        logits[id] = logits[id] > 0 ? logits[id] / r : logits[id] * r;
        logits[id] -= count * (double)params->frequency_penalty + (double)params->presence_penalty;
    }
}

/* How many of the sorted probabilities top_k, top_p and min_p leave, each after the one before. */
static size_t count_left(const vklm_sampling *params, const double *p, size_t n)
{
    if (params->top_k > 0 && (size_t)params->top_k < n) n = (size_t)params->top_k;
    double total = 0, sum = 0;
    for (size_t i = 0; i < n; i++) total += p[i];
    if (params->top_p < 1) {
        size_t kept = 0;
        while (kept < n && (kept == 0 || sum / total < (double)params->top_p)) sum += p[kept++];
        n = kept;
    }
    while (params->min_p > 0 && n > 1 && p[n - 1] < (double)params->min_p * p[0]) n--;
    return n;
}

/* Probabilities of all tokens. */
void exact_probabilities(const vklm_sampling *params, const float *logits, uint32_t n, const vklm_token *history,
                         size_t n_history, double *probability)
{
    double penalised[EXACT_MOST_TOKENS], p[EXACT_MOST_TOKENS], total = 0;
    uint32_t order[EXACT_MOST_TOKENS];
    for (uint32_t i = 0; i < n; i++) penalised[i] = (double)logits[i];
    penalise_exactly(params, history, n_history, penalised, n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = i;
        for (; at > 0 && penalised[i] > penalised[order[at - 1]]; at--) order[at] = order[at - 1];
        order[at] = i;
    }
    for (uint32_t i = 0; i < n; i++) p[i] = exp(penalised[order[i]] - penalised[order[0]]);
    const size_t left = count_left(params, p, n);
    for (size_t i = 0; i < left; i++) total += p[i] = pow(p[i], 1 / (double)params->temperature);
    for (uint32_t i = 0; i < n; i++) probability[order[i]] = i < left ? p[i] / total : 0;
}

void exact_check_counts(const double *probability, const uint32_t *counts, uint32_t n, uint32_t n_draws)
{
    double chi = 0, freedom = -1, rare_expected = 0, rare_count = 0;
    for (uint32_t i = 0; i < n; i++) {
        const double expected = probability[i] * n_draws;
        if (expected == 0) ck_assert_msg(counts[i] == 0, "token %u was drawn, and is cut", i);
        if (expected < 10) { /* too few for the statistic: one class of all */
            rare_expected += expected;
            rare_count += counts[i];
            continue;
        }
        chi += pow(counts[i] - expected, 2) / expected;
        freedom++;
    }
    if (rare_expected >= 10) {
        chi += pow(rare_count - rare_expected, 2) / rare_expected;
        freedom++;
    }
    ck_assert_msg(chi <= freedom + 5 * sqrt(2 * freedom), "chi-square %.1f with %.0f degrees of freedom", chi,
                  freedom);
}
