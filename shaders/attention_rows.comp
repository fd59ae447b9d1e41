#version 460
// attention_rows.comp - streaming softmax attention of many rows of one sequence over its KV cache, on software Vulkan.
//
// in, out: as attention.comp, splits 1, out f32
// An invocation is a row, with HEADS query heads that share one kv head. Keys and values are then the same for all
// invocations, so that software Vulkan reads each once and multiplies it with all rows, without a gather, a shuffle
// or a barrier: what a lane knows it needs alone. It takes enough rows to fill the lanes; attention.comp takes the rest.
// Keys go by KEY_STEP at a time; the running maximum and the rescaling are those of online softmax (Milakov and
// Gimelshein 2018; FlashAttention).
// grid: workgroup x = group of HEADS heads, y = local size rows.
// constants: 0 local size, 1 HEAD, 2 HEAD_PAD, 3 KV_F32, 4 HEADS, 5 KEY_STEP (divides KV_PAGE_KEYS)
// Sums in f32. CPU twin: ref_attention.
#extension GL_GOOGLE_include_directive : require
#include "lib/common.glsl"
#include "lib/kv.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint HEAD = 64;
layout(constant_id = 2) const uint HEAD_PAD = 64;
layout(constant_id = 3) const bool KV_F32 = false;
layout(constant_id = 4) const uint HEADS = 1;
layout(constant_id = 5) const uint KEY_STEP = 2;
layout(push_constant, std430) uniform Push { attention_push pc; };

const uint PARTS = HEAD_PAD / 8; // of a key or value, eight at a time

void main()
{
    const uint first_head = gl_WorkGroupID.x * HEADS, first_row = gl_WorkGroupID.y * gl_WorkGroupSize.x;
    const uint last_row = min(first_row + gl_WorkGroupSize.x, pc.rows) - 1;
    const uint row = min(first_row + gl_LocalInvocationID.x, last_row);
    const uint kv_head = first_head / (pc.n_head / pc.n_head_kv), value_head = pc.n_head_kv + kv_head;
    const uint first_position = load_row(pc.state, first_row).position, position = load_row(pc.state, row).position;
    const row_state newest = load_row(pc.state, last_row);
    const uint window = pc.window, page_layer = pc.page_layer;
    const uint oldest = window == 0 || first_position < window ? 0u : first_position + 1 - window;

    vec4 q[HEADS * PARTS * 2], sums[HEADS * PARTS * 2];
    float highest[HEADS], total[HEADS];
    [[unroll]] for (uint h = 0; h < HEADS; h++) {
        highest[h] = LOWEST;
        total[h] = 0.0;
        [[unroll]] for (uint i = 0; i < PARTS * 2; i++) {
            q[h * PARTS * 2 + i] = load_vec4(pc.q, (row * pc.q_stride + (first_head + h) * HEAD_PAD + i * 4) * 4u);
            sums[h * PARTS * 2 + i] = vec4(0.0);
        }
    }

    for (uint key = oldest - oldest % KEY_STEP; key <= newest.position; key += KEY_STEP) {
        // Keys behind the newest position were never written: the newest is read for them, and has no weight. So the
        // page is always there, also where software Vulkan runs through a loop's end with no lane left.
        const uint64_t page = InAddress(newest.pages + (min(key, newest.position) / KV_PAGE_KEYS) * 8u).v + page_layer;
        uint in_page[KEY_STEP];
        [[unroll]] for (uint s = 0; s < KEY_STEP; s++) in_page[s] = min(key + s, newest.position) % KV_PAGE_KEYS;

        float score[HEADS * KEY_STEP];
        [[unroll]] for (uint i = 0; i < HEADS * KEY_STEP; i++) score[i] = 0.0;
        [[unroll]] for (uint s = 0; s < KEY_STEP; s++)
            [[unroll]] for (uint i = 0; i < PARTS; i++) {
                vec4 low, high;
                load_kv8(page, KV_F32, kv_element(kv_head, in_page[s], HEAD_PAD) + i * 8, low, high);
                [[unroll]] for (uint h = 0; h < HEADS; h++)
                    score[h * KEY_STEP + s] += dot(low, q[(h * PARTS + i) * 2]) + dot(high, q[(h * PARTS + i) * 2 + 1]);
            }
        [[unroll]] for (uint h = 0; h < HEADS; h++) {
            float step_highest = LOWEST;
            [[unroll]] for (uint s = 0; s < KEY_STEP; s++) {
                const bool visible = key + s <= position && (window == 0 || position - (key + s) < window);
                score[h * KEY_STEP + s] = visible ? score[h * KEY_STEP + s] : LOWEST;
                step_highest = max(step_highest, score[h * KEY_STEP + s]);
            }
            if (step_highest > highest[h]) { // seldom, after the first keys
                const float scale = exp(highest[h] - step_highest);
                highest[h] = step_highest;
                total[h] *= scale;
                [[unroll]] for (uint i = 0; i < PARTS * 2; i++) sums[h * PARTS * 2 + i] *= scale;
            }
            [[unroll]] for (uint s = 0; s < KEY_STEP; s++) {
                // A row that has seen no key yet keeps weight 0.
                const float weight = exp(score[h * KEY_STEP + s] - (highest[h] == LOWEST ? 0.0 : highest[h]));
                score[h * KEY_STEP + s] = weight;
                total[h] += weight;
            }
        }
        [[unroll]] for (uint i = 0; i < PARTS; i++)
            [[unroll]] for (uint s = 0; s < KEY_STEP; s++) {
                vec4 low, high;
                load_kv8(page, KV_F32, kv_element(value_head, in_page[s], HEAD_PAD) + i * 8, low, high);
                [[unroll]] for (uint h = 0; h < HEADS; h++) {
                    sums[(h * PARTS + i) * 2] += score[h * KEY_STEP + s] * low;
                    sums[(h * PARTS + i) * 2 + 1] += score[h * KEY_STEP + s] * high;
                }
            }
    }

    if (first_row + gl_LocalInvocationID.x > last_row) return;
    [[unroll]] for (uint h = 0; h < HEADS; h++) {
        const float scale = 1.0 / total[h];
        [[unroll]] for (uint i = 0; i < HEAD; i++)
            store_float(pc.out_, (row * pc.out_stride + (first_head + h) * HEAD + i) * 4u,
                        scale * sums[h * PARTS * 2 + i / 4][i % 4]);
    }
}
