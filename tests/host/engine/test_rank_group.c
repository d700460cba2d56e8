/* SPDX-License-Identifier: Apache-2.0
 * Protects a group of ranks: three ranks give a row what one process gives it, whichever rank has
 * it; a plan or an opening that one rank refuses leaves no rank waiting; experts that moved stay
 * where they are; and if a rank dies within a step its rows fail, those of the others are lost, and
 * the group goes on when the rank is back, with its first experts in its slots. The program
 * launches itself as the ranks. Rank 0 runs the cases, one after another on one job.
 */
#include <poll.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../golden/golden.h"
#include "base/check.h"
#include "compute/exchange/job.h"
#include "compute/model/model.h"
#include "host/engine/rank_group.h"
#include "host/process/ranks/rank_launch.h"

#define TEST_OWN_MAIN
#include "test_case.h"

enum { RANKS = 3, BYTES = 1 << 16, TOKENS = 5, ROWS_MAX = 2, VOCAB_MAX = 512 };
enum { SLOTS = 6 }; /* of a rank in a layer: 16 experts and 2 more on 3 ranks */
enum { KV_BYTES = 4 << 20, FEW_KV_BYTES = 1 << 18 }; /* with few, rank 2 refuses to open */

static struct rank_group *group;
static _Alignas(16) char plan_memory[RANKS][BYTES], result_memory[RANKS][BYTES];
static struct step_plan *plans[RANKS];
static struct step_result *results[RANKS];
static float logits[RANKS][VOCAB_MAX];
static uint32_t chosen[RANKS]; /* by all ranks together, before any expert moved */
static struct rank_report reports[RANKS];

static struct model_options options_of(uint64_t kv_bytes) {
    static char directory[512];
    snprintf(directory, sizeof directory, "%s/v2lite-softmax-greedy-yarn", golden_home());
    return (struct model_options){.directory = directory,
                                  .activations = ACTIVATIONS_BF16,
                                  .level = kernels_detect_fma1(),
                                  .threads = 1,
                                  .kv_bytes = kv_bytes,
                                  .step_tokens_max = 16,
                                  .step_rows_max = ROWS_MAX,
                                  .redundant_experts = 2,
                                  .move_bytes = (uint64_t)1 << 20};
}

/* ---- plans ---- */

/* A prompt, another one on each rank. */
static void make_plan(uint32_t rank, uint32_t rows) {
    struct step_plan *plan = plans[rank] = (struct step_plan *)(void *)plan_memory[rank];
    results[rank] = (struct step_result *)(void *)result_memory[rank];
    memset(plan_memory[rank], 0, BYTES);
    *plan = (struct step_plan){.step = 7,
                               .row_count = rows,
                               .token_count = rows * TOKENS,
                               .page_count = rows,
                               .rank = (uint16_t)rank};
    record_set_head(plan, RECORD_RUN_STEP);
    for (uint32_t i = 0; i < rows; i++)
        step_plan_rows(plan)[i] = (struct step_row){.slot = i,
                                                    .form = TOKEN_PROMPT,
                                                    .token_count = TOKENS,
                                                    .token_index = i * TOKENS,
                                                    .page_index = i,
                                                    .page_count = 1,
                                                    .logits_count = 1,
                                                    .sample = 1,
                                                    .fresh = 1,
                                                    .sampling = {.top_p = 1}};
    for (uint32_t i = 0; i < rows * TOKENS; i++)
        step_plan_tokens(plan)[i] = 20 + 30 * rank + 7 * i;
    for (uint32_t i = 0; i < rows; i++)
        step_plan_pages(plan)[i].index = i;
}

static void make_plans(uint32_t rows) {
    for (uint32_t rank = 0; rank < RANKS; rank++)
        make_plan(rank, rows);
}

static void run_plans(struct error *error) {
    error->text[0] = 0;
    rank_group_run(group, (const struct step_plan *const *)plans, results, error);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_int_equal(results[rank]->step, 7);
        assert_int_equal(results[rank]->rank, rank);
        assert_int_equal(results[rank]->row_count, plans[rank]->row_count);
        assert_int_equal(results[rank]->compute_ns, results[0]->compute_ns);
    }
}

static void assert_ran(uint32_t rank, bool ran) {
    const struct step_result_row *row = step_result_rows(results[rank]);
    assert_int_equal(results[rank]->failed, !ran);
    assert_int_equal(row->token_count, ran);
    assert_int_equal(row->lost, 0);
    if (ran) assert_int_equal(row->tokens[0], chosen[rank]);
}

static void assert_all_run(void) {
    struct error error;
    make_plans(1);
    run_plans(&error);
    assert_string_equal(error.text, "");
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_ran(rank, true);
}

