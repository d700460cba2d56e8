/* SPDX-License-Identifier: Apache-2.0
 * The multi-token-prediction module, a draft head: at position i it takes the next token's
 * embedding and the main model's output h[i] (after the final norm) and predicts token i + 2.
 *
 *   u[i]   = eh_proj(rmsnorm(E[t[i+1]], enorm) | rmsnorm(h[i], hnorm))   embedding first
 *   z      = block(u), a full MoE block with a KV cache of its own, causal, position i
 *   logits = head(rmsnorm(z, shared_head.norm)); embedding and head are the main model's
 *
 * Its KV row of position i is stored at index i + 1, where token i + 1 stands
 * (contract/kv_block.h).
 */
#include "model/forward.h"

#include <string.h>

static void embed(void *context, uint32_t first, uint32_t count, uint32_t member) {
    struct model *model = context;
    struct scratch *s = &model->scratch;
    const struct mtp_weights *mtp = model->weights.mtp;
    uint32_t hidden = model->shape->hidden;
    enum input_kind kind = linear_input_kind(model->activations, mtp->projection.type, false);
    for (uint32_t i = first; i < first + count; i++) {
        float *pair = s->mtp_pair + (size_t)i * 2 * hidden;
        tensor_to_float(model->weights.embedding, (uint64_t)s->mtp_batch.token_ids[i] * hidden,
                        hidden, pair);
        model->kernels->rmsnorm(pair, pair, mtp->embedding_norm, hidden, model->shape->rms_epsilon);
        model->kernels->rmsnorm(pair + hidden, s->hidden + (size_t)i * hidden, mtp->hidden_norm,
                                hidden, model->shape->rms_epsilon);
        linear_prepare(model->kernels, kind, pair, 2 * hidden, &s->input, i);
    }
}

static void take_projected(void *context, uint32_t first, uint32_t count, uint32_t member) {
    struct model *model = context;
    struct scratch *s = &model->scratch;
    uint32_t hidden = model->shape->hidden;
    for (uint32_t i = first; i < first + count; i++)
        memcpy(s->x + (size_t)i * hidden, s->y + (size_t)i * s->hidden_stride,
               hidden * sizeof(float));
}

static void normalize_output(void *context, uint32_t first, uint32_t count, uint32_t member) {
    struct model *model = context;
    struct scratch *s = &model->scratch;
    uint32_t hidden = model->shape->hidden;
    for (uint32_t i = first; i < first + count; i++)
        model->kernels->rmsnorm(s->hidden + (size_t)i * hidden, s->x + (size_t)i * hidden,
                                model->weights.mtp->head_norm, hidden, model->shape->rms_epsilon);
}

void mtp_run(struct model *model, uint32_t *argmax_out) {
    struct scratch *s = &model->scratch;
    const struct mtp_weights *mtp = model->weights.mtp;
    uint32_t tokens = s->mtp_batch.token_count;
    forward_tokens(model, embed, model, tokens);
    struct linear_input input = linear_prepared(
        linear_input_kind(model->activations, mtp->projection.type, false), &s->input, 0);
    struct matmul job = linear_job(&mtp->projection, &input, s->y, s->hidden_stride, tokens);
    linear_run(model->kernels, model->team, &job, 1);
    forward_tokens(model, take_projected, model, tokens);
    struct pass pass = {.model = model,
                        .scratch = s,
                        .batch = &s->mtp_batch,
                        .layer = &mtp->block,
                        .slice = model->shape->layers};
    forward_layer(&pass);
    forward_tokens(model, normalize_output, model, tokens);
    forward_logits(model, s->hidden, tokens, NULL, argmax_out);
}
