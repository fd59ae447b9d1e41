/* rope_table.c - cosines and sines of every position, in double precision before they are rounded.
 *
 * All scalings are a change of each pair's frequency: linear divides it, llama3 and longrope bring
 * divisors in the file, and YaRN blends the divided with the plain one, pair by pair, by how many
 * turns the pair makes within the context that the model was first trained for. So an angle is
 * always position times frequency, and a table of positions 0..255 and one of multiples of 256 give
 * them all by one complex product.
 *
 * longrope has two sets of divisors. One table serves every session of a model, so the choice is
 * made by the model's own context length, as the reference makes it for a session of that length.
 */
#include "model/rope_table.h"

#include <math.h>

#include "base/checked.h"

/* Turns within the original context above and below which YaRN keeps and divides a frequency. */
static const double yarn_fast = 32, yarn_slow = 1;

static uint64_t row_count(const vki_hparams *h)
{
    return VKI_ROPE_LOW + h->context_length / VKI_ROPE_LOW + 1;
}

uint64_t vki_rope_table_bytes(const vki_hparams *hparams)
{
    return row_count(hparams) * hparams->n_rot * sizeof(float);
}

/* The pair, as a real number, that makes `turns` turns within the original context. */
static double yarn_pair(const vki_hparams *h, double turns)
{
    const double two_pi = 2 * acos(-1);
    return h->n_rot * log(h->rope_original_context / (turns * two_pi)) / (2 * log(h->rope_base));
}

/* How much of pair i's plain frequency stays, 0 to 1. */
static double yarn_kept(const vki_hparams *h, uint32_t i)
{
    const double low = fmax(0, floor(yarn_pair(h, yarn_fast)));
    const double high = fmin(h->n_rot - 1.0, ceil(yarn_pair(h, yarn_slow)));
    const double ramp = (i - low) / fmax(0.001, high - low);
    return 1 - fmin(1, fmax(0, ramp));
}

static double frequency(const vki_hparams *h, uint32_t which, uint32_t i, double divisor)
{
    const bool windowed = which == VKI_ROPE_WINDOWED;
    const double base = windowed ? h->rope_base_windowed : h->rope_base;
    const double plain = pow(base, -2.0 * i / h->n_rot) / divisor;
    if (windowed) return plain;
    const double kept = h->rope_scaling == VKI_ROPE_YARN ? yarn_kept(h, i) : 0;
    return plain * kept + plain / h->rope_factor * (1 - kept);
}

/* YaRN sharpens q and k, because the softmax over a longer context is flatter. */
static double temperature(const vki_hparams *h, uint32_t which)
{
    const bool yarn = which == VKI_ROPE_FULL && h->rope_scaling == VKI_ROPE_YARN;
    return yarn ? 1 + 0.1 * log(h->rope_factor) : 1;
}

/* NULL in *divisors where the file has none. */
static vklm_status find_divisors(const vki_hparams *h, const vki_gguf *gguf, vklm_error *error,
                                 const vki_gguf_tensor **divisors)
{
    const bool longer = h->context_length > h->rope_original_context;
    const char *name = h->rope_scaling != VKI_ROPE_LONG ? "rope_freqs.weight"
                       : longer                         ? "rope_factors_long.weight"
                                                        : "rope_factors_short.weight";
    *divisors = h->arch->has_rope_factors ? vki_gguf_find_tensor(gguf, name) : NULL;
    const vki_gguf_tensor *t = *divisors;
    vki_format format;
    if (!t || (vki_format_from_ggml(t->ggml_id, &format) && format == VKI_F32 &&
               t->ne[0] == h->n_rot / 2 && t->size_bytes == h->n_rot / 2 * sizeof(float)))
        return VKLM_OK;
    return vki_fail(error, VKLM_BAD_FILE, "%s: the tensor %s is not F32 of the shape {%u}",
                    gguf->path, name, h->n_rot / 2);
}

static void fill_row(const double *frequencies, uint32_t pairs, double position, double factor, float *row)
{
    for (uint32_t i = 0; i < pairs; i++) {
        const double angle = position * frequencies[i];
        row[2 * i] = (float)(cos(angle) * factor);
        row[2 * i + 1] = (float)(sin(angle) * factor);
    }
}

vklm_status vki_rope_table_make(const vki_hparams *hparams, const vki_gguf *gguf, uint32_t which,
                                const vki_host *host, vklm_error *error, float *table)
{
    const uint32_t pairs = hparams->n_rot / 2;
    const vki_gguf_tensor *divisors = NULL;
    if (which == VKI_ROPE_FULL) TRY(find_divisors(hparams, gguf, error, &divisors));
    double *frequencies; /* and behind them the file's divisors */
    TRY(vki_alloc(host, pairs, sizeof *frequencies + sizeof(float), error, &frequencies));
    uint8_t *bytes = (uint8_t *)(frequencies + pairs);
    vklm_status status = VKLM_OK;
    if (divisors) status = vki_gguf_read_tensor(gguf, divisors, 0, pairs * sizeof(float), error, bytes);
    for (uint32_t i = 0; i < pairs && status == VKLM_OK; i++) {
        float divisor = 1;
        if (divisors) vki_floats_decode(VKI_F32, bytes + i * sizeof divisor, 1, &divisor);
        frequencies[i] = frequency(hparams, which, i, divisor);
    }
    const double factor = hparams->rope_attention_factor * temperature(hparams, which);
    for (uint64_t r = 0; r < row_count(hparams) && status == VKLM_OK; r++, table += hparams->n_rot) {
        const bool low = r < VKI_ROPE_LOW;
        const uint64_t position = low ? r : (r - VKI_ROPE_LOW) * VKI_ROPE_LOW;
        fill_row(frequencies, pairs, (double)position, low ? factor : 1, table);
    }
    vki_release(host, &frequencies);
    return status;
}
