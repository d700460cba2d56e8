/* SPDX-License-Identifier: Apache-2.0
 * Protects the plan of a step: prompts and answers share steps so that neither starves, nor anybody
 * of low priority; who has to give up its pages goes on later as if it never had; and rows bring
 * what the choice of their tokens depends on.
 */

#include "base/check.h"
#include "serving/policy/step_cost.h"
#include "test_case.h"
#include "world.h"

/* A machine: 2 ms a step, 50 us an answer, 60 us a prompt token, 10 ns a position it reads. */
static int64_t plan_ns(const struct step_plan *plan) {
    struct step_work work = {0};
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const struct step_row *row = &step_plan_rows(plan)[i];
        if (row->token_count == 1)
            work.answer_rows++;
        else
            step_cost_work_add(&work, row->first_position, row->token_count);
    }
    return 2000000 + 50000 * (int64_t)work.answer_rows + 60000 * (int64_t)work.prompt_tokens +
           10 * (int64_t)work.attended;
}

/* One step in virtual time. */
static void step_in_time(struct world *world) {
    world_step(world);
    world_drain(world);
    assert_non_null(world->plan);
    world->step_ns = plan_ns(world->plan);
    world->now_ns += world->step_ns;
    world_complete(world, false);
    world_drain(world);
}

static struct unit_options timed_options(void) {
    struct unit_options options = world_options();
    options.page_count = 60;
    options.step_tokens_max = 512;
    options.chunk_tokens_max = 0;
    return options;
}

/* Milliseconds that a token of four running answers takes; beside_prompts: only while one of 640
 * tokens is computed, which comes every 600 ms and must be done before the next. */
static double answer_ms(const struct unit_options *options, bool beside_prompts, double *first_ms) {
    struct world *world = world_open(options);
    uint32_t prompt = UINT32_MAX, tokens = 0;
    world->stop_odds = 0;
    int64_t arrived_ns = 0, counted_ns = 0, longest_ns = 0;
    for (int i = 0; i < 4; i++)
        world_submit(world, 10, 900);
    for (int turn = 0; turn < 800; turn++) {
        bool pending = prompt != UINT32_MAX && !world->known[prompt].received;
        if (beside_prompts && turn >= 30 && world->now_ns - arrived_ns >= 600000000) {
            assert_false(pending);
            prompt = world_submit(world, 640, 1);
            arrived_ns = world->now_ns;
            pending = true;
        }
        int64_t before_ns = world->now_ns;
        step_in_time(world);
        if (pending && world->now_ns - arrived_ns > longest_ns)
            longest_ns = world->now_ns - arrived_ns;
        if (turn < 30 || pending != beside_prompts) continue;
        tokens++;
        counted_ns += world->now_ns - before_ns;
    }
    world_close(world);
    *first_ms = (double)longest_ns / 1e6;
    return (double)counted_ns / 1e6 / tokens;
}

/* Prompts beside answers lengthen them by the stretch that is allowed and no more, whether a block
 * fits into one step's allowance or not; and each prompt gets through before the next arrives. */
TEST(prompts_do_not_starve_answers_nor_answers_prompts) {
    double first_ms;
    struct unit_options options = timed_options();
    double calm = answer_ms(&options, false, &first_ms);
    for (uint32_t stretch = 130; stretch <= 400; stretch += 90) {
        options.tpot_stretch_percent = stretch;
        double busy = answer_ms(&options, true, &first_ms);
        print_message(
            "# %u %%: %.2f ms a token, %.2f ms with prompts (%.2f x), first after %.0f ms\n",
            stretch, calm, busy, busy / calm, first_ms);
        assert_true(busy <= calm * stretch / 100 * 1.1);
    }
    options.tpot_stretch_percent = 110; /* prompts want more than that: their waiting earns it */
    options.prompt_patience_ns = 100000000;
    answer_ms(&options, true, &first_ms);
    print_message("# 110 %%, patience 100 ms: first after %.0f ms\n", first_ms);
    assert_true(first_ms < 400);
    options.prompt_patience_ns = 0;
    options.tpot_target_ns = 1; /* cannot be kept: prompts get a block in 16 steps all the same */
    double busy = answer_ms(&options, true, &first_ms);
    print_message("# least: %.2f ms (%.2f x), first after %.0f ms\n", busy, busy / calm, first_ms);
}

/* Urgent requests keep coming, as many as can run: one that is not urgent waits only as long as its
 * lower priority is worth. */