/* ---- opening ---- */

static uint32_t times_asked; /* whether the model fits */

static enum status on_fits(void *refuses, const struct memory_need *need, struct error *error) {
    times_asked++;
    return refuses ? error_set(error, STATUS_FULL, "it does not fit") : STATUS_OK;
}

static void open_group(bool engines) {
    struct error error;
    struct model_options options = options_of(KV_BYTES);
    options.fits = engines ? on_fits : NULL;
    enum status status = engines ? rank_group_open_engines(&options, &group, &error)
                                 : rank_group_open(&options, &group, &error);
    if (status) fail_msg("%s", error.text);
}

TEST(the_rank_that_refuses_to_open_is_named_and_all_can_open_again) {
    struct error error;
    struct model_options options = options_of(FEW_KV_BYTES);
    assert_int_equal(rank_group_open_engines(&options, &group, &error), STATUS_FULL);
    assert_string_equal(error.text, "rank 2: it has too few pages");
    options = options_of(KV_BYTES);
    options.directory = "/nothing";
    assert_int_not_equal(rank_group_open(&options, &group, &error), STATUS_OK);
    assert_non_null(strstr(error.text, "/nothing"));
    assert_null(
        strstr(error.text, "rank ")); /* rank 0 fails as well, and its reason is the first */
    char path[5000];
    memset(path, 'a', sizeof path - 1);
    path[sizeof path - 1] = 0;
    options.directory = path;
    assert_int_equal(rank_group_open(&options, &group, &error), STATUS_TOO_LARGE);
    assert_string_equal(error.text, "the model's path has 4999 bytes; expected below 4096");
    assert_null(group);
}

TEST(a_model_that_does_not_fit_is_opened_on_no_rank) {
    struct error error;
    struct model_options options = options_of(KV_BYTES);
    options.fits = on_fits;
    options.fits_context = &options;
    times_asked = 0;
    assert_int_equal(rank_group_open_engines(&options, &group, &error), STATUS_FULL);
    assert_string_equal(error.text, "it does not fit");
    assert_int_equal(times_asked, 1);
    assert_null(group);
}

/* ---- steps with logits ---- */

/* Each rank's logits as one process computes them. */
static void compute_alone(float alone[RANKS][VOCAB_MAX]) {
    struct error error;
    struct model *model;
    const struct model_options options = options_of(KV_BYTES);
    if (model_open(&options, &model, &error)) fail_msg("%s", error.text);
    assert_true(model_shape(model)->vocab <= VOCAB_MAX);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        if (forward_run(model, plans[rank], alone[rank], NULL, &error)) fail_msg("%s", error.text);
    model_close(model);
}

static enum status step_all(struct error *error) {
    struct rank_step steps[RANKS];
    for (uint32_t rank = 0; rank < RANKS; rank++)
        steps[rank] = (struct rank_step){.plan = plans[rank], .logits = logits[rank]};
    return rank_group_step(group, steps, error);
}

TEST(each_rank_gives_its_row_the_logits_of_one_process) {
    static float alone[RANKS][VOCAB_MAX];
    struct error error;
    make_plans(1);
    compute_alone(alone);
    open_group(false);
    assert_int_equal(rank_group_count(group), RANKS);
    assert_null(rank_group_engine(group));
    const size_t bytes = model_shape(rank_group_model(group))->vocab * sizeof(float);
    if (step_all(&error)) fail_msg("%s", error.text);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_memory_equal(logits[rank], alone[rank], bytes);
    plans[0] = plans[1] = NULL; /* these compute experts for rank 2 alone */
    memset(logits, 0, sizeof logits);
    if (step_all(&error)) fail_msg("%s", error.text);
    assert_memory_equal(logits[2], alone[2], bytes);
    assert_true(logits[1][0] == 0);
}

TEST(a_step_that_one_rank_refuses_begins_on_none) {
    struct error error;
    uint32_t guesses[TOKENS];
    const struct model_probe probe = {.row = 0, .mtp_argmax = guesses, .mtp_next_token = 1};
    make_plans(1);
    step_plan_tokens(plans[2])[3] = VOCAB_MAX;
    assert_int_equal(step_all(&error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "a token id is 512"));
    make_plans(1);
    const struct rank_step steps[RANKS] = {
        {plans[0], logits[0], NULL}, {plans[1], logits[1], &probe}, {plans[2], logits[2], NULL}};
    assert_int_equal(rank_group_step(group, steps, &error), STATUS_INVALID);
    assert_string_equal(error.text, "the model has no MTP layer, or was opened without it");
    assert_int_equal(step_all(&error), STATUS_OK); /* no order is left from before */
}

