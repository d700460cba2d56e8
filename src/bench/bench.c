/* SPDX-License-Identifier: Apache-2.0
 * fathom bench: measures, one subject a file. Figures go to stdout as a table or, with --json, as
 * one JSON object; both state them as fractions of what the machine can do (machine_limits.h).
 */
#include "bench/bench.h"

#include "base/check.h"

const struct command_subject bench_subjects[] = {
#ifdef FATHOM_SERVING
    {"balance", "DP load balancers on a trace, in virtual time", bench_balance,
     &bench_balance_options},
    {"calibrate", "this machine, into a hardware file for the twin", bench_calibrate,
     &bench_calibrate_options},
    {"cache", "the KV storage's disk bandwidth beside fio, and its index", bench_cache,
     &bench_cache_options},
    {"eplb", "expert placements beside DeepSeek's greedy and the bound", bench_eplb,
     &bench_eplb_options},
    {"nodes", "experts balanced over nodes while serving, beside all ranks alike, in the twin",
     bench_nodes, &bench_nodes_options},
    {"hardware", "the twin's times of steps beside published ones", bench_hardware,
     &bench_hardware_options},
    {"front", "a gateway under load: requests and streamed tokens a second, latency, memory",
     bench_front, &bench_front_options},
    {"gateway", "records a second and memory of the gateway's machine, with a fleet's requests",
     bench_gateway, &bench_gateway_options},
#endif
    {"exchange", "dispatch and combine between ranks, beside bare messages", bench_exchange,
     &bench_exchange_options},
    {"kernels", "matrix products and vector kernels", bench_kernels, &bench_kernels_options},
    {"layer", "one layer at real size, part by part, beside published times", bench_layer,
     &bench_layer_options},
    {"model", "prefill and decode of a whole model", bench_model, &bench_model_options},
    {"orders", "orders to all ranks and their reports, down a tree and one by one", bench_orders,
     &bench_orders_options},
    {"overlap", "what schedules hide of the ranks' communication", bench_overlap,
     &bench_overlap_options},
    {"rebalance", "steps while experts move between ranks; replicas by turns and by flow",
     bench_rebalance, &bench_rebalance_options},
#ifdef FATHOM_SERVING
    {"ledger", "an entry's time until it is durable, and its processor time", bench_ledger,
     &bench_ledger_options},
    {"log", "what a line of the log costs", bench_log, &bench_log_options},
    {"mtp", "answers drafted ahead by the MTP layer, and not", bench_mtp, &bench_mtp_options},
    {"peers", "llama.cpp and Fathom in turn", bench_peers, &bench_peers_options},
    {"plan", "planning a step of a whole unit, and taking its results", bench_plan,
     &bench_plan_options},
    {"serve", "load on any OpenAI-style server", bench_serve, &bench_serve_options},
    {"ttft", "a prompt's first token: computed, from the KV storage, as the server chooses",
     bench_ttft, &bench_ttft_options},
    {"transfer", "KV blocks between processes, beside TCP and memcpy", bench_transfer,
     &bench_transfer_options},
#endif
};
const size_t bench_subject_count = ARRAY_COUNT(bench_subjects);

int bench_run(int argc, char **argv) {
    return command_dispatch("bench", bench_subjects, bench_subject_count, argc, argv);
}
