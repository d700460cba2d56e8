/* SPDX-License-Identifier: Apache-2.0
 * Protects speculation inside a step: a row with a draft gives, bit for bit, the logits and the KV
 * rows that the row without would have given, and behind a right draft those of the next step. And
 * the MTP layer's KV rows are the same bits whichever way they came about: with drafts, without,
 * from a probe, in chunks, in rows that did not count and came again, in rows of several tokens
 * because some were forced.
 */
#define TEST_OWN_MAIN
#include "test_case.h"

#include "base/check.h"
#include "compute/model/draft.h"
#include "compute/model/forward.h"
#include "compute/model/model.h"
#include "compute/model/model_state.h"
#include "contract/machine.h"
#include "contract/step_plan.h"

enum {
    SEQUENCES = 4,
    PAGES_EACH = 4,
    TOKENS_MAX = 170,
    STEP_TOKENS = 256,
    PLAN_BYTES = 1 << 16,
};

/* A model with MLA alone, and one whose tokens choose 20 rows by index keys. */
static const char *const models[] = {"models/tiny-r1", "tests/golden/v32-bf16-dsa-mtp"};

static char directory[4096];
static struct model *model;
static float *logits; /* [STEP_TOKENS][vocab] */
static _Alignas(16) char plan_memory[PLAN_BYTES];
static struct step_plan *const plan = (struct step_plan *)(void *)plan_memory;

static struct sequence {
    uint32_t prompt_count, count; /* known tokens; the last is not computed yet */
    uint32_t done;
    uint32_t tokens[TOKENS_MAX];
    bool fresh;
} sequences[SEQUENCES];

static uint64_t random_state = 7;

static uint32_t draw(uint32_t below) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % below);
}

static void open_model(const char *name, enum activations activations, uint32_t threads) {
    const char *source = getenv("FATHOM_SOURCE");
    struct error error = {""};
    snprintf(directory, sizeof directory, "%s/%s", source ? source : ".", name);
    struct model_options options = {.directory = directory,
                                    .activations = activations,
                                    .level = kernels_detect(),
                                    .threads = threads,
                                    .kv_bytes = (uint64_t)16 << 20,
                                    .step_tokens_max = STEP_TOKENS,
                                    .step_rows_max = SEQUENCES,
                                    .mtp = true};
    if (model_open(&options, &model, &error)) fail_msg("%s", error.text);
    assert_true(model_has_mtp(model));
    assert_true(model_page_count(model) >= SEQUENCES * PAGES_EACH);
    logits = malloc((size_t)STEP_TOKENS * model_shape(model)->vocab * sizeof(float));
    /* what is read without having been written will show */
    memset(model->kv.memory, 0xFF, model->kv.page_count * model->kv.page_bytes);
}

static void close_model(void) {
    model_close(model);
    free(logits);
}

static struct page_id page_of(uint32_t sequence, uint32_t page) {
    return (struct page_id){page * SEQUENCES + SEQUENCES - 1 - sequence};
}

static void begin_plan(uint32_t rows, uint32_t tokens) {
    memset(plan_memory, 0, sizeof plan_memory);
    *plan = (struct step_plan){
        .row_count = rows, .token_count = tokens, .page_count = rows * PAGES_EACH};
    record_set_head(plan, RECORD_RUN_STEP);
    check(plan->record.bytes <= PLAN_BYTES);
}

/* The next `count` tokens of a sequence, with the last one's logits. */
static void put_row(uint32_t row, uint32_t number, uint32_t count, uint32_t drafts,
                    uint32_t *token_index) {
    struct sequence *sequence = &sequences[number];
    bool generated = sequence->done >= sequence->prompt_count;
    step_plan_rows(plan)[row] = (struct step_row){
        .slot = number,
        .form = generated ? TOKEN_GENERATED : TOKEN_PROMPT,
        .first_position = sequence->done,
        .token_count = count,
        .token_index = *token_index,
        .page_index = row * PAGES_EACH,
        .page_count = PAGES_EACH,
        .logits_count = 1,
        .sample = 1,
        .draft_count = step_drafts_fit(sequence->done + 1, drafts) ? drafts : 0,
        .fresh = sequence->fresh,
        .sampling = {.top_p = 1},
    };
    memcpy(step_plan_tokens(plan) + *token_index, sequence->tokens + sequence->done,
           count * sizeof(uint32_t));
    for (uint32_t i = 0; i < PAGES_EACH; i++)
        step_plan_pages(plan)[row * PAGES_EACH + i] = page_of(number, i);
    *token_index += count;
    sequence->done += count;
    sequence->fresh = false;
}

