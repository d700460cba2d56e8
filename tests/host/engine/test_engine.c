/* SPDX-License-Identifier: Apache-2.0
 * Protects choices where the logits lie on a device: an engine there chooses, in each step, what
 * one on the CPU chooses, with drafts, whatever the rows want: the likeliest token, one that is
 * drawn, biases, penalties, log probabilities. Where the logits alone choose the token, by whatever
 * rule, none of them come to the host.
 */
#include "../../golden/golden.h"
#include "compute/device/device.h"
#include "compute/emulated/compute_emulated.h"
#include "compute/gpu/compute_gpu.h"
#include "compute/model/model.h"
#include "compute/model/model_state.h"
#include "contract/machine.h"
#include "host/engine/engine.h"

#include "test_case.h"

enum { ROWS = 5, PROMPT = 6, PAGES = 3, STEPS = 60, HISTORY = 2 };

/* What a row wants beside its token. */
enum want { LIKELIEST, DRAWN, DRAWN_AMONG_FEW, DRAWN_AS_R1, BIASED, PENALIZED, LOGPROBS, WANTS };

static _Alignas(16) char plan_memory[1 << 14], result_memory[2][1 << 14];
static struct step_plan *const plan = (struct step_plan *)(void *)plan_memory;
static struct step_result *results[2] = {(struct step_result *)(void *)result_memory[0],
                                         (struct step_result *)(void *)result_memory[1]};
static struct engine *engines[2]; /* on the CPU; on the emulated device */
static struct engine *guessing;   /* on the CPU, without drafts */
static uint32_t vocab;
static uint64_t random_state = 5;

static struct sequence { uint32_t length, answered, last, before; } sequences[ROWS];

static uint32_t draw(uint32_t below) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % below);
}

static struct engine *open_engine(const struct model_device *device) {
    static char directory[512];
    struct error error;
    struct engine *engine;
    snprintf(directory, sizeof directory, "%s/v3-bf16-negbias-dense0-mtp", golden_home());
    struct model_options options = {.directory = directory,
                                    .activations = ACTIVATIONS_BF16,
                                    .device = device,
                                    .device_seed = 4,
                                    .level = kernels_detect_fma1(),
                                    .threads = 1,
                                    .kv_bytes = (uint64_t)4 << 20,
                                    .step_tokens_max = 64,
                                    .step_rows_max = ROWS,
                                    .mtp = true};
    if (engine_open(&options, &engine, &error) != STATUS_OK) fail_msg("%s", error.text);
    return engine;
}

static void want(struct step_row *row, uint32_t index, enum want what) {
    const struct sequence *sequence = &sequences[row->slot];
    row->sampling = (struct sampling){.top_p = 1, .seed = 7 + row->slot};
    if (what == DRAWN) row->sampling.temperature = 0.9f;
    if (what == DRAWN_AMONG_FEW) row->sampling.temperature = 1.5f;
    if (what == DRAWN_AMONG_FEW) row->sampling.top_k = 20;
    if (what == DRAWN_AMONG_FEW) row->sampling.min_p = 0.01f;
    if (what == DRAWN_AS_R1) row->sampling.temperature = 0.6f;
    if (what == DRAWN_AS_R1) row->sampling.top_p = 0.95f;
    if (what == LOGPROBS) row->sampling.flags = SAMPLING_LOGPROBS;
    if (what == LOGPROBS) row->sampling.top_logprobs = 2;
    if (what == PENALIZED) row->sampling.presence_penalty = 2;
    if (what == BIASED || what == PENALIZED) row->history_index = index * HISTORY;
    if (what == PENALIZED) row->history_count = HISTORY;
    if (what == BIASED) row->bias_index = index;
    if (what == BIASED) row->bias_count = 1;
    step_plan_history(plan)[(size_t)index * HISTORY] = sequence->before;
    step_plan_history(plan)[index * HISTORY + 1] = sequence->last;
    step_plan_biases(plan)[index] = (struct token_bias){sequence->last, 40};
}

/* The next piece of each of some sequences: its prompt, or the token chosen last and a draft; their
 * wants are among the first so many. */
static void make_plan(uint32_t first, uint32_t rows, uint32_t wants) {
    uint32_t tokens = 0;
    for (uint32_t i = 0; i < rows; i++)
        tokens += sequences[(first + i) % ROWS].length ? 1 : PROMPT;
    memset(plan_memory, 0, sizeof plan_memory);
    *plan = (struct step_plan){.row_count = rows,
                               .token_count = tokens,
                               .page_count = rows * PAGES,
                               .history_count = rows * HISTORY,
                               .bias_count = rows};
    record_set_head(plan, RECORD_RUN_STEP);
    assert_true(plan->record.bytes <= sizeof plan_memory);
    tokens = 0;
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t slot = (first + i) % ROWS;
        const struct sequence *sequence = &sequences[slot];
        bool prompt = sequence->length == 0;
        struct step_row *row = &step_plan_rows(plan)[i];
        *row = (struct step_row){
            .slot = slot,
            .form = prompt ? TOKEN_PROMPT : TOKEN_GENERATED,
            .first_position = sequence->length,
            .token_count = prompt ? PROMPT : 1,
            .token_index = tokens,
            .page_index = i * PAGES,
            .page_count = PAGES,
            .logits_count = 1,
            .sample = 1,
            .output_position = sequence->answered,
            .draft_count = !prompt && step_drafts_fit(sequence->length + 1, 1),
            .fresh = prompt,
        };
        want(row, i, (enum want)draw(wants));
        for (uint32_t k = 0; k < row->token_count; k++)
            step_plan_tokens(plan)[tokens++] = prompt ? draw(vocab) : sequence->last;
        for (uint32_t page = 0; page < PAGES; page++)
            step_plan_pages(plan)[i * PAGES + page].index = page * ROWS + slot;
    }
}

