// push.h - the arguments of every kernel, declared once for C and for GLSL.
//
// Each struct is one kernel's push constants, at most 128 bytes. 64-bit members are device addresses.
// Members are ordered so that std430 and C lay them out alike (8-byte members first).
#ifndef VKI_PUSH_H
#define VKI_PUSH_H

#ifdef VKI_C
#include <stdint.h>
#define ADDRESS uint64_t
#define UINT uint32_t
#define FLOAT float
#else
#define ADDRESS uint64_t
#define UINT uint
#define FLOAT float
#endif

// One row in flight: a prompt token of a prefill chunk, or the newest token of a sequence in decode.
// 32 bytes on the device. `pages` is the address of the sequence's page table: 64-bit addresses of
// KV pages of KV_PAGE_KEYS positions each.
struct row_state {
    ADDRESS pages;
    UINT token;
    UINT position;
    UINT step;      // counts decode steps; picks the slot of the token ring
    UINT pad;
    ADDRESS sampling; // of a struct sampling, or 0: the largest logit is drawn
};

// How the device draws tokens of a sequence: written by the host, in memory that both see. 80 bytes.
struct sampling {
    ADDRESS history;           // u32 [n_history]: the token of each position, where window is not 0
    ADDRESS counts;            // u32 [n_vocab], scratch: likewise
    ADDRESS bias;              // uvec2 [n_bias]: id and f32, each id once
    UINT seed_low, seed_high;
    UINT n_history, n_bias;
    UINT window;               // so many of the last tokens are penalised; 0: none
    UINT top_k;                // 0: all
    UINT top_p;                // in parts of 2^32; 0: off
    FLOAT log_min_p;           // at most 0; -FLT_MAX: off
    FLOAT inverse_temperature; // 0: greedy
    FLOAT repeat, inverse_repeat, presence, frequency;
    UINT offset;               // of random numbers, to the number of tokens before
};

// x[row] = scale * row `token` of the matrix's rows first_row .. first_row + rows - 1. With `next`, what a
// matvec reads is left there too: gain * x, and its sums of squares.
struct embed_push {
    ADDRESS weights, state, x, gain, next, squares;
    UINT plane1, plane2, plane3;
    UINT first_row, rows, units;
    UINT d_model, x_stride, n_vocab;
    UINT next_form;
    FLOAT scale;
};

// y[col][row] = epilogue(sum_k w[row0 + row][k] x[col][k]), row < rows; strides in elements.
// epilogue: + bias[row], then act(gate[col][row]) * it, then + residual[col][row]. 0 leaves one out.
// x: f32, or int8 with x_scales.
struct matmul_push {
    ADDRESS weights, x, x_scales, y, bias, gate, residual;
    UINT plane1, plane2, plane3;
    UINT row0, rows, units, cols;
    UINT x_stride, y_stride;
    UINT activation; // of gate: 0 silu, 1 gelu (tanh form)
    UINT width;      // columns of w; up to units * 32 follow weights of zero
    UINT pad;
};

// A product with up to eight columns that leaves its result ready for the next: see lib/matvec.glsl. An
// operand that matvec reads or leaves is a row for each column at distances of 4 * width bytes: f32, or
// `width` bytes with the blocks' (d, d * sum) behind them.
struct matvec_push {
    ADDRESS weights;
    ADDRESS second;              // GATE: weights of up; QKV: norm of k [HEAD]
    ADDRESS x, squares;          // squares: of x before its gain, one sum a block of 32; 0: x is not normed
    ADDRESS bias;                // [rows] or 0
    ADDRESS y;                   // residual stream, branch, q or logits
    ADDRESS next, next_squares;  // of the next matvec; of what BRANCH makes
    ADDRESS gain;                // ADD: of the next norm [rows]; QKV: norm of q [HEAD]; GATE: bias of up [rows] or 0
    ADDRESS state, table;        // of rotary positions
    UINT plane1, plane2, plane3;
    UINT cols, rows, units;      // this dispatch makes all rows of these planes
    UINT first;                  // row of the whole matrix that their first is
    UINT place;                  // QKV: byte offset of the layer in a KV page; else: width of a row of y and `next`
    FLOAT epsilon, q_scale;
};

// x += branch / rms(branch) * weight, and of it what the next matvec reads.
struct join_push {
    ADDRESS branch, branch_squares, weight, x, next, next_squares, gain;
    UINT units;
    FLOAT epsilon;
};

// y = int8 of x, block by block of 32, with scales.
struct quantize_push {
    ADDRESS x, y, scales;
    UINT stride, width;
};

// y[row] = (residual[row] +) rmsnorm(x[row]) * weight
struct norm_push {
    ADDRESS x, weight, residual, y;
    UINT d_model, x_stride, y_stride;
    FLOAT epsilon;
};

// qkv[row] -> q[row] (rotated, scaled, padded heads) and the KV pages.
struct rope_push {
    ADDRESS qkv, q, state, table, q_norm, k_norm;
    UINT n_head, n_head_kv;
    UINT first_q_row;  // rows before it need only k and v
    UINT qkv_stride, q_stride;
    UINT n_rot;
    UINT page_layer;   // byte offset of the layer in a KV page
    FLOAT epsilon, q_scale;
};

// out[row][head] = softmax(q k) v over the row's cached keys.
struct attention_push {
    ADDRESS q, state, out_, partial;
    UINT rows, n_head, n_head_kv;
    UINT q_stride, out_stride;
    UINT page_layer;
    UINT window;       // 0: all keys
    UINT splits;       // of a row, at most; a row with 1 goes to out_, with more to partial
    UINT split_keys;   // for which a row's keys take a split; 0: every row has `splits`
};

// out[row][head] from the partial results of all splits.
struct attention_merge_push {
    ADDRESS partial, out_, state;
    UINT rows, n_head, out_stride, splits, split_keys;
    UINT pad; // a struct with 8-byte members is a multiple of 8
};

// partial[row][part] = (largest logit, its id) of each 32 of the row's logits.
struct argmax_push {
    ADDRESS logits, partial;
    UINT n_vocab, stride, parts;
    UINT pad;
};

// The end of a step: a token is drawn for every row and goes into state and ring, and the row moves on.
struct sample_push {
    ADDRESS state, logits, partial, ring;
    UINT n_vocab, stride;
    UINT parts;   // 0: the host draws; only the position moves
    UINT ring_steps, ring_rows;
    UINT pad;
};

#undef ADDRESS
#undef UINT
#undef FLOAT

#endif