static void run_plan(const struct model_probe *probe) {
    struct error error = {""};
    assert_true(record_valid(plan, plan->record.bytes));
    if (forward_run(model, plan, logits, probe, &error)) fail_msg("%s", error.text);
}

static uint32_t best_of(const float *row) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < model_shape(model)->vocab; i++)
        if (row[i] > row[best]) best = i;
    return best;
}

/* What an answer is compared by: its tokens, logits, and the KV rows of all layers. */
struct answer {
    uint32_t tokens[TOKENS_MAX];
    float *logits; /* [TOKENS_MAX][vocab] of each position from the prompt's last on */
    char *rows;    /* [slices][TOKENS_MAX][token_bytes] */
    uint32_t made, right, steps;
};

static float *logits_at(const struct answer *answer, uint32_t position) {
    return answer->logits + (size_t)position * model_shape(model)->vocab;
}

static void note_token(struct answer *answer, uint32_t number, const float *row) {
    struct sequence *sequence = &sequences[number];
    if (sequence->count == TOKENS_MAX) return;
    memcpy(logits_at(&answer[number], sequence->count - 1), row,
           model_shape(model)->vocab * sizeof(float));
    sequence->tokens[sequence->count++] = best_of(row);
}

/* What the next steps do beside: rows that do not count; tokens of this answer that are forced. */
static bool rows_come_again;
static const struct answer *forcing;

/* Nobody asks the model for these. */
static void add_forced(struct answer *answers, uint32_t number, uint32_t count) {
    struct sequence *sequence = &sequences[number];
    for (uint32_t i = 0; i < count && sequence->count + 1 < TOKENS_MAX; i++) {
        memcpy(logits_at(&answers[number], sequence->count - 1),
               logits_at(&forcing[number], sequence->count - 1),
               model_shape(model)->vocab * sizeof(float));
        sequence->tokens[sequence->count] = forcing[number].tokens[sequence->count];
        sequence->count++;
    }
}

/* One step for the sequences of `mask` that are not full. False when all are. */
static bool answer_step(struct answer *answers, uint32_t mask, uint32_t drafts) {
    uint32_t numbers[SEQUENCES], rows = 0, token_index = 0;
    for (uint32_t i = 0; i < SEQUENCES; i++)
        if (mask >> i & 1 && sequences[i].count < TOKENS_MAX) numbers[rows++] = i;
    if (!rows) return false;
    uint32_t tokens = 0;
    for (uint32_t i = 0; i < rows; i++)
        tokens += sequences[numbers[i]].count - sequences[numbers[i]].done;
    begin_plan(rows, tokens);
    for (uint32_t i = 0; i < rows; i++) {
        const struct sequence *sequence = &sequences[numbers[i]];
        uint32_t count = sequence->count - sequence->done;
        bool drafted = count == 1 && sequence->count + 1 < TOKENS_MAX;
        put_row(i, numbers[i], count, drafted ? drafts : 0, &token_index);
    }
    run_plan(NULL);
    const float *row = logits;
    uint32_t vocab = model_shape(model)->vocab;
    for (uint32_t i = 0; i < rows; i++) {
        struct sequence *sequence = &sequences[numbers[i]];
        struct model_draft draft = draft_of_row(model, i);
        assert_true(draft.count <= step_plan_rows(plan)[i].draft_count);
        if (rows_come_again && draw(4) == 0) {
            sequence->done -= step_plan_rows(plan)[i].token_count;
            row += (size_t)(1 + draft.count) * vocab;
            continue;
        }
        note_token(answers, numbers[i], row);
        answers[numbers[i]].steps++;
        answers[numbers[i]].made += draft.count;
        if (draft.count && sequence->tokens[sequence->count - 1] == draft.tokens[0]) {
            note_token(answers, numbers[i], row + vocab);
            sequence->done++;
            answers[numbers[i]].right++;
        }
        if (forcing && draw(5) == 0) add_forced(answers, numbers[i], 1 + draw(6));
        row += (size_t)(1 + draft.count) * vocab;
    }
    return true;
}

/* A sequence's prompt in chunks of at most `chunk` tokens. */
static void prefill(struct answer *answers, uint32_t number, uint32_t chunk) {
    struct sequence *sequence = &sequences[number];
    sequence->done = 0;
    sequence->count = sequence->prompt_count;
    sequence->fresh = true;
    while (sequence->done < sequence->prompt_count) {
        uint32_t left = sequence->prompt_count - sequence->done, token_index = 0;
        uint32_t count = left < chunk ? left : chunk;
        begin_plan(1, count);
        put_row(0, number, count, 0, &token_index);
        run_plan(NULL);
    }
    note_token(answers, number, logits);
}

