/* SPDX-License-Identifier: Apache-2.0
 * How many tokens an answer will yet have, learnt from the answers that ended: the mean of what
 * those that got at least so far had left. Lengths are kept in buckets, four to a doubling; old
 * answers fade, so that the guess follows the day.
 */
#ifndef SERVING_POLICY_PREDICT_LENGTH_H
#define SERVING_POLICY_PREDICT_LENGTH_H

#include <stdint.h>

#define PREDICT_LENGTH_BUCKETS 84       /* up to 2^20 tokens */
#define PREDICT_LENGTH_MEMORY (1 << 14) /* answers after which old ones count half */

struct predict_length { /* starts zeroed: nothing known */
    uint64_t ended[PREDICT_LENGTH_BUCKETS];
    uint64_t tokens[PREDICT_LENGTH_BUCKETS]; /* of the answers that ended in the bucket */
    /* Of those in all later buckets: a guess is made far more often than an answer ends. */
    uint64_t later_ended[PREDICT_LENGTH_BUCKETS], later_tokens[PREDICT_LENGTH_BUCKETS];
    uint64_t total;
};

void predict_length_learn(struct predict_length *lengths, uint32_t tokens);

/* Tokens that an answer of `tokens` so far will yet have, at most `limit`. While nothing is known,
 * or no answer ever got so far: as many again. */
uint32_t predict_length_left(const struct predict_length *lengths, uint32_t tokens, uint32_t limit);

#endif
