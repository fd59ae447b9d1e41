/* kernel_fixture.h - runs kernels on whatever Vulkan device is there: arrays in, arrays out.
 *
 * Every operand is a buffer of its own, no larger than the kernel may read, so that the validation
 * layers can name an access out of range. Where a kernel must not look lie NaNs, which spread into
 * whatever touches them; where it must not write, too, and they are looked at afterwards.
 *
 * A device has one row of the tuning table. So that the rows for other devices run here as well, a
 * test is run once for each kernel_tuning.
 */
#ifndef KERNEL_FIXTURE_H
#define KERNEL_FIXTURE_H

#include "gpu/memory.h"
#include "kernel/kernels.h"
#include "support/gpu.h"
#define VKI_C
#include "lib/push.h"

typedef enum kernel_tuning {
    TUNED_NATIVE,
    TUNED_OTHER, /* for a GPU on software Vulkan, for software Vulkan on a GPU */
    TUNED_BLIND, /* as OTHER, with a subgroup size that nobody knows or can ask for */
    KERNEL_TUNINGS,
} kernel_tuning;

enum { FIXTURE_BUFFERS = 512, FIXTURE_BLOCKS = 64 };

typedef struct kernel_fixture {
    vklm_device *device;
    vki_pipelines pipelines;
    vki_plan plan;
    vki_kernels kernels;
    vki_recording recording;
    vki_queue queue;
    vki_buffer buffers[FIXTURE_BUFFERS];
    size_t n_buffers;
    void *blocks[FIXTURE_BLOCKS]; /* host memory of the case at hand */
    size_t n_blocks;
    uint32_t random;
    char name[128]; /* of the case at hand */
} kernel_fixture;

void fixture_open(kernel_fixture *f, kernel_tuning tuning);
/* Drops everything; checks that no device memory is left. */
void fixture_close(kernel_fixture *f);
/* Checks that the dispatches planned so far declare to read (to write) all of an operand's bytes:
 * barriers are made of what they declare, and a forgotten one shows on few devices. */
void fixture_check_reads(const kernel_fixture *f, vki_range range);
void fixture_check_writes(const kernel_fixture *f, vki_range range);
/* Runs what was planned and forgets the plan. */
void fixture_run(kernel_fixture *f);
/* Releases the operands and the host memory of a case. */
void fixture_drop(kernel_fixture *f);
/* The same, but for what was there when the mark was set. */
typedef struct fixture_mark {
    size_t n_buffers, n_blocks;
} fixture_mark;
fixture_mark fixture_set_mark(const kernel_fixture *f);
void fixture_drop_since(kernel_fixture *f, fixture_mark mark);

/* -1 to 1, evenly; the same numbers on every run. */
float fixture_random(kernel_fixture *f);
/* From 0 to n - 1. */
uint32_t fixture_below(kernel_fixture *f, uint32_t n);

/* Host memory, zeroed, until the case is dropped. */
void *fixture_host(kernel_fixture *f, size_t n, size_t size_bytes);

/* A buffer filled with bytes of 0xff: NaN both as f16 and as f32. Mapped. */
vki_buffer *fixture_buffer(kernel_fixture *f, uint64_t size_bytes);
/* n random numbers; their address. */
uint64_t fixture_vector(kernel_fixture *f, uint32_t n, float **values);

/* f32 [rows][stride] on the device, and as the host sees it. */
typedef struct operand {
    vki_span span;
    float *at;
    const vki_buffer *buffer;
} operand;

/* Random numbers in the first `width` columns, huge ones up to column `finite`, NaN behind. The
 * buffer ends with the finite part of the last row. */
operand fixture_input(kernel_fixture *f, uint32_t rows, uint32_t width, uint32_t finite,
                      uint32_t stride);
/* NaN in all of it, and before and behind it. */
operand fixture_output(kernel_fixture *f, uint32_t rows, uint32_t stride);
/* The bytes of columns first .. first + width - 1, and what lies between them. */
vki_range operand_range(const operand *o, uint32_t first, uint32_t width);
/* Random numbers in columns first .. first + width - 1. */
void fixture_fill(kernel_fixture *f, const operand *o, uint32_t first, uint32_t width);

/* Names the case at hand, as printf does, for the comparisons to come. */
void fixture_case(kernel_fixture *f, const char *format, ...) CK_ATTRIBUTE_FORMAT(printf, 2, 3);

/* Compares n values with what is expected by normalised error: the sum of squared differences over
 * the sum of squares. Does nothing where results do not count (support/gpu.h). */
void fixture_compare(const kernel_fixture *f, const float *values, const double *expected, size_t n,
                     double bound);
/* The same for columns first .. first + width - 1 of y, expected dense. The rest of y's buffer must
 * be untouched. */
void fixture_compare_columns(const kernel_fixture *f, const operand *y, uint32_t first,
                             uint32_t width, const double *expected, double bound);
/* Whether all of n bytes are as fixture_buffer filled them. */
bool fixture_untouched(const void *bytes, size_t n);

/* A weight matrix: consecutive segments, each of so many rows of one format. */
typedef struct test_segment {
    vki_format format;
    uint32_t rows;
} test_segment;
typedef struct test_matrix {
    vki_matrix matrix;
    vki_segment segments[8];
    float *weights; /* [rows][cols] as the file's blocks decode */
} test_matrix;
void fixture_matrix(kernel_fixture *f, test_matrix *m, uint32_t cols, const test_segment *segments,
                    uint32_t n_segments);

/* The KV cache of one sequence: a table of pages, as kernels read it. Pages hold FIXTURE_LAYERS
 * layers; the kernels are set to FIXTURE_LAYER. */
enum { FIXTURE_LAYERS = 3, FIXTURE_LAYER = 1, FIXTURE_PAGES = 300 };
typedef struct test_cache {
    vki_heads heads;
    vki_buffer *table, *pages[FIXTURE_PAGES];
} test_cache;
/* An empty table: the address of every page is 0. */
void fixture_cache(kernel_fixture *f, test_cache *cache, const vki_heads *heads);
/* Makes the page of a position, all NaN, unless it is there. */
void fixture_page(kernel_fixture *f, test_cache *cache, uint32_t position);
/* Writes value i of a key (or of a value) rounded as the cache stores it; what it then is. */
typedef struct kv_place {
    bool is_value;
    uint32_t head, position, i;
} kv_place;
float fixture_put_kv(const test_cache *cache, kv_place place, float value);
/* Reads it, and makes it NaN again. */
float fixture_take_kv(const test_cache *cache, kv_place place);

/* A state of n rows, zeroed, on the host; its address. */
uint64_t fixture_state(kernel_fixture *f, uint32_t n, struct row_state **rows);

#endif
