/* forward_rows.c - the forward pass of a few rows, in five dispatches a layer: decode, and short prompts.
 *
 * The same transformer as forward.c. Norms, rotary positions, the KV store, residuals and the activation
 * function are prologues and epilogues of the products; see shaders/lib/matvec.glsl. A norm behind a branch
 * takes a dispatch more. Weights are read once for all rows, and a row's results are those it has alone, to the
 * bit. A model whose gate and up are of unequal formats takes forward.c for decode, too.
 */
#include "model/forward.h"

#include <assert.h>

static bool layer_fits(const vki_kernels *kernels, const vki_layer *layer, uint32_t d_head)
{
    const vki_matrix *gate = &layer->gate, *up = &layer->up;
    if (!layer->q_norm != !layer->k_norm || gate->n_segments != up->n_segments) return false;
    if (layer->q_norm && !vki_matvec_norms_heads(kernels, &layer->qkv, d_head)) return false;
    for (uint32_t i = 0; i < gate->n_segments; i++)
        if (gate->segments[i].planes.format != up->segments[i].planes.format ||
            gate->segments[i].planes.rows != up->segments[i].planes.rows)
            return false;
    return vki_matvec_fits(kernels, &layer->qkv, true) && vki_matvec_fits(kernels, &layer->o, true) &&
           vki_matvec_fits(kernels, gate, true) && vki_matvec_fits(kernels, &layer->down, true);
}

bool vki_forward_rows_fits(const vki_weights *weights, const vki_kernels *kernels)
{
    const vki_hparams *h = &weights->hparams;
    /* Heads are whole blocks: attention leaves them as int8, and a lane's rows are of one head. */
    if (h->d_head % 32 != 0 || !vki_matvec_fits(kernels, &weights->head, false)) return false;
    for (uint32_t l = 0; l < h->n_layer; l++)
        if (!layer_fits(kernels, &weights->layers[l], h->d_head)) return false;
    return true;
}

/* All rows of one of the activations, as products with `w` read them. */
static vki_operand operand_for(const vki_pass *pass, const vki_matrix *w, uint64_t address)
{
    return (vki_operand){address, pass->rows, w->cols, vki_matvec_form(pass->kernels, w, pass->rows)};
}

/* The sums of squares of the residual stream, and those of a branch, lie where forward.c has its int8 rows. */
static uint64_t squares_of(const vki_pass *pass)
{
    return pass->activations->bytes;
}

static uint64_t branch_squares_of(const vki_pass *pass)
{
    return pass->activations->scales;
}

/* The residual stream += (post-norm of) w * x, and what the matrix `after` reads of it: its gain, squares for its
 * norm. */
static vklm_status add_branch(const vki_pass *pass, const char *name, const vki_matrix *w, vki_operand x,
                              uint64_t bias, uint64_t post_norm, const vki_matrix *after, uint64_t gain,
                              vklm_error *error)
{
    const vki_activations *a = pass->activations;
    vki_matvec_args product = {.name = name, .epilogue = VKI_EPILOGUE_ADD, .w = w, .x = x, .bias = bias, .y = a->x,
                               .next = operand_for(pass, after, a->normed), .next_squares = squares_of(pass),
                               .gain = gain};
    if (!post_norm) return vki_matvec(pass->kernels, &product, error);
    const vki_join_args join = {.name = "post_norm", .branch = a->branch, .branch_squares = branch_squares_of(pass),
                                .weight = post_norm, .epsilon = pass->weights->hparams.norm_epsilon, .x = a->x,
                                .next = product.next, .next_squares = product.next_squares, .gain = gain};
    product.epilogue = VKI_EPILOGUE_BRANCH;
    product.y = join.branch;
    product.next = (vki_operand){0};
    product.next_squares = join.branch_squares;
    TRY(vki_matvec(pass->kernels, &product, error));
    return vki_join(pass->kernels, &join, error);
}

static vklm_status project_qkv(const vki_pass *pass, const vki_layer *layer, const vki_heads *heads,
                               vklm_error *error)
{
    const vki_hparams *h = &pass->weights->hparams;
    const vki_activations *a = pass->activations;
    return vki_matvec(pass->kernels,
                      &(vki_matvec_args){.name = "qkv", .epilogue = VKI_EPILOGUE_QKV, .w = &layer->qkv,
                                         .x = operand_for(pass, &layer->qkv, a->normed),
                                         .squares = squares_of(pass), .epsilon = h->norm_epsilon,
                                         .bias = layer->qkv_bias, .y = a->q, .heads = *heads,
                                         .state = a->state.address,
                                         .table = pass->weights->rope_table[layer->rope],
                                         .q_norm = layer->q_norm, .k_norm = layer->k_norm, .n_rot = h->n_rot,
                                         .q_scale = h->attention_scale},
                      error);
}

