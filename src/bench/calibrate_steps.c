/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/calibrate_steps.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/random.h"
#include "bench/machine_limits.h"
#include "compute/model/model.h"

struct step_timer {
    struct rank_group *group;
    const struct calibrate_limits *limits;
    struct lanes lanes;
    uint32_t pages_each; /* of a sequence */
    uint32_t vocab, drawn;
    struct step_plan **plans;     /* [ranks] */
    struct step_result **results; /* [ranks] */
};

/* ---- plans ---- */

static void begin_plan(struct step_timer *timer, uint32_t rank,
                       const struct calibrate_shape *shape) {
    struct step_plan *plan = timer->plans[rank];
    bool busy = rank == 0 || !shape->one_busy;
    uint32_t rows = busy ? shape->chunks + shape->rows : 0;
    *plan = (struct step_plan){
        .row_count = rows,
        .token_count = busy ? shape->chunks * shape->chunk_tokens + shape->rows : 0,
        .page_count = rows * timer->pages_each,
        .rank = (uint16_t)rank,
    };
    record_set_head(plan, RECORD_RUN_STEP);
}

/* The index'th row of a rank's plan, of the sequence of that number. */
static void set_row(struct step_timer *timer, struct step_plan *plan, uint32_t index,
                    uint32_t sequence, struct step_row row) {
    row.slot = sequence;
    row.page_index = index * timer->pages_each;
    row.page_count = timer->pages_each;
    row.logits_count = row.sample = row.fresh = 1;
    row.next_token = STEP_NO_TOKEN;
    row.sampling = (struct sampling){.top_p = 1};
    step_plan_rows(plan)[index] = row;
    for (uint32_t i = 0; i < row.token_count; i++)
        step_plan_tokens(plan)[row.token_index + i] =
            (uint32_t)(random_uniform(1, plan->rank, timer->drawn++) * timer->vocab);
    for (uint32_t i = 0; i < timer->pages_each; i++)
        step_plan_pages(plan)[row.page_index + i].index = sequence * timer->pages_each + i;
}

static void make_plan(struct step_timer *timer, uint32_t rank,
                      const struct calibrate_shape *shape) {
    struct step_plan *plan = timer->plans[rank];
    uint32_t token = 0;
    begin_plan(timer, rank, shape);
    for (uint32_t i = 0; i < plan->row_count; i++) {
        bool answer = i < shape->rows; /* as a unit has them: answers first */
        struct step_row row = {
            .form = answer ? TOKEN_GENERATED : TOKEN_PROMPT,
            .first_position = answer ? shape->context - 1 : shape->cached,
            .token_count = answer ? 1 : shape->chunk_tokens,
            .token_index = token,
            .output_position = answer,
        };
        token += row.token_count;
        set_row(timer, plan, i, i, row);
    }
}

/* ---- steps ---- */

static enum status run_step(struct step_timer *timer, double *us_out, struct error *error) {
    uint32_t ranks = timer->limits->ranks;
    int64_t began_ns = clock_now_ns();
    lanes_begin(&timer->lanes, timer->plans, ranks, model_shape(rank_group_model(timer->group)));
    rank_group_run(timer->group, (const struct step_plan *const *)timer->plans, timer->results,
                   error);
    lanes_end(&timer->lanes, timer->results[0]->compute_ns);
    *us_out = (double)(clock_now_ns() - began_ns) * 1e-3;
    for (uint32_t rank = 0; rank < ranks; rank++)
        if (timer->results[rank]->failed) return STATUS_INVALID;
    return STATUS_OK;
}

/* Every page of every sequence has rows. */
static enum status fill_pages(struct step_timer *timer, struct error *error) {
    const struct calibrate_limits *limits = timer->limits;
    enum status status = STATUS_OK;
    uint32_t chunk = limits->tokens_max / KV_BLOCK_TOKENS * KV_BLOCK_TOKENS;
    for (uint32_t sequence = 0; sequence < limits->rows_max; sequence++)
        for (uint32_t done = 0; done < limits->context_max && !status; done += chunk) {
            uint32_t left = limits->context_max - done;
            struct calibrate_shape shape = {
                .chunks = 1, .chunk_tokens = left < chunk ? left : chunk, .cached = done};
            double us;
            for (uint32_t rank = 0; rank < limits->ranks; rank++) {
                struct step_row row = {.form = TOKEN_PROMPT,
                                       .first_position = done,
                                       .token_count = shape.chunk_tokens};
                begin_plan(timer, rank, &shape);
                set_row(timer, timer->plans[rank], 0, sequence, row);
            }
            status = run_step(timer, &us, error);
        }
    return status;
}

