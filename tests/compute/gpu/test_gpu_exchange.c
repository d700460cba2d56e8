/* SPDX-License-Identifier: Apache-2.0
 * test_gpu_exchange RANKS [HOSTS]: protects ranks on devices. Each rank has sequences of its own on
 * an emulated device, and all step together; what a rank's logits, choices and drafts are is what
 * one CPU alone gives for its sequences, bit for bit: with replicas, by any schedule, in all modes
 * and either order of summing experts, with ranks that have no tokens, with rows that are passed on
 * by nodes, with more rows than a device has room for at a time, and while experts change their
 * slots; rows going from device to device, on one host and over comm between several, and by the
 * host. The device's streams run in an order that is drawn anew for each model and rank, so what
 * would be touched too early shows.
 *
 * With GOLDEN_KERNELS the devices run the kernels for Hopper, and the one alone is such a device,
 * too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../exchange/on_ranks.h"
#include "compute/emulated/compute_emulated.h"
#include "compute/gpu/compute_gpu.h"
#include "compute/gpu/gpu_state.h"
#include "compute/model/forward.h"
#include "contract/machine.h"
#include "moving_experts.h"
#include "rank_models.h"

enum { SEQUENCES = 3, TOKENS = 150, GENERATED = 3, STEP_TOKENS = 128, PAGES_EACH = 3 };

static uint32_t hosts, node_ranks;
static struct gpu_kernels kernels;

static struct model *open_model(const struct way *way, const struct model_device *device,
                                uint32_t ranks) {
    struct model *model =
        open_way(way, device, ranks,
                 (struct model_options){.device_kernels = kernels.numerics ? &kernels : NULL,
                                        .kv_bytes = (uint64_t)4 << 20,
                                        .step_tokens_max = STEP_TOKENS,
                                        .step_rows_max = SEQUENCES,
                                        .node_ranks = ranks > 2 ? node_ranks : 0,
                                        .placement_seed = 1 + draw_shared(9)});
    assert_true(model_page_count(model) >= SEQUENCES * PAGES_EACH);
    return model;
}

/* ---- sequences, and steps of them ---- */

static struct sequence {
    uint32_t prompt, count, done;
    uint32_t tokens[TOKENS];
} sequences[SEQUENCES];

/* One of each rank's is a single token again and again: most of its tokens choose the same
 * experts. */
static void draw_sequences(const struct way *way, uint32_t vocab) {
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        struct sequence *sequence = &sequences[i];
        sequence->prompt = 1 + draw(way->prompt);
        if (i == 0) sequence->prompt = way->prompt;
        sequence->count = sequence->prompt + GENERATED;
        sequence->done = 0;
        for (uint32_t k = 0; k < sequence->count; k++)
            sequence->tokens[k] = i ? draw(vocab) : 7;
    }
}

static _Alignas(16) char plan_memory[1 << 14];
static struct step_plan *const plan = (struct step_plan *)(void *)plan_memory;

/* The next chunk of a sequence: all that a step takes of its prompt, or a generated token. */
static uint32_t next_tokens(const struct sequence *sequence, uint32_t room) {
    if (sequence->done >= sequence->prompt) return sequence->done < sequence->count && room;
    uint32_t left = sequence->prompt - sequence->done;
    return left <= room ? left : room / KV_BLOCK_TOKENS * KV_BLOCK_TOKENS;
}

static void add_row(uint32_t index, uint32_t count) {
    const struct sequence *sequence = &sequences[index];
    uint32_t row = plan->row_count++;
    step_plan_rows(plan)[row] = (struct step_row){
        .slot = index,
        .form = sequence->done < sequence->prompt ? TOKEN_PROMPT : TOKEN_GENERATED,
        .first_position = sequence->done,
        .token_count = count,
        .token_index = plan->token_count,
        .page_index = row * PAGES_EACH,
        .page_count = PAGES_EACH,
        .logits_count = count};
    plan->token_count += count;
}

/* Rows are counted first: what stands behind them in the plan depends on how many there are. */
static void make_plan(bool idle) {
    uint32_t chosen[SEQUENCES], counts[SEQUENCES], rows = 0, tokens = 0;
    for (uint32_t i = 0; i < SEQUENCES && !idle; i++) {
        uint32_t count = next_tokens(&sequences[i], STEP_TOKENS - tokens);
        if (!count) continue;
        chosen[rows] = i;
        counts[rows++] = count;
        tokens += count;
    }
    memset(plan_memory, 0, sizeof plan_memory);
    *plan = (struct step_plan){
        .row_count = rows, .token_count = tokens, .page_count = rows * PAGES_EACH};
    record_set_head(plan, RECORD_RUN_STEP);
    assert_true(plan->record.bytes <= sizeof plan_memory);
    uint32_t *to = step_plan_tokens(plan);
    struct page_id *pages = step_plan_pages(plan);
    plan->row_count = plan->token_count = 0;
    for (uint32_t i = 0; i < rows; i++) {
        const struct sequence *sequence = &sequences[chosen[i]];
        memcpy(to + plan->token_count, sequence->tokens + sequence->done, counts[i] * sizeof *to);
        for (uint32_t page = 0; page < PAGES_EACH; page++)
            pages[i * PAGES_EACH + page].index = page * SEQUENCES + chosen[i];
        add_row(chosen[i], counts[i]);
    }
}

