/* SPDX-License-Identifier: Apache-2.0
 * Protects constrained answers on the model that comes with Fathom: each is what its constraint
 * says, and the same to the last token alone or among others, with drafts or without, with forced
 * tokens or without, after it was interrupted anywhere, and over masks that come too late, which
 * cost a step and never a token, and are told when they are there. And the masks' seats: none is
 * left over when slots change hands.
 */
#include <math.h>

#include "../../slow.h"
#include "base/check.h"
#include "base/tree.h"
#include "compute/model/model.h"
#include "contract/machine.h"
#include "host/engine/engine.h"
#include "host/engine/grammar_mask_worker.h"
#include "host/process/model_text.h"

#define TEST_OWN_MAIN
#include "test_case.h"

enum {
    SEQUENCES = 8,
    PAGES_EACH = 6,
    TOKENS_MAX = PAGES_EACH * KV_BLOCK_TOKENS,
    ANSWER_MAX = 250,
    STEP_TOKENS = 1024,
    PLAN_BYTES = 1 << 18,
    STOP = 1 /* the model's end of sentence */
};
#define PATIENT_NS 60000000000 /* no mask is late */

static char directory[4096];
static struct model_text text;
static struct engine *engine;
static struct grammar_mask_worker *grammar_mask_worker;
static struct step_result *result;
static _Alignas(16) char plan_memory[PLAN_BYTES];
static struct step_plan *const plan = (struct step_plan *)(void *)plan_memory;

#define OBJECT                                                                                     \
    "{\"type\":\"object\",\"properties\":{\"answer\":{\"type\":\"integer\",\"minimum\":0,"         \
    "\"maximum\":99999},\"sure\":{\"type\":\"boolean\"},\"why\":{\"type\":\"string\","             \
    "\"maxLength\":30}},\"required\":[\"answer\",\"sure\",\"why\"],\"additionalProperties\":"      \
    "false}"
#define LIST                                                                                       \
    "{\"type\":\"array\",\"items\":{\"enum\":[\"red\",\"green\",\"blue\",null]},\"minItems\":3,"   \
    "\"maxItems\":9}"
#define WORD "{\"type\":\"string\",\"pattern\":\"^[a-z]{3,12}(-[a-z]{2,6}){0,3}$\"}"
/* Between its calls, several tokens in a row must come. */
#define CALLS                                                                                               \
    "{\"repeat\":{\"sequence\":[{\"token\":\"<｜tool▁calls▁begin｜>\"},{\"token\":"                   \
    "\"<｜tool▁call▁begin｜>\"},{\"choice\":[\"add\",\"spell\"]},{\"token\":\"<｜tool▁sep｜>\"}," \
    "{\"schema\":{\"type\":\"boolean\"}},{\"token\":\"<｜tool▁call▁end｜>\"},{\"token\":"             \
    "\"<｜tool▁calls▁end｜>\"}]},\"least\":4,\"most\":4}"

/* "": free. */
static const char *const constraints[SEQUENCES] = {
    "{\"form\":{\"schema\":" OBJECT "}}",
    "{\"behind\":\"</think>\",\"form\":{\"schema\":" OBJECT "}}",
    "",
    "{\"form\":{\"schema\":" LIST "}}",
    "{\"opens\":\"<think>\",\"behind\":\"</think>\",\"form\":{\"schema\":" WORD "}}",
    "{\"form\":{\"schema\":" OBJECT "}}",
    "{\"behind\":\"</think>\",\"form\":{\"schema\":" LIST "}}",
    "{\"form\":" CALLS "}",
};
static const char *const prompts[SEQUENCES] = {
    "What is 12 + 30?", "What is 4728 + 915?", "Spell the word house.", "Sort 3, 9, 4.",
    "Who are you?",     "Tell me a story.",    "What is a river?",      "What is 7 times 8?",
};

