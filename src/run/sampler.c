/* sampler.c - bias, penalties, truncation and the draw on the host: what shaders/sample.comp does, in double. */
#include "run/sampler.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#define VKI_C
#include "lib/push.h"

/* Logits are kept within what a float can say: infinities have no differences. A bias may ban a token, no penalty
 * can. */
static const float banned = -FLT_MAX, least = -3.4028233e38f;

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
    const struct { const char *name; float value; } values[] = {
        {"temperature", resolved->temperature}, {"top_p", resolved->top_p}, {"min_p", resolved->min_p},
        {"repeat_penalty", resolved->repeat_penalty}, {"presence_penalty", resolved->presence_penalty},
        {"frequency_penalty", resolved->frequency_penalty}};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (!isfinite(values[i].value))
            return vki_fail(error, VKLM_INVALID_ARGUMENT, "%s, of the call or of the model file, is not a finite number",
                            values[i].name);
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
    sampler->n_bias = 0;
    sampler->offset = 0;
}

void vki_sampler_free(vki_sampler *sampler)
{
    if (sampler->host) {
        vki_release(sampler->host, &sampler->candidates);
        vki_release(sampler->host, &sampler->bias);
    }
    *sampler = (vki_sampler){0};
}

static int by_id(const void *a, const void *b)
{
    const vklm_logit_bias *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static float limit(float logit, float lowest)
{
    return fmaxf(lowest, fminf(logit, FLT_MAX));
}

vklm_status vki_sampler_set_bias(vki_sampler *sampler, const vklm_logit_bias *bias, size_t n, uint32_t n_vocab,
                                 vklm_error *error)
{
    sampler->n_bias = 0;
    if (n == 0) return VKLM_OK;
    if (!bias) return vki_fail(error, VKLM_INVALID_ARGUMENT, "%zu biases, but no pointer to them", n);
    for (size_t i = 0; i < n; i++) {
        if (bias[i].id < 0 || (uint32_t)bias[i].id >= n_vocab)
            return vki_fail(error, VKLM_INVALID_ARGUMENT, "bias %zu is of id %d, outside the vocabulary of %u", i,
                            bias[i].id, n_vocab);
        if (isnan(bias[i].bias) || bias[i].bias == INFINITY)
            return vki_fail(error, VKLM_INVALID_ARGUMENT,
                            "bias %zu, of id %d, is %g; it must be a finite number, or -infinity to ban the token", i,
                            bias[i].id, (double)bias[i].bias);
    }
    TRY(vki_grow(sampler->host, n, sizeof *bias, error, &sampler->bias, &sampler->bias_capacity));
    memcpy(sampler->bias, bias, n * sizeof *bias);
    qsort(sampler->bias, n, sizeof *bias, by_id);
    size_t kept = 0, n_banned = 0;
    for (size_t i = 0; i < n; i++) {
        if (kept > 0 && sampler->bias[kept - 1].id == sampler->bias[i].id)
            sampler->bias[kept - 1].bias = fminf(sampler->bias[kept - 1].bias + sampler->bias[i].bias, FLT_MAX);
        else sampler->bias[kept++] = sampler->bias[i];
    }
    for (size_t i = 0; i < kept; i++) n_banned += sampler->bias[i].bias == -INFINITY;
    if (n_banned == n_vocab)
        return vki_fail(error, VKLM_INVALID_ARGUMENT, "the bias bans all %u tokens: leave one to be drawn", n_vocab);
    sampler->n_bias = kept;
    return VKLM_OK;
}

bool vki_sampler_penalises(const vki_sampler *sampler)
{
    const vklm_sampling *p = &sampler->params;
    return p->repeat_penalty != 1 || p->presence_penalty != 0 || p->frequency_penalty != 0;
}

/* Multiplied with differences of logits, neither of which may lose the other. */
static float inverse_temperature(const vklm_sampling *params)
{
    if (params->temperature < 0) return 0;
    return fmaxf(1e-30f, fminf(1 / params->temperature, 1e30f));
}

/* Of 2^32; 0: off. */
static uint32_t top_p_fraction(const vklm_sampling *params)
{
    if (params->top_p >= 1) return 0;
    const uint32_t fraction = (uint32_t)((double)params->top_p * 0x1p32);
    return fraction ? fraction : 1;
}

static float log_min_p(const vklm_sampling *params)
{
    return params->min_p > 0 ? (float)log((double)params->min_p) : -FLT_MAX;
}

void vki_sampler_write(const vki_sampler *sampler, struct sampling *out)
{
    const vklm_sampling *p = &sampler->params;
    *out = (struct sampling){
        .seed_low = (uint32_t)p->seed, .seed_high = (uint32_t)(p->seed >> 32),
        .n_bias = (uint32_t)sampler->n_bias,
        .window = !vki_sampler_penalises(sampler) ? 0 : p->repeat_last_n < 0 ? UINT32_MAX : (uint32_t)p->repeat_last_n,
        .top_k = p->top_k > 0 ? (uint32_t)p->top_k : 0, .top_p = top_p_fraction(p), .log_min_p = log_min_p(p),
        .inverse_temperature = inverse_temperature(p),
        .repeat = p->repeat_penalty, .inverse_repeat = 1 / p->repeat_penalty,
        .presence = p->presence_penalty, .frequency = p->frequency_penalty, .offset = (uint32_t)sampler->offset,
    };
}

/* splitmix64 (Steele, Lea, Flood 2014). */
double vki_random_at(uint64_t seed, uint32_t n_history)
{
    uint64_t z = seed + (uint64_t)n_history * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return (double)(z >> 32) * 0x1p-32;
}

static void add_bias(vki_candidate *candidates, const vki_sampler *sampler, uint32_t n_vocab)
{
    for (size_t i = 0; i < sampler->n_bias; i++) {
        const vklm_logit_bias *b = &sampler->bias[i];
        if ((uint32_t)b->id < n_vocab) candidates[b->id].logit = limit(candidates[b->id].logit + b->bias, banned);
    }
}

/* Applies the penalties to the candidates, which are still in id order: the repetition penalty once per distinct token,
 * frequency per occurrence, presence once. In float and in the device's order, so that greedy is the same. */
static void penalise(vki_candidate *candidates, const vki_sampler *sampler, uint32_t n_vocab,
                     const vklm_token *history, size_t n_history)
{
    const vklm_sampling *params = &sampler->params;
    if (!vki_sampler_penalises(sampler)) return;
    size_t window = n_history;
    if (params->repeat_last_n >= 0 && window > (size_t)params->repeat_last_n) window = (size_t)params->repeat_last_n;
    const vklm_token *recent = history + n_history - window;
    for (size_t i = 0; i < window; i++)
        if (recent[i] >= 0 && (uint32_t)recent[i] < n_vocab) candidates[recent[i]].count++;
    for (size_t i = 0; i < window; i++) {
        if (recent[i] < 0 || (uint32_t)recent[i] >= n_vocab) continue;
        vki_candidate *c = &candidates[recent[i]];
        const float count = (float)c->count;
        c->count = 0;
        if (count == 0 || c->logit <= banned) continue;
        c->logit *= c->logit > 0 ? 1 / params->repeat_penalty : params->repeat_penalty;
        c->logit -= params->presence_penalty;
        c->logit -= count * params->frequency_penalty;
        c->logit = limit(c->logit, least);
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

static double weight(const vki_candidate *c, size_t i, double scale)
{
    return exp(((double)c[i].logit - (double)c[0].logit) * scale);
}

/* How many of the sorted candidates it takes for their weights to reach the target. */
static size_t reach(const vki_candidate *c, size_t n, double scale, double target)
{
    double sum = 0;
    for (size_t i = 0; i + 1 < n; i++) {
        sum += weight(c, i, scale);
        if (sum >= target) return i + 1;
    }
    return n; /* the last absorbs the rounding */
}

static double sum_weights(const vki_candidate *c, size_t n, double scale)
{
    double total = 0;
    for (size_t i = 0; i < n; i++) total += weight(c, i, scale);
    return total;
}

static size_t cut_min_p(const vki_candidate *c, size_t n, const vklm_sampling *params)
{
    const float lowest = c[0].logit + log_min_p(params);
    while (n > 1 && c[n - 1].logit < lowest) n--;
    return n;
}

vklm_status vki_logits_check(const float *logits, uint32_t n_vocab, vklm_error *error)
{
    for (uint32_t i = 0; i < n_vocab; i++)
        if (!isfinite(logits[i]))
            return vki_fail(error, VKLM_DRIVER_ERROR,
                            "logit %u is not a finite number: the driver computes wrongly, or the model "
                            "file holds weights that are not numbers", i);
    return VKLM_OK;
}

/* All tokens with their bias and penalties, but for those that are banned. */
static vklm_status list_candidates(vki_sampler *sampler, const float *logits, uint32_t n_vocab,
                                   const vklm_token *history, size_t n_history, vklm_error *error, size_t *n_out)
{
    TRY(vki_grow(sampler->host, n_vocab, sizeof *sampler->candidates, error, &sampler->candidates,
                 &sampler->capacity));
    vki_candidate *c = sampler->candidates;
    TRY(vki_logits_check(logits, n_vocab, error));
    for (size_t i = 0; i < n_vocab; i++) c[i] = (vki_candidate){logits[i], (vklm_token)i, 0};
    add_bias(c, sampler, n_vocab);
    penalise(c, sampler, n_vocab, history, n_history);
    size_t n = 0;
    for (size_t i = 0; i < n_vocab; i++)
        if (c[i].logit > banned) c[n++] = c[i];
    if (n == 0) return vki_fail(error, VKLM_DRIVER_ERROR, "every logit is the lowest number there is: none can be drawn");
    *n_out = n;
    return VKLM_OK;
}

vklm_status vki_sampler_pick(vki_sampler *sampler, const float *logits, uint32_t n_vocab, const vklm_token *history,
                             size_t n_history, double random, vklm_error *error, vklm_token *id_out)
{
    *id_out = -1;
    const vklm_sampling *params = &sampler->params;
    size_t n = 0, best = 0;
    TRY(list_candidates(sampler, logits, n_vocab, history, n_history, error, &n));
    vki_candidate *c = sampler->candidates;
    const double scale = (double)inverse_temperature(params), top_p = top_p_fraction(params) * 0x1p-32;
    if (scale == 0) {
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
    if (top_p > 0) n = reach(c, n, 1, top_p * sum_weights(c, n, 1));
    if (params->min_p > 0) n = cut_min_p(c, n, params);
    /* The first whose sum exceeds the target. */
    const double target = random * sum_weights(c, n, scale);
    *id_out = c[reach(c, n, scale, nextafter(target, INFINITY)) - 1].id;
    return VKLM_OK;
}

vklm_status vki_sampler_draw(vki_sampler *sampler, const float *logits, uint32_t n_vocab,
                             const vklm_token *history, size_t n_history, vklm_error *error,
                             vklm_token *id_out)
{
    return vki_sampler_pick(sampler, logits, n_vocab, history, n_history,
                            vki_random_at(sampler->params.seed, (uint32_t)(n_history + sampler->offset)), error, id_out);
}
