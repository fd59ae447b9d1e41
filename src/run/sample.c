/* sample.c - penalties, truncation and the draw. CPU twin of nothing: this is the reference. */
#include "run/sample.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"

static float first_nonzero(float a, float b, float c)
{
    return a != 0 ? a : b != 0 ? b : c;
}

static int32_t first_nonzero_int(int32_t a, int32_t b, int32_t c)
{
    return a != 0 ? a : b != 0 ? b : c;
}

vklm_status vki_sampling_resolve(const vklm_sampling *asked, const vklm_sampling *recommended,
                                 vklm_error *error, vklm_sampling *resolved)
{
    const vklm_sampling *a = asked, *r = recommended;
    *resolved = (vklm_sampling){
        .temperature = first_nonzero(a->temperature, r->temperature, 0.8f),
        .top_k = first_nonzero_int(a->top_k, r->top_k, 40),
        .top_p = first_nonzero(a->top_p, r->top_p, 0.95f),
        .min_p = first_nonzero(a->min_p, r->min_p, 0.05f),
        .repeat_penalty = first_nonzero(a->repeat_penalty, r->repeat_penalty, 1.0f),
        .presence_penalty = a->presence_penalty,
        .frequency_penalty = a->frequency_penalty,
        .repeat_last_n = first_nonzero_int(a->repeat_last_n, r->repeat_last_n, 64),
        .seed = a->seed ? a->seed : vki_random_seed(),
    };
    const float values[] = {resolved->temperature,      resolved->top_p,           resolved->min_p,
                            resolved->repeat_penalty,   resolved->presence_penalty, resolved->frequency_penalty};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (!isfinite(values[i]))
            return vki_fail(error, VKLM_INVALID_ARGUMENT,
                            "a sampling parameter, of the call or of the model file, is not a finite number");
    if (resolved->repeat_penalty <= 0)
        return vki_fail(error, VKLM_INVALID_ARGUMENT, "repeat_penalty is %g; it must be above 0 (1: off)",
                        (double)resolved->repeat_penalty);
    if (resolved->top_p < 0 || resolved->min_p > 1)
        return vki_fail(error, VKLM_INVALID_ARGUMENT, "top_p is %g and min_p %g; they lie in 0 to 1",
                        (double)resolved->top_p, (double)resolved->min_p);
    return VKLM_OK;
}

void vki_sampler_start(vki_sampler *sampler, const vki_host *host, const vklm_sampling *resolved)
{
    sampler->host = host;
    sampler->params = *resolved;
    sampler->state = resolved->seed;
}

void vki_sampler_free(vki_sampler *sampler)
{
    if (sampler->host) vki_release(sampler->host, &sampler->candidates);
    *sampler = (vki_sampler){0};
}

/* splitmix64 (Steele, Lea, Flood 2014); 53 bits make a double in [0, 1). */
static double next_random(vki_sampler *sampler)
{
    uint64_t z = sampler->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return (double)(z >> 11) * 0x1.0p-53;
}

/* Applies the penalties to the candidates, which are still in id order. c counts a token's occurrences:
 * the repetition penalty once per distinct token, frequency per occurrence, presence once. */
static void penalise(vki_candidate *candidates, uint32_t n_vocab, const vklm_sampling *params,
                     const vklm_token *history, size_t n_history)
{
    if (params->repeat_penalty == 1 && params->presence_penalty == 0 && params->frequency_penalty == 0) return;
    size_t window = n_history;
    if (params->repeat_last_n >= 0 && window > (size_t)params->repeat_last_n) window = (size_t)params->repeat_last_n;
    const vklm_token *recent = history + n_history - window;
    for (size_t i = 0; i < window; i++) {
        const vklm_token id = recent[i];
        if (id < 0 || (uint32_t)id >= n_vocab) continue;
        vki_candidate *c = &candidates[id];
        if (c->id >= 0) { /* the first time: marked by the complement */
            c->logit = c->logit > 0 ? c->logit / params->repeat_penalty : c->logit * params->repeat_penalty;
            c->logit -= params->presence_penalty;
            c->id = ~c->id;
        }
        c->logit -= params->frequency_penalty;
    }
    for (size_t i = 0; i < window; i++) {
        if (recent[i] < 0 || (uint32_t)recent[i] >= n_vocab) continue;
        vki_candidate *c = &candidates[recent[i]];
        c->id = recent[i];
        c->logit = fmaxf(-FLT_MAX, fminf(c->logit, FLT_MAX)); /* infinities have no differences */
    }
}

