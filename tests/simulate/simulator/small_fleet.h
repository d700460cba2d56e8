/* SPDX-License-Identifier: Apache-2.0
 * A small fleet for tests of the twin: a prefill unit of two ranks and a decode unit of four, on
 * the clock of stand_in_clock.c, and requests whose beginnings are shared by groups.
 */
#pragma once

#include <sys/mman.h>

#include "base/limits.h"
#include "base/random.h"
#include "simulate/simulator/simulator.h"
#include "test_case.h"

/* ---- a small fleet and its requests ---- */

static const struct hardware small_hardware = {
    .name = "small",
    .gpus_per_node = 8,
    .hbm_bytes = 1e9,
    .nic_gbps = 400,
    .network_latency_us = 20,
    .storage_gbps = 200,
    .storage_latency_us = 500,
    .step_gap_us = 100,
    .request_us = 10,
    .token_us = 10,
};
static const struct model_figures small_model = {
    .name = "small",
    .layers = 61,
    .vocab = 129280,
    .kv_bytes_per_token = 70272,
    .mtp_acceptance = 0.8,
};

static inline struct simulator_unit_kind small_kind_of(enum unit_role role, uint32_t ranks) {
    return (struct simulator_unit_kind){
        .count = 1,
        .role = role,
        .hardware = &small_hardware,
        .ranks = ranks,
        .ranks_per_node = 8,
        .rows_max = 16,
        .requests_max = 64,
        .step_tokens_max = 4096,
        .page_count = 2000,
        .context_tokens_max = 16384,
        .prefix_cache = true,
    };
}

struct small_load { /* requests with exponential gaps; groups begin alike */
    uint64_t seed;
    uint32_t made, count, groups, blocks;
    uint32_t standing; /* the first so many */
    uint32_t stored;   /* leading tokens of each prompt, before the run */
    double gap_ns;
    uint32_t prompt_max, answer_max;
    double at_ns;
    uint64_t ids[64];
};

static inline bool small_next(void *self, struct simulator_request *out) {
    struct small_load *drawn = self;
    if (drawn->made == drawn->count) return false;
    uint32_t number = drawn->made++;
    if (number >= drawn->standing) drawn->at_ns += drawn->gap_ns;
    for (uint32_t i = 0; i < drawn->blocks; i++)
        drawn->ids[i] = (number % drawn->groups) * 1000 + i;
    *out = (struct simulator_request){
        .arrival_ns = (int64_t)drawn->at_ns,
        .prompt_tokens = 1 + (uint32_t)(random_uniform(drawn->seed, 1, number) * drawn->prompt_max),
        .answer_tokens = 1 + (uint32_t)(random_uniform(drawn->seed, 2, number) * drawn->answer_max),
        .blocks = drawn->ids,
        .block_count = drawn->blocks,
        .block_tokens = 512,
        .stored_tokens = drawn->stored,
        .standing = number < drawn->standing,
    };
    return true;
}

static inline struct small_load small_few(uint64_t seed) {
    return (struct small_load){.seed = seed,
                               .count = 200,
                               .groups = 7,
                               .blocks = 3,
                               .gap_ns = 20e6,
                               .prompt_max = 3000,
                               .answer_max = 200};
}

static inline struct simulator_options small_one_and_one(struct small_load *drawn) {
    struct simulator_options options = {
        .model = &small_model,
        .kinds = {small_kind_of(UNIT_PREFILL, 2), small_kind_of(UNIT_DECODE, 4)},
        .kind_count = 2,
        .gateways = 1,
        .gateway_requests_max = 1000,
        .prefix_blocks = 1 << 12,
        .source = {drawn, small_next},
    };
    return options;
}

static inline struct simulator_report small_live(const struct simulator_options *options) {
    struct arena arena;
    struct error error;
    struct simulator_report report;
    size_t bytes = simulator_bytes(options);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    arena_over(&arena, memory, bytes);
    enum status status = simulator_run(options, &arena, &report, &error);
    if (status) fail_msg("%s", error.text);
    munmap(memory, bytes);
    assert_string_equal(report.breach, "");
    return report;
}
