/* SPDX-License-Identifier: Apache-2.0
 * Protects those who send KV blocks away while a step computes: whatever the schedule and wherever
 * the step is cut into micro-batches, each layer's slice is told once, in order, with its step's
 * number, and what is told written stands in the pages for good, byte for byte; the MTP layer's
 * slice likewise, behind all others. And protects those who fill pages meanwhile: a layer's slices
 * may come at the last moment before it is waited for, and no bit changes; if they never come, no
 * other row's do.
 */
#define TEST_OWN_MAIN
#include "test_case.h"

#include "compute/model/forward.h"
#include "compute/model/model.h"
#include "compute/model/model_state.h"
#include "compute/weights/weights_file.h"
#include "contract/machine.h"
#include "contract/step_plan.h"

enum { ROWS = 3, PAGES_EACH = 4, STEP_TOKENS = 512, TRIALS = 40 };

/* A model with MLA alone, and one whose tokens choose 20 rows by index keys. */
static const char *const models[] = {"models/tiny-r1", "tests/golden/v32-bf16-dsa-mtp"};

static char directory[4096];
static struct model *model;
static _Alignas(16) char plan_memory[1 << 16];
static struct step_plan *const plan = (struct step_plan *)(void *)plan_memory;
static uint64_t random_state = 7;

static struct seen {
    uint64_t step;
    uint32_t slices;
    uint64_t sums[LIMIT_LAYERS]; /* of a slice in all pages, when it was told */
} seen;

static uint32_t draw(uint32_t below) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % below);
}

static uint64_t sum_slice(uint32_t slice) {
    uint64_t sum = 0;
    for (uint32_t page = 0; page < ROWS * PAGES_EACH; page++)
        sum = sum * 31 +
              weights_file_digest(kv_pages_slice(&model->kv, page, slice), model->kv.slice_bytes);
    return sum;
}

static void written(void *context, uint64_t step, uint32_t slices) {
    assert_ptr_equal(context, &seen);
    assert_int_equal(step, plan->step);
    assert_int_equal(slices, seen.slices + 1);
    seen.sums[seen.slices++] = sum_slice(slices - 1);
}

static void open_model(const char *name, bool mtp) {
    const char *source = getenv("FATHOM_SOURCE");
    struct error error = {""};
    snprintf(directory, sizeof directory, "%s/%s", source ? source : ".", name);
    struct model_options options = {.directory = directory,
                                    .activations = ACTIVATIONS_BF16,
                                    .level = kernels_detect(),
                                    .threads = 2,
                                    .kv_bytes = (uint64_t)16 << 20,
                                    .step_tokens_max = STEP_TOKENS,
                                    .step_rows_max = ROWS,
                                    .mtp = mtp};
    const struct model_follower follower = {.context = &seen, .written = written};
    if (model_open(&options, &model, &error)) fail_msg("%s", error.text);
    assert_true(model_has_mtp(model) == mtp);
    assert_true(model_page_count(model) >= ROWS * PAGES_EACH);
    model_set_follower(model, &follower);
}

/* Prompts of all sizes, from their beginning, by any schedule, its lanes beginning anywhere. */
static void make_plan(uint64_t step, uint32_t row_count) {
    uint32_t counts[ROWS], tokens = 0;
    for (uint32_t i = 0; i < row_count; i++)
        tokens += counts[i] = 1 + draw(STEP_TOKENS / ROWS);
    memset(plan_memory, 0, sizeof plan_memory);
    *plan = (struct step_plan){.step = step,
                               .row_count = row_count,
                               .token_count = tokens,
                               .page_count = row_count * PAGES_EACH,
                               .overlap = draw(OVERLAP_KIND_COUNT)};
    record_set_head(plan, RECORD_RUN_STEP);
    assert_true(plan->record.bytes <= sizeof plan_memory);
    for (uint32_t i = 0, at = 0; i < row_count; at += counts[i++]) {
        step_plan_rows(plan)[i] = (struct step_row){.slot = i,
                                                    .form = TOKEN_PROMPT,
                                                    .token_count = counts[i],
                                                    .token_index = at,
                                                    .page_index = i * PAGES_EACH,
                                                    .page_count = PAGES_EACH,
                                                    .logits_count = 1,
                                                    .fresh = 1,
                                                    .sampling = {.top_p = 1}};
        for (uint32_t page = 0; page < PAGES_EACH; page++)
            step_plan_pages(plan)[i * PAGES_EACH + page].index = i * PAGES_EACH + page;
    }
    for (uint32_t i = 0; i < tokens; i++)
        step_plan_tokens(plan)[i] = draw(model_shape(model)->vocab);
    for (uint32_t i = 0; i < OVERLAP_MICRO_BATCHES - 1; i++) {
        uint32_t row = draw(row_count + 1);
        uint32_t blocks = row < row_count ? (counts[row] - 1) / KV_BLOCK_TOKENS + 1 : 1;
        plan->cuts[i] = (struct step_cut){row, draw(blocks) * KV_BLOCK_TOKENS};
    }
}

static void run(bool mtp) {
    struct error error = {""};
    float *logits = malloc((size_t)ROWS * model_shape(model)->vocab * sizeof *logits);
    uint32_t slices = model_shape(model)->layers + mtp;
    for (uint64_t step = 1; step <= TRIALS; step++) {
        uint32_t row_count = draw(8) ? 1 + draw(ROWS) : 0;
        make_plan(step, row_count);
        seen = (struct seen){.step = step};
        if (forward_run(model, plan, logits, NULL, &error)) fail_msg("%s", error.text);
        assert_int_equal(seen.slices, row_count ? slices : 0);
        for (uint32_t slice = 0; slice < seen.slices; slice++)
            assert_true(seen.sums[slice] == sum_slice(slice));
    }
    free(logits);
}