struct sequence {
    const char *constraint;
    struct sampling sampling;
    bool drafts;
    uint32_t slot;
    uint32_t tokens[TOKENS_MAX];
    uint32_t prompt_count, known, done, output_max;
    bool fresh, is_over, is_stuck, bans_stop;
    uint32_t steps, lost, forced, drafts_made, drafts_right;
};

/* ---- steps ---- */

static uint32_t row_tokens(const struct sequence *sequence) {
    bool prompt = sequence->done < sequence->prompt_count;
    return (prompt ? sequence->prompt_count : sequence->known) - sequence->done;
}

static void count_rows(struct sequence *const *sequences, uint32_t count) {
    *plan = (struct step_plan){.row_count = count, .page_count = count * PAGES_EACH};
    for (uint32_t i = 0; i < count; i++) {
        const struct sequence *sequence = sequences[i];
        plan->token_count += row_tokens(sequence);
        plan->bias_count += sequence->bans_stop;
        if (!sequence->fresh || !sequence->constraint[0]) continue;
        plan->constraint_count++;
        plan->constraint_bytes += (uint32_t)strlen(sequence->constraint);
        plan->constraint_token_count += sequence->known - sequence->prompt_count + 1;
    }
    record_set_head(plan, RECORD_RUN_STEP);
    check(plan->record.bytes <= PLAN_BYTES);
}

static void put_row(uint32_t index, struct sequence *sequence, uint32_t *token_index,
                    uint32_t *bias_index) {
    uint32_t count = row_tokens(sequence);
    bool prompt = sequence->done < sequence->prompt_count;
    bool samples = sequence->done + count == sequence->known;
    uint32_t drafts = sequence->drafts && samples && !prompt && count == 1;
    step_plan_rows(plan)[index] = (struct step_row){
        .slot = sequence->slot,
        .form = prompt ? TOKEN_PROMPT : TOKEN_GENERATED,
        .first_position = sequence->done,
        .token_count = count,
        .token_index = *token_index,
        .page_index = index * PAGES_EACH,
        .page_count = PAGES_EACH,
        .logits_count = samples,
        .sample = samples,
        .output_position = sequence->known - sequence->prompt_count,
        .draft_count = drafts && step_drafts_fit(sequence->done + 1, 1),
        .fresh = sequence->fresh,
        .next_token = STEP_NO_TOKEN,
        .constrained = sequence->constraint[0] != 0,
        .sampling = sequence->sampling,
        .bias_index = *bias_index,
        .bias_count = sequence->bans_stop,
    };
    memcpy(step_plan_tokens(plan) + *token_index, sequence->tokens + sequence->done,
           count * sizeof(uint32_t));
    if (sequence->bans_stop)
        step_plan_biases(plan)[(*bias_index)++] = (struct token_bias){STOP, -INFINITY};
    for (uint32_t i = 0; i < PAGES_EACH; i++)
        step_plan_pages(plan)[index * PAGES_EACH + i].index = i * SEQUENCES + sequence->slot;
    *token_index += count;
}

static void put_constraint(uint32_t row, const struct sequence *sequence, uint32_t *index,
                           uint32_t *token_index, uint32_t *byte_index) {
    uint32_t answer = sequence->known - sequence->prompt_count;
    uint32_t bytes = (uint32_t)strlen(sequence->constraint);
    step_plan_constraints(plan)[(*index)++] = (struct step_constraint){
        .row = row,
        .text_index = *byte_index,
        .text_bytes = bytes,
        .answer_index = *token_index,
        .answer_count = answer,
        .stop_index = *token_index + answer,
        .stop_count = 1,
        .slot = sequence->slot,
    };
    uint32_t *tokens = step_plan_constraint_tokens(plan) + *token_index;
    memcpy(tokens, sequence->tokens + sequence->prompt_count, answer * sizeof(uint32_t));
    tokens[answer] = STOP;
    memcpy(step_plan_constraint_texts(plan) + *byte_index, sequence->constraint, bytes);
    *token_index += answer + 1;
    *byte_index += bytes;
}

