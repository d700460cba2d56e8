/* SPDX-License-Identifier: Apache-2.0
 * The multi-token-prediction layer's run over the model's two MTP batches.
 */
#pragma once

#include <stdint.h>

struct model;

/* Writes the KV rows of model.mtp_rows, then, unless argmax_out is NULL, runs model.mtp_batch (its
 * token_ids are t[i+1] at position i), and leaves each position's likeliest token in argmax_out.
 * Among ranks all run it, or none. */
void mtp_run(struct model *model, uint32_t *argmax_out);
