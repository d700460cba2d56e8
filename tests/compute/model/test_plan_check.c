/* SPDX-License-Identifier: Apache-2.0
 * Protects the engine from plans that break a rule (they may come from another process): each is
 * refused with a reason, none reads or writes outside. And the engine's answer: every row's token.
 */
#include "test_case.h"

#include "base/check.h"
#include "compute/model/model_state.h"
#include "contract/kv_block.h"
#include "contract/machine.h"
#include "contract/step_plan.h"
#include "host/engine/engine.h"

#define VOCAB 333 /* of the golden case; checked below */

static struct engine *engine;
static _Alignas(16) char plan_memory[1 << 14], result_memory[1 << 12];
static struct step_plan *const plan = (struct step_plan *)(void *)plan_memory;
static struct step_result *const result = (struct step_result *)(void *)result_memory;
static struct error error;

/* Two rows: three prompt tokens with sampling, one generated token without. */
static void make_plan(void) {
    memset(plan_memory, 0, sizeof plan_memory);
    *plan = (struct step_plan){.step = 9, .row_count = 2, .token_count = 4, .page_count = 2};
    record_set_head(plan, RECORD_RUN_STEP);
    step_plan_rows(plan)[0] = (struct step_row){.slot = 40,
                                                .token_count = 3,
                                                .page_count = 1,
                                                .logits_count = 1,
                                                .sample = 1,
                                                .sampling = {.top_p = 1}};
    step_plan_rows(plan)[1] = (struct step_row){.slot = 41,
                                                .form = TOKEN_GENERATED,
                                                .token_count = 1,
                                                .token_index = 3,
                                                .page_index = 1,
                                                .page_count = 1};
    for (uint32_t i = 0; i < 4; i++)
        step_plan_tokens(plan)[i] = i + 1;
    step_plan_pages(plan)[0].index = 2;
    step_plan_pages(plan)[1].index = 0;
}

static void run(void) {
    error.text[0] = 0;
    engine_run(engine, plan, result, &error);
    assert_int_equal(result->record.kind, RECORD_STEP_DONE);
    assert_int_equal(result->record.bytes, record_bytes(RECORD_STEP_DONE, result));
    assert_int_equal(result->step, 9);
    assert_int_equal(result->row_count, plan->row_count);
}

TEST(a_good_plan_is_answered) {
    make_plan();
    run();
    assert_int_equal(result->failed, 0);
    assert_int_equal(step_result_rows(result)[0].slot, 40);
    assert_true(step_result_rows(result)[0].tokens[0] < VOCAB);
    assert_int_equal(step_result_rows(result)[1].slot, 41);
    assert_int_equal(step_result_rows(result)[1].token_count, 0);
    uint32_t token = step_result_rows(result)[0].tokens[0];
    make_plan(); /* sequences written again give the same */
    run();
    assert_int_equal(step_result_rows(result)[0].tokens[0], token);
}

static void expect_refused(const char *word);

/* The same row with logprobs, with a bias, with a penalty: what the engine says of its choice. */
TEST(choices_follow_biases_and_are_reported) {
    make_plan();
    run();
    uint32_t best = step_result_rows(result)[0].tokens[0]; /* temperature 0 */
    make_plan();
    plan->history_count = 2;
    plan->bias_count = 1;
    plan->record.bytes = (uint32_t)record_bytes(RECORD_RUN_STEP, plan);
    step_plan_history(plan)[1] = best;
    step_plan_biases(plan)[0] = (struct token_bias){best, -100};
    struct step_row *row = &step_plan_rows(plan)[0];
    row->bias_count = 1;
    row->sampling.flags = SAMPLING_LOGPROBS;
    row->sampling.top_logprobs = 3;
    assert_true(record_valid(plan, plan->record.bytes));
    run();
    assert_true(record_valid(result, result->record.bytes));
    const struct token_logprob *reported = step_result_logprobs(result);
    assert_int_equal(step_result_rows(result)[0].logprobs_each, 4);
    assert_int_equal(step_result_rows(result)[1].logprobs_each, 0);
    assert_int_not_equal(reported[0].token, best); /* banned, but */
    assert_int_equal(reported[1].token, best);     /* the model's own logits still say so */
    assert_int_equal(reported[0].token, step_result_rows(result)[0].tokens[0]);
    assert_int_equal(reported[0].token, reported[2].token);
    assert_true(reported[0].logprob == reported[2].logprob &&
                reported[1].logprob >= reported[2].logprob);

    row->bias_count = 0; /* the ban is gone; a presence penalty does the same */
    row->history_count = 2;
    row->sampling.presence_penalty = 2;
    step_plan_history(plan)[0] = best;
    row->history_prompt_count = 2; /* in the prompt it does not count */
    run();
    assert_int_equal(step_result_rows(result)[0].tokens[0], best);

    row->history_index = 1;
    expect_refused("history");
}