TEST(another_rank_sends_the_routing_of_its_row) {
    struct error error;
    const struct shape *shape = model_shape(rank_group_model(group));
    uint32_t count = shape->layers * shape->experts_per_token;
    uint32_t *routing = calloc(count, sizeof *routing);
    const struct model_probe probe = {.row = 0, .routing = routing};
    make_plans(1);
    const struct rank_step steps[RANKS] = {
        {plans[0], logits[0], NULL}, {plans[1], logits[1], &probe}, {plans[2], logits[2], NULL}};
    if (rank_group_step(group, steps, &error)) fail_msg("%s", error.text);
    assert_int_equal(routing[0], UINT32_MAX); /* the first layer is dense */
    for (uint32_t i = shape->experts_per_token; i < count; i++)
        assert_true(routing[i] < 16);
    free(routing);
    rank_group_close(group);
    group = NULL;
}

/* ---- steps with engines ---- */

TEST(each_rank_chooses_the_likeliest_token) {
    struct error error;
    times_asked = 0;
    open_group(true);
    assert_int_equal(times_asked, 1);
    assert_non_null(rank_group_engine(group));
    make_plans(1);
    run_plans(&error);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        uint32_t best = 0;
        for (uint32_t i = 0; i < model_shape(rank_group_model(group))->vocab; i++)
            if (logits[rank][i] > logits[rank][best]) best = i;
        chosen[rank] = best;
        assert_ran(rank, true);
    }
}

TEST(an_invalid_plan_fails_alone_on_any_rank) {
    struct error error;
    for (uint32_t bad = 0; bad < RANKS; bad++) {
        make_plans(1);
        step_plan_tokens(plans[bad])[1] = VOCAB_MAX;
        run_plans(&error);
        assert_non_null(strstr(error.text, "a token id is 512"));
        for (uint32_t rank = 0; rank < RANKS; rank++)
            assert_ran(rank, rank != bad);
    }
}

TEST(a_plan_with_another_schedule_fails_alone) {
    struct error error;
    for (uint32_t bad = 0; bad < RANKS; bad++) {
        make_plans(1);
        plans[bad]->overlap = OVERLAP_KIND_COUNT; /* there is none such */
        run_plans(&error);
        assert_non_null(strstr(error.text, "the schedule is "));
        for (uint32_t rank = 0; rank < RANKS; rank++)
            assert_ran(rank, rank != bad);
    }
    make_plans(1);
    plans[2]->overlap = OVERLAP_SEQUENTIAL + 1; /* it would wait for the others */
    run_plans(&error);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_ran(rank, rank != 2);
}

TEST(invalid_plans_without_rows_keep_their_step_and_rank) {
    struct error error;
    make_plans(1);
    make_plan(1, 0);
    plans[1]->overlap = OVERLAP_KIND_COUNT;
    run_plans(&error); /* it compares step and rank */
    assert_int_equal(results[1]->failed, 0);
    assert_ran(0, true);
    assert_ran(2, true);
}

TEST(each_rank_reports_itself) {
    rank_group_report(group, reports);
    assert_int_equal(reports[0].pid, getpid());
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_int_equal(reports[rank].model.rank, rank);
        assert_int_equal(reports[rank].model.rank_count, RANKS);
        assert_int_equal(reports[rank].model.slots, SLOTS);
        assert_true(rank == 0 || (reports[rank].pid > 0 && reports[rank].pid != reports[0].pid));
        assert_true(rank_group_lives(group, rank));
    }
    assert_int_not_equal(reports[1].pid, reports[2].pid);
    assert_false(rank_group_is_broken(group));
}

/* ---- moves ---- */

static uint32_t moving_layer(void) {
    uint32_t layer = 0;
    while (!model_layer_moves(rank_group_model(group), layer))
        layer++;
    return layer;
}

static uint32_t expert_in(uint32_t slot) {
    const struct placement *map = model_placement(rank_group_model(group));
    return placement_of_rank(map, moving_layer(), 0)[slot];
}

/* The last slot of the rank with an expert that another slot has as well: a replica. */
static uint32_t spare_slot(uint32_t rank) {
    for (uint32_t slot = (rank + 1) * SLOTS; slot-- > rank * SLOTS;)
        for (uint32_t other = 0; other < RANKS * SLOTS; other++)
            if (other != slot && expert_in(other) == expert_in(slot)) return slot;
    fail_msg("rank %u has no spare slot", rank);
    return 0;
}