static void draw_cuts(void) {
    const struct step_row *rows = step_plan_rows(plan);
    for (uint32_t i = 0; i < OVERLAP_MICRO_BATCHES - 1; i++) {
        uint32_t row = draw(plan->row_count + 1), token = 0;
        if (row < plan->row_count && rows[row].form == TOKEN_PROMPT)
            token = draw((rows[row].token_count - 1) / KV_BLOCK_TOKENS + 1) * KV_BLOCK_TOKENS;
        plan->cuts[i] = (struct step_cut){.row = row, .token = token};
    }
}

/* What a step outgoing. */
struct found {
    float *logits;
    uint32_t routing[64 * 8], drafts[STEP_TOKENS];
};

static void run(struct model *model, const struct way *way, struct found *found) {
    struct error error;
    struct model_probe probe = {.row = plan->row_count ? 0 : MODEL_NO_ROW,
                                .routing = found->routing,
                                .mtp_argmax = way->mtp ? found->drafts : NULL,
                                .mtp_next_token = 3};
    memset(found->routing, 0, sizeof found->routing);
    memset(found->drafts, 0, sizeof found->drafts);
    if (forward_run(model, plan, found->logits, &probe, &error) != STATUS_OK)
        fail_msg("%s", error.text);
}

/* ---- the order of staging ---- */

static uint64_t stages_run_here; /* since the step began, as a number */

static void begin_stage(void *context) {
}

static void end_stage(void *context, enum stage stage, uint32_t micro_batch, uint32_t layer,
                      const struct exchange_transfer *ended) {
    stages_run_here =
        (stages_run_here ^ (layer * 64 + micro_batch * 8 + stage)) * 1099511628211u + 1;
}

/* Of comm' groups none may wait for others in a ring: all ranks put them in line in one order. */
static void expect_one_order(void) {
    uint64_t all[16], own[16];
    uint32_t ranks = job_count();
    assert_true(ranks <= 16);
    for (uint32_t i = 0; i < ranks; i++)
        own[i] = all[i] = stages_run_here;
    job_all_to_all((const char *)own, (char *)all, sizeof *all);
    for (uint32_t i = 0; i < ranks; i++)
        assert_true(all[i] == stages_run_here);
    stages_run_here = 0;
}

/* ---- both, side by side ---- */

/* How the ranks do it, which changes nothing. */
static void choose_ways(struct model *there) {
    enum overlap_kind kind = (enum overlap_kind)draw_shared(OVERLAP_KIND_COUNT);
    bool splits = draw_shared(2), by_nodes = draw_shared(2);
    plan->overlap = kind;
    draw_cuts();
    model_split_replicas(there, splits && !overlap_of(kind)->dynamic_order);
    model_go_by_nodes(there, by_nodes);
}

static void expect_same(const struct way *way) {
    const struct model_device *device = kernels.numerics ? &model_on_emulated : &model_on_cpu;
    node_ranks = draw_shared(2) ? job_count() / 2 : 2;
    struct model *alone = open_model(way, device, 0);
    struct model *there = open_model(way, &model_on_emulated, job_count());
    uint32_t vocab = model_shape(alone)->vocab;
    enum gpu_transport direct = hosts > 1 ? GPU_VIA_COMM : GPU_VIA_PEER_MEMORY;
    assert_int_equal(there->gpu->transport, way->by_host ? GPU_VIA_HOST : direct);
    const struct model_trace trace = {.begin = begin_stage, .end = end_stage};
    if (there->gpu->transport == GPU_VIA_COMM) there->trace = &trace;
    size_t bytes = (size_t)STEP_TOKENS * vocab * sizeof(float);
    static struct found expected, found;
    expected.logits = malloc(bytes);
    found.logits = malloc(bytes);
    assert_true(expected.logits && found.logits);
    draw_sequences(way, vocab);
    for (uint32_t step = 0; step < way->steps; step++) {
        bool idle = step && draw(5) == 0;
        make_plan(idle);
        run(alone, way, &expected);
        choose_ways(there);
        if (way->moves) begin_moves(there, draw_shared);
        run(there, way, &found);
        if (there->gpu->transport == GPU_VIA_COMM) expect_one_order();
        if (way->moves) end_moves(there);
        if (memcmp(expected.logits, found.logits, plan->token_count * vocab * sizeof(float)))
            fail_msg("%s, %s, sum %d: the logits of step %u differ", way->golden,
                     activations_name(way->activations), (int)way->sum, step);
        assert_memory_equal(expected.routing, found.routing, sizeof expected.routing);
        assert_memory_equal(expected.drafts, found.drafts, sizeof expected.drafts);
        for (uint32_t i = 0; i < plan->row_count; i++)
            sequences[step_plan_rows(plan)[i].slot].done += step_plan_rows(plan)[i].token_count;
    }
    struct model_rank reported = model_rank(there);
    assert_true(reported.pairs > 0 && reported.bytes_sent > 0);
    assert_true(!way->moves == !reported.experts_moved);
    job_barrier();
    model_close(there);
    model_close(alone);
    free(expected.logits);
    free(found.logits);
}