static void make_plan(struct sequence *const *sequences, uint32_t count) {
    uint32_t tokens = 0, biases = 0, index = 0, constraint_tokens = 0, bytes = 0;
    memset(plan_memory, 0, sizeof plan_memory);
    count_rows(sequences, count);
    for (uint32_t i = 0; i < count; i++) {
        put_row(i, sequences[i], &tokens, &biases);
        if (sequences[i]->fresh && sequences[i]->constraint[0])
            put_constraint(i, sequences[i], &index, &constraint_tokens, &bytes);
    }
    assert_true(record_valid(plan, plan->record.bytes));
}

static void take_result(struct sequence *sequence, const struct step_row *row,
                        const struct step_result_row *out) {
    sequence->steps++;
    sequence->fresh = false;
    sequence->lost += out->lost;
    if (out->lost) return;
    sequence->is_stuck |= out->stuck;
    uint32_t right = out->token_count ? out->token_count - out->forced_count - 1 : 0;
    sequence->done += row->token_count + right;
    sequence->forced += out->forced_count;
    sequence->drafts_made += out->draft_count;
    sequence->drafts_right += right;
    for (uint32_t i = 0; i < out->token_count && !sequence->is_over; i++) {
        sequence->tokens[sequence->known++] = out->tokens[i];
        uint32_t answer = sequence->known - sequence->prompt_count;
        sequence->is_over = out->tokens[i] == STOP || answer == sequence->output_max;
    }
    sequence->is_over |= sequence->is_stuck;
}

/* One step of those that are not over; false: all are. */
static bool step(struct sequence *sequences, uint32_t count) {
    struct sequence *rows[SEQUENCES];
    struct error error = {""};
    uint32_t row_count = 0;
    for (uint32_t i = 0; i < count; i++)
        if (!sequences[i].is_over) rows[row_count++] = &sequences[i];
    if (row_count == 0) return false;
    make_plan(rows, row_count);
    engine_run(engine, plan, result, &error);
    if (result->failed) fail_msg("%s", error.text);
    assert_true(record_valid(result, result->record.bytes));
    for (uint32_t i = 0; i < row_count; i++)
        take_result(rows[i], &step_plan_rows(plan)[i], &step_result_rows(result)[i]);
    return true;
}

static void finish(struct sequence *sequences, uint32_t count) {
    while (step(sequences, count)) {
    }
}

/* ---- sequences ---- */

static uint32_t encode(const char *prompt, uint32_t *tokens) {
    static char memory[(size_t)8 << 20];
    char whole[512];
    struct arena arena;
    size_t count;
    snprintf(whole, sizeof whole, "<｜begin▁of▁sentence｜><｜User｜>%s<｜Assistant｜>", prompt);
    arena_over(&arena, memory, sizeof memory);
    struct tokenizer_scratch *scratch = tokenizer_scratch_create(&arena, sizeof whole);
    assert_non_null(scratch);
    assert_false(tokenizer_encode(text.tokenizer, scratch, bytes_of(whole), plain_text_nowhere,
                                  tokens, TOKENS_MAX, &count));
    return (uint32_t)count;
}

static uint32_t token_of(const char *name) {
    uint32_t token;
    assert_true(tokenizer_find(text.tokenizer, bytes_of(name), &token));
    return token;
}

/* Every other one is greedy. What thinks has begun to. */
static struct sequence sequence_of(uint32_t number) {
    struct sequence sequence = {.constraint = constraints[number],
                                .slot = number,
                                .fresh = true,
                                .output_max = ANSWER_MAX,
                                .sampling = {.temperature = number % 2 ? 0.8f : 0,
                                             .top_p = number % 4 == 1 ? 0.9f : 1,
                                             .seed = number}};
    sequence.prompt_count = encode(prompts[number], sequence.tokens);
    if (strncmp(sequence.constraint, "{\"behind", 8) == 0)
        sequence.tokens[sequence.prompt_count++] = token_of("<think>");
    sequence.known = sequence.prompt_count;
    return sequence;
}

