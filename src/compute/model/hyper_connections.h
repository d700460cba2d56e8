/* SPDX-License-Identifier: Apache-2.0
 * The residual streams of V4 (manifold-constrained hyper-connections): a token has n of them, S[k],
 * which all start as its embedding. Attention and the MLP are the two sites of a layer. At a site:
 *
 *   m = (fn . flat(S)) / sqrt(mean over all channels of S^2 + rms_epsilon)       n * (2 + n)
 * numbers
 *   pre[k] = sigmoid(scale[0] * m + base) + e,  post[k] = 2 * sigmoid(scale[1] * m + base)
 *   C[j][k] = softmax over k of (scale[2] * m + base) + e;  C /= column sums + e;
 *             then stream_rounds - 1 times: C /= row sums + e, C /= column sums + e
 *   the site's input is sum over k of pre[k] * S[k], its output z goes back as
 *   S'[k] = post[k] * z + sum over j of C[j][k] * S[j]
 *
 * With streams_delayed (V4.1) a site's input takes pre of the site before, at first (1, 0, ...).
 * The head reads the streams by weights of its own (V4), or by the last site's pre (V4.1).
 * Source: DeepSeek-V4, inference/model.py and kernel.py (hc_split_sinkhorn).
 */
#pragma once

#include "compute/model/pass.h"

/* Numbers of a site: pre, post and C. */
static inline uint32_t hyper_connections_count(const struct shape *shape) {
    return shape->streams * (2 + shape->streams);
}

/* Turns m, which begins as fn . flat(S) divided by the norm, into pre, post and C[j][k], in
 * place. */
void hyper_connections_mix(const struct shape *shape, const float *scale, const float *base,
                           float *mixes);
/* The head's weights, from m [streams], in place. */
void hyper_connections_mix_head(const struct shape *shape, const float *scale, const float *base,
                                float *mixes);

/* All streams of a token begin as its embedding: x[streams][hidden]; x[0] is set. */
void hyper_connections_begin(const struct model *model, uint32_t token);

/* Computes the mixes of the batch's tokens, and the site's input as scratch.normed. */
void hyper_connections_enter(const struct pass *pass, const struct stream_weights *weights);
/* Takes scratch.y back into the streams. */
void hyper_connections_add(const struct pass *pass);

/* The head's input, before its norm, of the step's token: out[hidden]. May run on any thread. */
void hyper_connections_collapse(const struct model *model, const struct stream_weights *weights,
                                const float *streams, const float *mixes, float *out);