static enum status time_shape(struct step_timer *timer, const struct calibrate_shape *shape,
                              double *us_out, struct error *error) {
    for (uint32_t rank = 0; rank < timer->limits->ranks; rank++)
        make_plan(timer, rank, shape);
    return run_step(timer, us_out, error);
}

/* ---- room ---- */

static enum status open_timer(struct step_timer *timer, struct error *error) {
    const struct calibrate_limits *limits = timer->limits;
    struct step_plan largest = {.row_count = limits->rows_max,
                                .token_count = limits->tokens_max,
                                .page_count = limits->rows_max * timer->pages_each};
    timer->plans = calloc(limits->ranks, sizeof *timer->plans);
    timer->results = calloc(limits->ranks, sizeof *timer->results);
    bool whole = timer->plans && timer->results;
    for (uint32_t rank = 0; whole && rank < limits->ranks; rank++) {
        timer->plans[rank] = calloc(1, record_bytes(RECORD_RUN_STEP, &largest));
        timer->results[rank] =
            calloc(1, step_result_bytes_max(limits->rows_max, limits->tokens_max));
        whole = timer->plans[rank] && timer->results[rank];
    }
    return whole ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory for steps");
}

static void close_timer(struct step_timer *timer) {
    for (uint32_t rank = 0; rank < timer->limits->ranks; rank++) {
        if (timer->plans) free(timer->plans[rank]);
        if (timer->results) free(timer->results[rank]);
    }
    free(timer->plans);
    free(timer->results);
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void summarize(struct calibrate_step *step, double *us, uint32_t rounds) {
    qsort(us, rounds, sizeof *us, compare);
    step->us = machine_limits_median(us, rounds);
    step->low = us[rounds / 4];
    step->high = us[rounds - 1 - rounds / 4];
}

static enum status time_all(struct step_timer *timer, uint32_t rounds,
                            struct calibrate_step *steps, uint32_t count, struct error *error) {
    static double us[CALIBRATE_SHAPES_MAX][CALIBRATE_ROUNDS_MAX];
    double warm;
    enum status status = fill_pages(timer, error);
    for (uint32_t i = 0; i < count && !status; i++) /* the first of a shape touches its memory */
        status = time_shape(timer, &steps[i].shape, &warm, error);
    for (uint32_t round = 0; round < rounds; round++)
        for (uint32_t i = 0; i < count && !status; i++)
            status = time_shape(timer, &steps[i].shape, &us[i][round], error);
    for (uint32_t i = 0; i < count && !status; i++)
        summarize(&steps[i], us[i], rounds);
    return status;
}

enum status calibrate_steps_run(struct rank_group *group, const char *schedule,
                                const struct calibrate_limits *limits, uint32_t rounds,
                                struct calibrate_step *steps_out, uint32_t *count_out,
                                struct error *error) {
    struct calibrate_shape shapes[CALIBRATE_SHAPES_MAX];
    struct step_timer timer = {
        .group = group,
        .limits = limits,
        .pages_each = (uint32_t)divide_up(limits->context_max, KV_BLOCK_TOKENS),
        .vocab = model_shape(rank_group_model(group))->vocab,
    };
    check(rounds >= 1 && rounds <= CALIBRATE_ROUNDS_MAX);
    check(limits->ranks == rank_group_count(group) && lanes_named(schedule, &timer.lanes));
    *count_out = calibrate_shapes_list(limits, shapes);
    for (uint32_t i = 0; i < *count_out; i++)
        steps_out[i].shape = shapes[i];
    enum status status = open_timer(&timer, error);
    if (!status) status = time_all(&timer, rounds, steps_out, *count_out, error);
    close_timer(&timer);
    return status;
}