/* Of a token's rows in a slice, in all groups. */
static size_t token_bytes(void) {
    return kv_format_token_bytes(&model->kv.format) / model->kv.format.slice_count;
}

static void keep_rows(struct answer *answers) {
    const struct kv_pages *kv = &model->kv;
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        memcpy(answers[i].tokens, sequences[i].tokens, sizeof answers[i].tokens);
        char *to = answers[i].rows;
        for (uint32_t slice = 0; slice < kv->format.slice_count; slice++)
            for (uint32_t p = 0; p < TOKENS_MAX; p++)
                for (uint32_t group = 0; group < kv->format.group_count; group++) {
                    size_t bytes = kv_group_row_bytes(&kv->format.groups[group]);
                    memcpy(to, kv_pages_row(kv, page_of(i, p / 64).index, slice, group, p % 64),
                           bytes);
                    to += bytes;
                }
    }
}

static struct answer *new_answers(void) {
    struct answer *answers = calloc(SEQUENCES, sizeof *answers);
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        answers[i].logits = calloc((size_t)TOKENS_MAX * model_shape(model)->vocab, sizeof(float));
        answers[i].rows = calloc(model->kv.format.slice_count * (size_t)TOKENS_MAX, token_bytes());
    }
    return answers;
}

static void free_answers(struct answer *answers) {
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        free(answers[i].logits);
        free(answers[i].rows);
    }
    free(answers);
}

/* All tokens' and logits' bits; the KV rows of what both have computed: all but the last token, and
 * in the MTP layer all but the first row, which does not exist. */
static void expect_same(const struct answer *a, const struct answer *b) {
    uint32_t slices = model->kv.format.slice_count;
    size_t row_bytes = token_bytes();
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        assert_memory_equal(a[i].tokens, b[i].tokens, sizeof a[i].tokens);
        size_t from = sequences[i].prompt_count - 1, vocab = model_shape(model)->vocab;
        assert_memory_equal(a[i].logits + from * vocab, b[i].logits + from * vocab,
                            (TOKENS_MAX - 1 - from) * vocab * sizeof(float));
        for (uint32_t slice = 0; slice < slices; slice++) {
            uint32_t first = slice == slices - 1; /* and the last ones may not be written yet */
            size_t at = ((size_t)slice * TOKENS_MAX + first) * row_bytes;
            assert_memory_equal(a[i].rows + at, b[i].rows + at,
                                (TOKENS_MAX - 2 - first) * row_bytes);
        }
    }
}

static void draw_prompts(void) {
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        sequences[i].prompt_count = i == 0 ? 1 : i == 1 ? 64 : 1 + draw(130);
        for (uint32_t k = 0; k < TOKENS_MAX; k++)
            sequences[i].tokens[k] = draw(model_shape(model)->vocab);
    }
}

/* Plain: each alone, its prompt at once, without drafts. Then prompts in chunks, drafts wherever
 * they may be, all together; and drafts now and then, some at a time, while rows come again; and
 * with forced tokens, too. */
static void expect_exact(const char *name, enum activations activations, uint32_t trials) {
    open_model(name, activations, 1);
    draw_prompts();
    struct answer *plain = new_answers();
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        prefill(plain, i, STEP_TOKENS);
        while (answer_step(plain, 1u << i, 0)) {
        }
        assert_int_equal(plain[i].made, 0);
    }
    keep_rows(plain);
    uint32_t made = 0, right = 0;
    for (uint32_t trial = 0; trial < trials; trial++) {
        close_model();
        open_model(name, activations, 2 + trial);
        struct answer *answers = new_answers();
        for (uint32_t i = 0; i < SEQUENCES; i++)
            prefill(answers, i, 64);
        rows_come_again = trial > 0;
        forcing = trial > 1 ? plain : NULL;
        uint32_t all = (1u << SEQUENCES) - 1;
        while (answer_step(answers, trial ? 1 + draw(all) : all, !trial || draw(4)))
            ;
        while (answer_step(answers, all, 1)) { /* what a last draw left */
        }
        keep_rows(answers);
        expect_same(plain, answers);
        for (uint32_t i = 0; i < SEQUENCES; i++) {
            made += answers[i].made;
            right += answers[i].right;
        }
        free_answers(answers);
    }
    rows_come_again = false;
    forcing = NULL;
    free_answers(plain);
    close_model();
    print_message("# %s, %s: %u drafts, %u right\n", name, activations_name(activations), made,
                  right);
    assert_true(right < made && (right > 0 || name != models[0])); /* of random weights by chance */
}

