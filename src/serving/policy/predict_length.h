/* SPDX-License-Identifier: Apache-2.0
 * Predicts the remaining length of an answer from answers that have ended: the mean remaining
 * length of those that were at least as long. Lengths are kept in buckets, four per doubling. Old
 * answers decay, so that the prediction follows changes over the day.
 */
#pragma once

#include <stdint.h>

#define PREDICT_LENGTH_BUCKETS 84       /* up to 2^20 tokens */
#define PREDICT_LENGTH_MEMORY (1 << 14) /* answers after which old ones count half */

struct predict_length { /* zeroed at the start */
    uint64_t ended[PREDICT_LENGTH_BUCKETS];
    uint64_t tokens[PREDICT_LENGTH_BUCKETS]; /* tokens of the answers that ended in the bucket */
    /* Sums over all later buckets. They are stored because predictions are far more frequent than
     * ends of answers. */
    uint64_t later_ended[PREDICT_LENGTH_BUCKETS], later_tokens[PREDICT_LENGTH_BUCKETS];
    uint64_t total;
};

void predict_length_learn(struct predict_length *lengths, uint32_t tokens);

/* The predicted remaining tokens of an answer that has `tokens` tokens, at most `limit`. If nothing
 * is known, or no answer was ever that long, it predicts `tokens` more. */
uint32_t predict_length_left(const struct predict_length *lengths, uint32_t tokens, uint32_t limit);
