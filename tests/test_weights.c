/* test_weights.c - models on the device hold exactly what the file says, rows where the kernels
 * expect them. What is on the device is compared where the host can see device memory. */
#include "support/gpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "support/tiny_model.h"

static vklm_error error;
static vklm_device *device;
static gguf_writer *writer;
static vki_gguf gguf;
static vki_weights weights;
static char log_text[4096];

/* ---- An allocator that counts, and fails when told to ---- */

static size_t n_live, n_calls, fail_at;

static void *counting_realloc(void *user, void *pointer, size_t size)
{
    (void)user;
    if (size == 0) {
        n_live -= pointer != NULL;
        free(pointer);
        return NULL;
    }
    if (++n_calls == fail_at) return NULL;
    n_live += pointer == NULL;
    return realloc(pointer, size);
}

static void keep_log(void *user, vklm_log_level level, const char *line)
{
    (void)user;
    if (level != VKLM_LOG_WARNING) return;
    const size_t used = strlen(log_text);
    snprintf(log_text + used, sizeof log_text - used, "%s\n", line);
}

static void unload(void)
{
    vki_weights_free(&weights);
    vki_gguf_close(&gguf);
    gguf_writer_free(writer);
    writer = NULL;
}

static void open_device(uint64_t block_limit_bytes)
{
    unload();
    vklm_device_destroy(&device);
    fail_at = 0;
    device = test_device(&(vklm_device_params){
        .struct_size = sizeof(vklm_device_params),
        .allocator = {.realloc = counting_realloc},
        .log = {.write = keep_log},
        .block_limit_bytes = block_limit_bytes,
    });
}

static void set_up(void)
{
    open_device(0);
    log_text[0] = '\0';
}

static void tear_down(void)
{
    unload();
    vklm_device_destroy(&device);
    ck_assert_uint_eq(n_live, 0);
}

static void open_model(const tiny_model *m)
{
    unload();
    writer = tiny_model_write(m);
    uint8_t *bytes;
    size_t size;
    gguf_writer_finish(writer, &bytes, &size);
    CHECK_OK(vki_gguf_parse(&gguf, &device->host, "tiny.gguf", bytes, size, &error));
}

static void load_model(const tiny_model *m)
{
    open_model(m);
    CHECK_OK(vki_weights_load(&weights, device, &gguf, NULL, &error));
}

/* ---- Reading the device back ---- */

static bool is_visible(void)
{
    return weights.pool.blocks[0].mapped != NULL;
}

static const uint8_t *at_address(uint64_t address, uint64_t size_bytes)
{
    for (size_t i = 0; i < weights.pool.n_blocks; i++) {
        const vki_buffer *block = &weights.pool.blocks[i];
        if (address < block->address || address + size_bytes > block->address + block->size_bytes)
            continue;
        ck_assert_uint_eq(address % 256, block->address % 256);
        return block->mapped + (address - block->address);
    }
    ck_abort_msg("an address outside the pool");
    return NULL;
}

/* Row `row` of the matrix, cols floats. */
static void read_row(const vki_matrix *matrix, uint32_t row, float *out)
{
    const vki_segment *s = matrix->segments;
    while (row >= s->first_row + s->planes.rows) s++;
    ck_assert(s < matrix->segments + matrix->n_segments && row >= s->first_row);
    float *padded = calloc((size_t)s->planes.units * 32, sizeof *padded);
    vki_planes_decode_row(&s->planes, at_address(s->address, s->planes.size_bytes),
                          row - s->first_row, padded);
    for (uint32_t i = matrix->cols; i < s->planes.units * 32; i++) ck_assert(padded[i] == 0);
    memcpy(out, padded, matrix->cols * sizeof *out);
    free(padded);
}

/* ---- What the file says ---- */

static const vki_gguf_tensor *tensor_of(int layer, const char *base, const char *kind)
{
    char name[64];
    if (layer < 0)
        snprintf(name, sizeof name, "%s.%s", base, kind);
    else
        snprintf(name, sizeof name, "blk.%d.%s.%s", layer, base, kind);
    return vki_gguf_find_tensor(&gguf, name);
}