/* Its KV is gone; what is known of the answer stays. */
static void interrupt(struct sequence *sequence) {
    sequence->done = 0;
    sequence->fresh = true;
}

static void assert_same(const struct sequence *a, const struct sequence *b) {
    assert_int_equal(a->known, b->known);
    assert_memory_equal(a->tokens, b->tokens, a->known * sizeof(uint32_t));
    assert_int_equal(a->is_stuck, b->is_stuck);
}

static struct sequence alone[SEQUENCES]; /* each by itself, with patience */

/* ---- opening ---- */

static void open_grammar_mask_worker(int64_t wait_ns_max) {
    struct error error;
    const struct grammar_mask_worker_options options = {
        .directory = directory,
        .vocab = model_shape(engine_model(engine))->vocab,
        .slots = SEQUENCES,
        .context_tokens_max = TOKENS_MAX,
        .wait_ns_max = wait_ns_max};
    if (grammar_mask_worker_open(&options, &grammar_mask_worker, &error))
        fail_msg("%s", error.text);
    const struct engine_masks masks = grammar_mask_worker_masks(grammar_mask_worker);
    engine_set_masks(engine, &masks);
}

static void close_grammar_mask_worker(void) {
    const struct engine_masks none = {0};
    engine_set_masks(engine, &none);
    grammar_mask_worker_close(grammar_mask_worker);
    grammar_mask_worker = NULL;
}

static int open_all(void **state) {
    (void)state;
    struct error error;
    struct model_options options = {.directory = directory,
                                    .activations = ACTIVATIONS_BF16,
                                    .level = kernels_detect(),
                                    .kv_bytes = (uint64_t)32 << 20,
                                    .step_tokens_max = STEP_TOKENS,
                                    .step_rows_max = SEQUENCES,
                                    .mtp = true};
    if (model_text_open_tokenizer(directory, &text, &error)) fail_msg("%s", error.text);
    if (engine_open(&options, &engine, &error)) fail_msg("%s", error.text);
    assert_true(model_page_count(engine_model(engine)) >= SEQUENCES * PAGES_EACH);
    result = calloc(1, step_result_bytes_max(SEQUENCES, STEP_TOKENS));
    open_grammar_mask_worker(PATIENT_NS);
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        alone[i] = sequence_of(i);
        finish(&alone[i], 1);
    }
    return 0;
}

static int close_all(void **state) {
    (void)state;
    close_grammar_mask_worker();
    engine_close(engine);
    model_text_close(&text);
    free(result);
    return 0;
}

/* ---- what an answer is ---- */

/* Behind its thinking, without the end token. */
static struct bytes text_of(const struct sequence *sequence, char *out, size_t capacity) {
    size_t count = 0;
    uint32_t end = token_of("</think>");
    for (uint32_t i = sequence->prompt_count; i < sequence->known; i++) {
        struct bytes bytes = tokenizer_token_bytes(text.tokenizer, sequence->tokens[i]);
        if (sequence->tokens[i] == end) count = 0;
        if (sequence->tokens[i] == end || sequence->tokens[i] == STOP) continue;
        assert_true(count + bytes.count <= capacity);
        memcpy(out + count, bytes.data, bytes.count);
        count += bytes.count;
    }
    return (struct bytes){out, count};
}

static bool is_one_of(struct bytes value, const char *const *texts, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (bytes_equal(value, bytes_of(texts[i]))) return true;
    return false;
}

static void check_object(const struct tree *root) {
    int64_t answer;
    bool sure;
    struct bytes why;
    assert_true(tree_get_integer(tree_member(root, "answer"), &answer));
    assert_true(answer >= 0 && answer <= 99999);
    assert_true(tree_get_bool(tree_member(root, "sure"), &sure));
    assert_true(tree_get_string(tree_member(root, "why"), &why));
}