TEST(nobody_waits_forever) {
    struct unit_options options = timed_options();
    uint32_t tokens[64] = {0};
    options.step_rows_max = 2;
    options.priority_ns = 500000000;
    struct world *world = world_open(&options);
    uint32_t patient = UINT32_MAX;
    for (uint32_t turn = 0; turn < 2000; turn++) {
        while (unit_request_count(world->unit) < 6) {
            tokens[1] = world->submitted;
            world_submit_tokens(world, tokens, 64, 20, patient == UINT32_MAX ? 0 : 1);
            if (patient == UINT32_MAX) patient = world->submitted - 1;
        }
        step_in_time(world);
        if (world->known[patient].received > 0) break;
    }
    assert_true(world->known[patient].received > 0);
    assert_true(world->now_ns < 2 * options.priority_ns);
    world_close(world);
}

/* Three answers grow past the pages there are: the youngest gives way and comes back, and nobody
 * can tell from the tokens. */
TEST(who_is_interrupted_continues_as_if_never) {
    struct unit_options options = world_options();
    options.page_count = 9;
    for (uint32_t cached = 0; cached < 2; cached++) {
        options.prefix_cache = cached;
        struct world *world = world_open(&options);
        for (int i = 0; i < 3; i++)
            world_submit(world, 100, 300);
        world_run(world);
        assert_true(world->load.totals.preemptions > 0);
        if (!cached) assert_true(world->load.totals.recomputed_tokens > 0);
        world_assert_empty(world);
        world_close(world);
    }
}

static void submit_sampled(struct world *world, struct sampling sampling, uint32_t bias_count) {
    uint32_t prompt[70];
    struct record_submit head = {
        .sampling = sampling, .prompt_count = 70, .new_tokens_max = 4, .bias_count = bias_count};
    for (uint32_t i = 0; i < 70; i++)
        prompt[i] = (world->submitted + i) % VOCAB;
    world_submit_head(world, &head, prompt);
}

/* Rows that sample bring the tokens before them, in order, and biases; stop tokens are masked as
 * long as min_tokens asks; other rows, and rows without such wishes, bring nothing. */
TEST(rows_bring_what_their_choice_depends_on) {
    struct unit_options options = world_options();
    options.chunk_tokens_max = 64; /* the prompts take two steps */
    struct world *world = world_open(&options);
    submit_sampled(world, (struct sampling){.top_p = 1, .repetition_penalty = 1}, 0);
    submit_sampled(world, (struct sampling){.top_p = 1, .presence_penalty = 1, .min_tokens = 2}, 3);
    for (uint32_t turn = 0; turn < 4; turn++) {
        world_step(world);
        world_drain(world);
        const struct step_row *rows = step_plan_rows(world->plan);
        for (uint32_t i = 0; i < world->plan->row_count; i++) {
            const struct step_row *row = &rows[i];
            uint32_t position = row->output_position;
            if (row->sampling.seed == 0 || !row->sample) {
                assert_int_equal(row->history_count + row->bias_count, 0);
                continue;
            }
            const uint32_t *history = step_plan_history(world->plan) + row->history_index;
            const struct token_bias *biases = step_plan_biases(world->plan) + row->bias_index;
            assert_int_equal(row->history_prompt_count, 70);
            assert_int_equal(row->history_count, 70 + position);
            assert_int_equal(history[69], (1 + 69) % VOCAB);
            for (uint32_t t = 0; t < position; t++)
                assert_int_equal(history[70 + t], world->known[1].tokens[70 + t]);
            assert_int_equal(row->bias_count, position < 2 ? 4 : 3);
            assert_true(biases[2].token == 42 && biases[2].bias == 2.0f);
            if (position < 2) assert_true(biases[3].token == STOP_TOKEN && biases[3].bias < -1e38f);
        }
        world_complete(world, false);
        world_drain(world);
    }
    world_run(world);
    world_assert_empty(world);
    world_close(world);
}

/* Else most of a long answer's plans would be pages that the engine knows. Two equal prompts with
 * their answers have 15 blocks each; those are told once more that both computed, for one of them
 * is replaced. That they are the right ones, the world sees in every plan. */
TEST(pages_are_reported_when_they_change) {
    uint32_t tokens[640];
    struct unit_options options = world_options();
    options.page_count = 60;
    options.prefix_cache = true;
    struct world *world = world_open(&options);
    world->stop_odds = 0;
    for (uint32_t i = 0; i < ARRAY_COUNT(tokens); i++)
        tokens[i] = 2 + i % 90;
    for (uint32_t i = 0; i < 2; i++)
        world_submit_tokens(world, tokens, ARRAY_COUNT(tokens), 300, 0);
    world_run(world);
    print_message("# %u pages told in %u steps\n", world->reported_pages, world->steps);
    assert_true(world->steps >= 300);
    assert_true(world->reported_pages >= 2 * 15 && world->reported_pages <= 3 * 15);
    world_close(world);
}