static void decode_row(const vki_gguf_tensor *tensor, uint64_t row, float *out)
{
    vki_format format;
    ck_assert(vki_format_from_ggml(tensor->ggml_id, &format));
    const vki_format_info *info = vki_format_get(format);
    const uint64_t row_bytes = tensor->ne[0] / info->block_weights * info->block_bytes;
    vki_format_decode(format, tensor->data + row * row_bytes, tensor->ne[0], out);
}

/* Where value `i` of a head of the device comes from in a head of the file. */
static uint32_t file_value(uint32_t i)
{
    const uint32_t n_rot = weights.hparams.n_rot;
    if (strcmp(weights.info.architecture, "llama") == 0 || i >= n_rot) return i;
    return i % 2 ? n_rot / 2 + i / 2 : i / 2;
}

/* `rows` rows of the matrix from `first` on are the tensor's rows from `file_first` on. */
static void check_rows(const vki_matrix *matrix, uint32_t first, uint32_t rows,
                       const vki_gguf_tensor *tensor, uint32_t file_first, bool by_heads,
                       float factor)
{
    ck_assert_ptr_nonnull(tensor);
    const uint32_t E = weights.hparams.d_head;
    float *wanted = calloc(matrix->cols, sizeof *wanted), *got = calloc(matrix->cols, sizeof *got);
    ck_assert_uint_eq(tensor->ne[0], matrix->cols);
    for (uint32_t r = 0; r < rows; r++) {
        const uint32_t file_row = by_heads ? r / E * E + file_value(r % E) : r;
        decode_row(tensor, file_first + file_row, wanted);
        for (uint32_t i = 0; i < matrix->cols; i++) wanted[i] *= factor;
        read_row(matrix, first + r, got);
        ck_assert_msg(memcmp(wanted, got, matrix->cols * sizeof *got) == 0, "%s, row %u",
                      tensor->name, r);
    }
    free(wanted);
    free(got);
}

/* The reference gives the FFN's factors no effect in two architectures. */
static float factor_of(int layer, const char *base)
{
    float factor = 1;
    const char *arch = weights.info.architecture;
    if (strncmp(base, "ffn", 3) == 0 && (strcmp(arch, "qwen2") == 0 || strcmp(arch, "gemma3") == 0))
        return factor;
    const vki_gguf_tensor *tensor = tensor_of(layer, base, "scale");
    if (tensor) decode_row(tensor, 0, &factor);
    return factor;
}

static void check_matrix(const vki_matrix *matrix, int layer, const char *base)
{
    const vki_gguf_tensor *tensor = tensor_of(layer, base, "weight");
    ck_assert_ptr_nonnull(tensor);
    ck_assert_uint_eq(matrix->rows, tensor->ne[1]);
    uint32_t next = 0;
    for (uint32_t i = 0; i < matrix->n_segments; i++) {
        ck_assert_uint_eq(matrix->segments[i].first_row, next);
        next += matrix->segments[i].planes.rows;
    }
    ck_assert_uint_eq(next, matrix->rows);
    check_rows(matrix, 0, matrix->rows, tensor, 0, false, factor_of(layer, base));
}

static void check_vector(uint64_t address, int layer, const char *base, const char *kind,
                         bool by_heads)
{
    const vki_gguf_tensor *tensor = tensor_of(layer, base, kind);
    if (!tensor) {
        ck_assert_uint_eq(address, 0);
        return;
    }
    const uint32_t n = (uint32_t)tensor->ne[0];
    float *wanted = calloc(n, sizeof *wanted);
    decode_row(tensor, 0, wanted);
    const float *got = (const float *)(const void *)at_address(address, n * sizeof *got);
    for (uint32_t i = 0; i < n; i++) ck_assert(got[i] == wanted[by_heads ? file_value(i) : i]);
    free(wanted);
}

