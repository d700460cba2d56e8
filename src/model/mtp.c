/* SPDX-License-Identifier: Apache-2.0
 * The multi-token-prediction module, a draft head: at position i it takes the next token's
 * embedding and the main model's output h[i] (after the final norm) and predicts token i + 2.
 *
 *   u[i]   = eh_proj(rmsnorm(E[t[i+1]], enorm) | rmsnorm(h[i], hnorm))   embedding first
 *   z      = block(u), a full MoE block with a KV cache of its own, causal, position i
 *   logits = head(rmsnorm(z, shared_head.norm)); embedding and head are the main model's
 *
 * Its KV row of position i is stored at index i + 1, where token i + 1 stands
 * (contract/kv_block.h). A position that nothing is to be guessed from needs no more than that row:
 * eh_proj, the attention's norm and kv_a.
 */
#include "model/forward.h"

#include <string.h>

/* Position `index` of the KV rows and the batch, which stand one behind the other. */
struct place {
    const struct batch *batch;
    uint32_t at;
};

static struct place place_of(const struct scratch *s, uint32_t index) {
    uint32_t rows = s->mtp_rows.token_count;
    return index < rows ? (struct place){&s->mtp_rows, index}
                        : (struct place){&s->mtp_batch, index - rows};
}

static void embed(void *context, uint32_t first, uint32_t count, uint32_t member) {
    struct model *model = context;
    struct scratch *s = &model->scratch;
    const struct mtp_weights *mtp = model->weights.mtp;
    uint32_t hidden = model->shape->hidden;
    enum input_kind kind = linear_input_kind(model->activations, mtp->projection.type, false);
    for (uint32_t i = first; i < first + count; i++) {
        struct place place = place_of(s, i);
        float *pair = s->mtp_pair + (size_t)i * 2 * hidden;
        tensor_to_float(model->weights.embedding,
                        (uint64_t)place.batch->token_ids[place.at] * hidden, hidden, pair);
        model->kernels->rmsnorm(pair, pair, mtp->embedding_norm, hidden, model->shape->rms_epsilon);
        model->kernels->rmsnorm(pair + hidden, place.batch->hidden[place.at], mtp->hidden_norm,
                                hidden, model->shape->rms_epsilon);
        linear_prepare(model->kernels, kind, pair, 2 * hidden, &s->input, i);
    }
}

static void project(struct model *model, uint32_t tokens) {
    struct scratch *s = &model->scratch;
    const struct packed_matrix *projection = &model->weights.mtp->projection;
    forward_tokens(model, embed, model, tokens);
    struct linear_input input = linear_prepared(
        linear_input_kind(model->activations, projection->type, false), &s->input, 0);
    struct matmul job = linear_job(projection, &input, s->mtp_u, s->hidden_stride, tokens);
    linear_run(model->kernels, model->team, &job, 1);
}

/* x = u of `count` positions from `first` on. */
static void take_projected(struct model *model, uint32_t first, uint32_t count) {
    struct scratch *s = &model->scratch;
    uint32_t hidden = model->shape->hidden;
    for (uint32_t i = 0; i < count; i++)
        memcpy(s->x + (size_t)i * hidden, s->mtp_u + (size_t)(first + i) * s->hidden_stride,
               hidden * sizeof(float));
}

static void normalize_output(void *context, uint32_t first, uint32_t count, uint32_t member) {
    struct model *model = context;
    struct scratch *s = &model->scratch;
    uint32_t hidden = model->shape->hidden;
    for (uint32_t i = first; i < first + count; i++)
        model->kernels->rmsnorm(s->normed + (size_t)i * hidden, s->x + (size_t)i * hidden,
                                model->weights.mtp->head_norm, hidden, model->shape->rms_epsilon);
}

static void run_block(const struct pass *pass, uint32_t *argmax_out) {
    struct model *model = pass->model;
    stages_run_layer(pass);
    forward_tokens(model, normalize_output, model, pass->batch->token_count);
    forward_logits(model, pass->scratch->normed, pass->batch->token_count, NULL, argmax_out);
}

void mtp_run(struct model *model, uint32_t *argmax_out) {
    struct scratch *s = &model->scratch;
    uint32_t rows = s->mtp_rows.token_count, whole = s->mtp_batch.token_count;
    struct pass pass = {.model = model,
                        .scratch = s,
                        .exchange = model->lanes[0].exchange,
                        .layer = &model->weights.mtp->block,
                        .slice = model->shape->layers};
    rope_prepare(model->shape, &s->mtp_rows);
    rope_prepare(model->shape, &s->mtp_batch);
    project(model, rows + whole);
    if (rows) {
        pass.batch = &s->mtp_rows;
        take_projected(model, 0, rows);
        attention_write_rows(&pass);
    }
    if (argmax_out) { /* among ranks perhaps without a token of our own */
        pass.batch = &s->mtp_batch;
        take_projected(model, rows, whole);
        run_block(&pass, argmax_out);
    }
}
