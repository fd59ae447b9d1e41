/* weights.c - from a GGUF to a model on the device: cut, summed up, allocated, repacked, uploaded.
 *
 * The phases are strict. All tensors are found and checked (tensors.c), then every matrix is cut
 * into segments that fit a memory block, then all memory is allocated (or only counted, to see whether
 * it would fit), and only then are weights read. Blocks are as large as what goes into
 * them, so next to nothing is lost between segments.
 *
 * Repacking reads the mapped file and writes where the device will have it: in place where its memory is
 * mapped, else into pieces of the staging buffer, one for each plane. Slices of rows are gathered until they
 * are worth the start of some threads, which share them out. Of a file that is read by calls, pieces of tensors
 * stand in two windows: while threads repack what is in one, this thread reads into the other.
 */
#include <stddef.h>
#include <string.h>

#include "base/checked.h"
#include "base/os.h"
#include "model/rope_table.h"
#include "model/tensors.h"

enum {
    BLOCK_BYTES = 256 << 20, /* few allocations, none so large that a fragmented heap lacks it */
    JOB_BYTES = 256 << 10,   /* of planes repacked by a thread at a time */
    MAX_JOBS = 64,
    MOST_ROW_BYTES = VKI_UPLOAD_HALF_BYTES - VKI_MAX_PLANES * VKI_UPLOAD_ALIGNMENT,
    READ_AHEAD_BYTES = 64 << 20,
    WINDOW_BYTES = 16 << 20, /* of a file that is read by calls */
    PIECE_BYTES = 4 << 20,   /* read at once, where the tensor has so many */
};

/* Rows of a part on their way into planes. */
typedef struct pack_job {
    const vki_part *part;
    uint32_t cols;
    uint32_t first, rows;  /* of the part */
    uint32_t to;           /* the first one's row in the planes */
    vki_planes planes;
    uint8_t *base;
    const uint8_t *from;   /* the file's rows from row_from on */
    uint32_t row_from;
} pack_job;

/* What lies of a tensor in a window. */
typedef struct piece {
    const vki_gguf_tensor *tensor;
    const uint8_t *bytes;
    uint64_t from, size;   /* in the tensor */
} piece;

typedef struct window {
    uint8_t *bytes;        /* owned */
    size_t capacity, used;
} window;

typedef struct loader {
    vki_weights *weights;
    const vki_gguf *gguf;
    const vki_load_params *params;
    const vki_host *host;
    vklm_error *error;
    vki_stacks stacks;
    vki_slice *slices;     /* owned: of segments, vectors and tables, in the order of uploads */
    size_t n_slices, slices_capacity;
    size_t next_slice;     /* while uploading */
    uint64_t total_bytes, done_bytes;
    vki_upload upload;
    pack_job jobs[MAX_JOBS];
    size_t n_jobs;
    uint64_t packing_ns;   /* spent on jobs */
    uint8_t *scratch;      /* owned: a vector or table */
    size_t scratch_capacity;
    window windows[2];     /* jobs read what is in the current one alone */
    uint32_t current;
    piece piece;           /* the last one that was read */
} loader;

/* ---- Cutting ---- */

static vklm_status add_slice(loader *l, uint64_t size_bytes)
{
    TRY(vki_grow(l->host, l->n_slices + 1, sizeof *l->slices, l->error, &l->slices, &l->slices_capacity));
    /* Rounded as the pool rounds, so that the sizes of blocks come out even. */
    const uint64_t rounded = vki_round_up(size_bytes, VKI_PLANE_ALIGNMENT);
    l->slices[l->n_slices++] = (vki_slice){.size_bytes = rounded};
    l->total_bytes += rounded;
    return VKLM_OK;
}

/* Of `wanted` rows, as many as one segment takes. */
static uint64_t rows_that_fit(const loader *l, vki_format format, uint64_t wanted, uint64_t cols)
{
    uint64_t low = 0, high = wanted;
    while (low < high) {
        const uint64_t rows = high - (high - low) / 2;
        vki_planes planes;
        const bool fits = vki_planes_init(&planes, format, rows, cols) &&
                          planes.size_bytes <= l->weights->device->limits.max_block_bytes;
        if (fits) low = rows;
        else high = rows - 1;
        if (fits && rows == wanted) break;
    }
    return low;
}