/* What is drafted behind a slot's row. */
static uint32_t guesses[ROWS];

static uint32_t guess(void *context, const struct step_row *row, uint32_t token) {
    return guesses[row->slot];
}

static void run_without_drafts(void) {
    uint32_t drafts[ROWS];
    struct error error;
    for (uint32_t i = 0; i < plan->row_count; i++) {
        drafts[i] = step_plan_rows(plan)[i].draft_count;
        step_plan_rows(plan)[i].draft_count = 0;
    }
    engine_run(guessing, plan, results[0], &error);
    if (results[0]->failed) fail_msg("%s", error.text);
    for (uint32_t i = 0; i < plan->row_count; i++)
        step_plan_rows(plan)[i].draft_count = drafts[i];
}

/* Half of the drafts will be right. */
static void make_guesses(void) {
    run_without_drafts();
    for (uint32_t i = 0; i < plan->row_count; i++)
        guesses[step_plan_rows(plan)[i].slot] =
            draw(2) ? step_result_rows(results[0])[i].tokens[0] : draw(vocab);
}

static void run(void) {
    make_guesses();
    for (uint32_t i = 0; i < 2; i++) {
        struct error error;
        engine_run(engines[i], plan, results[i], &error);
        if (results[i]->failed) fail_msg("%s", error.text);
    }
    assert_int_equal(results[0]->logprob_count, results[1]->logprob_count);
    assert_memory_equal(step_result_rows(results[0]), step_result_rows(results[1]),
                        plan->row_count * sizeof(struct step_result_row));
    assert_memory_equal(step_result_logprobs(results[0]), step_result_logprobs(results[1]),
                        results[0]->logprob_count * sizeof(struct token_logprob));
}

/* Returns how many drafts turned out right. */
static uint32_t follow(void) {
    uint32_t right = 0;
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const struct step_row *row = &step_plan_rows(plan)[i];
        const struct step_result_row *out = &step_result_rows(results[0])[i];
        struct sequence *sequence = &sequences[row->slot];
        right += out->token_count - 1;
        sequence->length += row->token_count + out->token_count - 1;
        sequence->answered += out->token_count;
        sequence->before = sequence->last;
        sequence->last = out->tokens[out->token_count - 1];
        step_plan_rows(plan)[i].first_position += out->token_count - 1;
        if (out->token_count > 1) step_plan_tokens(plan)[row->token_index] = out->tokens[0];
        if (sequence->length + 4 > PAGES * KV_BLOCK_TOKENS) *sequence = (struct sequence){0};
    }
    run_without_drafts(); /* behind drafts that were right, too */
    return right;
}

TEST(a_device_chooses_as_the_cpu_does) {
    uint32_t right = 0;
    for (uint32_t step = 0; step < STEPS; step++) {
        make_plan(draw(ROWS), 1 + draw(ROWS), WANTS);
        run();
        right += follow();
    }
    print_message("# %u drafts were right\n", right);
    assert_true(right > STEPS / 2);
}

static const struct device_backend *true_body;
static size_t bytes_to_host;

static void count_copy(struct device *device, struct device_stream *stream,
                       const struct device_copy *copy) {
    if (copy->direction == DEVICE_TO_HOST) bytes_to_host += copy->row_bytes * copy->row_count;
    true_body->copy(device, stream, copy);
}

static size_t bytes_of_step(uint32_t wants) {
    make_plan(0, ROWS, wants);
    bytes_to_host = 0;
    run();
    follow();
    return bytes_to_host;
}

TEST(of_drawn_tokens_no_logits_come_to_the_host) {
    struct device *device = engine_model(engines[1])->device;
    struct device_backend counting = *device->backend;
    size_t row_bytes = vocab * sizeof(float);
    counting.copy = count_copy;
    true_body = device->backend;
    device->backend = &counting;
    for (uint32_t step = 0; step < 8; step++)
        assert_true(bytes_of_step(BIASED) < row_bytes);
    make_plan(0, ROWS, BIASED);
    want(&step_plan_rows(plan)[2], 2, BIASED); /* one row's logits, and those of its draft */
    uint32_t outputs = 1 + step_plan_rows(plan)[2].draft_count;
    bytes_to_host = 0;
    run();
    assert_in_range(bytes_to_host, row_bytes, outputs * row_bytes + row_bytes / 2);
    device->backend = true_body;
}

static int set_up(void **state) {
    engines[0] = open_engine(&model_on_cpu);
    engines[1] = open_engine(&model_on_emulated);
    guessing = open_engine(&model_on_cpu);
    vocab = model_shape(engine_model(engines[0]))->vocab;
    for (uint32_t i = 0; i < 2; i++)
        engine_model(engines[i])->guesser = (struct model_guesser){.guess = guess};
    return 0;
}

static int tear_down(void **state) {
    engine_close(engines[0]);
    engine_close(engines[1]);
    engine_close(guessing);
    return 0;
}

TEST_GROUP(set_up, tear_down)
