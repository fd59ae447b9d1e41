#include "support/kernel_fixture.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "ref/formats_ref.h"
#include "support/quantize.h"

enum { GUARD_FLOATS = 64 }; /* before and behind an output */

static vklm_error error;

void fixture_open(kernel_fixture *f, kernel_tuning tuning)
{
    *f = (kernel_fixture){.device = test_device(NULL), .random = 1};
    vki_limits limits = f->device->limits;
    if (tuning != TUNED_NATIVE) limits.is_cpu = !limits.is_cpu;
    if (tuning == TUNED_BLIND) {
        limits.subgroup_control = limits.subgroup_fixed = false;
        limits.subgroup_min = limits.subgroup_max = limits.subgroup_size;
    }
    vki_pipelines_init(&f->pipelines, f->device);
    vki_plan_init(&f->plan, &f->device->host);
    vki_kernels_init(&f->kernels, &f->pipelines, &limits, true);
    f->kernels.plan = &f->plan;
    f->kernels.layer = FIXTURE_LAYER;
    CHECK_OK(vki_recording_init(&f->recording, f->device, &error));
    CHECK_OK(vki_queue_init(&f->queue, f->device, &error));
}

void fixture_close(kernel_fixture *f)
{
    fixture_drop(f);
    vki_queue_free(&f->queue);
    vki_recording_free(&f->recording);
    vki_plan_free(&f->plan);
    vki_pipelines_free(&f->pipelines);
    ck_assert_uint_eq(vklm_device_memory_used(f->device), 0);
    vklm_device_destroy(&f->device);
}

/* Whether the reads or the writes of all dispatches together cover the range. */
static bool is_declared(const kernel_fixture *f, bool writes, vki_range range)
{
    for (bool moved = true; moved && range.begin < range.end;) {
        moved = false;
        for (size_t i = 0; i < f->plan.n; i++) {
            const vki_dispatch *dispatch = &f->plan.items[i];
            const vki_range *declared = writes ? dispatch->writes : dispatch->reads;
            for (uint32_t k = 0; k < (writes ? dispatch->n_writes : dispatch->n_reads); k++) {
                if (declared[k].begin > range.begin || declared[k].end <= range.begin) continue;
                range.begin = declared[k].end;
                moved = true;
            }
        }
    }
    return range.begin >= range.end;
}

void fixture_check_reads(const kernel_fixture *f, vki_range range)
{
    ck_assert_msg(is_declared(f, false, range), "%s: an operand is read, but not declared",
                  f->name);
}

void fixture_check_writes(const kernel_fixture *f, vki_range range)
{
    ck_assert_msg(is_declared(f, true, range), "%s: an operand is written, but not declared",
                  f->name);
}

void fixture_run(kernel_fixture *f)
{
    uint64_t value;
    bool done;
    CHECK_OK(vki_record(&f->recording, &f->plan, 0, &error));
    if (f->recording.n_units == 0) return;
    CHECK_OK(vki_queue_submit(&f->queue, f->recording.units, f->recording.n_units, &error, &value));
    CHECK_OK(vki_queue_wait(&f->queue, value, UINT64_MAX, &error, &done));
    ck_assert(done);
    vki_plan_clear(&f->plan);
}

fixture_mark fixture_set_mark(const kernel_fixture *f)
{
    return (fixture_mark){f->n_buffers, f->n_blocks};
}

void fixture_drop_since(kernel_fixture *f, fixture_mark mark)
{
    while (f->n_buffers > mark.n_buffers)
        vki_buffer_destroy(f->device, &f->buffers[--f->n_buffers]);
    while (f->n_blocks > mark.n_blocks) free(f->blocks[--f->n_blocks]);
}

void fixture_drop(kernel_fixture *f)
{
    fixture_drop_since(f, (fixture_mark){0});
}

/* ---- Operands -------------------------------------------------------------------------------- */

/* xorshift (Marsaglia 2003) */
static uint32_t next_random(kernel_fixture *f)
{
    f->random ^= f->random << 13;
    f->random ^= f->random >> 17;
    f->random ^= f->random << 5;
    return f->random;
}

float fixture_random(kernel_fixture *f)
{
    return (float)(int32_t)next_random(f) * 0x1p-31f;
}

uint32_t fixture_below(kernel_fixture *f, uint32_t n)
{
    return next_random(f) % n;
}

void *fixture_host(kernel_fixture *f, size_t n, size_t size_bytes)
{
    ck_assert_uint_lt(f->n_blocks, FIXTURE_BLOCKS);
    void *block = calloc(n + 1, size_bytes);
    ck_assert_ptr_nonnull(block);
    f->blocks[f->n_blocks++] = block;
    return block;
}

