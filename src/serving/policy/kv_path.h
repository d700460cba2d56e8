/* SPDX-License-Identifier: Apache-2.0
 * Which way the KV blocks come of a request that had them: computed by another unit and on their
 * way from it, or given up when pages ran out here.
 *
 *   a transfer is under way   WAIT for it, as long as computing would take, and at least a moment
 *   none, or it has ended     LOAD from the storage what that is faster for, COMPUTE the rest; what
 *                             the other unit may only be writing there is asked for again
 *
 * Waiting as long as the other way takes, and then taking it, costs at most twice what the better
 * of both would have: whoever waits for the transfer's deadline instead waits for seconds while its
 * client looks at one token. (The first token is out by then, so no bound on its time is left to
 * keep.)
 *
 * No rule that knows nothing of the link does better than twice. So what transfers took before is
 * remembered: one that will by that take longer than doing without is doubted, and waited for only
 * an eighth as long. One in a few is waited for as if nothing were known, since a link may get
 * faster; whoever arrives in less than half of what was foretold proves the memory wrong.
 *
 * The transport is not tried a second time. For that the gateway would have to reserve anew and ask
 * the unit that computed the prompt for it again, which has meanwhile given its pages back and may
 * be the very reason of the failure; the storage has the same blocks and asks nobody.
 */
#ifndef SERVING_POLICY_KV_PATH_H
#define SERVING_POLICY_KV_PATH_H

#include "serving/policy/load_or_compute.h"

#define KV_PATH_WAIT_NS_MIN 500000000 /* also where it is not known how long computing takes */
#define KV_PATH_REST_NS_MAX 500000000 /* also where a load or computing has not been measured yet */

enum kv_path { KV_PATH_WAIT, KV_PATH_LOAD, KV_PATH_COMPUTE };

struct kv_transfers {      /* to one unit; starts zeroed */
    struct load_rate rate; /* of blocks, since the request could go on if only they were there */
    uint32_t doubted;      /* in a row */
};

struct kv_path_ask {
    bool under_way;       /* a transfer that has not ended */
    bool doubted;         /* kv_path_doubts has said so */
    int64_t waited_ns;    /* since the request could go on if only its blocks were there */
    struct load_ask load; /* what stands in pages, what the storage has behind it (0 blocks: it has
                           * none, or was not asked), at which rates */
};

struct kv_path_choice {
    enum kv_path path;
    int64_t wait_ns;         /* WAIT: for so much longer at most */
    struct load_choice load; /* else */
};

struct kv_path_choice kv_path_choose(const struct kv_path_ask *ask);

/* To be asked once, when such a request could go on: is the transfer of so many blocks likely to
 * take longer than doing without it? */
bool kv_path_doubts(struct kv_transfers *transfers, uint32_t blocks, const struct load_ask *load);

/* They arrived after so long, or were waited for so long and given up. */
void kv_path_observe(struct kv_transfers *transfers, uint32_t blocks, int64_t waited_ns,
                     bool arrived, bool doubted);

/* Blocks that another unit computed failed to come, and the storage has only some of them: that
 * unit keeps them all, and may still be writing the last. */
struct kv_path_rest {
    int64_t waited_ns;    /* since the other unit had computed them */
    uint32_t rest_blocks; /* that may yet be stored, behind those of `load` */
    struct load_ask load; /* as above, with what the storage has by now */
};

/* After how long the storage is asked again; 0: not any more. It is waited for as long as loading
 * the rest would save, so that here, too, the sum is at most twice the better way, and never longer
 * than KV_PATH_REST_NS_MAX: nobody knows whether the other unit could store them. */
int64_t kv_path_ask_again_ns(const struct kv_path_rest *rest);

#endif