static void check_qkv(const vki_layer *y, int l)
{
    const vki_hparams *h = &weights.hparams;
    const uint32_t E = h->d_head, HE = h->n_head * E, KE = h->n_head_kv * E;
    ck_assert_uint_eq(y->qkv.rows, HE + 2 * KE);
    const vki_gguf_tensor *fused = tensor_of(l, "attn_qkv", "weight");
    const vki_gguf_tensor *q = fused ? fused : tensor_of(l, "attn_q", "weight");
    const vki_gguf_tensor *k = fused ? fused : tensor_of(l, "attn_k", "weight");
    const vki_gguf_tensor *v = fused ? fused : tensor_of(l, "attn_v", "weight");
    check_rows(&y->qkv, 0, HE, q, 0, true, factor_of(l, fused ? "attn_qkv" : "attn_q"));
    check_rows(&y->qkv, HE, KE, k, fused ? HE : 0, true,
               factor_of(l, fused ? "attn_qkv" : "attn_k"));
    check_rows(&y->qkv, HE + KE, KE, v, fused ? HE + KE : 0, false,
               factor_of(l, fused ? "attn_qkv" : "attn_v"));
}

static void check_qkv_bias(const vki_layer *y, int l)
{
    const vki_hparams *h = &weights.hparams;
    const uint32_t E = h->d_head, HE = h->n_head * E, KE = h->n_head_kv * E;
    static const char *const bases[] = {"attn_q", "attn_k", "attn_v"};
    if (!y->qkv_bias) {
        for (int i = 0; i < 3; i++) ck_assert_ptr_null(tensor_of(l, bases[i], "bias"));
        ck_assert_ptr_null(tensor_of(l, "attn_qkv", "bias"));
        return;
    }
    const float *got =
        (const float *)(const void *)at_address(y->qkv_bias, (HE + 2 * KE) * sizeof *got);
    float *wanted = calloc(HE + 2 * KE, sizeof *wanted);
    const uint32_t first[] = {0, HE, HE + KE};
    const vki_gguf_tensor *fused = tensor_of(l, "attn_qkv", "bias");
    if (fused) decode_row(fused, 0, wanted);
    for (int i = 0; i < 3 && !fused; i++) {
        const vki_gguf_tensor *tensor = tensor_of(l, bases[i], "bias");
        if (tensor) decode_row(tensor, 0, wanted + first[i]);
    }
    for (uint32_t i = 0; i < HE + 2 * KE; i++) {
        const uint32_t from = i < HE + KE ? i / E * E + file_value(i % E) : i;
        ck_assert(got[i] == wanted[from]);
    }
    free(wanted);
}

/* Everything but the rotary tables. */
static void check_model(void)
{
    if (!is_visible()) return;
    check_matrix(&weights.embedding, -1, "token_embd");
    check_matrix(&weights.head, -1, weights.tied ? "token_embd" : "output");
    check_vector(weights.output_norm, -1, "output_norm", "weight", false);
    check_vector(weights.head_bias, -1, "output", "bias", false);
    for (uint32_t i = 0; i < weights.hparams.n_layer; i++) {
        const vki_layer *y = &weights.layers[i];
        const int l = (int)i;
        check_qkv(y, l);
        check_qkv_bias(y, l);
        check_matrix(&y->o, l, "attn_output");
        check_matrix(&y->gate, l, "ffn_gate");
        check_matrix(&y->up, l, "ffn_up");
        check_matrix(&y->down, l, "ffn_down");
        check_vector(y->attn_norm, l, "attn_norm", "weight", false);
        check_vector(y->ffn_norm, l, "ffn_norm", "weight", false);
        check_vector(y->post_attn_norm, l, "post_attention_norm", "weight", false);
        check_vector(y->post_ffn_norm, l, "post_ffw_norm", "weight", false);
        check_vector(y->q_norm, l, "attn_q_norm", "weight", true);
        check_vector(y->k_norm, l, "attn_k_norm", "weight", true);
        check_vector(y->o_bias, l, "attn_output", "bias", false);
        check_vector(y->up_bias, l, "ffn_up", "bias", false);
        check_vector(y->down_bias, l, "ffn_down", "bias", false);
    }
}

/* ---- What is loaded ---- */

START_TEST(every_format_of_every_architecture_arrives)
{
    static const char *const archs[] = {"llama", "qwen2", "qwen3", "gemma3"};
    for (size_t a = 0; a < 4; a++)
        for (vki_format f = 0; f < VKI_FORMAT_COUNT; f++) {
            tiny_model m = tiny_model_of(archs[a]);
            tiny_model_set_formats(&m, f);
            load_model(&m);
            ck_assert_uint_eq(weights.layers[0].qkv.n_segments, 1);
            ck_assert_str_eq(weights.info.file_type, vki_format_get(f)->name);
            check_model();
        }
}
END_TEST