static void expect_all(const struct way *ways, size_t count) {
    shared_state = 20261127;
    own_state = 31 + job_rank();
    for (size_t i = 0; i < count; i++)
        expect_same(&ways[i]);
}

#ifdef GOLDEN_KERNELS
#include "compute/kernels/emulate/emulate.h"

static void expect_kernels(const struct way *ways, size_t count) {
    kernels = gpu_hopper;
    expect_all(ways, count);
}

static void kernels_for_hopper_give_the_bits_of_one_such_device(void **state) {
    static const struct way ways[] = {
        {GROUPS, ACTIVATIONS_FP8, EXPERT_SUM_GROUPS, .steps = 1, .prompt = 3},
        {GROUPS, ACTIVATIONS_FP8, EXPERT_SUM_GROUPS, .steps = 1, .prompt = 3, .by_host = true}};
    expect_kernels(ways, 2);
}

/* More steps, of prompts and of answers, and in both modes that have kernels. */
static void kernels_for_hopper_give_the_bits_of_one_such_device_in_more_ways(void **state) {
    static const struct way ways[] = {
        {GROUPS, ACTIVATIONS_FP8, EXPERT_SUM_GROUPS, 2, .steps = 3, .prompt = 9, .mtp = true},
        {MTP, ACTIVATIONS_BF16, EXPERT_SUM_EXPERTS, .steps = 3, .prompt = 9, .moves = true},
    };
    expect_kernels(ways, sizeof ways / sizeof *ways);
}
#else
static void devices_give_the_bits_of_one_cpu(void **state) {
    static const struct way few[] = {
        {GROUPS, ACTIVATIONS_FP8, EXPERT_SUM_GROUPS, .steps = 6, .prompt = 100, .mtp = true},
        {GROUPS, ACTIVATIONS_FP8, EXPERT_SUM_GROUPS, .steps = 6, .prompt = 100, .mtp = true,
         .by_host = true},
        {LITE, ACTIVATIONS_F32, EXPERT_SUM_EXPERTS, 4, .steps = 4, .prompt = 70},
        {MTP, ACTIVATIONS_BF16, EXPERT_SUM_GROUPS, 6, .steps = 5, .prompt = 90, .mtp = true,
         .moves = true},
        {MTP, ACTIVATIONS_BF16, EXPERT_SUM_EXPERTS, 6, .steps = 5, .prompt = 90, .mtp = true,
         .moves = true, .by_host = true},
    };
    expect_all(few, sizeof few / sizeof *few);
}

/* All of it, on more ranks. */
static void devices_give_the_bits_of_one_cpu_in_every_way(void **state) {
    static const char *const goldens[] = {LITE, MTP, ODD, GROUPS};
    static struct way ways[2 * 4 * ACTIVATIONS_COUNT * EXPERT_SUM_COUNT];
    uint32_t count = 0;
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t turn = 0; turn < ACTIVATIONS_COUNT * EXPERT_SUM_COUNT; turn++)
            ways[count++] = (struct way){.golden = goldens[i],
                                         .activations = turn % ACTIVATIONS_COUNT,
                                         .sum = turn / ACTIVATIONS_COUNT,
                                         .redundant = turn % 3 * 4,
                                         .steps = 8,
                                         .prompt = TOKENS - GENERATED,
                                         .mtp = i % 2,
                                         .moves = turn % 2};
    for (uint32_t i = 0; i < 4 * ACTIVATIONS_COUNT * EXPERT_SUM_COUNT; i++) {
        ways[count] = ways[i];
        ways[count++].by_host = true;
    }
    expect_all(ways, count);
}
#endif

int main(int argc, char **argv) {
#ifdef GOLDEN_KERNELS
    static const struct CMUnitTest few[] = {
        cmocka_unit_test(kernels_for_hopper_give_the_bits_of_one_such_device)};
    static const struct CMUnitTest all[] = {
        cmocka_unit_test(kernels_for_hopper_give_the_bits_of_one_such_device_in_more_ways)};
#else
    static const struct CMUnitTest few[] = {cmocka_unit_test(devices_give_the_bits_of_one_cpu)};
    static const struct CMUnitTest all[] = {
        cmocka_unit_test(devices_give_the_bits_of_one_cpu_in_every_way)};
#endif
    const struct CMUnitTest *tests = strtoul(argv[1], NULL, 10) > 2 ? all : few;
    hosts = argv[2] ? (uint32_t)strtoul(argv[2], NULL, 10) : 1;
    return on_ranks(argv, "gpu_exchange", tests, 1);
}