vki_buffer *fixture_buffer(kernel_fixture *f, uint64_t size_bytes)
{
    ck_assert_uint_lt(f->n_buffers, FIXTURE_BUFFERS);
    vki_buffer *buffer = &f->buffers[f->n_buffers];
    CHECK_OK(vki_buffer_create(f->device, VKI_MEMORY_READBACK, size_bytes, "an operand", &error,
                               buffer));
    f->n_buffers++;
    memset(buffer->mapped, 0xff, size_bytes);
    return buffer;
}

uint64_t fixture_vector(kernel_fixture *f, uint32_t n, float **values)
{
    const operand vector = fixture_input(f, 1, n, n, n);
    *values = vector.at;
    return vector.span.address;
}

static operand operand_in(const vki_buffer *buffer, uint32_t skip, uint32_t rows, uint32_t stride)
{
    return (operand){.span = {buffer->address + skip * 4, rows, stride},
                     .at = (float *)(void *)buffer->mapped + skip,
                     .buffer = buffer};
}

operand fixture_input(kernel_fixture *f, uint32_t rows, uint32_t width, uint32_t finite,
                      uint32_t stride)
{
    ck_assert(width <= finite && finite <= stride);
    const vki_buffer *buffer = fixture_buffer(f, ((uint64_t)(rows - 1) * stride + finite) * 4);
    const operand input = operand_in(buffer, 0, rows, stride);
    fixture_fill(f, &input, 0, width);
    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t i = width; i < finite; i++)
            input.at[row * stride + i] = 1e30f * fixture_random(f);
    return input;
}

operand fixture_output(kernel_fixture *f, uint32_t rows, uint32_t stride)
{
    const vki_buffer *buffer = fixture_buffer(f, ((uint64_t)rows * stride + 2 * GUARD_FLOATS) * 4);
    return operand_in(buffer, GUARD_FLOATS, rows, stride);
}

vki_range operand_range(const operand *o, uint32_t first, uint32_t width)
{
    if (o->span.rows == 0) return (vki_range){0};
    return vki_range_of(o->span.address + first * 4ull,
                        ((uint64_t)(o->span.rows - 1) * o->span.stride + width) * 4);
}

void fixture_fill(kernel_fixture *f, const operand *o, uint32_t first, uint32_t width)
{
    for (uint32_t row = 0; row < o->span.rows; row++)
        for (uint32_t i = 0; i < width; i++)
            o->at[row * o->span.stride + first + i] = fixture_random(f);
}

/* A row of weights of which each group of 16 has its own size and bias, so that scales and minima
 * take many values. */
static void random_weights(kernel_fixture *f, float *weights, uint32_t n)
{
    float size = 0, middle = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (i % 16 == 0) {
            size = 0.02f + 0.2f * (float)fixture_below(f, 6);
            middle = 0.3f * fixture_random(f);
        }
        weights[i] = size * fixture_random(f) + middle;
    }
}

void fixture_matrix(kernel_fixture *f, test_matrix *m, uint32_t cols, const test_segment *segments,
                    uint32_t n_segments)
{
    *m = (test_matrix){.matrix = {.cols = cols, .n_segments = n_segments, .segments = m->segments}};
    ck_assert_uint_le(n_segments, sizeof m->segments / sizeof *m->segments);
    for (uint32_t i = 0; i < n_segments; i++) m->matrix.rows += segments[i].rows;
    m->weights = fixture_host(f, (size_t)m->matrix.rows * cols, sizeof *m->weights);
    float *row = m->weights;
    for (uint32_t i = 0, first = 0; i < n_segments; first += segments[i++].rows) {
        const vki_format format = segments[i].format;
        vki_segment *segment = &m->segments[i];
        *segment = (vki_segment){.first_row = first};
        ck_assert(vki_planes_init(&segment->planes, format, segments[i].rows, cols));
        const vki_buffer *buffer = fixture_buffer(f, segment->planes.size_bytes);
        segment->address = buffer->address;
        uint8_t *blocks = fixture_host(f, quantized_size(format, cols), 1);
        for (uint32_t r = 0; r < segments[i].rows; r++, row += cols) {
            random_weights(f, row, cols);
            quantize(format, row, cols, blocks);
            ref_decode(format, blocks, cols, row);
            vki_planes_pack_row(&segment->planes, blocks, cols, r, buffer->mapped);
        }
    }
}

void fixture_cache(kernel_fixture *f, test_cache *cache, const vki_heads *heads)
{
    *cache =
        (test_cache){.heads = *heads, .table = fixture_buffer(f, FIXTURE_PAGES * sizeof(uint64_t))};
    memset(cache->table->mapped, 0, cache->table->size_bytes);
}

