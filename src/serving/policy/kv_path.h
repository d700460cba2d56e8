/* SPDX-License-Identifier: Apache-2.0
 * Chooses how a request gets KV blocks that existed before: another unit has computed them and is
 * sending them, or this unit released them when pages ran out.
 *
 *   a transfer is in progress  WAIT for it as long as computing would take, with a minimum
 *   none, or it has ended      LOAD the part that is faster to load from the storage, COMPUTE the
 *                              rest; asks again for blocks that the other unit may still be writing
 *
 * The rule waits as long as the alternative would take, and then takes the alternative. That costs
 * at most twice the better of both. Waiting for the transfer's deadline instead would delay the
 * client by seconds after its first token. (The first token is already sent, so its time limit is
 * met.)
 *
 * Without knowledge of the link, no rule has a better bound. The times of earlier transfers are
 * therefore recorded. If a transfer is predicted to take longer than the alternative, it is
 * doubted, and the wait is only an eighth as long. Now and then a doubted transfer gets the full
 * wait, because the link may have become faster. A transfer that arrives in less than half of the
 * predicted time resets the record.
 *
 * A failed transfer is not retried. The gateway would have to reserve pages again and ask the unit
 * that computed the prompt. That unit has released its pages meanwhile, and may be the cause of the
 * failure. The storage has the same blocks and involves no other unit.
 */
#pragma once

#include "serving/policy/load_or_compute.h"

#define KV_PATH_WAIT_NS_MIN 500000000 /* minimum; also if the time of computing is unknown */
#define KV_PATH_REST_NS_MAX 500000000 /* maximum; also if a load or computing is not measured */

enum kv_path { KV_PATH_WAIT, KV_PATH_LOAD, KV_PATH_COMPUTE };

struct kv_transfers { /* transfers to one unit; zeroed at the start */
    /* rate at which blocks arrive, from the time at which the request waits only for them */
    struct load_rate rate;
    uint32_t doubted; /* consecutive doubted transfers */
};

struct kv_path_ask {
    bool under_way;    /* a transfer is in progress */
    bool doubted;      /* the result of kv_path_doubts */
    int64_t waited_ns; /* time that the request has waited only for its blocks */
    /* blocks in pages, blocks in the storage after them (0: none, or not asked), and the rates */
    struct load_ask load;
};

struct kv_path_choice {
    enum kv_path path;
    int64_t wait_ns;         /* WAIT: remaining time */
    struct load_choice load; /* LOAD, COMPUTE */
};

struct kv_path_choice kv_path_choose(const struct kv_path_ask *ask);

/* Predicts whether a transfer of `blocks` blocks takes longer than the alternative. Called once,
 * when a request begins to wait only for its blocks. */
bool kv_path_doubts(struct kv_transfers *transfers, uint32_t blocks, const struct load_ask *load);

/* Records a transfer that arrived or was given up after waited_ns. */
void kv_path_observe(struct kv_transfers *transfers, uint32_t blocks, int64_t waited_ns,
                     bool arrived, bool doubted);

/* The state after a failed transfer if the storage has only some of the blocks. The unit that
 * computed them stores all, and may still be writing the last ones. */
struct kv_path_rest {
    int64_t waited_ns;    /* time since the other unit computed them */
    uint32_t rest_blocks; /* blocks that may still be stored, after those of `load` */
    struct load_ask load; /* input of load_or_compute, with the storage's present contents */
};

/* The time until the storage is asked again; 0: no more. The total wait is limited to the time that
 * loading the rest would save, so the sum is at most twice the better alternative. It is also
 * limited to KV_PATH_REST_NS_MAX, because the other unit may have failed to store the blocks. */
int64_t kv_path_ask_again_ns(const struct kv_path_rest *rest);