TEST(written_pages_say_what_they_hold) {
    make_plan();
    run();
    const struct model *model = engine_model(engine);
    const struct kv_block_header *header = kv_pages_header(&model->kv, 2);
    assert_memory_equal(header->magic, KV_BLOCK_MAGIC, 8);
    assert_int_equal(header->token_count, 3);
    assert_int_equal(header->slice_count, model->shape->layers);
    assert_int_equal(header->width, shape_kv_width(model->shape));
    assert_int_equal(model_page_bytes(model) % KV_SLICE_ALIGN, 0);
}

static void expect_refused(const char *word) {
    run();
    assert_int_equal(result->failed, 1);
    assert_int_equal(step_result_rows(result)[0].slot, 40);
    assert_int_equal(step_result_rows(result)[0].token_count, 0);
    if (!strstr(error.text, word)) fail_msg("expected '%s' in: %s", word, error.text);
}

#define REFUSED(word, ...)                                                                         \
    do {                                                                                           \
        make_plan();                                                                               \
        struct step_row *row = &step_plan_rows(plan)[0];                                           \
        __VA_ARGS__;                                                                               \
        (void)row;                                                                                 \
        expect_refused(word);                                                                      \
    } while (0)

TEST(bad_plans_are_refused) {
    REFUSED("form", row->form = 7);
    REFUSED("number of tokens", row->token_count = 0);
    REFUSED("number of tokens", row->token_count = UINT32_MAX);
    REFUSED("first token's index", row->token_index = 2);
    REFUSED("first token's index", row->token_index = UINT32_MAX);
    REFUSED("first position", row->first_position = UINT32_MAX - 1);
    REFUSED("number of positions", row->first_position = 62);
    REFUSED("end of its pages", row->page_index = 2);
    REFUSED("end of its pages", row->page_index = UINT32_MAX);
    REFUSED("end of its pages", row->page_count = UINT32_MAX);
    REFUSED("expected logits for a sampled row", row->logits_count = 0);
    REFUSED("token id", step_plan_tokens(plan)[1] = VOCAB);
    REFUSED("a page is", step_plan_pages(plan)[0].index = 1000);
    REFUSED("the schedule", plan->overlap = OVERLAP_KIND_COUNT);
    REFUSED("cannot be cut", plan->overlap = OVERLAP_DECODE_FIVE_STAGE, plan->cuts[0].token = 1);
    REFUSED("cannot be cut", plan->overlap = OVERLAP_OCTO_BATCH, plan->cuts[6].token = 64);
    REFUSED("serving computes those of the last", row->logits_count = 2);
}

static int open_engine(void **state) {
    char directory[1024];
    snprintf(directory, sizeof directory, "%s/v3-fp8-odd-noq-g1-noyarn",
             getenv("FATHOM_TEST_GOLDENS"));
    struct model_options options = {.directory = directory,
                                    .threads = 2,
                                    .kv_bytes = 1 << 20,
                                    .step_tokens_max = 64,
                                    .step_rows_max = 4};
    if (engine_open(&options, &engine, &error) != STATUS_OK) {
        fprintf(stderr, "%s\n", error.text);
        return -1;
    }
    check(model_shape(engine_model(engine))->vocab == VOCAB);
    return 0;
}

static int close_engine(void **state) {
    engine_close(engine);
    return 0;
}

TEST(too_little_kv_memory_is_refused) {
    char directory[1024];
    struct engine *other = NULL;
    snprintf(directory, sizeof directory, "%s/v3-fp8-odd-noq-g1-noyarn",
             getenv("FATHOM_TEST_GOLDENS"));
    struct model_options options = {.directory = directory,
                                    .threads = 1,
                                    .kv_bytes = 4096,
                                    .step_tokens_max = 64,
                                    .step_rows_max = 4};
    assert_int_equal(engine_open(&options, &other, &error), STATUS_TOO_LARGE);
    assert_non_null(strstr(error.text, "--kv-memory"));
}

TEST_GROUP(open_engine, close_engine)
