/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/twin/twin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/limits.h"
#include "base/random.h"
#include "serving/policy/speculate.h"
#include "simulate/twin/twin_faults.h"

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
    uint32_t stored;   /* leading tokens of each prompt, before the run */
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
        .stored_tokens = drawn->stored,
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

static void show(const struct twin_report *r) {
    fprintf(stderr, "measured %.3f asked %lu ans %lu ref %lu fail %lu prompt %lu hit %lu out %lu speed %.2f rec %lu ev %lu '%s'\n", r->measured_s, r->asked, r->answered, r->refused, r->failed, r->prompt_tokens, r->hit_tokens, r->output_tokens, r->user_speed_tokens / r->user_tokens, r->records, r->events, r->breach);
    for (int i = 0; i < UNIT_ROLE_COUNT; i++) {
        const struct twin_role_counts *c = &r->roles[i];
        if (c->units) fprintf(stderr, "  role %d steps %lu step_ms %.3f prompt %lu comp %lu dev %lu host %lu disk %lu out %lu rows %lu ctx %lu held %lu cached %lu total %lu preempt %lu idle %.3f\n", i, c->steps, c->step_ns / c->steps * 1e-6, c->prompt_tokens, c->computed_tokens, c->device_hits, c->host_hits, c->disk_hits, c->output_tokens, c->rows, c->context, c->pages_held, c->pages_cached, c->pages_total, c->preemptions, c->idle_s);
    }
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
    if (getenv("SHOW")) show(&report);
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


static void test_equal_runs_are_equal_in_every_record(void **state) {
    (void)state;
    struct twin_report reports[3];
    for (uint32_t i = 0; i < 3; i++) {
        struct drawn drawn = few(i < 2 ? 1 : 2);
        struct twin_options options = one_and_one(&drawn);
        reports[i] = live(&options);
    }
    assert_memory_equal(&reports[0], &reports[1], sizeof reports[0]);
    assert_true(reports[0].digest != reports[2].digest);
}

/* What goes in comes out, wherever it is counted. */
static void test_tokens_are_neither_lost_nor_made(void **state) {
    (void)state;
    struct drawn drawn = few(3), same = few(3);
    struct twin_options options = one_and_one(&drawn);
    struct twin_report report = live(&options);
    const struct twin_role_counts *prefill = &report.roles[UNIT_PREFILL];
    const struct twin_role_counts *decode = &report.roles[UNIT_DECODE];
    struct twin_request request;
    uint64_t prompts = 0, answers = 0;
    while (next(&same, &request)) {
        prompts += request.prompt_tokens;
        answers += request.answer_tokens;
    }
    assert_int_equal(report.prompt_tokens, prompts);
    assert_int_equal(report.output_tokens, answers);
    assert_int_equal(prefill->prompt_tokens, prompts);
    assert_int_equal(prefill->computed_tokens + prefill->device_hits, prompts);
    assert_int_equal(prefill->output_tokens, report.answered);
    assert_int_equal(prefill->output_tokens + decode->output_tokens, answers);
    assert_int_equal(decode->computed_tokens, 0);
    assert_true(report.transfer_bytes > 0);
}

static void test_two_gateways_share_the_units(void **state) {
    (void)state;
    struct drawn drawn = few(4);
    struct twin_options options = one_and_one(&drawn);
    options.gateways = 2;
    struct twin_report report = live(&options);
    assert_int_equal(report.answered, 200);
}

static void test_parsed_bodies_and_streams_are_served_likewise(void **state) {
    (void)state;
    struct drawn fast = few(5), parsed = few(5);
    struct twin_options options = one_and_one(&fast);
    struct twin_report whole = live(&options);
    options = one_and_one(&parsed);
    options.through_api = true;
    struct twin_report streamed = live(&options);
    assert_int_equal(streamed.answered, 200);
    assert_int_equal(streamed.output_tokens, whole.output_tokens);
    assert_int_equal(streamed.hit_tokens, whole.hit_tokens);
    assert_memory_equal(&streamed.ttft, &whole.ttft, sizeof whole.ttft);
}

/* A rank with 16 rows all the time brings 16 tokens a step: 20 ms + 16 * 0.1 ms + 0.1 ms. */
static void test_answers_come_as_fast_as_the_clock_says(void **state) {
    (void)state;
    struct drawn drawn = few(6);
    drawn.count = drawn.standing = 600;
    drawn.prompt_max = 100;
    drawn.answer_max = 4000;
    struct twin_options options = one_and_one(&drawn);
    options.kinds[1].page_count = 8000;
    options.kinds[1].requests_max = 256;
    options.settle_ns = 1000000000;
    options.warm_ns = 2000000000;
    options.measure_ns = 10000000000;
    struct twin_report report = live(&options);
    const struct twin_role_counts *decode = &report.roles[UNIT_DECODE];
    double step_s = 0.0217, tokens = 4 * 16 * report.measured_s / step_s;
    assert_true(report.measured_s == 10);
    assert_true((double)decode->steps > 0.99 * report.measured_s / step_s);
    assert_true((double)decode->steps < 1.01 * report.measured_s / step_s);
    assert_true((double)decode->output_tokens > 0.99 * tokens);
    assert_true((double)decode->output_tokens < 1.01 * tokens);
    double speed = report.user_speed_tokens / report.user_tokens * step_s;
    assert_true(speed > 0.99 && speed < 1.01);
}

static void test_drafts_are_right_as_often_as_the_model_says(void **state) {
    (void)state;
    struct drawn drawn = few(7);
    struct twin_options options = one_and_one(&drawn);
    options.kinds[1].speculate = SPECULATE_ALWAYS;
    struct twin_report report = live(&options);
    const struct twin_role_counts *decode = &report.roles[UNIT_DECODE];
    double each = (double)decode->output_tokens / (double)decode->rows;
    assert_int_equal(report.answered, 200);
    assert_true(each > 1.7 && each < 1.8); /* none is drafted across a block's end */
}

/* Two requests of one beginning, far apart: all whole blocks of it are hits. */
static void test_a_beginning_is_reused_as_far_as_it_goes(void **state) {
    (void)state;
    struct drawn drawn = few(8);
    drawn.gap_ns = 10e9;
    drawn.answer_max = 10;
    struct drawn same = drawn;
    struct twin_options options = one_and_one(&drawn);
    options.kinds[0].page_count = 16000;
    options.kinds[0].ranks = 1;
    struct twin_report report = live(&options);
    uint32_t longest[7] = {0};
    uint64_t hits = 0;
    struct twin_request request;
    for (uint32_t number = 0; next(&same, &request); number++) {
        uint32_t shared = request.prompt_tokens < 3 * 512 ? request.prompt_tokens : 3 * 512;
        uint32_t had = longest[number % 7] < shared ? longest[number % 7] : shared;
        uint32_t useful = request.prompt_tokens - 1; /* its last token is always computed */
        hits += (had < useful ? had : useful) / KV_BLOCK_TOKENS * KV_BLOCK_TOKENS;
        uint32_t whole = shared / KV_BLOCK_TOKENS * KV_BLOCK_TOKENS;
        if (whole > longest[number % 7]) longest[number % 7] = whole;
    }
    assert_int_equal(report.hit_tokens, hits);
}

/* As above, but the pages hold next to nothing: what was computed comes back from the disk. */
static void test_the_storage_brings_back_what_pages_lost(void **state) {
    (void)state;
    struct twin_report reports[3];
    for (uint32_t i = 0; i < 3; i++) {
        struct drawn drawn = few(9);
        drawn.gap_ns = 1e9;
        drawn.answer_max = 10;
        drawn.prompt_max = 6000;
        drawn.stored = i == 2 ? 1536 : 0;
        struct twin_options options = one_and_one(&drawn);
        options.kinds[0].page_count = 120;
        options.kinds[0].kv_storage = i > 0;
        options.storage_bytes = 1e12;
        options.host_bytes = 1e9;
        reports[i] = live(&options);
    }
    const struct twin_role_counts *without = &reports[0].roles[UNIT_PREFILL];
    const struct twin_role_counts *with = &reports[1].roles[UNIT_PREFILL];
    const struct twin_role_counts *before = &reports[2].roles[UNIT_PREFILL];
    assert_int_equal(without->disk_hits + without->host_hits, 0);
    assert_true(with->disk_hits + with->host_hits > 0);
    assert_true(reports[1].hit_tokens > reports[0].hit_tokens);
    assert_true(reports[2].hit_tokens > reports[1].hit_tokens);
    assert_true(reports[1].storage_read_bytes > 0 && reports[1].storage_written_bytes > 0);
    assert_true(before->disk_hits + before->host_hits > with->disk_hits + with->host_hits);
    assert_int_equal(with->computed_tokens + with->device_hits + with->host_hits + with->disk_hits,
                     with->prompt_tokens);
}

/* Two units of each kind, two gateways, a storage, and one fault of every kind. */
static void test_nobody_is_lost_whatever_fails(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct drawn drawn = few(seed);
        struct twin_fault faults[TWIN_FAULT_KIND_COUNT];
        struct twin_options options = one_and_one(&drawn);
        for (uint32_t i = 0; i < TWIN_FAULT_KIND_COUNT; i++)
            faults[i] = (struct twin_fault){
                .at_ns = (int64_t)(random_uniform(seed, 3, i) * 4e9),
                .lasts_ns = (int64_t)(random_uniform(seed, 4, i) * 3e9) + 1,
                .kind = i,
                .unit = (uint32_t)(random_uniform(seed, 5, i) * 4),
                .factor = 3};
        faults[TWIN_FAULT_UNITS_CUT].other = (faults[TWIN_FAULT_UNITS_CUT].unit + 2) % 4;
        faults[TWIN_FAULT_RACK_DIES].other = 3;
        options.gateways = 2;
        options.kinds[0].count = options.kinds[1].count = 2;
        options.kinds[0].page_count = 300;
        options.kinds[0].kv_storage = options.kinds[1].kv_storage = seed % 2;
        options.storage_bytes = options.host_bytes = 1e10;
        options.faults = faults;
        options.fault_count = TWIN_FAULT_KIND_COUNT;
        struct twin_report report = live(&options);
        assert_int_equal(report.asked, 200);
        assert_int_equal(report.answered, 200);
    }
}

