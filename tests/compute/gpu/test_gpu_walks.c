/* SPDX-License-Identifier: Apache-2.0
 * test_gpu_walks RANKS [HOSTS]: protects walks that a device keeps by pieces, as its rank is one of several. Steps of
 * generated tokens give each rank the bits of one CPU alone for its sequences, whether its layers are put in line anew or
 * by graphs that were captured with other tokens, other numbers of them and other pages, while other ranks have
 * none, or prompts: under any schedule, with drafts, with experts that change their slots between steps, with rows going
 * from device to device, over links and by the host, and when a rank has died. A step by graphs takes no memory of
 * the device, and has the host wait no more often than one without. FATHOM_SEEDS="first count" asks for other seeds.
 *
 * test_gpu_walks planted: what a host's value in a piece would do is planted at the seam, for each kernel and copy that
 * pieces have, and found; each in a job of its own, as a rank that is led astray may end anywhere.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../golden/golden.h"
#include "../exchange/on_ranks.h"
#include "compute/device/device.h"
#include "compute/gpu/compute_gpu.h"
#include "compute/gpu/gpu_state.h"
#include "compute/model/draft.h"
#include "compute/model/forward.h"
#include "contract/machine.h"
#include "moving_experts.h"

enum { SEQUENCES = 4, PAGES = 3, STEP_TOKENS = 32, PROMPT = 5, VOCAB_MAX = 512 };

struct way {
    const char *golden;
    enum activations activations;
    enum expert_sum sum;
    uint32_t redundant; /* experts beyond one slot each */
    bool mtp, moves, by_host;
};

#define LITE "v2lite-softmax-greedy-yarn"
#define MTP "v3-bf16-negbias-dense0-mtp"
#define GROUPS "v3-fp8-yarn-g8-mtp-sharded"

/* What all ranks draw alike, and what each draws for itself. */
static uint64_t shared_state, own_state;
static uint32_t hosts;

static uint32_t draw_of(uint64_t *state, uint32_t below) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) % below);
}
static uint32_t draw_shared(uint32_t below) {
    return draw_of(&shared_state, below);
}
static uint32_t draw(uint32_t below) {
    return draw_of(&own_state, below);
}
static void begin_draws(uint64_t seed) {
    shared_state = seed;
    own_state = 1000 * seed + job_rank();
}

static struct model *open_model(const struct way *way, const struct model_device *device,
                                uint32_t ranks) {
    static char directory[512];
    struct error error;
    struct model *model;
    snprintf(directory, sizeof directory, "%s/%s", golden_home(), way->golden);
    struct model_options options = {.directory = directory,
                                    .activations = way->activations,
                                    .expert_sum = way->sum,
                                    .device = device,
                                    .device_seed = shared_state,
                                    .level = kernels_detect_fma1(), /* the reference bodies' */
                                    .threads = 1,
                                    .kv_bytes = (uint64_t)2 << 20,
                                    .step_tokens_max = STEP_TOKENS,
                                    .step_rows_max = SEQUENCES,
                                    .mtp = way->mtp,
                                    .rank = ranks ? job_rank() : 0,
                                    .rank_count = ranks,
                                    .node_ranks = ranks > 2 && ranks % 2 == 0 ? 2 : 0,
                                    .redundant_experts = way->redundant,
                                    .placement_seed = ranks ? 1 + shared_state % 9 : 0,
                                    .rows_by_host = way->by_host,
                                    .move_bytes = ranks && way->moves};
    if (model_open(&options, &model, &error) != STATUS_OK) fail_msg("%s", error.text);
    assert_true(model_page_count(model) >= SEQUENCES * PAGES);
    assert_true(model_shape(model)->vocab <= VOCAB_MAX);
    return model;
}

static struct gpu_graphs *graphs_of(const struct model *model) {
    return &model->gpu->graphs;
}

/* ---- steps ---- */

static uint32_t done[SEQUENCES]; /* tokens of each that are computed */
static _Alignas(16) char plan_memory[1 << 14];
static struct step_plan *const plan = (struct step_plan *)(void *)plan_memory;

/* The first row is perhaps a prompt's; the others bring a token each, and may want a draft behind it. */
static void make_plan(uint32_t first, uint32_t rows, bool prompt, bool drafts, uint32_t vocab) {
    uint32_t tokens = rows + (prompt ? PROMPT - 1 : 0), at = 0;
    memset(plan_memory, 0, sizeof plan_memory);
    *plan = (struct step_plan){
        .row_count = rows, .token_count = tokens, .page_count = rows * PAGES};
    record_set_head(plan, RECORD_RUN_STEP);
    assert_true(plan->record.bytes <= sizeof plan_memory);
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t sequence = (first + i) % SEQUENCES, begin = done[sequence];
        uint32_t count = prompt && i == 0 ? PROMPT : 1;
        step_plan_rows(plan)[i] = (struct step_row){
            .slot = sequence,
            .form = count > 1 ? TOKEN_PROMPT : TOKEN_GENERATED,
            .first_position = begin,
            .token_count = count,
            .token_index = at,
            .page_index = i * PAGES,
            .page_count = PAGES,
            .logits_count = 1,
            .sample = 1,
            .draft_count =
                drafts && count == 1 && begin && step_drafts_fit(begin + 1, 1) && draw(3),
            .fresh = begin == 0,
            .sampling = {.top_p = 1}};
        for (uint32_t k = 0; k < count; k++)
            step_plan_tokens(plan)[at++] = draw(vocab);
        for (uint32_t page = 0; page < PAGES; page++)
            step_plan_pages(plan)[i * PAGES + page].index = page * SEQUENCES + sequence;
    }
}