TEST(all_ranks_count_the_tokens_of_their_slots) {
    const struct model *model = rank_group_model(group);
    uint32_t slots = model_slot_count(model), sum = 0, layers = 0;
    struct model_moving moving[RANKS];
    uint32_t *tokens = calloc((size_t)RANKS * slots, sizeof *tokens);
    assert_true(rank_group_notify(group, moving, tokens)); /* those of earlier steps */
    assert_all_run();
    memset(tokens, 0xa5, (size_t)RANKS * slots * sizeof *tokens);
    assert_true(rank_group_notify(group, moving, tokens));
    for (uint32_t i = 0; i < RANKS * slots; i++)
        sum += tokens[i];
    for (uint32_t layer = 0; layer < model_shape(model)->layers; layer++)
        layers += model_layer_moves(model, layer);
    assert_int_equal(sum, RANKS * TOKENS * model_shape(model)->experts_per_token * layers);
    assert_int_equal(moving[0].pending + moving[1].pending + moving[2].pending, 0);
    free(tokens);
}

static uint32_t slots_changed[2], experts_before[2]; /* on rank 1, and on rank 2 */

TEST(experts_move_on_all_ranks_at_once_and_no_result_changes) {
    const uint64_t dropped[LIMIT_LAYERS / 64] = {0};
    const struct model_rank before = reports[1].model;
    struct model_moving moving[RANKS];
    uint32_t pending = 1;
    struct expert_move moves[2];
    for (uint32_t i = 0; i < 2; i++) { /* rank 1 gets one of rank 2, and rank 2 one of rank 0 */
        uint32_t from = i ? 0 : 2 * SLOTS;
        slots_changed[i] = spare_slot(i + 1);
        experts_before[i] = expert_in(slots_changed[i]);
        moves[i] = (struct expert_move){.layer = moving_layer(),
                                        .slot = slots_changed[i],
                                        .expert = expert_in(from),
                                        .from = from};
    }
    rank_group_move(group, moves, 2, 0);
    assert_all_run(); /* while they move */
    while (pending) {
        assert_true(rank_group_notify(group, moving, NULL));
        pending = moving[0].pending + moving[1].pending + moving[2].pending;
    }
    assert_int_equal(moving[1].moves + moving[2].moves, 2);
    assert_int_equal(expert_in(slots_changed[0]), experts_before[0]);
    rank_group_adopt(group, dropped);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(expert_in(slots_changed[i]), moves[i].expert);
    assert_all_run();
    rank_group_report(group, reports);
    assert_int_equal(reports[1].model.experts_moved, before.experts_moved + 1);
}

TEST(links_are_measured_between_ranks_alone) {
    rank_group_set_link(group, 0, 0);
    assert_true(rank_group_measure_link(group, 1, 1) == 0);
    assert_true(rank_group_measure_link(group, 1, RANKS) > 0);
    assert_all_run();
}

/* ---- a rank that dies ---- */

static void kill_rank_2(int number) {
    kill((pid_t)reports[2].pid, SIGKILL);
}

/* It stands still, so that the step has begun when it dies. */
TEST(a_rank_that_dies_in_a_step_fails_its_rows_and_loses_the_others) {
    const struct itimerval timer = {.it_value = {.tv_usec = 30000}};
    struct error error;
    struct model_moving moving[RANKS];
    uint32_t epoch = rank_group_epoch(group);
    kill((pid_t)reports[2].pid, SIGSTOP);
    signal(SIGALRM, kill_rank_2);
    assert_int_equal(setitimer(ITIMER_REAL, &timer, NULL), 0);
    make_plans(1);
    run_plans(&error);
    assert_ran(2, false);
    for (uint32_t rank = 0; rank < 2; rank++) {
        assert_int_equal(results[rank]->failed, 0);
        assert_int_equal(step_result_rows(results[rank])->lost, 1);
        assert_int_equal(step_result_rows(results[rank])->token_count, 0);
    }
    assert_true(rank_group_is_broken(group));
    assert_false(rank_group_lives(group, 2));
    assert_true(rank_group_epoch(group) > epoch);
    assert_false(rank_group_notify(group, moving, NULL)); /* its report is missing */
    assert_int_equal(moving[2].pending, 0);
}

