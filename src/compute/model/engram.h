/* SPDX-License-Identifier: Apache-2.0
 * Engram (V4.1): some layers look up n-grams of token ids in a table, and add what they find to all
 * streams before attention.
 *
 *   e = the rows of the position (compute/weights/engram_hash.h), one after the other
 *   key[k] for each stream, then value = wkv e
 *   d[k] = sum(S[k] * q_norm[k] * k_norm[k] * key[k]) / rms(S[k]) / rms(key[k]) / sqrt(hidden)
 *   S[k] += sigmoid(sign(d[k]) * sqrt(max(|d[k]|, 1e-6))) * value,  rms(x) = sqrt(mean(x^2) + eps)
 *
 * Tables stay in the checkpoint's mapped file: a position reads a few rows of some hundred bytes.
 * Ids before a step's tokens come from the slot's state. Source: DeepSeek-V4.1,
 * inference/engram.py and model.py.
 */
#pragma once

#include "compute/model/pass.h"

/* Reads the folds of the checkpoint's tokenizer and computes the hashes. Refuses a checkpoint if
 * its numbers differ from them. Does nothing if the shape has no Engram. */
enum status engram_open(struct model *model, struct error *error);
void engram_close(struct model *model);

/* Begins the step's batch: each token's folded ids, its own and those before it. */
void engram_begin(struct model *model);
/* Adds to the streams of the pass's tokens, if the layer has a table. */
void engram_run(const struct pass *pass);

/* The gate of a stream: g, by which the value is multiplied. */
float engram_gate(const float *stream, const float *key, const float *q_norm, const float *k_norm,
                  uint32_t hidden, float epsilon);