TEST(every_slice_is_reported_once_when_it_stands) {
    for (uint32_t i = 0; i < 2 * ARRAY_COUNT(models); i++) {
        bool mtp = i % 2;
        open_model(models[i / 2], mtp);
        run(mtp);
        model_close(model);
    }
}

/* A plan that breaks a rule tells nothing; nor does anything when nobody follows. */
TEST(what_does_not_run_reports_nothing) {
    struct error error = {""};
    open_model(models[0], false);
    float *logits = malloc((size_t)ROWS * model_shape(model)->vocab * sizeof *logits);
    make_plan(1, 1);
    seen = (struct seen){.step = 1};
    step_plan_tokens(plan)[0] = model_shape(model)->vocab;
    assert_int_equal(forward_run(model, plan, logits, NULL, &error), STATUS_INVALID);
    assert_int_equal(seen.slices, 0);
    make_plan(2, 1);
    model_set_follower(model, NULL);
    assert_int_equal(forward_run(model, plan, logits, NULL, &error), STATUS_OK);
    assert_int_equal(seen.slices, 0);
    free(logits);
    model_close(model);
}

/* ---- pages that are filled while the step runs ---- */

static struct late {
    char *slices; /* [layers][slice_bytes] the slot's first page, as it was computed */
    uint32_t come, asked;
    bool comes;
} late;

static void fill(void *context, uint32_t slot, uint32_t slices) {
    (void)context;
    assert_int_equal(slot, 1);
    if (slices > late.asked) late.asked = slices; /* lanes may be at different layers */
    while (late.comes && late.come < slices) {
        memcpy(kv_pages_slice(&model->kv, PAGES_EACH, late.come),
               late.slices + late.come * model->kv.slice_bytes, model->kv.slice_bytes);
        late.come++;
    }
}

/* Rows 0 and 1 of 150 tokens each; the second one's first block comes from elsewhere. */
static void run_second_half(uint32_t overlap, bool waits, float *logits) {
    struct error error = {""};
    uint32_t loads = waits;
    plan->overlap = overlap;
    for (uint32_t i = 0; i < 2; i++) {
        struct step_row *row = &step_plan_rows(plan)[i];
        row->first_position = i ? KV_BLOCK_TOKENS : 0;
        row->token_count = i ? 86 : 150;
        row->token_index = i ? 150 + KV_BLOCK_TOKENS : 0;
        row->loads = i ? loads : 0;
    }
    for (uint32_t i = 0; i < OVERLAP_MICRO_BATCHES - 1; i++)
        plan->cuts[i] = (struct step_cut){i < 2 ? i : UINT32_MAX, i < 2 ? KV_BLOCK_TOKENS : 0};
    if (forward_run(model, plan, logits, NULL, &error)) fail_msg("%s", error.text);
}

static void make_two_rows(void) {
    memset(plan_memory, 0, sizeof plan_memory);
    *plan = (struct step_plan){
        .step = 1, .row_count = 2, .token_count = 300, .page_count = 2 * PAGES_EACH};
    record_set_head(plan, RECORD_RUN_STEP);
    for (uint32_t i = 0; i < 2; i++) {
        step_plan_rows(plan)[i] = (struct step_row){.slot = i,
                                                    .form = TOKEN_PROMPT,
                                                    .token_count = 150,
                                                    .token_index = 150 * i,
                                                    .page_index = i * PAGES_EACH,
                                                    .page_count = PAGES_EACH,
                                                    .logits_count = 1,
                                                    .fresh = 1,
                                                    .sampling = {.top_p = 1}};
        for (uint32_t page = 0; page < PAGES_EACH; page++)
            step_plan_pages(plan)[i * PAGES_EACH + page].index = i * PAGES_EACH + page;
    }
    for (uint32_t i = 0; i < 300; i++)
        step_plan_tokens(plan)[i] = draw(model_shape(model)->vocab);
}

static void fill_late(const char *name) {
    const struct model_follower follower = {.await = fill};
    struct error error = {""};
    open_model(name, false);
    uint32_t vocab = model_shape(model)->vocab, layers = model_shape(model)->layers;
    float *expected = malloc(2 * vocab * sizeof *expected);
    float *found = malloc(2 * vocab * sizeof *found);
    model_set_follower(model, &follower);
    make_two_rows();
    if (forward_run(model, plan, expected, NULL, &error)) fail_msg("%s", error.text);
    late.slices = malloc(layers * model->kv.slice_bytes);
    for (uint32_t slice = 0; slice < layers; slice++)
        memcpy(late.slices + slice * model->kv.slice_bytes,
               kv_pages_slice(&model->kv, PAGES_EACH, slice), model->kv.slice_bytes);
    for (uint32_t i = 0; i < 2 * OVERLAP_KIND_COUNT; i++) {
        late.come = late.asked = 0;
        late.comes = i % 2 == 0;
        memset(model->kv.memory, 0xFF, model->kv.page_count * model->kv.page_bytes); /* NaN */
        run_second_half(i / 2, true, found);
        assert_int_equal(late.asked, layers);
        assert_memory_equal(found, expected, vocab * sizeof *found);
        bool same = memcmp(found + vocab, expected + vocab, vocab * sizeof *found) == 0;
        assert_true(same == late.comes);
    }
    free(late.slices);
    free(expected);
    free(found);
    model_close(model);
}

TEST(slices_may_come_at_the_last_moment) {
    for (uint32_t i = 0; i < ARRAY_COUNT(models); i++)
        fill_late(models[i]);
}

int main(void) {
    return test_cases_run();
}