static void check_list(const struct tree *root) {
    static const char *const colours[] = {"red", "green", "blue"};
    struct bytes value;
    assert_true(tree_count(root) >= 3 && tree_count(root) <= 9);
    for (size_t i = 0; i < tree_count(root); i++)
        assert_true(tree_is_null(tree_at(root, i)) ||
                    (tree_get_string(tree_at(root, i), &value) &&
                     is_one_of(value, colours, ARRAY_COUNT(colours))));
}

static void check_calls(struct bytes said) {
    static const char *const calls[] = {"addtrue", "addfalse", "spelltrue", "spellfalse"};
    static const char *const marks[] = {"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>",
                                        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"};
    char plain[64] = "", *to = plain;
    const char *at = said.data, *end = said.data + said.count;
    const char *const separator = "<｜tool▁sep｜>";
    for (uint32_t i = 0; i < 4; i++) {
        assert_memory_equal(at, marks[0], strlen(marks[0]));
        at += strlen(marks[0]);
        for (to = plain; memcmp(at, marks[1], strlen(marks[1])) != 0;) {
            assert_true(at < end && to < plain + sizeof plain);
            if (memcmp(at, separator, strlen(separator)) == 0)
                at += strlen(separator);
            else
                *to++ = *at++;
        }
        at += strlen(marks[1]);
        assert_true(
            is_one_of((struct bytes){plain, (size_t)(to - plain)}, calls, ARRAY_COUNT(calls)));
    }
    assert_ptr_equal(at, end);
}

TEST(every_answer_is_what_its_constraint_says) {
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        static char memory[1 << 16];
        char out[4096];
        struct arena arena;
        struct error error;
        const struct tree *root;
        if (!constraints[i][0]) continue;
        struct bytes said = text_of(&alone[i], out, sizeof out);
        print_message("# %u steps, %u forced\n", alone[i].steps, alone[i].forced);
        assert_false(alone[i].is_stuck || alone[i].lost);
        assert_int_equal(alone[i].tokens[alone[i].known - 1], STOP);
        arena_over(&arena, memory, sizeof memory);
        if (strstr(constraints[i], "choice")) {
            check_calls(said);
            continue;
        }
        if (tree_parse(&arena, said, "answer", &root, &error)) fail_msg("%s", error.text);
        if (strstr(constraints[i], "sure")) check_object(root);
        if (strstr(constraints[i], "green")) check_list(root);
    }
}

/* ---- the same tokens ---- */

static void begin_all(struct sequence *sequences, bool drafts) {
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        sequences[i] = sequence_of(i);
        sequences[i].drafts = drafts;
    }
}

TEST(answers_are_the_same_among_others) {
    static struct sequence sequences[SEQUENCES];
    begin_all(sequences, false);
    finish(sequences, SEQUENCES);
    for (uint32_t i = 0; i < SEQUENCES; i++)
        assert_same(&alone[i], &sequences[i]);
}

TEST(answers_are_the_same_with_drafts) {
    static struct sequence sequences[SEQUENCES];
    uint32_t made = 0, right = 0;
    begin_all(sequences, true);
    finish(sequences, SEQUENCES);
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        assert_same(&alone[i], &sequences[i]);
        if (!constraints[i][0]) continue;
        made += sequences[i].drafts_made;
        right += sequences[i].drafts_right;
    }
    print_message("# %u drafts in constrained answers, %u right\n", made, right);
    assert_true(right > 0 && right < made);
}

TEST(answers_are_the_same_when_interrupted) {
    static struct sequence sequences[SEQUENCES];
    for (uint32_t round = 1; round < test_times(4, 2); round++) {
        begin_all(sequences, round != 2);
        for (uint32_t steps = 0; step(sequences, SEQUENCES); steps++)
            for (uint32_t i = 0; i < SEQUENCES; i++)
                if ((steps + i * 3) % (5 + 8 * round) == 0) interrupt(&sequences[i]);
        for (uint32_t i = 0; i < SEQUENCES; i++)
            assert_same(&alone[i], &sequences[i]);
    }
}