static void test_a_fault_of_what_is_not_there_is_named(void **state) {
    (void)state;
    struct drawn drawn = few(1);
    struct twin_fault fault = {.kind = TWIN_FAULT_RANK_SLOW, .unit = 1, .other = 4, .factor = 2};
    struct twin_options options = one_and_one(&drawn);
    struct twin_report report;
    struct error error;
    struct arena arena;
    char memory[1];
    options.faults = &fault;
    options.fault_count = 1;
    arena_over(&arena, memory, sizeof memory);
    assert_int_equal(twin_run(&options, &arena, &report, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "rank-slow"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everybody_is_answered),
        cmocka_unit_test(test_equal_runs_are_equal_in_every_record),
        cmocka_unit_test(test_tokens_are_neither_lost_nor_made),
        cmocka_unit_test(test_two_gateways_share_the_units),
        cmocka_unit_test(test_parsed_bodies_and_streams_are_served_likewise),
        cmocka_unit_test(test_answers_come_as_fast_as_the_clock_says),
        cmocka_unit_test(test_drafts_are_right_as_often_as_the_model_says),
        cmocka_unit_test(test_a_beginning_is_reused_as_far_as_it_goes),
        cmocka_unit_test(test_the_storage_brings_back_what_pages_lost),
        cmocka_unit_test(test_nobody_is_lost_whatever_fails),
        cmocka_unit_test(test_a_fault_of_what_is_not_there_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
