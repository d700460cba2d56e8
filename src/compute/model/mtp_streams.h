/* SPDX-License-Identifier: Apache-2.0
 * The MTP layer of V4, outside of its block. It reads the streams of the last layer, before the
 * head, each by itself:
 *
 *   u[k] = e_proj(rms(E[t(i+1)]) * enorm) + h_proj(rms(S_i[k]) * hnorm)   for each stream k
 *
 * The block is one of the window alone, followed by weights of the streams and a norm of its own,
 * and by the shared head. Source: DeepSeek-V4, inference/model.py.
 */
#pragma once

#include "compute/model/pass.h"

/* The functions of compute.h with these names. */
void mtp_streams_project(struct model *model);
void mtp_streams_begin(const struct pass *pass, uint32_t first);
/* The head's normalized input of the pass's token, to scratch.normed. */
void mtp_streams_collapse(const struct model *model, uint32_t token);