/* The masker's masks, of which every third is said to be late: of drafts, too. */
static struct engine_masks punctual;
static uint32_t await_count;

static enum engine_mask await_at_times(void *context, uint32_t slot, const uint64_t **mask_out) {
    return await_count++ % 3 ? punctual.await(context, slot, mask_out) : ENGINE_MASK_LATE;
}

TEST(masks_that_are_late_cost_no_token) {
    static struct sequence sequences[SEQUENCES];
    for (uint32_t round = 0; round < 2; round++) {
        punctual = grammar_mask_worker_masks(grammar_mask_worker);
        struct engine_masks masks = punctual;
        masks.await = await_at_times;
        engine_set_masks(engine, &masks);
        begin_all(sequences, round);
        finish(sequences, SEQUENCES);
        engine_set_masks(engine, &punctual);
        for (uint32_t i = 0; i < SEQUENCES; i++) {
            assert_same(&alone[i], &sequences[i]);
            assert_int_equal(constraints[i][0] != 0, sequences[i].lost > 0);
        }
    }
}

/* How many are late, the machine says. */
TEST(a_step_without_time_costs_no_token) {
    static struct sequence sequences[SEQUENCES];
    uint32_t lost = 0;
    close_grammar_mask_worker();
    open_grammar_mask_worker(0);
    begin_all(sequences, true);
    finish(sequences, SEQUENCES);
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        assert_same(&alone[i], &sequences[i]);
        lost += sequences[i].lost;
    }
    print_message("# %u rows came too early\n", lost);
    assert_true(grammar_mask_worker_get_counts(grammar_mask_worker).late >= lost);
    close_grammar_mask_worker();
    open_grammar_mask_worker(PATIENT_NS);
}

TEST(answers_are_the_same_with_log_probabilities) {
    static struct sequence sequences[SEQUENCES];
    begin_all(sequences, true);
    for (uint32_t i = 0; i < SEQUENCES; i++)
        sequences[i].sampling.flags = SAMPLING_LOGPROBS;
    finish(sequences, SEQUENCES);
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        assert_same(&alone[i], &sequences[i]);
        assert_int_equal(sequences[i].forced, 0);
    }
}

/* ---- ends ---- */

/* At least the end token behind what cannot go on. The first token of all is asked for in any case,
 * and a mask of one token says the same. */
TEST(what_must_come_is_not_computed) {
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        if (!strstr(constraints[i], "green") && !strstr(constraints[i], "answer")) continue;
        assert_true(alone[i].forced >= 1);
        assert_true(alone[i].steps < alone[i].known - alone[i].prompt_count);
    }
    assert_int_equal(alone[7].forced, 4 * 5); /* each token but the first one, and the end */
}

TEST(a_grammar_that_ends_wins_over_biases) {
    struct sequence sequence = sequence_of(0);
    sequence.bans_stop = true; /* as min_tokens does */
    finish(&sequence, 1);
    assert_same(&alone[0], &sequence);
    sequence = sequence_of(0);
    sequence.bans_stop = true;
    sequence.sampling.flags = SAMPLING_LOGPROBS; /* and no token is forced */
    finish(&sequence, 1);
    assert_same(&alone[0], &sequence);
}

TEST(what_cannot_be_held_is_stuck) {
    static const char *const texts[] = {
        "{\"form\":{\"schema\":{\"type\":\"nothing\"}}}",
        "{\"behind\":\"<no such token>\",\"form\":{\"schema\":true}}",
        "no JSON",
    };
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        struct sequence pair[2] = {sequence_of(0), sequence_of(3)};
        pair[0].constraint = texts[i];
        finish(pair, 2);
        assert_true(pair[0].is_stuck);
        assert_int_equal(pair[0].known, pair[0].prompt_count);
        assert_same(&alone[3], &pair[1]);
    }
}