/* The part that holds a row of the stack; *row becomes the row of the part. */
static const vki_part *part_of_row(const vki_stack *stack, uint32_t *row)
{
    const vki_part *part = stack->parts;
    while (*row >= part->rows) *row -= part++->rows;
    return part;
}

/* The segment that begins at first_row: over all following parts of its format, as far as fits. */
static vklm_status next_segment(const loader *l, const vki_stack *stack, uint32_t first_row,
                                vki_segment *segment)
{
    uint32_t row = first_row;
    const vki_part *part = part_of_row(stack, &row), *end = stack->parts + stack->n_parts;
    uint64_t rows = part->rows - row;
    for (const vki_part *next = part + 1; next < end && next->format == part->format; next++)
        rows += next->rows;
    rows = rows_that_fit(l, part->format, rows, stack->cols);
    if (rows == 0)
        return vki_fail(l->error, VKLM_OUT_OF_DEVICE_MEMORY,
                        "%s: not even one row of %s fits a block of device memory, %llu bytes",
                        l->gguf->path, part->tensor->name,
                        (unsigned long long)l->weights->device->limits.max_block_bytes);
    *segment = (vki_segment){.first_row = first_row};
    (void)vki_planes_init(&segment->planes, part->format, 1, stack->cols);
    if (segment->planes.size_bytes > MOST_ROW_BYTES)
        return vki_fail(l->error, VKLM_UNSUPPORTED,
                        "%s: a row of %s is larger than the %d MiB that are uploaded at once", l->gguf->path,
                        part->tensor->name, VKI_UPLOAD_HALF_BYTES >> 20);
    (void)vki_planes_init(&segment->planes, part->format, rows, stack->cols);
    return VKLM_OK;
}

static vklm_status cut_matrix(loader *l, const vki_stack *stack)
{
    vki_matrix *matrix = stack->member;
    *matrix = (vki_matrix){.rows = stack->rows, .cols = stack->cols};
    vki_segment segment;
    for (uint32_t row = 0; row < stack->rows; row += segment.planes.rows, matrix->n_segments++)
        TRY(next_segment(l, stack, row, &segment));
    TRY(vki_arena_alloc(&l->weights->arena, matrix->n_segments, sizeof segment, l->error, &matrix->segments));
    uint32_t row = 0;
    for (uint32_t i = 0; i < matrix->n_segments; i++) {
        TRY(next_segment(l, stack, row, &matrix->segments[i]));
        row += matrix->segments[i].planes.rows;
        TRY(add_slice(l, matrix->segments[i].planes.size_bytes));
    }
    return VKLM_OK;
}

/* Only gemma3 has a second table, and only where it has windows. */
static uint32_t table_count(const vki_hparams *h)
{
    return h->window ? VKI_ROPE_TABLES : 1;
}

static vklm_status cut_all(loader *l)
{
    for (size_t i = 0; i < l->stacks.n; i++) {
        const vki_stack *stack = &l->stacks.items[i];
        TRY(stack->rule->is_vector ? add_slice(l, stack->rows * sizeof(float)) : cut_matrix(l, stack));
    }
    l->weights->decode_bytes = l->total_bytes;
    const vki_hparams *h = &l->weights->hparams;
    for (uint32_t t = 0; t < table_count(h); t++) TRY(add_slice(l, vki_rope_table_bytes(h)));
    return VKLM_OK;
}

/* ---- Allocating ---- */

static double mebibytes(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}

/* Groups of slices of up to a block's size get a block of exactly their sum. */
static vklm_status take_slices(loader *l)
{
    vki_pool *pool = &l->weights->pool;
    vki_pool_init(pool, l->weights->device, "the weights", BLOCK_BYTES);
    const uint64_t most = pool->block_bytes;
    for (size_t first = 0, end; first < l->n_slices; first = end) {
        pool->block_bytes = l->slices[first].size_bytes;
        for (end = first + 1; end < l->n_slices; end++) {
            if (l->slices[end].size_bytes + pool->block_bytes > most) break;
            pool->block_bytes += l->slices[end].size_bytes;
        }
        for (size_t i = first; i < end; i++)
            TRY(vki_pool_take(pool, l->slices[i].size_bytes, l->error, &l->slices[i]));
    }
    return VKLM_OK;
}