void fixture_page(kernel_fixture *f, test_cache *cache, uint32_t position)
{
    const uint32_t index = position / VKI_KV_PAGE_KEYS;
    ck_assert_uint_lt(index, FIXTURE_PAGES);
    if (cache->pages[index]) return;
    cache->pages[index] = fixture_buffer(f, (uint64_t)FIXTURE_LAYERS * cache->heads.layer_bytes);
    memcpy(cache->table->mapped + index * sizeof(uint64_t), &cache->pages[index]->address,
           sizeof(uint64_t));
}

static void *kv_at(const test_cache *cache, kv_place place)
{
    const vki_heads *h = &cache->heads;
    const uint32_t head = place.head + (place.is_value ? h->n_head_kv : 0);
    const uint32_t key = place.position % VKI_KV_PAGE_KEYS;
    const size_t element = ((size_t)head * VKI_KV_PAGE_KEYS + key) * h->pad + place.i;
    return cache->pages[place.position / VKI_KV_PAGE_KEYS]->mapped +
           FIXTURE_LAYER * h->layer_bytes + element * (h->kv_f32 ? 4 : 2);
}

float fixture_put_kv(const test_cache *cache, kv_place place, float value)
{
    void *at = kv_at(cache, place);
    const uint16_t half = ref_f32_to_f16(value);
    if (cache->heads.kv_f32) {
        memcpy(at, &value, sizeof value);
        return value;
    }
    memcpy(at, &half, sizeof half);
    return vki_f16_to_f32(half);
}

float fixture_take_kv(const test_cache *cache, kv_place place)
{
    void *at = kv_at(cache, place);
    float value;
    uint16_t half;
    memcpy(&value, at, cache->heads.kv_f32 ? sizeof value : sizeof half);
    memcpy(&half, &value, sizeof half);
    memset(at, 0xff, cache->heads.kv_f32 ? sizeof value : sizeof half);
    return cache->heads.kv_f32 ? value : vki_f16_to_f32(half);
}

uint64_t fixture_state(kernel_fixture *f, uint32_t n, struct row_state **rows)
{
    const vki_buffer *buffer = fixture_buffer(f, n * sizeof **rows);
    memset(buffer->mapped, 0, buffer->size_bytes);
    *rows = (void *)buffer->mapped;
    return buffer->address;
}

/* ---- Comparison ------------------------------------------------------------------------------ */

void fixture_case(kernel_fixture *f, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(f->name, sizeof f->name, format, values);
    va_end(values);
}

bool fixture_untouched(const void *bytes, size_t n)
{
    const uint8_t *byte = bytes;
    for (size_t i = 0; i < n; i++)
        if (byte[i] != 0xff) return false;
    return true;
}

typedef struct error_sum {
    double squares, differences;
} error_sum;

static void add_errors(error_sum *sum, const float *values, const double *expected, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const double difference = values[i] - expected[i];
        sum->squares += expected[i] * expected[i];
        sum->differences += difference * difference;
    }
}

static void check_errors(const kernel_fixture *f, error_sum sum, double bound)
{
    if (!test_results_count()) return;
    const double nmse = sum.squares > 0 ? sum.differences / sum.squares : sum.differences;
    /* false for NaN, too */
    ck_assert_msg(nmse <= bound, "%s: normalised error %g, not %g", f->name, nmse, bound);
}

void fixture_compare(const kernel_fixture *f, const float *values, const double *expected, size_t n,
                     double bound)
{
    error_sum sum = {0};
    add_errors(&sum, values, expected, n);
    check_errors(f, sum, bound);
}

void fixture_compare_columns(const kernel_fixture *f, const operand *y, uint32_t first,
                             uint32_t width, const double *expected, double bound)
{
    error_sum sum = {0};
    /* From here to the next column that is written: */
    const float *untouched = (const void *)y->buffer->mapped;
    for (uint32_t row = 0; row < y->span.rows; row++) {
        const float *begin = y->at + row * y->span.stride + first;
        add_errors(&sum, begin, expected + row * width, width);
        const bool kept = fixture_untouched(untouched, (size_t)(begin - untouched) * 4);
        ck_assert_msg(kept || !test_results_count(), "%s: wrote before row %u", f->name, row);
        untouched = begin + width;
    }
    const uint8_t *end = y->buffer->mapped + y->buffer->size_bytes,
                  *rest = (const uint8_t *)untouched;
    const bool kept = fixture_untouched(rest, (size_t)(end - rest));
    ck_assert_msg(kept || !test_results_count(), "%s: wrote behind the last row", f->name);
    check_errors(f, sum, bound);
}
