/* SPDX-License-Identifier: Apache-2.0
 * For tests of simulated ranks: requests by chance, and what prefill or decode makes of them.
 */
#ifndef TESTS_SIMULATE_DRAWN_RANKS_H
#define TESTS_SIMULATE_DRAWN_RANKS_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/random.h"
#include "simulate/ranks.h"

#define COUNT 3000
#define BLOCK_IDS 64
#define ROOM ((size_t)32 << 20)

static struct ranks_request requests[COUNT];
static const uint32_t blocks[BLOCK_IDS] = {0, 1, 2, 3, 4, 5, 6, 7};
static int64_t ready_ns[COUNT];
static double tpot_ns[COUNT];

/* Many short prompts, one in fifty very long; every fourth shares its first eight blocks. */
static inline void draw_requests(double rate) {
    double at = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        at -= log1p(-random_uniform(1, 0, i)) / rate;
        double size = random_uniform(1, 1, i);
        uint32_t prompt = 200 + (uint32_t)(6000 * size * size) + (i % 50 == 0 ? 100000 : 0);
        bool shares = i % 4 == 0 && prompt > 8 * RANKS_BLOCK_TOKENS;
        requests[i] = (struct ranks_request){
            .arrival_ns = (int64_t)(at * 1e9),
            .prompt_tokens = prompt,
            .output_tokens = 1 + (uint32_t)(600 * random_uniform(1, 2, i)),
            .block_count = shares ? 8 : 0,
            .blocks = blocks,
        };
    }
}

static inline struct ranks_report run_steps(bool prefill, enum balance_method method,
                                            bool full_steps) {
    struct ranks_options options = {.method = method,
                                    .full_steps = full_steps,
                                    .rank_count = 16,
                                    .block_ids = BLOCK_IDS,
                                    .step_tokens = 4096,
                                    .device_tokens = 200000,
                                    .requests_max = 64,
                                    .rank_tokens = 250000,
                                    .fetch_token_ns = 3000,
                                    .patience_ns = 2000000000};
    struct ranks_report report;
    struct arena arena;
    void *memory = malloc(ROOM);
    assert_non_null(memory);
    arena_over(&arena, memory, ROOM);
    int64_t arrivals[COUNT];
    for (uint32_t i = 0; i < COUNT; i++)
        arrivals[i] = requests[i].arrival_ns;
    enum status status =
        prefill ? ranks_prefill(&options, requests, COUNT, &arena, ready_ns, &report)
                : ranks_decode(&options, requests, COUNT, arrivals, &arena, tpot_ns, &report);
    assert_int_equal(status, STATUS_OK);
    free(memory);
    return report;
}

static inline struct ranks_report run(bool prefill, enum balance_method method) {
    return run_steps(prefill, method, false);
}

#endif