/* Every address of vki_weights, in the order of the slices. */
static void place_all(loader *l)
{
    const vki_slice *slice = l->slices;
    for (size_t i = 0; i < l->stacks.n; i++) {
        const vki_stack *stack = &l->stacks.items[i];
        vki_matrix *matrix = stack->member;
        if (stack->rule->is_vector) memcpy(stack->member, &slice++->address, sizeof slice->address);
        else for (uint32_t s = 0; s < matrix->n_segments; s++) matrix->segments[s].address = slice++->address;
    }
    for (uint32_t t = 0; t < table_count(&l->weights->hparams); t++) l->weights->rope_table[t] = slice++->address;
}

/* ---- Repacking and uploading ---- */

static vklm_status report(loader *l)
{
    const double fraction = (double)l->done_bytes / (double)l->total_bytes;
    if (!l->params->report || l->params->report(l->params->user, fraction)) return VKLM_OK;
    return vki_fail(l->error, VKLM_CANCELLED, "%s: loading was cancelled", l->gguf->path);
}

static uint64_t file_row_bytes(vki_format format, uint32_t cols)
{
    const vki_format_info *info = vki_format_get(format);
    return (uint64_t)cols / info->block_weights * info->block_bytes;
}

static void run_job(void *user, size_t index)
{
    const loader *l = user;
    const pack_job *job = &l->jobs[index];
    const vki_part *part = job->part;
    const uint64_t row_bytes = file_row_bytes(part->format, job->cols);
    for (uint32_t r = 0; r < job->rows; r++) {
        const uint32_t row = vki_part_file_row(part, &l->weights->hparams, job->first + r) - job->row_from;
        const uint8_t *weights = job->from + row_bytes * row;
        if (part->scale == 1) vki_planes_pack_row(&job->planes, weights, job->cols, job->to + r, job->base);
        else vki_planes_pack_scaled(&job->planes, weights, job->cols, part->scale, job->to + r, job->base);
    }
}

/* Everything handed out so far is filled; meanwhile `reading`, where there is some, is read. */
static vklm_status flush_and_read(loader *l, const piece *reading, uint8_t *bytes)
{
    const uint64_t began = vki_now_ns();
    vki_crew crew = {.job = run_job, .user = l, .n = l->n_jobs};
    vki_crew_start(&crew, l->params->threads ? l->params->threads - 1 : 0);
    vklm_status status = VKLM_OK;
    if (reading) status = vki_gguf_read_tensor(l->gguf, reading->tensor, reading->from, reading->size, l->error, bytes);
    while (vki_crew_work(&crew)) continue;
    vki_crew_end(&crew);
    l->n_jobs = 0;
    l->packing_ns += vki_now_ns() - began;
    return status == VKLM_OK ? report(l) : status;
}

static vklm_status flush(loader *l)
{
    return flush_and_read(l, NULL, NULL);
}

/* Bytes from .. end - 1 of a tensor, which last until the next fetch: or, for jobs, until they are flushed. */
static vklm_status fetch(loader *l, const vki_gguf_tensor *tensor, uint64_t from, uint64_t end, const uint8_t **bytes)
{
    piece *p = &l->piece;
    if (!tensor->data && (p->tensor != tensor || from < p->from || end > p->from + p->size)) {
        const piece next = {.tensor = tensor, .from = from,
                            .size = vki_max(end - from, vki_min(PIECE_BYTES, tensor->size_bytes - from))};
        window *w = &l->windows[l->current];
        const bool turn = next.size > w->capacity - w->used;
        if (turn) {
            l->current = 1 - l->current;
            w = &l->windows[l->current]; /* of which no job reads */
            w->used = 0;
            TRY(vki_grow(l->host, (size_t)vki_max(next.size, WINDOW_BYTES), 1, l->error, &w->bytes, &w->capacity));
        }
        uint8_t *to = w->bytes + w->used;
        TRY(turn ? flush_and_read(l, &next, to) : vki_gguf_read_tensor(l->gguf, tensor, from, next.size, l->error, to));
        w->used += (size_t)next.size;
        *p = next;
        p->bytes = to;
    }
    *bytes = tensor->data ? tensor->data + from : p->bytes + (from - p->from);
    return VKLM_OK;
}

/* So many bytes can be mapped without a turn of the upload. */
static vklm_status make_room(loader *l, const vki_slice *slice, uint64_t size_bytes)
{
    if (slice->mapped || size_bytes <= vki_upload_room(&l->upload)) return VKLM_OK;
    TRY(flush(l));
    return vki_upload_turn(&l->upload, l->error);
}

