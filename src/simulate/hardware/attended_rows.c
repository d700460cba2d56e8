/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/hardware/attended_rows.h"

#include "base/number.h"

struct attended_chunks attended_rows_chunks(const struct step_load *load) {
    const double tokens = load->prompt_tokens, above = load->attended - tokens / 2;
    if (tokens <= 0) return (struct attended_chunks){0};
    const double count = above > 0 ? tokens * (load->cached + tokens / 2) / above : tokens;
    return (struct attended_chunks){count, tokens / count, load->cached / count};
}

static void attended_rows_choose(const struct step_load *load, double top_k,
                                 struct attended_rows *rows) {
    const struct attended_chunks chunks = attended_rows_chunks(load);
    const double left = max_double(0, top_k - chunks.before);
    const double dense = left < chunks.tokens ? left : chunks.tokens;
    if (load->context > top_k * load->answer_rows) {
        rows->answer_scored = load->context;
        rows->answer_rows = top_k * load->answer_rows;
    }
    if (dense >= chunks.tokens) return;
    rows->dense_tokens = chunks.count * dense;
    rows->dense_pairs = chunks.count * dense * (chunks.before + (dense + 1) / 2);
    rows->dense_rows = dense > 0 ? chunks.count * (chunks.before + dense) : 0;
    rows->sparse_tokens = load->prompt_tokens - rows->dense_tokens;
    rows->prompt_scored = max_double(0, load->attended - rows->dense_pairs);
}

struct attended_rows attended_rows_of(const struct model_figures *model,
                                      const struct step_load *load) {
    struct attended_rows rows = {.answer_rows = load->context,
                                 .dense_tokens = load->prompt_tokens,
                                 .dense_pairs = load->attended,
                                 .dense_rows = load->prompt_tokens + load->cached};
    if (model->index_top_k) attended_rows_choose(load, model->index_top_k, &rows);
    return rows;
}