START_TEST(rows_of_any_length_are_padded_with_zeros)
{
    tiny_model m = tiny_model_of("qwen2");
    m.d_model = 250;
    m.n_head = 5;
    m.n_head_kv = 1;
    m.d_head = 50;
    m.d_ff = 100;
    for (vki_format f = VKI_F32; f <= VKI_BF16; f++) {
        tiny_model_set_formats(&m, f);
        m.formats.vectors = f;
        load_model(&m);
        check_model();
    }
}
END_TEST

START_TEST(only_rotated_values_change_places)
{
    tiny_model m = tiny_model_of("gemma3");
    m.n_rot = 24;
    load_model(&m);
    check_model();
}
END_TEST

START_TEST(formats_may_differ_within_a_stack)
{
    tiny_model m = tiny_model_of("qwen3");
    m.formats.k = VKI_Q4_K;
    m.formats.v = VKI_Q6_K;
    load_model(&m);
    ck_assert_uint_eq(weights.layers[0].qkv.n_segments, 3);
    check_model();
    m.formats.q = VKI_Q4_K;
    load_model(&m);
    ck_assert_uint_eq(weights.layers[0].qkv.n_segments, 2);
    ck_assert_uint_eq(weights.layers[0].qkv.segments[1].first_row, (4 + 2) * 128);
    check_model();
}
END_TEST

START_TEST(fused_and_optional_tensors_are_taken)
{
    tiny_model m = tiny_model_of("qwen2");
    m.fused_qkv = true;
    m.head_bias = true;
    load_model(&m);
    check_model();
    ck_assert(weights.head_bias != 0);
    m = tiny_model_of("llama");
    m.qkv_bias = m.o_bias = m.ffn_bias = true;
    load_model(&m);
    check_model();
    ck_assert(weights.layers[1].o_bias != 0 && weights.layers[1].gate_bias != 0);
    m.omitted[0] = "blk.1.attn_k.bias"; /* then zero */
    load_model(&m);
    check_model();
}
END_TEST

START_TEST(factors_go_into_f32_weights)
{
    tiny_model m = tiny_model_of("llama");
    m.factors = true;
    load_model(&m);
    check_model();
    tiny_model_set_formats(&m, VKI_Q8_0);
    open_model(&m);
    CHECK_FAILS(vki_weights_load(&weights, device, &gguf, NULL, &error), VKLM_UNSUPPORTED,
                "blk.0.attn_q.scale is not 1");
}
END_TEST

START_TEST(a_head_without_weights_is_tied)
{
    tiny_model m = tiny_model_of("llama");
    load_model(&m);
    ck_assert(!weights.tied);
    const uint64_t untied_bytes = weights.weight_bytes, n_params = weights.n_params;
    const uint64_t embedding_bytes = 272 * 256 * sizeof(float);
    const uint64_t decode_bytes = weights.decode_bytes;
    m.tied = true;
    load_model(&m);
    ck_assert(weights.tied);
    ck_assert_ptr_eq(weights.head.segments, weights.embedding.segments);
    ck_assert_uint_eq(weights.head.rows, 272);
    ck_assert_uint_eq(weights.weight_bytes, untied_bytes - embedding_bytes);
    ck_assert_uint_eq(weights.n_params, n_params - 272 * 256);
    ck_assert_uint_eq(weights.decode_bytes, decode_bytes); /* a head is read either way */
    check_model();
}
END_TEST

START_TEST(the_info_is_filled)
{
    tiny_model m = tiny_model_of("qwen3");
    m.formats.q = m.formats.gate = m.formats.up = m.formats.down = VKI_Q6_K;
    load_model(&m);
    const vklm_model_info *info = &weights.info;
    ck_assert_str_eq(info->architecture, "qwen3");
    ck_assert_str_eq(info->name, "tiny");
    ck_assert_str_eq(info->license, "none");
    ck_assert_str_eq(info->file_type, "Q6_K");
    ck_assert_uint_eq(info->d_head, 128);
    ck_assert_uint_eq(info->file_bytes, gguf.file_bytes);
    ck_assert_uint_eq(info->weight_bytes, weights.weight_bytes);
    uint64_t n_params = 0;
    for (size_t i = 0; i < gguf.n_tensors; i++)
        n_params += gguf.tensors[i].ne[0] * gguf.tensors[i].ne[1];
    ck_assert_uint_eq(info->n_params, n_params);
    ck_assert_uint_lt(info->decode_bytes, info->weight_bytes);
}
END_TEST