/* ---- slots ---- */

#define DEEP                                                                                       \
    "{\"$defs\":{\"a\":{\"anyOf\":[{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/a\"}},"       \
    "{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/b\"}},{\"type\":\"null\"}]},\"b\":{"        \
    "\"anyOf\":[{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/a\"}},{\"type\":\"array\","      \
    "\"items\":{\"$ref\":\"#/$defs/b\"}},{\"type\":\"boolean\"}]}},\"$ref\":\"#/$defs/a\"}"

/* Its readings multiply with each bracket; the others' answers stay what they are. */
TEST(a_slow_constraint_changes_no_other_answer) {
    static struct sequence sequences[SEQUENCES];
    close_grammar_mask_worker();
    open_grammar_mask_worker(GRAMMAR_MASK_WORKER_WAIT_NS);
    begin_all(sequences, false);
    sequences[2].constraint = "{\"form\":{\"schema\":" DEEP "}}";
    sequences[2].output_max = 60;
    for (uint32_t i = 0; i < 10; i++)
        sequences[2].tokens[sequences[2].known++] = token_of("[");
    finish(sequences, SEQUENCES);
    struct grammar_mask_worker_counts counts = grammar_mask_worker_get_counts(grammar_mask_worker);
    print_message("# %.1f us a mask; the slow answer: %u of %u rows too early; others':",
                  (double)counts.mask_ns / (double)counts.masks / 1000, sequences[2].lost,
                  sequences[2].steps);
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        if (i != 2) assert_same(&alone[i], &sequences[i]);
        if (i != 2) print_message(" %u", sequences[i].lost);
    }
    print_message("\n");
    close_grammar_mask_worker();
    open_grammar_mask_worker(PATIENT_NS);
}

TEST(slots_change_hands_at_any_time) {
    struct sequence first, second;
    close_grammar_mask_worker();
    open_grammar_mask_worker(
        0); /* the first one's mask is in work, or its constraint, when it goes */
    for (uint32_t round = 0; round < test_times(6, 3); round++) {
        uint32_t number = round % 2 ? 2 : 3; /* without a constraint, with another */
        first = sequence_of(round % 3 ? 1 : 7);
        second = sequence_of(number);
        first.slot = second.slot = 5;
        for (uint32_t steps = 0; steps < round / 2 + 1; steps++)
            step(&first, 1);
        finish(&second, 1);
        assert_same(&alone[number], &second);
    }
    close_grammar_mask_worker();
    open_grammar_mask_worker(PATIENT_NS);
}

TEST(equal_constraints_are_compiled_once) {
    static struct sequence sequences[SEQUENCES];
    struct grammar_mask_worker_counts before = grammar_mask_worker_get_counts(grammar_mask_worker);
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        sequences[i] = sequence_of(0);
        sequences[i].slot = i;
        sequences[i].constraint = "{\"form\":{\"schema\":{\"type\":\"boolean\"}}}";
    }
    finish(sequences, SEQUENCES);
    struct grammar_mask_worker_counts after = grammar_mask_worker_get_counts(grammar_mask_worker);
    assert_int_equal(after.compiled, before.compiled + 1);
    assert_int_equal(after.found, before.found + SEQUENCES - 1);
    assert_true(after.masks > before.masks && after.mask_ns > before.mask_ns);
    for (uint32_t i = 1; i < SEQUENCES; i++)
        assert_same(&sequences[0], &sequences[i]);
}

/* A plan without rows that asks for `constraint` ahead of the slot's first row; "": its answer is
 * over. */
