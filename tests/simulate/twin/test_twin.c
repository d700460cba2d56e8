/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/twin/twin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/random.h"
#include "simulate/twin/twin_words.h"

/* ---- a small fleet and its requests ---- */

static const struct hardware small_hardware = {
    .name = "small",
    .gpus_per_node = 8,
    .hbm_bytes = 1e9,
    .nic_gbps = 400,
    .network_latency_us = 20,
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

static struct twin_unit_kind kind_of(enum unit_role role, uint32_t ranks) {
    return (struct twin_unit_kind){
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

struct drawn { /* requests with exponential gaps; groups begin alike */
    uint64_t seed;
    uint32_t made, count, groups, blocks;
    uint32_t standing; /* the first so many */
    double gap_ns;
    uint32_t prompt_max, answer_max;
    double at_ns;
    uint64_t ids[64];
};

static bool next(void *self, struct twin_request *out) {
    struct drawn *drawn = self;
    if (drawn->made == drawn->count) return false;
    uint32_t number = drawn->made++;
    if (number >= drawn->standing) drawn->at_ns += drawn->gap_ns;
    for (uint32_t i = 0; i < drawn->blocks; i++)
        drawn->ids[i] = (number % drawn->groups) * 1000 + i;
    *out = (struct twin_request){
        .arrival_ns = (int64_t)drawn->at_ns,
        .prompt_tokens = 1 + (uint32_t)(random_uniform(drawn->seed, 1, number) * drawn->prompt_max),
        .answer_tokens = 1 + (uint32_t)(random_uniform(drawn->seed, 2, number) * drawn->answer_max),
        .blocks = drawn->ids,
        .block_count = drawn->blocks,
        .block_tokens = 512,
        .standing = number < drawn->standing,
    };
    return true;
}

static struct drawn few(uint64_t seed) {
    return (struct drawn){.seed = seed,
                          .count = 200,
                          .groups = 7,
                          .blocks = 3,
                          .gap_ns = 20e6,
                          .prompt_max = 3000,
                          .answer_max = 200};
}

static struct twin_options one_and_one(struct drawn *drawn) {
    struct twin_options options = {
        .model = &small_model,
        .kinds = {kind_of(UNIT_PREFILL, 2), kind_of(UNIT_DECODE, 4)},
        .kind_count = 2,
        .gateways = 1,
        .gateway_requests_max = 1000,
        .prefix_blocks = 1 << 12,
        .source = {drawn, next},
    };
    return options;
}

static struct twin_report live(const struct twin_options *options) {
    struct arena arena;
    struct error error;
    struct twin_report report;
    size_t bytes = twin_bytes(options);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    arena_over(&arena, memory, bytes);
    enum status status = twin_run(options, &arena, &report, &error);
    if (status) fail_msg("%s", error.text);
    munmap(memory, bytes);
    assert_string_equal(report.breach, "");
    return report;
}

/* ---- cases ---- */

static void test_everybody_is_answered(void **state) {
    (void)state;
    struct drawn drawn = few(1);
    struct twin_options options = one_and_one(&drawn);
    struct twin_report report = live(&options);
    assert_int_equal(report.asked, 200);
    assert_int_equal(report.answered, 200);
    assert_int_equal(report.refused + report.failed, 0);
    assert_int_equal(histogram_total(&report.ttft), 200);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everybody_is_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