START_TEST(little_more_memory_is_taken_than_weights_need)
{
    open_device(3 << 20);
    tiny_model m = tiny_model_of("llama");
    m.n_layer = 12;
    const uint64_t before = device->memory_used;
    load_model(&m);
    uint64_t file_weights = 0;
    for (size_t i = 0; i < gguf.n_tensors; i++) file_weights += gguf.tensors[i].size_bytes;
    ck_assert_uint_ge(weights.weight_bytes, file_weights);
    /* Blocks are at least 1 MiB, so only the last may be larger than what is in it. */
    ck_assert_uint_le(device->memory_used - before, file_weights + file_weights / 20 + (1 << 20));
}
END_TEST

START_TEST(small_blocks_cut_matrices_into_many_segments)
{
    open_device(100 * 1024);
    tiny_model m = tiny_model_of("llama");
    m.n_layer = 1;
    m.formats.v = VKI_F16;
    m.context_length = 256;
    load_model(&m);
    ck_assert_uint_eq(weights.layers[0].qkv.n_segments, 4 + 1);
    ck_assert_uint_eq(weights.layers[0].gate.n_segments, 6); /* 100 rows of 1 KiB each */
    check_model();
    open_device(512);
    open_model(&m);
    CHECK_FAILS(vki_weights_load(&weights, device, &gguf, NULL, &error), VKLM_OUT_OF_DEVICE_MEMORY,
                "not even one row of token_embd.weight");
}
END_TEST

START_TEST(layers_know_their_window_and_their_table)
{
    tiny_model m = tiny_model_of("gemma3");
    load_model(&m);
    ck_assert_uint_eq(weights.layers[0].window, 8);
    ck_assert_uint_eq(weights.layers[0].rope, VKI_ROPE_WINDOWED);
    ck_assert_uint_eq(weights.layers[1].window, 0);
    ck_assert_uint_eq(weights.layers[1].rope, VKI_ROPE_FULL);
    for (uint32_t t = 0; t < VKI_ROPE_TABLES && is_visible(); t++) {
        const float *table = (const float *)(const void *)at_address(weights.rope_table[t], 64 * 4);
        ck_assert(table[0] == 1 && table[1] == 0); /* position 0 is not turned */
        ck_assert(table[64] == (float)cos(1) && table[65] == (float)sin(1));
    }
    m = tiny_model_of("llama");
    load_model(&m);
    ck_assert_uint_eq(weights.rope_table[VKI_ROPE_WINDOWED], 0);
}
END_TEST

/* ---- What is refused ---- */

static void put_user_tensor(gguf_writer *w, void *user)
{
    const vki_gguf_tensor *t = user;
    gguf_put_tensor(w, t->name, t->ggml_id, t->n_dims, t->ne, NULL, (size_t)t->size_bytes);
}

/* The model with this tensor in place of, or besides, its own; contents zero. */
static void open_with(tiny_model m, vki_gguf_tensor tensor)
{
    m.omitted[0] = tensor.name;
    m.extra = put_user_tensor;
    m.extra_user = &tensor;
    open_model(&m);
}

static vklm_status load(void)
{
    return vki_weights_load(&weights, device, &gguf, NULL, &error);
}

START_TEST(a_missing_tensor_is_named)
{
    static const char *const names[] = {
        "output_norm.weight",    "blk.0.attn_norm.weight",   "blk.1.attn_q.weight",
        "blk.1.attn_v.weight",   "blk.0.attn_output.weight", "blk.1.ffn_norm.weight",
        "blk.1.ffn_down.weight", "blk.0.attn_q_norm.weight", "blk.1.post_ffw_norm.weight",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        tiny_model m = tiny_model_of("gemma3");
        m.omitted[0] = names[i];
        open_model(&m);
        CHECK_FAILS(load(), VKLM_BAD_FILE, names[i]);
    }
    tiny_model m = tiny_model_of("qwen2");
    m.omitted[0] = "blk.1.attn_k.bias";
    open_model(&m);
    CHECK_FAILS(load(), VKLM_BAD_FILE, "blk.1.attn_k.bias is missing");
}
END_TEST