TEST(drafts_change_no_bit) {
    expect_exact(models[0], ACTIVATIONS_BF16, 3);
    expect_exact(models[0], ACTIVATIONS_F32, 1);
    expect_exact(models[1], ACTIVATIONS_BF16, 3);
    expect_exact("tests/golden/v4-bf16-flash", ACTIVATIONS_BF16, 3);
}

/* The same prompt's MTP rows from a probe; the probe's own last position goes beyond. */
static void probe_prompt(const char *name) {
    static uint32_t argmax[TOKENS_MAX];
    open_model(name, ACTIVATIONS_BF16, 2);
    draw_prompts();
    struct answer *plain = new_answers(), *probed = new_answers();
    uint32_t count = sequences[2].prompt_count = 150, token_index = 0;
    prefill(plain, 2, 64);
    keep_rows(plain);
    sequences[2].done = 0;
    memset(model->kv.memory, 0xFF, model->kv.page_count * model->kv.page_bytes);
    begin_plan(1, count);
    put_row(0, 2, count, 0, &token_index);
    struct model_probe probe = {.mtp_argmax = argmax, .mtp_next_token = 3};
    run_plan(&probe);
    keep_rows(probed);
    size_t first = ((size_t)(model->kv.format.slice_count - 1) * TOKENS_MAX + 1) * token_bytes();
    assert_memory_equal(plain[2].rows + first, probed[2].rows + first, (count - 1) * token_bytes());
    free_answers(plain);
    free_answers(probed);
    close_model();
}

TEST(a_probe_writes_the_same_rows) {
    for (uint32_t i = 0; i < ARRAY_COUNT(models); i++)
        probe_prompt(models[i]);
}

/* Whoever took the slot over has none of the outputs before its first row: zeros, and no guess. */
static void answer_fresh(const char *name) {
    open_model(name, ACTIVATIONS_BF16, 2);
    draw_prompts();
    struct answer *answers = new_answers();
    sequences[2].prompt_count = 64;
    prefill(answers, 2, 64);
    uint32_t token_index = 0;
    begin_plan(1, 1);
    sequences[2].fresh = true; /* as after an interruption, the prompt being in the cache */
    put_row(0, 2, 1, 1, &token_index);
    run_plan(NULL);
    assert_int_equal(draft_of_row(model, 0).count, 0);
    for (uint32_t group = 0; group < model->kv.format.group_count; group++) {
        const char *row =
            kv_pages_row(&model->kv, page_of(2, 1).index, model->shape->layers, group, 0);
        for (size_t i = 0; i < kv_group_row_bytes(&model->kv.format.groups[group]); i++)
            assert_int_equal(row[i], 0);
    }
    note_token(answers, 2, logits);
    token_index = 0;
    begin_plan(1, 1);
    put_row(0, 2, 1, 1, &token_index);
    run_plan(NULL);
    assert_int_equal(draft_of_row(model, 0).count, 1); /* the next one does again */
    free_answers(answers);
    close_model();
}

TEST(a_fresh_row_guesses_nothing) {
    for (uint32_t i = 0; i < ARRAY_COUNT(models); i++)
        answer_fresh(models[i]);
}

/* Drafts where none may be, and slots that do not exist. */
TEST(bad_drafts_are_refused) {
    open_model(models[0], ACTIVATIONS_BF16, 1);
    const struct {
        const char *word;
        struct step_row row;
    } cases[] = {
        {"drafts need", {.form = TOKEN_PROMPT, .first_position = 3, .draft_count = 1}},
        {"drafts need", {.form = TOKEN_GENERATED, .first_position = 62, .draft_count = 1}},
        {"number of drafts", {.form = TOKEN_GENERATED, .draft_count = LIMIT_DRAFTS + 1}},
        {"number of positions", {.form = TOKEN_GENERATED, .first_position = 255, .draft_count = 1}},
        {"slot", {.form = TOKEN_GENERATED, .slot = SEQUENCES}},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct error error = {""};
        begin_plan(1, 1);
        struct step_row *row = step_plan_rows(plan);
        *row = cases[i].row;
        row->token_count = row->logits_count = row->sample = 1;
        row->page_count = PAGES_EACH;
        assert_int_equal(forward_run(model, plan, logits, NULL, &error), STATUS_INVALID);
        if (!strstr(error.text, cases[i].word))
            fail_msg("expected '%s' in: %s", cases[i].word, error.text);
    }
    close_model();
}

int main(void) {
    return test_cases_run();
}