/* Larger logit first, lower id on ties: a strict order, so results do not depend on the sort. */
static int by_logit(const void *a, const void *b)
{
    const vki_candidate *x = a, *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void swap(vki_candidate *a, vki_candidate *b)
{
    const vki_candidate t = *a;
    *a = *b;
    *b = t;
}

/* Moves the k first in order to the front (quickselect, middle pivot); k < n. */
static void select_top(vki_candidate *c, size_t n, size_t k)
{
    size_t low = 0, high = n;
    while (high - low > 1) {
        swap(&c[low + (high - low) / 2], &c[high - 1]);
        size_t store = low;
        for (size_t i = low; i + 1 < high; i++)
            if (by_logit(&c[i], &c[high - 1]) < 0) swap(&c[i], &c[store++]);
        swap(&c[store], &c[high - 1]);
        if (store == k) return;
        if (store > k) high = store;
        else low = store + 1;
    }
}

/* The shortest prefix of the sorted candidates whose probability reaches top_p. */
static size_t cut_top_p(const vki_candidate *c, size_t n, float top_p)
{
    double total = 0, sum = 0;
    for (size_t i = 0; i < n; i++) total += exp((double)c[i].logit - (double)c[0].logit);
    for (size_t i = 0; i < n; i++) {
        sum += exp((double)c[i].logit - (double)c[0].logit);
        if (sum >= (double)top_p * total) return i + 1;
    }
    return n;
}

static size_t cut_min_p(const vki_candidate *c, size_t n, float min_p)
{
    const double lowest = (double)c[0].logit + log((double)min_p);
    size_t kept = 1;
    while (kept < n && (double)c[kept].logit >= lowest) kept++;
    return kept;
}

static vklm_token draw(vki_sampler *sampler, const vki_candidate *c, size_t n)
{
    const double temperature = (double)sampler->params.temperature;
    double total = 0, sum = 0;
    for (size_t i = 0; i < n; i++) total += exp(((double)c[i].logit - (double)c[0].logit) / temperature);
    const double target = next_random(sampler) * total;
    for (size_t i = 0; i + 1 < n; i++) {
        sum += exp(((double)c[i].logit - (double)c[0].logit) / temperature);
        if (sum > target) return c[i].id;
    }
    return c[n - 1].id; /* absorbs the rounding */
}

vklm_status vki_sampler_draw(vki_sampler *sampler, const float *logits, uint32_t n_vocab,
                             const vklm_token *history, size_t n_history, vklm_error *error,
                             vklm_token *id_out)
{
    *id_out = -1;
    const vklm_sampling *params = &sampler->params;
    TRY(vki_grow(sampler->host, n_vocab, sizeof *sampler->candidates, error, &sampler->candidates,
                 &sampler->capacity));
    vki_candidate *c = sampler->candidates;
    size_t n = n_vocab, best = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(logits[i]))
            return vki_fail(error, VKLM_DRIVER_ERROR,
                            "logit %zu is not a finite number: the driver computes wrongly, or the model "
                            "file holds weights that are not numbers", i);
        c[i] = (vki_candidate){logits[i], (vklm_token)i};
    }
    penalise(c, n_vocab, params, history, n_history);
    if (params->temperature < 0) {
        for (size_t i = 1; i < n; i++)
            if (c[i].logit > c[best].logit) best = i;
        *id_out = c[best].id;
        return VKLM_OK;
    }
    if (params->top_k > 0 && (size_t)params->top_k < n) {
        select_top(c, n, (size_t)params->top_k);
        n = (size_t)params->top_k;
    }
    qsort(c, n, sizeof *c, by_logit);
    if (params->top_p < 1) n = cut_top_p(c, n, params->top_p);
    if (params->min_p > 0) n = cut_min_p(c, n, params->min_p);
    *id_out = draw(sampler, c, n);
    return VKLM_OK;
}
