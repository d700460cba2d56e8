/* SPDX-License-Identifier: Apache-2.0
 * fathom bench: one subject per file. Figures go to stdout as a table or, with --json, as one JSON
 * object. Both also give them as fractions of the machine's limits (machine_limits.h).
 */
#include "bench/bench.h"

#define SUBJECT(name, summary)                                                                     \
    { #name, summary, bench_##name, &bench_##name##_options, NULL }

const struct command bench_subjects[] = {
#ifdef FATHOM_SERVING
    SUBJECT(calibrate, "measure this machine and write a hardware file for the simulator"),
    SUBJECT(cache, "the KV storage's disk bandwidth compared with fio, and its index"),
    SUBJECT(front, "a gateway under load: requests and streamed tokens a second, latency, memory"),
#endif
    SUBJECT(exchange, "dispatch and combine between ranks, compared with bare messages"),
    SUBJECT(kernels, "matrix products and vector kernels"),
    SUBJECT(layer, "one layer at real size, part by part, compared with published times"),
    SUBJECT(model, "prefill and decode of a whole model"),
    SUBJECT(overlap, "the communication that each overlap schedule hides"),
#ifdef FATHOM_SERVING
    SUBJECT(peers, "Fathom against llama.cpp, run alternately"),
    SUBJECT(serve, "load on any OpenAI-style server"),
    SUBJECT(ttft,
            "TTFT with the prompt computed, loaded from the KV storage, or as the server chooses"),
    SUBJECT(transfer, "KV blocks between processes, compared with TCP and memcpy"),
#endif
    {.name = NULL},
};
