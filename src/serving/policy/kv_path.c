/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/kv_path.h"

#define DOUBTED_PART 8 /* a doubted transfer gets this fraction of the usual wait */
#define DOUBTED_MAX 15 /* maximum of consecutive doubted transfers */

/* Limits of the interval between two queries, which equals the time waited so far. */
#define ASK_NS_MIN 2000000
#define ASK_NS_MAX 50000000

struct kv_path_choice kv_path_choose(const struct kv_path_ask *ask) {
    struct kv_path_choice choice = {.load = load_or_compute(&ask->load)};
    if (ask->under_way) {
        double patience_ns = choice.load.chosen_ns;
        if (ask->doubted)
            patience_ns /= DOUBTED_PART;
        else if (patience_ns < KV_PATH_WAIT_NS_MIN)
            patience_ns = KV_PATH_WAIT_NS_MIN;
        choice.wait_ns = (int64_t)(patience_ns - (double)ask->waited_ns);
        if (choice.wait_ns > 0) return choice; /* KV_PATH_WAIT */
        choice.wait_ns = 0;
    }
    choice.path = choice.load.load_blocks ? KV_PATH_LOAD : KV_PATH_COMPUTE;
    return choice;
}

bool kv_path_doubts(struct kv_transfers *transfers, uint32_t blocks, const struct load_ask *load) {
    bool known = transfers->rate.count > 0 && load->cost->observed[1] > 0;
    double without_ns = load_or_compute(load).chosen_ns;
    bool doubted = known && transfers->doubted < DOUBTED_MAX &&
                   load_or_compute_rate_ns(&transfers->rate, blocks) > without_ns;
    transfers->doubted = doubted ? transfers->doubted + 1 : 0;
    return doubted;
}

void kv_path_observe(struct kv_transfers *transfers, uint32_t blocks, int64_t waited_ns,
                     bool arrived, bool doubted) {
    /* it is only known that the transfer would have taken longer */
    if (!arrived && doubted) return;
    if (!arrived) waited_ns *= 2;
    if (arrived && 2 * (double)waited_ns < load_or_compute_rate_ns(&transfers->rate, blocks))
        *transfers = (struct kv_transfers){.doubted = 0};
    load_or_compute_rate_observe(&transfers->rate, blocks, waited_ns > 0 ? waited_ns : 1);
}

int64_t kv_path_ask_again_ns(const struct kv_path_rest *rest) {
    struct load_ask all = rest->load;
    all.block_count += rest->rest_blocks;
    if (rest->rest_blocks == 0) return 0;
    double patience_ns = KV_PATH_REST_NS_MAX;
    if (rest->load.rate->count && rest->load.cost->observed[1]) { /* both have been measured */
        double saved_ns = load_or_compute(&rest->load).chosen_ns - load_or_compute(&all).chosen_ns;
        if (saved_ns < patience_ns) patience_ns = saved_ns;
    }
    int64_t left_ns = (int64_t)patience_ns - rest->waited_ns, pause_ns = rest->waited_ns;
    if (pause_ns < ASK_NS_MIN) pause_ns = ASK_NS_MIN;
    if (pause_ns > ASK_NS_MAX) pause_ns = ASK_NS_MAX;
    if (left_ns <= 0) return 0;
    return pause_ns < left_ns ? pause_ns : left_ns;
}
