/* SPDX-License-Identifier: Apache-2.0
 * The multi-token-prediction (MTP) module, which drafts tokens. At position i it takes the
 * embedding of token i + 1 and the main model's output h[i] (after the final norm), and predicts
 * token i + 2.
 *
 *   u[i]   = eh_proj(rmsnorm(E[t[i+1]], enorm) | rmsnorm(h[i], hnorm))   embedding first
 *   z      = block(u), a full MoE block with a KV cache of its own, causal, position i
 *   logits = head(rmsnorm(z, shared_head.norm)); embedding and head are the main model's
 *
 * Its KV row of position i is stored at index i + 1, that of token i + 1 (contract/kv_block.h). A
 * position without a draft needs only that row: eh_proj, the attention's norm and kv_a.
 */
#include "compute/model/mtp.h"

#include "compute/model/compute.h"
#include "compute/model/stages.h"

void mtp_run(struct model *model, uint32_t *argmax_out) {
    struct pass pass = {.model = model,
                        .scratch = model->scratch,
                        .exchange = model->micro_batches[0].exchange,
                        .layer = model->shape->layers};
    model->compute->mtp_project(model);
    if (model->mtp_rows.token_count) {
        pass.batch = &model->mtp_rows;
        model->compute->mtp_begin(&pass, 0);
        model->compute->attention_write_rows(&pass);
    }
    if (argmax_out) { /* with several ranks, perhaps without a token of this one */
        pass.batch = &model->mtp_batch;
        model->compute->mtp_begin(&pass, model->mtp_rows.token_count);
        stages_run_layer(&pass);
        model->compute->mtp_finish(&pass, argmax_out);
    }
}
