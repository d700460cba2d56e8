/* SPDX-License-Identifier: Apache-2.0
 * fathom bench: one subject per file. Figures go to stdout as a table or, with --json, as one JSON
 * object. Both also give them as fractions of the machine's limits (machine_limits.h).
 */
#include "bench/bench.h"

#include "base/check.h"

const struct command_subject bench_subjects[] = {
#ifdef FATHOM_SERVING
    {"calibrate", "measure this machine and write a hardware file for the simulator",
     bench_calibrate, &bench_calibrate_options},
    {"cache", "the KV storage's disk bandwidth compared with fio, and its index", bench_cache,
     &bench_cache_options},
    {"front", "a gateway under load: requests and streamed tokens a second, latency, memory",
     bench_front, &bench_front_options},
#endif
    {"exchange", "dispatch and combine between ranks, compared with bare messages", bench_exchange,
     &bench_exchange_options},
    {"kernels", "matrix products and vector kernels", bench_kernels, &bench_kernels_options},
    {"layer", "one layer at real size, part by part, compared with published times", bench_layer,
     &bench_layer_options},
    {"model", "prefill and decode of a whole model", bench_model, &bench_model_options},
    {"overlap", "the communication that each overlap schedule hides", bench_overlap,
     &bench_overlap_options},
#ifdef FATHOM_SERVING
    {"peers", "Fathom against llama.cpp, run alternately", bench_peers, &bench_peers_options},
    {"serve", "load on any OpenAI-style server", bench_serve, &bench_serve_options},
    {"ttft", "TTFT with the prompt computed, loaded from the KV storage, or as the server chooses",
     bench_ttft, &bench_ttft_options},
    {"transfer", "KV blocks between processes, compared with TCP and memcpy", bench_transfer,
     &bench_transfer_options},
#endif
};
const size_t bench_subject_count = ARRAY_COUNT(bench_subjects);

int bench_run(int argc, char **argv) {
    return command_dispatch("bench", bench_subjects, bench_subject_count, argc, argv);
}