static vklm_status map(loader *l, const vki_slice *slice, uint64_t offset, uint64_t size_bytes, uint8_t **bytes)
{
    return vki_upload_map(&l->upload, &l->weights->pool, slice, offset, size_bytes, l->error, bytes);
}

static vklm_status send(loader *l, const vki_slice *slice, const void *bytes, uint64_t size_bytes)
{
    for (uint64_t sent = 0; sent < size_bytes;) {
        const uint64_t n = vki_min(size_bytes - sent, VKI_UPLOAD_HALF_BYTES);
        uint8_t *to;
        TRY(make_room(l, slice, n));
        TRY(map(l, slice, sent, n, &to));
        memcpy(to, (const uint8_t *)bytes + sent, (size_t)n);
        sent += n;
    }
    return VKLM_OK;
}

/* Where rows first .. first + rows - 1 of the segment go: planes of their own in the staging buffer, whose pieces
 * of one half lie behind each other. */
static vklm_status stage_rows(loader *l, const vki_segment *segment, const vki_slice *slice, uint32_t first,
                              pack_job *job)
{
    const uint32_t n_planes = vki_format_get(segment->planes.format)->n_planes;
    uint64_t needed = 0;
    for (uint32_t p = 0; p < n_planes; p++)
        needed += vki_round_up(job->rows * vki_planes_row_bytes(&segment->planes, p), VKI_UPLOAD_ALIGNMENT);
    TRY(make_room(l, slice, needed));
    job->to = 0;
    job->planes.rows = job->rows;
    for (uint32_t p = 0; p < n_planes; p++) {
        const uint64_t row_bytes = vki_planes_row_bytes(&segment->planes, p);
        uint8_t *bytes;
        TRY(map(l, slice, segment->planes.offset[p] + first * row_bytes, job->rows * row_bytes, &bytes));
        if (p == 0) job->base = bytes;
        job->planes.offset[p] = (uint32_t)(bytes - job->base);
    }
    return VKLM_OK;
}

/* The file's rows that the job's rows come from: with rotary pairs in halves, those of whole heads. */
static vklm_status fetch_rows(loader *l, pack_job *job)
{
    const vki_part *part = job->part;
    const uint32_t d_head = l->weights->hparams.d_head, last = job->first + job->rows - 1;
    const uint64_t row_bytes = file_row_bytes(part->format, job->cols);
    uint64_t from = job->first, end = last + 1;
    if (job->first < part->n_halved) from -= job->first % d_head;
    if (last < part->n_halved) end += d_head - 1 - last % d_head;
    job->row_from = (uint32_t)from;
    return fetch(l, part->tensor, from * row_bytes, end * row_bytes, &job->from);
}

/* Of the segment's rows from `first` on, which begin in one part, as many as are worth a job: *rows at most. */
static vklm_status add_job(loader *l, const vki_stack *stack, const vki_segment *segment, const vki_slice *slice,
                           uint32_t first, uint32_t *rows)
{
    uint32_t row = segment->first_row + first;
    const vki_part *part = part_of_row(stack, &row);
    *rows = (uint32_t)vki_min(*rows, part->rows - row);
    pack_job job = {.part = part, .cols = stack->cols, .first = row, .rows = *rows, .to = first,
                    .planes = segment->planes, .base = slice->mapped};
    TRY(fetch_rows(l, &job));
    if (!slice->mapped) TRY(stage_rows(l, segment, slice, first, &job));
    l->jobs[l->n_jobs++] = job;
    l->done_bytes += segment->planes.size_bytes * *rows / segment->planes.rows;
    return l->n_jobs == MAX_JOBS ? flush(l) : VKLM_OK;
}

static vklm_status upload_matrix(loader *l, const vki_stack *stack)
{
    const vki_matrix *matrix = stack->member;
    for (uint32_t i = 0; i < matrix->n_segments; i++) {
        const vki_segment *segment = &matrix->segments[i];
        const vki_slice *slice = &l->slices[l->next_slice++];
        const uint64_t row_bytes = vki_max(segment->planes.size_bytes / segment->planes.rows, 1);
        const uint32_t step = (uint32_t)vki_max(JOB_BYTES / row_bytes, 1);
        for (uint32_t row = 0, rows; row < segment->planes.rows; row += rows) {
            rows = (uint32_t)vki_min(step, segment->planes.rows - row);
            TRY(add_job(l, stack, segment, slice, row, &rows));
        }
    }
    return VKLM_OK;
}

