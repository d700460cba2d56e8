/* SPDX-License-Identifier: Apache-2.0
 * Runs the multi-token-prediction (MTP) layer over the model's two MTP batches.
 */
#pragma once

#include <stdint.h>

struct model;

/* Writes the KV rows of model.mtp_rows. Then, unless argmax_out is NULL, runs model.mtp_batch (its
 * token_ids are t[i+1] at position i) and writes each position's most likely token to argmax_out.
 * Either all ranks call it or none. */
void mtp_run(struct model *model, uint32_t *argmax_out);