START_TEST(another_shape_is_named_with_what_was_expected)
{
    const tiny_model m = tiny_model_of("llama");
    open_with(m, (vki_gguf_tensor){"blk.1.attn_k.weight", 0, 2, {256, 256}, NULL, 256 * 256 * 4});
    CHECK_FAILS(load(), VKLM_BAD_FILE,
                "blk.1.attn_k.weight has the shape {256, 256, 1, 1}, expected was {256, 128}");
    open_with(m, (vki_gguf_tensor){"blk.0.ffn_norm.weight", 0, 2, {256, 2}, NULL, 256 * 2 * 4});
    CHECK_FAILS(load(), VKLM_BAD_FILE, "blk.0.ffn_norm.weight has the shape");
    open_with(m,
              (vki_gguf_tensor){"blk.0.ffn_up.weight", 0, 3, {256, 512, 2}, NULL, 256 * 1024 * 4});
    CHECK_FAILS(load(), VKLM_BAD_FILE, "{256, 512, 2, 1}");
    open_with(m, (vki_gguf_tensor){"token_embd.weight", 0, 2, {128, 272}, NULL, 128 * 272 * 4});
    CHECK_FAILS(load(), VKLM_BAD_FILE, "expected was {256, 272}");
    open_with(m, (vki_gguf_tensor){"rope_freqs.weight", 0, 1, {64}, NULL, 64 * 4});
    CHECK_FAILS(load(), VKLM_BAD_FILE, "rope_freqs.weight is not F32 of the shape {32}");
}
END_TEST

START_TEST(another_type_is_named)
{
    enum { IQ4_XS = 23, Q8_0 = 8 };
    const tiny_model m = tiny_model_of("llama");
    open_with(m, (vki_gguf_tensor){"blk.0.ffn_up.weight", IQ4_XS, 2, {256, 512}, NULL, 512 * 136});
    CHECK_FAILS(load(), VKLM_UNSUPPORTED,
                "blk.0.ffn_up.weight is IQ4_XS; vklm reads F32, F16, BF16, Q8_0");
    open_with(m, (vki_gguf_tensor){"output_norm.weight", Q8_0, 1, {256}, NULL, 8 * 34});
    CHECK_FAILS(load(), VKLM_UNSUPPORTED,
                "output_norm.weight is Q8_0; vklm reads F32, F16, BF16 here");
}
END_TEST

START_TEST(tensors_of_another_architecture_are_refused_and_unknown_ones_warned_of)
{
    open_with(tiny_model_of("llama"),
              (vki_gguf_tensor){"blk.0.attn_q_norm.weight", 0, 1, {64}, NULL, 64 * 4});
    CHECK_FAILS(load(), VKLM_UNSUPPORTED, "llama with the tensor blk.0.attn_q_norm.weight");
    ck_assert_str_eq(log_text, "");
    open_with(tiny_model_of("llama"), (vki_gguf_tensor){"cls.output.weight", 0, 1, {8}, NULL, 32});
    CHECK_OK(load());
    ck_assert_msg(strstr(log_text, "1 tensors have no use in llama, cls.output.weight first") !=
                      NULL,
                  "%s", log_text);
}
END_TEST

START_TEST(a_model_larger_than_the_device_is_refused_with_numbers)
{
    const tiny_model m = tiny_model_of("llama");
    open_model(&m);
    const uint64_t memory = device->info.memory_bytes, used = device->memory_used;
    device->info.memory_bytes = device->memory_used + (1 << 20);
    CHECK_FAILS(load(), VKLM_OUT_OF_DEVICE_MEMORY, "MiB of device memory for its weights");
    ck_assert_uint_eq(device->memory_used, used); /* nothing was allocated to find out */
    device->info.memory_bytes = memory;
    CHECK_OK(load());
}
END_TEST

/* ---- Progress, cancelling, failing ---- */

typedef struct watcher {
    double last, cancel_at;
    unsigned n;
} watcher;

static bool watch(void *user, double fraction)
{
    watcher *w = user;
    ck_assert_double_ge(fraction, w->last);
    ck_assert_double_le(fraction, 1);
    w->last = fraction;
    w->n++;
    return fraction < w->cancel_at;
}