/* The stacked and permuted vector lies in the scratch before one decoded part. */
static vklm_status upload_vector(loader *l, const vki_stack *stack)
{
    const size_t needed = 2 * (size_t)stack->rows * sizeof(float);
    TRY(vki_grow(l->host, needed, 1, l->error, &l->scratch, &l->scratch_capacity));
    float *values = (float *)(void *)l->scratch, *to = values, *decoded = values + stack->rows;
    for (uint32_t i = 0; i < stack->n_parts; to += stack->parts[i++].rows) {
        const vki_part *part = &stack->parts[i];
        const uint8_t *bytes = NULL;
        if (part->tensor) TRY(fetch(l, part->tensor, 0, part->tensor->size_bytes, &bytes));
        if (bytes) vki_floats_decode(part->format, bytes, part->rows, decoded);
        else memset(decoded, 0, part->rows * sizeof *decoded);
        for (uint32_t r = 0; r < part->rows; r++)
            to[r] = decoded[vki_part_file_row(part, &l->weights->hparams, r)] * part->scale;
    }
    const vki_slice *slice = &l->slices[l->next_slice++];
    l->done_bytes += slice->size_bytes;
    return send(l, slice, values, stack->rows * sizeof *values);
}

static vklm_status upload_tables(loader *l)
{
    const vki_hparams *h = &l->weights->hparams;
    const uint64_t bytes = vki_rope_table_bytes(h);
    TRY(vki_grow(l->host, (size_t)bytes, 1, l->error, &l->scratch, &l->scratch_capacity));
    for (uint32_t t = 0; t < table_count(h); t++) {
        float *table = (float *)(void *)l->scratch;
        TRY(vki_rope_table_make(h, l->gguf, t, l->host, l->error, table));
        TRY(send(l, &l->slices[l->next_slice++], table, bytes));
    }
    l->done_bytes = l->total_bytes; /* the padding between planes included */
    return flush(l);
}

/* Has the system read the stacks from *next on, as far as is worth it. */
static void read_ahead(const loader *l, uint64_t *expected_bytes, size_t *next)
{
    for (; *next < l->stacks.n && *expected_bytes < l->done_bytes + READ_AHEAD_BYTES; ++*next) {
        const vki_stack *stack = &l->stacks.items[*next];
        for (uint32_t p = 0; p < stack->n_parts; p++) {
            const vki_gguf_tensor *tensor = stack->parts[p].tensor;
            if (!tensor || !tensor->data) continue;
            vki_map_expect(tensor->data, tensor->size_bytes);
            *expected_bytes += tensor->size_bytes;
        }
    }
}

static void log_upload(const loader *l, uint64_t took_ns)
{
    vki_log(l->host, VKLM_LOG_INFO,
            "weights: %.1f MiB in %.3f s, %.2f GB/s; %.3f s of it reading and repacking, the rest copies to the device",
            mebibytes(l->total_bytes), (double)took_ns * 1e-9, (double)l->total_bytes / (double)took_ns,
            (double)l->packing_ns * 1e-9);
}

static vklm_status upload_all(loader *l)
{
    const uint64_t began = vki_now_ns();
    TRY(vki_upload_begin(&l->upload, l->weights->device, l->error));
    TRY(report(l));
    uint64_t expected_bytes = 0;
    for (size_t i = 0, next = 0; i < l->stacks.n; i++) {
        read_ahead(l, &expected_bytes, &next);
        const vki_stack *stack = &l->stacks.items[i];
        TRY(stack->rule->is_vector ? upload_vector(l, stack) : upload_matrix(l, stack));
        TRY(report(l));
    }
    TRY(upload_tables(l));
    TRY(vki_upload_finish(&l->upload, l->error));
    log_upload(l, vki_now_ns() - began);
    return VKLM_OK;
}

/* ---- The rest of vki_weights ---- */

/* A string that only informs: one of another type is no reason to refuse a model. */
static vklm_status copy_string(loader *l, const char *key, const char **out)
{
    vki_string text = {"", 0};
    if (vki_gguf_string(l->gguf, key, NULL, &text, NULL) != VKLM_OK) text = (vki_string){"", 0};
    return vki_arena_string(&l->weights->arena, text.text, text.len, l->error, out);
}

