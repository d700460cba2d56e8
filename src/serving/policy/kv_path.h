/* SPDX-License-Identifier: Apache-2.0
 * Chooses the source of a request's KV blocks that existed before: another unit computed them and
 * is sending them, or this unit gave them up when pages ran out.
 *
 *   a transfer is in progress  WAIT for it, as long as computing would take, and at least a moment
 *   none, or it has ended      LOAD from the storage the part for which that is faster, COMPUTE the
 *                              rest; asks again for blocks that the other unit may still be writing
 *
 * Waiting as long as the alternative takes, and then taking the alternative, costs at most twice
 * the better of both. Waiting for the transfer's deadline instead would take seconds after the
 * client has got its first token. (The first token is already sent, so its time limit is met.)
 *
 * No rule without knowledge of the link does better than twice. So the times of earlier transfers
 * are remembered. A transfer that is predicted to take longer than the alternative is doubted, and
 * waited for only an eighth as long. One in a few is waited for as if nothing were known, because a
 * link may become faster. A transfer that arrives in less than half of the predicted time disproves
 * the memory.
 *
 * The transfer is not retried. For that the gateway would have to reserve again and ask the unit
 * that computed the prompt, which has released its pages meanwhile and may be the cause of the
 * failure. The storage has the same blocks and involves no other unit.
 */
#ifndef SERVING_POLICY_KV_PATH_H
#define SERVING_POLICY_KV_PATH_H

#include "serving/policy/load_or_compute.h"

#define KV_PATH_WAIT_NS_MIN 500000000 /* also if the time of computing is unknown */
#define KV_PATH_REST_NS_MAX 500000000 /* also if a load or computing has not been measured yet */

enum kv_path { KV_PATH_WAIT, KV_PATH_LOAD, KV_PATH_COMPUTE };

struct kv_transfers {      /* to one unit; starts zeroed */
    struct load_rate rate; /* of blocks, from the time when the request waits only for them */
    uint32_t doubted;      /* consecutive doubted transfers */
};

struct kv_path_ask {
    bool under_way;       /* a transfer that has not ended */
    bool doubted;         /* the result of kv_path_doubts */
    int64_t waited_ns;    /* since the request waits only for its blocks */
    struct load_ask load; /* blocks in pages, blocks after them in the storage (0: none, or it was
                           * not asked), and the rates */
};

struct kv_path_choice {
    enum kv_path path;
    int64_t wait_ns;         /* WAIT: for at most so much longer */
    struct load_choice load; /* else */
};

struct kv_path_choice kv_path_choose(const struct kv_path_ask *ask);

/* Called once when such a request waits only for its blocks: is the transfer of so many blocks
 * likely to take longer than the alternative? */
bool kv_path_doubts(struct kv_transfers *transfers, uint32_t blocks, const struct load_ask *load);

/* They arrived after so long, or were given up after so long. */
void kv_path_observe(struct kv_transfers *transfers, uint32_t blocks, int64_t waited_ns,
                     bool arrived, bool doubted);

/* Blocks that another unit computed were not received, and the storage has only some of them: that
 * unit stores them all, and may still be writing the last ones. */
struct kv_path_rest {
    int64_t waited_ns;    /* since the other unit had computed them */
    uint32_t rest_blocks; /* blocks that may yet be stored, after those of `load` */
    struct load_ask load; /* as above, with the storage's present contents */
};

/* The time until the storage is asked again; 0: not any more. The total wait is limited to the time
 * that loading the rest would save, so that here, too, the sum is at most twice the better
 * alternative, and to KV_PATH_REST_NS_MAX, because the other unit may have failed to store them. */
int64_t kv_path_ask_again_ns(const struct kv_path_rest *rest);

#endif