static void ask_ahead(uint32_t slot, const char *constraint) {
    struct error error = {""};
    memset(plan_memory, 0, sizeof plan_memory);
    *plan = (struct step_plan){
        .awaits = 1, .constraint_count = 1, .constraint_bytes = (uint32_t)strlen(constraint)};
    record_set_head(plan, RECORD_RUN_STEP);
    step_plan_constraints(plan)[0] =
        (struct step_constraint){.row = STEP_NO_ROW,
                                 .text_bytes = (uint32_t)strlen(constraint),
                                 .slot = slot,
                                 .account.bytes[0] = constraint[0] != 0};
    memcpy(step_plan_constraint_texts(plan), constraint, strlen(constraint));
    assert_true(record_valid(plan, plan->record.bytes));
    engine_run(engine, plan, result, &error);
    assert_false(result->failed);
    assert_int_equal(result->constraint_count, 1);
    assert_true(record_valid(result, result->record.bytes));
}

/* Another step without rows, in which the engine waits for a moment. */
static void await_once(void) {
    struct error error = {""};
    *plan = (struct step_plan){.awaits = 1};
    record_set_head(plan, RECORD_RUN_STEP);
    engine_run(engine, plan, result, &error);
    assert_false(result->failed);
}

static bool is_reported(uint32_t slot) {
    for (uint32_t i = 0; i < result->ready_count; i++)
        if (step_result_ready(result)[i] == slot) return true;
    return false;
}

/* It is compiled once, for both: what came ahead is there until the row has it. */
TEST(a_constraint_that_came_ahead_is_reported_when_it_is_there) {
    struct grammar_mask_worker_counts before = grammar_mask_worker_get_counts(grammar_mask_worker);
    struct sequence sequence = sequence_of(3);
    sequence.constraint = "{\"form\":{\"schema\":{\"enum\":[\"ahead\",\"behind\"]}}}";
    ask_ahead(sequence.slot, sequence.constraint);
    while (!is_reported(sequence.slot))
        await_once();
    assert_int_equal(grammar_mask_worker_get_counts(grammar_mask_worker).compiled,
                     before.compiled + 1);
    await_once(); /* again, until its row comes */
    assert_true(is_reported(sequence.slot));
    finish(&sequence, 1);
    assert_false(sequence.is_stuck || sequence.lost);
    assert_false(is_reported(sequence.slot));
    assert_int_equal(grammar_mask_worker_get_counts(grammar_mask_worker).compiled,
                     before.compiled + 1);
    ask_ahead(sequence.slot, "{\"form\":{\"schema\":{\"type\":\"nothing\"}}}");
    while (!is_reported(sequence.slot)) /* that it cannot be held, its row says */
        await_once();
    ask_ahead(sequence.slot, "");
    assert_false(is_reported(sequence.slot));
}

/* The first mask of a step that has no time for it is late, and reported once it is made. A busy
 * machine may make it in time by chance; then another answer begins. */
TEST(a_mask_that_was_late_is_reported_when_it_is_there) {
    struct sequence sequence;
    do {
        sequence = sequence_of(0);
        close_grammar_mask_worker();
        open_grammar_mask_worker(0);
        step(&sequence, 1);
    } while (!sequence.lost);
    assert_int_equal(sequence.lost, 1);
    while (!is_reported(sequence.slot))
        await_once();
    step(&sequence, 1);
    assert_int_equal(sequence.lost, 1);
    assert_true(sequence.known > sequence.prompt_count);
    close_grammar_mask_worker();
    open_grammar_mask_worker(PATIENT_NS);
}

TEST(an_engine_without_masks_refuses_constrained_rows) {
    const struct engine_masks none = {0};
    struct sequence sequence = sequence_of(0);
    struct sequence *rows[] = {&sequence};
    struct error error;
    engine_set_masks(engine, &none);
    make_plan(rows, 1);
    assert_int_equal(engine_check(engine, plan, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "constrained"));
    const struct engine_masks masks = grammar_mask_worker_masks(grammar_mask_worker);
    engine_set_masks(engine, &masks);
}

TEST_GROUP(open_all, close_all)

int main(void) {
    const char *source = getenv("FATHOM_SOURCE");
    snprintf(directory, sizeof directory, "%s/models/tiny-r1", source ? source : ".");
    return test_cases_run();
}