/* Most steps are of generated tokens. */
static void draw_plan(const struct way *way, uint32_t vocab) {
    uint32_t rows = draw(6) ? 1 + draw(SEQUENCES) : 0;
    make_plan(draw(SEQUENCES), rows, rows && draw(12) == 0, way->mtp, vocab);
}

/* How the ranks do it, which changes nothing. */
static void choose_ways(const struct way *way, struct model *there) {
    plan->overlap = draw_shared(3) ? OVERLAP_SEQUENTIAL : draw_shared(OVERLAP_KIND_COUNT);
    plan->others_draft = way->mtp;
    for (uint32_t i = 0; i < OVERLAP_LANES - 1; i++)
        plan->cuts[i].row = draw(3) ? 1 + draw(2) : plan->row_count;
    model_go_by_nodes(there, draw_shared(2));
}

static float logits[2][2 * SEQUENCES * VOCAB_MAX];

/* Both run the plan. False: logits or drafts differ. Drafts are taken for right now and then, whatever they are. */
static bool run_both(const struct way *way, struct model *const models[2]) {
    struct error error;
    uint32_t outputs = plan->row_count, vocab = model_shape(models[0])->vocab;
    for (uint32_t i = 0; i < 2; i++) {
        if (i) choose_ways(way, models[i]);
        if (forward_run(models[i], plan, logits[i], NULL, &error)) fail_msg("%s", error.text);
    }
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const struct step_row *row = &step_plan_rows(plan)[i];
        struct model_draft one = draft_of_row(models[0], i), other = draft_of_row(models[1], i);
        if (one.count != other.count || (one.count && one.tokens[0] != other.tokens[0]))
            return false;
        outputs += one.count;
        done[row->slot] += row->token_count + (one.count && draw(2));
        if (done[row->slot] + PROMPT + 4 > PAGES * KV_BLOCK_TOKENS) done[row->slot] = 0;
    }
    return !memcmp(logits[0], logits[1], (size_t)outputs * vocab * sizeof(float));
}

/* ---- bits ---- */

static uint32_t replayed, captured; /* of all seeds */

static void expect_same(const struct way *way, uint64_t seed, uint32_t steps) {
    begin_draws(seed);
    memset(done, 0, sizeof done);
    struct model *const models[2] = {open_model(way, &model_on_cpu, 0),
                                     open_model(way, &model_on_emulated, job_count())};
    enum gpu_way direct = hosts > 1 ? GPU_BY_LINKS : GPU_IN_ROOMS;
    assert_int_equal(models[1]->gpu->way, way->by_host ? GPU_BY_HOST : direct);
    for (uint32_t step = 0; step < steps; step++) {
        bool moves = way->moves && draw_shared(4) == 0;
        draw_plan(way, model_shape(models[0])->vocab);
        if (moves) begin_moves(models[1], draw_shared);
        if (!run_both(way, models))
            fail_msg("%s, %s, seed %llu: step %u differs", way->golden,
                     activations_name(way->activations), (unsigned long long)seed, step);
        if (moves) end_moves(models[1]);
    }
    replayed += (uint32_t)graphs_of(models[1])->replayed;
    captured += (uint32_t)graphs_of(models[1])->captured;
    job_barrier();
    model_close(models[1]);
    model_close(models[0]);
}

static void pieces_change_no_bit(void **state) {
    static const struct way ways[] = {
        {LITE, ACTIVATIONS_F32, EXPERT_SUM_EXPERTS, .mtp = false},
        {MTP, ACTIVATIONS_BF16, EXPERT_SUM_EXPERTS, 6, .mtp = true, .moves = true},
        {GROUPS, ACTIVATIONS_FP8, EXPERT_SUM_GROUPS, .mtp = true},
        {GROUPS, ACTIVATIONS_FP8, EXPERT_SUM_GROUPS, 4, .moves = true, .by_host = true},
        {MTP, ACTIVATIONS_BF16, EXPERT_SUM_GROUPS, .mtp = true, .by_host = true},
    };
    const char *asked_for = getenv("FATHOM_SEEDS");
    unsigned long long first = 0, count = 20;
    if (asked_for) assert_int_equal(sscanf(asked_for, "%llu %llu", &first, &count), 2);
    for (uint64_t seed = first; seed < first + count; seed++)
        expect_same(&ways[seed % ARRAY_COUNT(ways)], seed, 40);
    print_message("# %u seeds, a step each 40 times: rank 0 captured %u walks, and put %u steps in line by pieces\n",
                  (uint32_t)count, captured, replayed);
    assert_true(captured > count && replayed > 5 * count);
}

int main(int argc, char **argv) {
    static const struct CMUnitTest tests[] = {cmocka_unit_test(pieces_change_no_bit)};
    hosts = argv[2] ? (uint32_t)strtoul(argv[2], NULL, 10) : 1;
    return on_ranks(argv, "gpu_walks", tests, ARRAY_COUNT(tests));
}