TEST(a_rank_that_is_back_has_its_first_experts_and_the_others_their_last) {
    uint32_t expert = expert_in(slots_changed[0]);
    int64_t pid = reports[2].pid;
    rank_group_regroup(group);
    assert_false(rank_group_is_broken(group));
    assert_false(rank_group_lives(group, 2));
    assert_true(rank_group_lives(group, 1));
    rank_group_report(group, reports);
    assert_int_equal(reports[2].pid, 0);
    assert_true(reports[1].pid > 0);
    assert_int_equal(expert_in(slots_changed[1]), expert_in(0)); /* nothing is in its place yet */
    kill(getppid(), SIGUSR1); /* the others go on, so it may be started again */
    while (!rank_group_is_broken(group))
        usleep(1000);
    rank_group_regroup(group);
    assert_true(rank_group_lives(group, 2));
    assert_int_equal(expert_in(slots_changed[0]), expert);
    assert_int_equal(expert_in(slots_changed[1]), experts_before[1]);
    assert_all_run();
    rank_group_report(group, reports);
    assert_true(reports[2].pid > 0 && reports[2].pid != pid);
}

TEST(a_rank_that_was_back_takes_part_in_the_next_moves) {
    const uint64_t dropped[LIMIT_LAYERS / 64] = {0};
    struct model_moving moving[RANKS];
    uint32_t pending = 1;
    const struct expert_move move = {
        .layer = moving_layer(), .slot = slots_changed[1], .expert = expert_in(0), .from = 0};
    rank_group_move(group, &move, 1, 0);
    while (pending) {
        assert_true(rank_group_notify(group, moving, NULL));
        pending = moving[0].pending + moving[1].pending + moving[2].pending;
    }
    rank_group_adopt(group, dropped);
    assert_int_equal(expert_in(slots_changed[1]), move.expert);
    assert_all_run();
    rank_group_close(group);
    group = NULL;
}

TEST(a_command_that_restarts_no_rank_says_so) {
    struct error error;
    assert_int_equal(rank_group_prepare(RANKS, &error), STATUS_UNSUPPORTED);
    assert_string_equal(error.text, "this command does not restart ranks");
}

/* ---- the other ranks, and who launches all ---- */

static enum status on_options(void *context, struct model_options *options_out,
                              struct error *error) {
    *options_out = options_of(KV_BYTES);
    return STATUS_OK;
}

static enum status on_opened(void *context, struct engine *engine, uint32_t rank,
                             struct error *error) {
    const struct model *model = engine ? engine_model(engine) : NULL;
    if (rank != 2 || !model) return STATUS_OK;
    if (model_page_count(model) * model_page_bytes(model) > FEW_KV_BYTES) return STATUS_OK;
    return error_set(error, STATUS_FULL, "it has too few pages");
}

static int be_rank(void) {
    static const struct rank_group_side side = {.options = on_options, .opened = on_opened};
    struct error error;
    if (job_rank_assigned()) rank_group_local(&side);
    if (job_rejoins()) check(rank_group_prepare(RANKS, &error) == STATUS_OK);
    check(job_begin(&error) == STATUS_OK);
    if (job_rank()) {
        rank_group_work(NULL);
        return 0;
    }
    setenv("CMOCKA_TEST_ABORT", "1", 1); /* the launcher ends the others, which wait for orders */
    int failed = test_cases_run();
    rank_group_end();
    rank_group_end(); /* does nothing */
    return failed;
}

struct launched {
    struct rank_launch *launch;
    int deaths, failed;
};

static volatile sig_atomic_t is_asked;

static void on_asked(int number) {
    is_asked = 1;
}

static void on_ended(void *context, uint32_t rank, int status) {
    struct launched *all = context;
    if (!status || all->failed) return;
    if (rank == 2 && status == SIGKILL && !all->deaths++) return;
    fprintf(stderr, "\nrank %u ended with status %#x\n", rank, (unsigned)status);
    all->failed = 1;
    rank_launch_signal_all(all->launch, SIGKILL);
}

static int launch(void) {
    char self[RANK_LAUNCH_PATH_BYTES];
    struct error error;
    struct launched all = {.failed = 0};
    const char *const arguments[] = {self, NULL};
    const struct rank_launch_options options = {.arguments = arguments,
                                                .count = RANKS,
                                                .total = RANKS,
                                                .speaks = true,
                                                .context = &all,
                                                .ended = on_ended};
    signal(SIGUSR1, on_asked);
    if (!rank_launch_self(self) || rank_launch_open(&options, &all.launch, &error)) return 1;
    struct pollfd file = {rank_launch_file(all.launch), POLLIN, 0};
    while (rank_launch_left(all.launch)) {
        poll(&file, 1, 20); /* the signal may come just before */
        rank_launch_tend(all.launch);
        if (is_asked && !all.failed && rank_launch_again(all.launch, 2, &error)) all.failed = 1;
        is_asked = 0;
    }
    rank_launch_close(all.launch);
    return all.failed || all.deaths != 1;
}

int main(void) {
    return job_exists() ? be_rank() : launch();
}