static void check_nothing_is_left(uint64_t memory_used, size_t live)
{
    ck_assert_uint_eq(device->memory_used, memory_used);
    ck_assert_uint_eq(n_live, live);
    ck_assert_ptr_null(weights.layers);
    ck_assert_ptr_null(weights.pool.blocks);
}

START_TEST(progress_rises_to_one_and_can_cancel_anywhere)
{
    const tiny_model m = tiny_model_of("llama");
    open_model(&m);
    const uint64_t used = device->memory_used;
    const size_t live = n_live;
    watcher w = {.cancel_at = 2};
    const vki_load_params params = {.report = watch, .user = &w, .threads = 2};
    CHECK_OK(vki_weights_load(&weights, device, &gguf, &params, &error));
    ck_assert_double_eq(w.last, 1);
    ck_assert_uint_gt(w.n, 10);
    vki_weights_free(&weights);
    for (double at = 0; at <= 1; at += 0.125) {
        w = (watcher){.cancel_at = at};
        CHECK_FAILS(vki_weights_load(&weights, device, &gguf, &params, &error), VKLM_CANCELLED,
                    "cancelled");
        check_nothing_is_left(used, live);
    }
}
END_TEST

START_TEST(any_allocation_may_fail)
{
    tiny_model m = tiny_model_of("gemma3");
    m.n_layer = 1;
    m.factors = true;
    open_model(&m);
    const uint64_t used = device->memory_used;
    const size_t live = n_live;
    vklm_status status = VKLM_OUT_OF_MEMORY;
    for (size_t i = 1; status != VKLM_OK; i++) {
        ck_assert_uint_lt(i, 1000);
        n_calls = 0;
        fail_at = i;
        status = vki_weights_load(&weights, device, &gguf, NULL, &error);
        if (status == VKLM_OK) break;
        ck_assert_int_eq(status, VKLM_OUT_OF_MEMORY);
        check_nothing_is_left(used, live);
    }
    ck_assert_uint_lt(n_calls, fail_at);
    check_model();
}
END_TEST

START_TEST(freeing_twice_and_zeroed_weights_are_fine)
{
    const tiny_model m = tiny_model_of("llama");
    load_model(&m);
    vki_weights_free(&weights);
    vki_weights_free(&weights);
    vki_weights zeroed = {0};
    vki_weights_free(&zeroed);
}
END_TEST

static TCase *new_case(Suite *suite, const char *name)
{
    TCase *c = tcase_create(name);
    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_set_timeout(c, 0);
    suite_add_tcase(suite, c);
    return c;
}

int main(void)
{
    Suite *suite = suite_create("weights");
    TCase *c = new_case(suite, "loaded");
    tcase_add_test(c, every_format_of_every_architecture_arrives);
    tcase_add_test(c, rows_of_any_length_are_padded_with_zeros);
    tcase_add_test(c, only_rotated_values_change_places);
    tcase_add_test(c, formats_may_differ_within_a_stack);
    tcase_add_test(c, fused_and_optional_tensors_are_taken);
    tcase_add_test(c, factors_go_into_f32_weights);
    tcase_add_test(c, a_head_without_weights_is_tied);
    tcase_add_test(c, the_info_is_filled);
    tcase_add_test(c, little_more_memory_is_taken_than_weights_need);
    tcase_add_test(c, small_blocks_cut_matrices_into_many_segments);
    tcase_add_test(c, layers_know_their_window_and_their_table);
    c = new_case(suite, "refused");
    tcase_add_test(c, a_missing_tensor_is_named);
    tcase_add_test(c, another_shape_is_named_with_what_was_expected);
    tcase_add_test(c, another_type_is_named);
    tcase_add_test(c, tensors_of_another_architecture_are_refused_and_unknown_ones_warned_of);
    tcase_add_test(c, a_model_larger_than_the_device_is_refused_with_numbers);
    c = new_case(suite, "failing");
    tcase_add_test(c, progress_rises_to_one_and_can_cancel_anywhere);
    tcase_add_test(c, any_allocation_may_fail);
    tcase_add_test(c, freeing_twice_and_zeroed_weights_are_fine);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