static vklm_status fill_info(loader *l)
{
    vki_weights *w = l->weights;
    const vki_hparams *h = &w->hparams;
    w->info = (vklm_model_info){
        .architecture = h->arch->name,
        .n_vocab = h->n_vocab, .n_layer = h->n_layer, .d_model = h->d_model, .n_head = h->n_head,
        .n_head_kv = h->n_head_kv, .d_head = h->d_head, .d_ff = h->d_ff,
        .context_length = h->context_length,
        .n_params = w->n_params,
        .file_bytes = l->gguf->file_bytes,
        .weight_bytes = w->weight_bytes,
        .decode_bytes = w->decode_bytes,
    };
    TRY(copy_string(l, "general.name", &w->info.name));
    TRY(copy_string(l, "general.license", &w->info.license));
    uint64_t weights_of[VKI_FORMAT_COUNT] = {0};
    vki_format most = 0;
    for (size_t i = 0; i < l->stacks.n; i++)
        for (uint32_t p = 0; p < l->stacks.items[i].n_parts; p++) {
            const vki_part *part = &l->stacks.items[i].parts[p];
            const uint64_t cols = l->stacks.items[i].cols;
            if (part->tensor) weights_of[part->format] += part->rows * cols;
        }
    for (vki_format f = 0; f < VKI_FORMAT_COUNT; f++)
        if (weights_of[f] > weights_of[most]) most = f;
    w->info.file_type = vki_format_get(most)->name;
    return VKLM_OK;
}

static uint64_t matrix_bytes(const vki_matrix *matrix)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < matrix->n_segments; i++)
        bytes += matrix->segments[i].planes.size_bytes;
    return bytes;
}

static vklm_status finish(loader *l)
{
    vki_weights *w = l->weights;
    const vki_hparams *h = &w->hparams;
    w->tied = w->head.n_segments == 0;
    if (w->tied) w->head = w->embedding;
    for (uint32_t i = 0; i < h->n_layer; i++) {
        w->layers[i].window = h->windowed[i] ? h->window : 0;
        w->layers[i].rope = h->windowed[i] ? VKI_ROPE_WINDOWED : VKI_ROPE_FULL;
    }
    for (size_t i = 0; i < l->stacks.n; i++)
        w->n_params += (uint64_t)l->stacks.items[i].rows * l->stacks.items[i].cols;
    w->weight_bytes = l->total_bytes;
    /* A token reads a single row of an embedding that is not also the head. */
    if (!w->tied) w->decode_bytes -= matrix_bytes(&w->embedding);
    return fill_info(l);
}

static vklm_status load(loader *l)
{
    vki_weights *w = l->weights;
    TRY(vki_hparams_read(l->gguf, l->error, &w->hparams));
    TRY(vki_arena_alloc(&w->arena, w->hparams.n_layer, sizeof *w->layers, l->error, &w->layers));
    TRY(vki_stacks_find(&l->stacks, w, l->gguf, l->error));
    TRY(cut_all(l));
    TRY(take_slices(l));
    place_all(l);
    TRY(finish(l));
    if (w->device->measuring) return VKLM_OK;
    if (l->params->placed) TRY(l->params->placed(l->params->user, l->error));
    return upload_all(l);
}

vklm_status vki_weights_load(vki_weights *weights, vklm_device *device, const vki_gguf *gguf,
                             const vki_load_params *params, vklm_error *error)
{
    static const vki_load_params none = {0};
    *weights = (vki_weights){.device = device};
    vki_arena_init(&weights->arena, &device->host);
    loader l = {
        .weights = weights, .gguf = gguf, .params = params ? params : &none, .host = &device->host,
        .error = error,
    };
    const vklm_status status = load(&l);
    vki_upload_free(&l.upload);
    vki_stacks_free(&l.stacks);
    vki_release(l.host, &l.slices);
    vki_release(l.host, &l.scratch);
    for (uint32_t i = 0; i < 2; i++) vki_release(l.host, &l.windows[i].bytes);
    if (status != VKLM_OK) vki_weights_free(weights);
    return status;
}

uint64_t vki_weights_host_bytes(const vki_hparams *hparams, bool read)
{
    const uint64_t scratch = vki_max(vki_rope_table_bytes(hparams), 2 * sizeof(float) * (uint64_t)hparams->n_vocab);
    return 2 * scratch + (read ? 2 * WINDOW_BYTES : 0); /* arrays grow by doubling */
}

void vki_weights_free(vki_weights *weights)
{
    vki_pool_free(&weights->pool);
    vki_arena_free(&weights->arena);
    *weights = (vki_weights){0};
}
