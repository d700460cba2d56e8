/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/kv_path.h"

struct kv_path_choice kv_path_choose(const struct kv_path_ask *ask) {
    struct kv_path_choice choice = {.load = load_or_compute(&ask->load)};
    if (ask->under_way) {
        double patience_ns = choice.load.chosen_ns;
        if (patience_ns < KV_PATH_WAIT_NS_MIN) patience_ns = KV_PATH_WAIT_NS_MIN;
        choice.wait_ns = (int64_t)(patience_ns - (double)ask->waited_ns);
        if (choice.wait_ns > 0) return choice; /* KV_PATH_WAIT */
        choice.wait_ns = 0;
    }
    choice.path = choice.load.load_blocks ? KV_PATH_LOAD : KV_PATH_COMPUTE;
    return choice;
}

const char *kv_path_reason(const struct kv_path_ask *ask, const struct kv_path_choice *choice) {
    if (choice->path == KV_PATH_WAIT) return "the transfer may yet be the fastest";
    if (ask->under_way) return "the transfer takes longer than doing without";
    return load_or_compute_reason(&ask->load, &choice->load);
}
