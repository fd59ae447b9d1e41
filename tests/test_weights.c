/* test_weights.c - models on the device hold exactly what the file says, rows where the kernels
 * expect them. What is on the device is compared where the host can see device memory. */
#include "support/gpu.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/model.h"
#include "support/suite.h"
#include "support/test_memory.h"
#include "support/tiny_model.h"
#include "support/weights_check.h"

static vklm_error error;
static vklm_device *device;
static gguf_writer *writer;
static vki_gguf gguf;
static vki_weights weights;
static char log_text[4096];

static test_memory heap;

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
    heap.fail_at = 0;
    device = test_device(&(vklm_device_params){
        .struct_size = sizeof(vklm_device_params),
        .allocator = test_allocator(&heap),
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
    ck_assert_uint_eq(heap.n_live, 0);
}

static void open_model(const tiny_model *m)
{
    unload();
    writer = tiny_model_write(m);
    CHECK_OK(gguf_writer_open(writer, &device->host, &error, &gguf));
}

static void load_model(const tiny_model *m)
{
    open_model(m);
    CHECK_OK(vki_weights_load(&weights, device, &gguf, NULL, &error));
}

static void check_model(void)
{
    check_weights(&weights, &gguf);
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
    for (uint32_t t = 0; t < VKI_ROPE_TABLES && weights.pool.blocks[0].mapped; t++) {
        const float *table = (const float *)(const void *)weights_at(&weights, weights.rope_table[t], 64 * 4);
        ck_assert(table[0] == 1 && table[1] == 0); /* position 0 is not turned */
        ck_assert(table[64] == (float)cos(1) && table[65] == (float)sin(1));
    }
    m = tiny_model_of("llama");
    load_model(&m);
    ck_assert_uint_eq(weights.rope_table[VKI_ROPE_WINDOWED], 0);
}
END_TEST

/* ---- Ways to the device ---- */

static vklm_status load(void)
{
    return vki_weights_load(&weights, device, &gguf, NULL, &error);
}

/* As for a GPU with memory of its own: nothing is mapped. What came there is read all the same, where it can be. */
static void load_staged(const tiny_model *m, uint32_t threads)
{
    open_model(m);
    device->limits.is_cpu = false;
    device->info.type = VKLM_DEVICE_DISCRETE;
    const vki_load_params params = {.threads = threads};
    CHECK_OK(vki_weights_load(&weights, device, &gguf, &params, &error));
    for (size_t i = 0; i < weights.pool.n_blocks; i++) {
        vki_buffer *block = &weights.pool.blocks[i];
        void *bytes = NULL;
        ck_assert_ptr_null(block->mapped);
        if (device->fn.vkMapMemory(device->device, block->memory, 0, VK_WHOLE_SIZE, 0, &bytes) != VK_SUCCESS) break;
        block->mapped = bytes;
    }
    check_model();
}

START_TEST(weights_arrive_through_staging_and_by_any_number_of_threads)
{
    if (!test_results_count()) return;
    tiny_model m = tiny_model_of("qwen2");
    m.fused_qkv = true;
    m.n_vocab = 17000; /* more than half of the staging buffer */
    for (uint32_t threads = 0; threads < 3; threads += 2) {
        open_device(0);
        load_staged(&m, threads);
    }
    m = tiny_model_of("llama");
    m.n_vocab = 9001;
    tiny_model_set_formats(&m, VKI_Q4_K);
    m.formats.head = VKI_Q6_K;
    open_device(0);
    load_staged(&m, 3);
    m.factors = true;
    tiny_model_set_formats(&m, VKI_F32);
    open_device(1 << 20); /* many segments */
    load_staged(&m, 2);
}
END_TEST

START_TEST(a_row_too_long_to_upload_is_refused)
{
    const uint32_t long_row = (16 << 20) / 4 + 256;
    tiny_model m = tiny_model_of("llama");
    m.n_layer = 1;
    m.d_ff = long_row;
    m.d_model = m.d_head = 2;
    m.n_head = m.n_head_kv = 1;
    open_model(&m);
    CHECK_FAILS(load(), VKLM_UNSUPPORTED, "ffn_down.weight is larger than the 16 MiB");
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
    open_with(m, (vki_gguf_tensor){"blk.1.attn_k.weight", 0, 2, {256, 256}, NULL, 256 * 256 * 4, 0, 0});
    CHECK_FAILS(load(), VKLM_BAD_FILE,
                "blk.1.attn_k.weight has the shape {256, 256, 1, 1}, expected was {256, 128}");
    open_with(m, (vki_gguf_tensor){"blk.0.ffn_norm.weight", 0, 2, {256, 2}, NULL, 256 * 2 * 4, 0, 0});
    CHECK_FAILS(load(), VKLM_BAD_FILE, "blk.0.ffn_norm.weight has the shape");
    open_with(m,
              (vki_gguf_tensor){"blk.0.ffn_up.weight", 0, 3, {256, 512, 2}, NULL, 256 * 1024 * 4, 0, 0});
    CHECK_FAILS(load(), VKLM_BAD_FILE, "{256, 512, 2, 1}");
    open_with(m, (vki_gguf_tensor){"token_embd.weight", 0, 2, {128, 272}, NULL, 128 * 272 * 4, 0, 0});
    CHECK_FAILS(load(), VKLM_BAD_FILE, "expected was {256, 272}");
    open_with(m, (vki_gguf_tensor){"rope_freqs.weight", 0, 1, {64}, NULL, 64 * 4, 0, 0});
    CHECK_FAILS(load(), VKLM_BAD_FILE, "rope_freqs.weight is not F32 of the shape {32}");
}
END_TEST

START_TEST(another_type_is_named)
{
    enum { IQ4_XS = 23, Q8_0 = 8 };
    const tiny_model m = tiny_model_of("llama");
    open_with(m, (vki_gguf_tensor){"blk.0.ffn_up.weight", IQ4_XS, 2, {256, 512}, NULL, 512 * 136, 0, 0});
    CHECK_FAILS(load(), VKLM_UNSUPPORTED,
                "blk.0.ffn_up.weight is IQ4_XS; vklm reads F32, F16, BF16, Q8_0");
    open_with(m, (vki_gguf_tensor){"output_norm.weight", Q8_0, 1, {256}, NULL, 8 * 34, 0, 0});
    CHECK_FAILS(load(), VKLM_UNSUPPORTED,
                "output_norm.weight is Q8_0; vklm reads F32, F16, BF16 here");
}
END_TEST

START_TEST(tensors_of_another_architecture_are_refused_and_unknown_ones_warned_of)
{
    open_with(tiny_model_of("llama"),
              (vki_gguf_tensor){"blk.0.attn_q_norm.weight", 0, 1, {64}, NULL, 64 * 4, 0, 0});
    CHECK_FAILS(load(), VKLM_UNSUPPORTED, "llama with the tensor blk.0.attn_q_norm.weight");
    ck_assert_str_eq(log_text, "");
    open_with(tiny_model_of("llama"), (vki_gguf_tensor){"cls.output.weight", 0, 1, {8}, NULL, 32, 0, 0});
    CHECK_OK(load());
    ck_assert_msg(strstr(log_text, "1 tensors have no use in llama, cls.output.weight first") !=
                      NULL,
                  "%s", log_text);
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
    ck_assert_uint_eq(heap.n_live, live);
    ck_assert_ptr_null(weights.layers);
    ck_assert_ptr_null(weights.pool.blocks);
}

START_TEST(progress_rises_to_one_and_can_cancel_anywhere)
{
    const tiny_model m = tiny_model_of("llama");
    open_model(&m);
    const uint64_t used = device->memory_used;
    const size_t live = heap.n_live;
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
    const size_t live = heap.n_live;
    vklm_status status = VKLM_OUT_OF_MEMORY;
    for (size_t i = 1; status != VKLM_OK; i++) {
        ck_assert_uint_lt(i, 1000);
        heap.n_calls = 0;
        heap.fail_at = i;
        status = vki_weights_load(&weights, device, &gguf, NULL, &error);
        if (status == VKLM_OK) break;
        ck_assert_int_eq(status, VKLM_OUT_OF_MEMORY);
        check_nothing_is_left(used, live);
    }
    ck_assert_uint_lt(heap.n_calls, heap.fail_at);
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

int main(void)
{
    Suite *suite = suite_create("weights");
    TCase *c = add_case(suite, "loaded", set_up, tear_down);
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
    tcase_add_test(c, weights_arrive_through_staging_and_by_any_number_of_threads);
    c = add_case(suite, "refused", set_up, tear_down);
    tcase_add_test(c, a_row_too_long_to_upload_is_refused);
    tcase_add_test(c, a_missing_tensor_is_named);
    tcase_add_test(c, another_shape_is_named_with_what_was_expected);
    tcase_add_test(c, another_type_is_named);
    tcase_add_test(c, tensors_of_another_architecture_are_refused_and_unknown_ones_warned_of);
    c = add_case(suite, "failing", set_up, tear_down);
    tcase_add_test(c, progress_rises_to_one_and_can_cancel_anywhere);
    tcase_add_test(c, any_allocation_may_fail);
    tcase_add_test(c, freeing_twice_and_zeroed_weights_are_fine);
    return run_suite(suite);
}