/* The rest of the layer; the matrix `after` is the next to read the residual stream. */
static vklm_status attend_and_feed(const vki_pass *pass, const vki_layer *layer, const vki_heads *heads,
                                   const vki_matrix *after, uint64_t after_gain, vklm_error *error)
{
    const vki_hparams *h = &pass->weights->hparams;
    const vki_activations *a = pass->activations;
    const vki_operand attended = operand_for(pass, &layer->o, a->attended);
    const vki_operand hidden = operand_for(pass, &layer->down, a->hidden);
    TRY(vki_attention(pass->kernels,
                      &(vki_attention_args){.heads = *heads, .q = {a->q, pass->rows, h->n_head * heads->pad},
                                            .state = a->state.address, .partial = a->partial,
                                            .window = layer->window, .splits = pass->splits,
                                            .split_keys = vki_pass_split_keys(pass),
                                            .keys = pass->keys, .one_sequence = pass->one_sequence,
                                            .next = attended},
                      error));
    TRY(add_branch(pass, "attn_out", &layer->o, attended, layer->o_bias, layer->post_attn_norm, &layer->gate,
                   layer->ffn_norm, error));
    TRY(vki_matvec(pass->kernels,
                   &(vki_matvec_args){.name = "ffn_gate_up", .epilogue = VKI_EPILOGUE_GATE, .w = &layer->gate,
                                      .up = &layer->up, .x = operand_for(pass, &layer->gate, a->normed),
                                      .squares = squares_of(pass), .epsilon = h->norm_epsilon,
                                      .bias = layer->gate_bias, .up_bias = layer->up_bias, .next = hidden,
                                      .gelu = h->activation == VKI_GELU},
                   error));
    return add_branch(pass, "ffn_down", &layer->down, hidden, layer->down_bias, layer->post_ffn_norm, after,
                      after_gain, error);
}

vklm_status vki_forward_rows(const vki_pass *pass, vklm_error *error)
{
    const vki_weights *weights = pass->weights;
    const vki_hparams *h = &weights->hparams;
    const vki_activations *a = pass->activations;
    const vki_heads heads = vki_heads_of(h->n_head, h->n_head_kv, h->d_head, pass->kv_f32);
    assert(pass->rows <= VKI_MAX_BATCH && pass->n_out <= pass->rows);
    pass->kernels->layer = UINT32_MAX;
    TRY(vki_embed(pass->kernels,
                  &(vki_embed_args){.embedding = &weights->embedding, .state = a->state.address,
                                    .x = {a->x, pass->rows, h->d_model}, .scale = h->embedding_scale,
                                    .next = operand_for(pass, &weights->layers[0].qkv, a->normed),
                                    .gain = weights->layers[0].attn_norm, .squares = squares_of(pass)},
                  error));
    for (uint32_t l = 0; l < h->n_layer; l++) {
        const vki_layer *layer = &weights->layers[l];
        const bool last = l + 1 == h->n_layer;
        pass->kernels->layer = l;
        TRY(project_qkv(pass, layer, &heads, error));
        if (!last || pass->n_out > 0)
            TRY(attend_and_feed(pass, layer, &heads, last ? &weights->head : &layer[1].qkv,
                                last ? weights->output_norm : layer[1].attn_norm, error));
    }
    pass->kernels->layer = UINT32_MAX;
    return VKLM_OK;
}

vklm_status vki_forward_rows_head(const vki_pass *pass, uint32_t first, vki_span logits, uint64_t parts,
                                  vklm_error *error)
{
    const vki_weights *weights = pass->weights;
    const vki_hparams *h = &weights->hparams;
    vki_operand x = operand_for(pass, &weights->head, pass->activations->normed);
    assert(logits.stride == vki_logit_parts(h) * 32);
    x.address += first * vki_operand_row_bytes(x.form, h->d_model);
    x.rows = logits.rows;
    pass->kernels->layer = UINT32_MAX;
    return vki_matvec(pass->kernels,
                      &(vki_matvec_args){.name = "head", .epilogue = VKI_EPILOGUE_LOGITS, .w = &weights->head, .x = x,
                                         .squares = squares_of(pass) + (uint64_t)first * h->d_model / 8,
                                         .epsilon = h->norm_epsilon, .bias = weights->head_bias,
                                         .y = logits.address, .next = {.address = parts}},
                      error);
}
