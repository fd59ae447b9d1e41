/* forward_row.c - the forward pass of one row, in five dispatches a layer: decode.
 *
 * The same transformer as forward.c. Norms, rotary positions, the KV store, residuals and the activation
 * function are prologues and epilogues of the products; see shaders/lib/matvec.glsl. A model with what these
 * lack (norms of q and k, norms behind the branches, rare biases) takes forward.c for decode, too.
 */
#include "model/forward.h"

static bool layer_fits(const vki_kernels *kernels, const vki_layer *layer)
{
    const vki_matrix *gate = &layer->gate, *up = &layer->up;
    if (layer->q_norm || layer->k_norm || layer->post_attn_norm || layer->post_ffn_norm) return false;
    if (layer->gate_bias || layer->up_bias || gate->n_segments != up->n_segments) return false;
    for (uint32_t i = 0; i < gate->n_segments; i++)
        if (gate->segments[i].planes.format != up->segments[i].planes.format ||
            gate->segments[i].planes.rows != up->segments[i].planes.rows)
            return false;
    return vki_matvec_fits(kernels, &layer->qkv, true) && vki_matvec_fits(kernels, &layer->o, true) &&
           vki_matvec_fits(kernels, gate, true) && vki_matvec_fits(kernels, &layer->down, true);
}

bool vki_forward_row_fits(const vki_weights *weights, const vki_kernels *kernels)
{
    const vki_hparams *h = &weights->hparams;
    /* Heads are whole blocks: attention leaves them as int8, and a lane's rows are of one head. */
    if (h->d_head % 32 != 0 || !vki_matvec_fits(kernels, &weights->head, false)) return false;
    for (uint32_t l = 0; l < h->n_layer; l++)
        if (!layer_fits(kernels, &weights->layers[l])) return false;
    return true;
}

/* A row as products with `w` read it. */
static vki_row row_for(const vki_pass *pass, const vki_matrix *w, uint64_t address)
{
    return (vki_row){address, w->cols, vki_matrix_reads_int8(pass->kernels, w)};
}

/* The residual stream += w * x, and what the matrix `after` reads of it: its gain, squares for its norm. */
static vklm_status add_branch(const vki_pass *pass, const char *name, const vki_matrix *w, vki_row x,
                              uint64_t bias, const vki_matrix *after, uint64_t gain, vklm_error *error)
{
    const vki_activations *a = pass->activations;
    return vki_matvec(pass->kernels,
                      &(vki_matvec_args){.name = name, .epilogue = VKI_EPILOGUE_ADD, .w = w, .x = x,
                                         .bias = bias, .y = a->x, .next = row_for(pass, after, a->normed),
                                         .next_squares = a->branch, .gain = gain},
                      error);
}

static vklm_status run_layer(const vki_pass *pass, const vki_layer *layer, const vki_matrix *after,
                             uint64_t after_gain, vklm_error *error)
{
    const vki_hparams *h = &pass->weights->hparams;
    const vki_activations *a = pass->activations;
    const vki_heads heads = vki_heads_of(h->n_head, h->n_head_kv, h->d_head, pass->kv_f32);
    const vki_row attended = row_for(pass, &layer->o, a->attended);
    const vki_row hidden = row_for(pass, &layer->down, a->hidden);
    TRY(vki_matvec(pass->kernels,
                   &(vki_matvec_args){.name = "qkv", .epilogue = VKI_EPILOGUE_QKV, .w = &layer->qkv,
                                      .x = row_for(pass, &layer->qkv, a->normed), .squares = a->branch,
                                      .epsilon = h->norm_epsilon, .bias = layer->qkv_bias, .y = a->q,
                                      .heads = heads, .state = a->state.address,
                                      .table = pass->weights->rope_table[layer->rope], .n_rot = h->n_rot,
                                      .q_scale = h->attention_scale},
                   error));
    TRY(vki_attention(pass->kernels,
                      &(vki_attention_args){.heads = heads,
                                            .q = {a->q, 1, h->n_head * heads.pad},
                                            .state = a->state.address, .partial = a->partial,
                                            .window = layer->window, .splits = pass->splits,
                                            .keys = pass->keys, .next = attended},
                      error));
    TRY(add_branch(pass, "attn_out", &layer->o, attended, layer->o_bias, &layer->gate, layer->ffn_norm, error));
    TRY(vki_matvec(pass->kernels,
                   &(vki_matvec_args){.name = "ffn_gate_up", .epilogue = VKI_EPILOGUE_GATE, .w = &layer->gate,
                                      .up = &layer->up, .x = row_for(pass, &layer->gate, a->normed),
                                      .squares = a->branch, .epsilon = h->norm_epsilon, .next = hidden,
                                      .gelu = h->activation == VKI_GELU},
                   error));
    return add_branch(pass, "ffn_down", &layer->down, hidden, layer->down_bias, after, after_gain, error);
}

vklm_status vki_forward_row(const vki_pass *pass, uint64_t logits, uint64_t parts, vklm_error *error)
{
    const vki_weights *weights = pass->weights;
    const vki_hparams *h = &weights->hparams;
    const vki_activations *a = pass->activations;
    pass->kernels->layer = UINT32_MAX;
    TRY(vki_embed(pass->kernels,
                  &(vki_embed_args){.embedding = &weights->embedding, .state = a->state.address,
                                    .x = {a->x, 1, h->d_model}, .scale = h->embedding_scale,
                                    .next = row_for(pass, &weights->layers[0].qkv, a->normed),
                                    .gain = weights->layers[0].attn_norm, .squares = a->branch},
                  error));
    for (uint32_t l = 0; l < h->n_layer; l++) {
        const vki_layer *layer = &weights->layers[l];
        const bool last = l + 1 == h->n_layer;
        pass->kernels->layer = l;
        TRY(run_layer(pass, layer, last ? &weights->head : &layer[1].qkv,
                      last ? weights->output_norm : layer[1].attn_norm, error));
    }
    pass->kernels->layer = UINT32_MAX;
    return vki_matvec(pass->kernels,
                      &(vki_matvec_args){.name = "head", .epilogue = VKI_EPILOGUE_LOGITS, .w = &weights->head,
                                         .x = row_for(pass, &weights->head, a->normed), .squares = a->branch,
                                         .epsilon = h->norm_epsilon, .bias = weights->head_bias, .y = logits,
                                         .next = {parts, 0, false}},
                      error);
}
