/* SPDX-License-Identifier: Apache-2.0
 * fathom bench mtp: what drafting ahead with the MTP layer brings: the share of drafts that are
 * right, and tokens per second of answers without drafts, with drafts, and where the unit chooses
 * (`serve --mtp auto`), at several numbers of streams, beside what the bytes of weights that a step
 * reads allow. A unit and an engine in one loop, as in `serve`; ways take turns, and only steps in
 * which every stream generates count. All must give the same answers to the last token, or it fails.
 *
 * --right P: instead of what the MTP layer guessed, which it computes all the same, P percent of the
 * drafts are the token that will come, known from the first run, and the others another one. So a
 * model with random weights shows what a trained layer would bring.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/file.h"
#include "base/random.h"
#include "base/tree.h"
#include "bench/bench.h"
#include "bench/machine_limits.h"
#include "command/model_run.h"
#include "contract/slot_pages.h"
#include "host/engine/engine.h"
#include "host/process/model_prompt.h"
#include "serving/policy/speculate.h"
#include "serving/unit/unit.h"

#define RUNS_MAX 99
#define QUESTION_BYTES 4096
#define QUESTION_TOKENS 1024
#define FILE_BYTES_MAX ((size_t)64 << 20)

struct mtp_values {
    struct model_run_values run;
    uint64_t questions, answer, runs, kv_memory, right;
    const char *streams, *from;
    bool json;
};

#define AT(field) .offset = offsetof(struct mtp_values, field)

static const struct option mtp_rows[] = {
    MODEL_RUN_OPTIONS,
    {.name = "streams",
     .type = OPTION_TEXT,
     .fallback = "1,4,16",
     .help = "answers at a time: one measurement each",
     AT(streams)},
    {.name = "from",
     .type = OPTION_TEXT,
     .help = "file of questions, one a line: text, or JSON with \"messages\"; sums if not given",
     AT(from)},
    {.name = "questions",
     .type = OPTION_COUNT,
     .fallback = "48",
     .help = "questions asked in each run",
     .minimum = 1,
     .maximum = 100000,
     AT(questions)},
    {.name = "answer",
     .type = OPTION_COUNT,
     .fallback = "128",
     .help = "tokens of an answer at most",
     .minimum = 3,
     .maximum = 65536,
     AT(answer)},
    {.name = "runs",
     .type = OPTION_COUNT,
     .fallback = "5",
     .help = "repetitions of each way, of which the median counts",
     .minimum = 1,
     .maximum = RUNS_MAX,
     AT(runs)},
    {.name = "right",
     .type = OPTION_COUNT,
     .help =
         "percent of the drafts that are to be right, whatever the MTP layer guesses; 0: its own",
     .maximum = 100,
     AT(right)},
    {.name = "kv-memory",
     .type = OPTION_BYTES,
     .fallback = "1GiB",
     .help = "memory for the KV cache",
     AT(kv_memory)},
    {.name = "json", .type = OPTION_FLAG, .help = "print one JSON object", AT(json)},
};

const struct option_table bench_mtp_options = {
    .command = "bench mtp",
    .arguments = "",
    .description =
        "Times answers with tokens drafted ahead by the MTP layer, without, and where the "
        "unit chooses.",
    .options = mtp_rows,
    .option_count = ARRAY_COUNT(mtp_rows),
};

struct question {
    uint32_t *tokens, count;
};

enum way { WITHOUT, WITH, CHOSEN, WAY_COUNT };

static const enum speculate_mode modes[WAY_COUNT] = {SPECULATE_NEVER, SPECULATE_ALWAYS,
                                                     SPECULATE_MEASURED};

struct mtp_figures {              /* of one number of streams */
    double per_second[WAY_COUNT]; /* medians */
    double right;                 /* share of the drafts */
    double bound;                 /* how many times as fast the bytes allow */
};

struct mtp_bench {
    struct mtp_values values;
    struct model_run_sizes streams;
    struct engine *engine;
    struct model_text text;
    struct model_prompt prompt;
    struct step_result *result;
    struct question *questions;
    uint32_t question_count, context_max;
    uint32_t *answers; /* [question_count][answer] tokens, of the last run */
    struct mtp_figures figures[MODEL_RUN_SIZES_MAX];
};

static const struct model *model_of(const struct mtp_bench *bench) {
    return engine_model(bench->engine);
}

/* ---- questions ---- */

static enum status take_tokens(struct question *question, const uint32_t *tokens, size_t count,
                               struct error *error) {
    question->tokens = malloc(count * sizeof *tokens);
    if (!question->tokens) return error_set(error, STATUS_NO_MEMORY, "no memory for a question");
    memcpy(question->tokens, tokens, count * sizeof *tokens);
    question->count = (uint32_t)count;
    return STATUS_OK;
}

/* The prompt that the work area holds. */
static enum status take_prompt(struct mtp_bench *bench, enum status status,
                               struct question *question, struct error *error) {
    const struct model_prompt *prompt = &bench->prompt;
    if (status == STATUS_TOO_LARGE || (!status && prompt->token_count == 0) ||
        (!status && prompt->token_count > QUESTION_TOKENS))
        return error_set(error, STATUS_INVALID, "a question has no tokens, or more than %d",
                         QUESTION_TOKENS);
    return status ? status : take_tokens(question, prompt->tokens, prompt->token_count, error);
}

static enum status ask_text(struct mtp_bench *bench, struct bytes text, struct question *question,
                            struct error *error) {
    struct chat_turn turn = {"user", text};
    if (text.count > QUESTION_BYTES)
        return error_set(error, STATUS_INVALID, "a question of %zu bytes, at most %d are taken",
                         text.count, QUESTION_BYTES);
    enum status status =
        bench->text.chat_template.present
            ? model_prompt_turns(&bench->prompt, &turn, 1, false, error)
            : model_prompt_text(&bench->prompt, text, plain_text_everywhere, error);
    return take_prompt(bench, status, question, error);
}

static enum status ask_json(struct mtp_bench *bench, const struct tree *root,
                            struct question *question, struct error *error) {
    const struct tree *list = tree_member(root, "messages");
    if (tree_count(list) == 0)
        return error_set(error, STATUS_INVALID,
                         "--from: expected \"messages\" in every line that is JSON");
    if (!bench->text.chat_template.present)
        return error_set(error, STATUS_INVALID, "--from: this checkpoint has no chat template");
    return take_prompt(bench, model_prompt_messages(&bench->prompt, list, false, error), question,
                       error);
}

static enum status ask_line(struct mtp_bench *bench, struct bytes line, struct question *question,
                            struct error *error) {
    static char memory[1 << 18];
    if (line.data[0] != '{') return ask_text(bench, line, question, error);
    struct arena arena;
    const struct tree *root;
    arena_over(&arena, memory, sizeof memory);
    enum status status = tree_parse(&arena, line, "a line of --from", &root, error);
    return status ? status : ask_json(bench, root, question, error);
}

/* The next line that is not empty; false at the end. */
static bool next_line(struct bytes file, size_t *at, struct bytes *line_out) {
    while (*at < file.count) {
        const char *line = file.data + *at, *end = memchr(line, '\n', file.count - *at);
        *line_out = (struct bytes){line, end ? (size_t)(end - line) : file.count - *at};
        *at += line_out->count + 1;
        if (line_out->count) return true;
    }
    return false;
}

/* Takes as many of the file's questions as are wanted, evenly spread over it. */
static enum status read_questions(struct mtp_bench *bench, struct error *error) {
    struct bytes file, line;
    enum status status = file_take(bench->values.from, FILE_BYTES_MAX, &file, error);
    if (status) return status;
    size_t lines = 0, number = 0, wanted = bench->question_count;
    for (size_t at = 0; next_line(file, &at, &line);)
        lines++;
    if (lines == 0)
        status = error_set(error, STATUS_INVALID, "%s holds no question", bench->values.from);
    if (wanted > lines) wanted = lines;
    bench->question_count = 0;
    for (size_t at = 0; !status && next_line(file, &at, &line); number++)
        if (number * wanted / lines < (number + 1) * wanted / lines)
            status = ask_line(bench, line, &bench->questions[bench->question_count++], error);
    free((void *)(uintptr_t)file.data);
    return status;
}

/* Sums; where there is no tokenizer, any tokens. */
static enum status draw_question(struct mtp_bench *bench, uint32_t number, struct error *error) {
    struct question *question = &bench->questions[number];
    char text[64];
    uint32_t tokens[16];
    snprintf(text, sizeof text, "What is %u + %u?", (uint32_t)(random_uniform(number, 0, 0) * 9999),
             (uint32_t)(random_uniform(number, 0, 1) * 9999));
    if (bench->text.tokenizer) return ask_text(bench, bytes_of(text), question, error);
    for (uint32_t i = 0; i < ARRAY_COUNT(tokens); i++)
        tokens[i] = (uint32_t)(random_uniform(number, 1, i) * model_shape(model_of(bench))->vocab);
    return take_tokens(question, tokens, ARRAY_COUNT(tokens), error);
}

static enum status make_questions(struct mtp_bench *bench, struct error *error) {
    enum status status = STATUS_OK;
    bench->question_count = (uint32_t)bench->values.questions;
    bench->questions = calloc(bench->question_count, sizeof *bench->questions);
    if (!bench->questions) return error_set(error, STATUS_NO_MEMORY, "no memory for questions");
    if (bench->values.from && !bench->text.tokenizer)
        return error_set(error, STATUS_INVALID, "--from: this checkpoint has no tokenizer");
    if (bench->values.from) status = read_questions(bench, error);
    for (uint32_t i = 0; !bench->values.from && i < bench->question_count && !status; i++)
        status = draw_question(bench, i, error);
    for (uint32_t i = 0; i < bench->question_count && !status; i++)
        if (bench->questions[i].count > bench->context_max)
            bench->context_max = bench->questions[i].count;
    bench->context_max += (uint32_t)bench->values.answer;
    if (status) return status;
    check(bench->question_count && bench->values.answer);
    bench->answers = calloc(bench->question_count * bench->values.answer, sizeof *bench->answers);
    return bench->answers ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory for answers");
}

/* ---- a run ---- */

struct mtp_run {
    struct mtp_bench *bench;
    struct unit *unit;
    struct machine machine;
    struct slot_pages slots;
    void *memory; /* of the unit and of the slots */
    uint32_t streams, asked, ended, refused;
    double seconds, tokens; /* of steps in which every stream generates */
    uint64_t made, right;
    uint64_t answers; /* a sum over all tokens, their places and questions, in any order */
};

static uint32_t step_tokens(const struct mtp_bench *bench) {
    return 512 + (1 + LIMIT_DRAFTS) * bench->streams.largest;
}

static enum status open_run(struct mtp_run *run, enum speculate_mode mode, struct error *error) {
    const struct model *model = model_of(run->bench);
    struct unit_options options = {
        .requests_max = run->streams,
        .page_count = model_page_count(model),
        .context_tokens_max = run->bench->context_max,
        .step_rows_max = run->streams,
        .step_tokens_max = step_tokens(run->bench),
        .vocab_count = model_shape(model)->vocab,
        .speculate = mode,
        .tpot_stretch_percent = 10000, /* prompts are not what is timed: in with them */
        .model_id = model_identity(model),
        .numerics_id = model_numerics_id(model),
    };
    uint32_t pages_each = (uint32_t)divide_up(options.context_tokens_max, KV_BLOCK_TOKENS);
    size_t bytes = unit_memory_bytes(&options) + slot_pages_bytes(run->streams, pages_each);
    struct arena arena;
    run->memory = malloc(bytes);
    if (!run->memory) return error_set(error, STATUS_NO_MEMORY, "no memory for the unit");
    arena_over(&arena, run->memory, bytes);
    enum status status = unit_create(&arena, &options, &run->unit, error);
    if (status) return status;
    run->machine = unit_machine(run->unit);
    bool opened = slot_pages_open(&run->slots, &arena, run->streams, pages_each);
    check(opened);
    return STATUS_OK;
}

static void ask(struct mtp_run *run) {
    static _Alignas(8) char memory[1 << 16];
    struct outbox outbox = {.memory = memory, .capacity = sizeof memory};
    const struct mtp_bench *bench = run->bench;
    uint32_t number = run->asked++;
    const struct question *question = &bench->questions[number];
    uint32_t stops = bench->text.stop_token_count;
    struct record_submit *submit =
        outbox_put(&outbox, RECORD_SUBMIT,
                   &(struct record_submit){.request.low = number,
                                           .sampling.top_p = 1,
                                           .sampling.seed = number, /* for `guess` */
                                           .prompt_count = question->count,
                                           .new_tokens_max = (uint32_t)bench->values.answer,
                                           .stop_token_count = stops});
    memcpy(submit_tokens(submit), question->tokens, question->count * sizeof *question->tokens);
    memcpy(submit_stop_tokens(submit), bench->text.stop_tokens,
           stops * sizeof *bench->text.stop_tokens);
    enum status status = run->machine.receive(run->machine.self, &submit->record, 0);
    check(status == STATUS_OK); /* its outbox is empty */
}

static void note_tokens(struct mtp_run *run, const struct record_tokens *record) {
    const uint32_t *tokens = tokens_chosen(record);
    uint32_t *answer = run->bench->answers + record->request.low * run->bench->values.answer;
    memcpy(answer + record->first_output_position, tokens, record->token_count * sizeof *tokens);
    for (uint32_t i = 0; i < record->token_count; i++) {
        uint64_t mixed = record->request.low * 1000003 + record->first_output_position + i;
        mixed = (mixed << 20 ^ tokens[i]) * 0x9E3779B97F4A7C15u;
        run->answers += mixed ^ mixed >> 29;
    }
}

/* As the engine takes it, for the caller to free. */
static struct step_plan *take_plan(struct mtp_run *run, const struct step_plan *plan) {
    size_t bytes = slot_pages_whole_bytes(&run->slots, plan);
    struct step_plan *whole = bytes ? malloc(bytes) : NULL;
    check(whole);
    slot_pages_expand(&run->slots, plan, whole);
    return whole;
}

/* Takes what the unit says; the plan to run, for the caller to free, or NULL. */
static struct step_plan *take_records(struct mtp_run *run) {
    struct step_plan *plan = NULL;
    for (const struct record *r = NULL; (r = outbox_next(run->machine.outbox, r));) {
        if (r->kind == RECORD_TOKENS) {
            note_tokens(run, (const struct record_tokens *)r);
        } else if (r->kind == RECORD_FINISHED) {
            const struct record_finished *finished = (const struct record_finished *)r;
            run->made += finished->work.drafts_made;
            run->right += finished->work.drafts_right;
            run->refused += finished->reason >= FINISH_CANCELLED;
            run->ended++;
        } else if (r->kind == RECORD_RUN_STEP) {
            plan = take_plan(run, (const struct step_plan *)r);
        }
    }
    return plan;
}

static bool all_generate(const struct mtp_run *run, const struct step_plan *plan) {
    for (uint32_t i = 0; i < plan->row_count; i++)
        if (step_plan_rows(plan)[i].form != TOKEN_GENERATED) return false;
    return plan->row_count == run->streams;
}

static enum status turn(struct mtp_run *run, struct error *error) {
    double began = machine_limits_now();
    run->machine.step(run->machine.self, 0);
    struct step_plan *plan = take_records(run);
    bool counts = plan && all_generate(run, plan);
    struct step_result *result = run->bench->result;
    if (plan) engine_run(run->bench->engine, plan, result, error);
    outbox_clear(run->machine.outbox);
    bool ran = plan != NULL;
    free(plan);
    if (ran && result->failed) return STATUS_INVALID;
    if (ran && run->machine.receive(run->machine.self, &result->record, 0)) return STATUS_FULL;
    if (counts) {
        run->seconds += machine_limits_now() - began;
        for (uint32_t i = 0; i < result->row_count; i++)
            run->tokens += step_result_rows(result)[i].token_count;
    }
    take_records(run);
    outbox_clear(run->machine.outbox);
    if (run->refused)
        return error_set(error, STATUS_TOO_LARGE,
                         "a question and its answer do not fit; raise --kv-memory");
    while (run->asked < run->ended + run->streams && run->asked < run->bench->question_count)
        ask(run);
    return STATUS_OK;
}

static enum status answer_all(struct mtp_run *run, enum speculate_mode mode, struct error *error) {
    enum status status = open_run(run, mode, error);
    while (!status && run->asked < run->streams)
        ask(run);
    while (!status && run->ended < run->bench->question_count)
        status = turn(run, error);
    free(run->memory);
    return status;
}

/* ---- all runs ---- */

static enum status measure_once(struct mtp_bench *bench, uint32_t streams, enum way way,
                                struct mtp_run *run_out, struct error *error) {
    struct mtp_run run = {.bench = bench, .streams = streams};
    enum status status = answer_all(&run, modes[way], error);
    if (status) return status;
    if (run.tokens == 0)
        return error_set(error, STATUS_INVALID,
                         "%u streams never generated all at once: raise --questions", streams);
    *run_out = run;
    return STATUS_OK;
}

/* Ways take turns, and so does which goes first; of all, the one without drafts. */
static enum status measure(struct mtp_bench *bench, uint32_t index, struct error *error) {
    double rates[WAY_COUNT][RUNS_MAX];
    uint64_t made = 0, right = 0, answers = 0;
    uint32_t runs = (uint32_t)bench->values.runs, streams = bench->streams.values[index];
    for (uint32_t i = 0; i < WAY_COUNT * runs; i++) {
        enum way way = (enum way)((i + i / WAY_COUNT) % WAY_COUNT);
        struct mtp_run run;
        enum status status = measure_once(bench, streams, way, &run, error);
        if (status) return status;
        if (i > 0 && run.answers != answers)
            return error_set(error, STATUS_CORRUPT,
                             "answers differ with drafts and without: this must not be");
        answers = run.answers;
        rates[way][i / WAY_COUNT] = run.tokens / run.seconds;
        made += way == WITH ? run.made : 0;
        right += way == WITH ? run.right : 0;
    }
    const struct model *model = model_of(bench);
    struct mtp_figures *figures = &bench->figures[index];
    figures->right = made ? (double)right / (double)made : 0;
    for (int way = 0; way < WAY_COUNT; way++)
        figures->per_second[way] = machine_limits_median(rates[way], runs);
    figures->bound = (1 + figures->right) * model_step_bytes(model, streams) /
                     (model_step_bytes(model, 2 * streams) + model_draft_bytes(model, streams));
    return STATUS_OK;
}

/* The row chooses the token that the draft is to be, and the engine compares. */
static uint32_t guess(void *context, const struct step_row *row, uint32_t token) {
    const struct mtp_bench *bench = context;
    uint32_t question = (uint32_t)row->sampling.seed, position = row->output_position;
    uint32_t comes = bench->answers[question * bench->values.answer + position];
    bool right = random_uniform(question, 2, position) * 100 < (double)bench->values.right;
    return right ? comes : (comes + 1) % model_shape(model_of(bench))->vocab;
}

static enum status open_bench(struct mtp_bench *bench, struct error *error) {
    struct model_options options = {0};
    struct model_run_progress progress;
    enum status status = model_run_options(&bench->values.run, &options, error);
    if (status) return status;
    options.kv_bytes = bench->values.kv_memory;
    options.step_tokens_max = step_tokens(bench);
    options.step_rows_max = bench->streams.largest;
    options.mtp = options.mtp_required = true;
    model_run_progress_begin(&progress, &options);
    status = engine_open(&options, &bench->engine, error);
    model_run_progress_end(&progress);
    if (status) return status;
    if (bench->values.right)
        model_set_guesser(engine_model(bench->engine), (struct model_guesser){bench, guess});
    bench->result =
        calloc(1, step_result_bytes_max(options.step_rows_max, options.step_tokens_max));
    if (!bench->result) return error_set(error, STATUS_NO_MEMORY, "no memory for step results");
    status =
        model_text_open(options.directory, model_shape(model_of(bench)), NULL, &bench->text, error);
    if (!status && bench->text.tokenizer)
        status = model_prompt_open(&bench->prompt, &bench->text, 4 * QUESTION_BYTES, error);
    return status ? status : make_questions(bench, error);
}

static enum status read_streams(struct mtp_bench *bench, struct error *error) {
    enum status status =
        model_run_sizes_read("--streams", bench->values.streams, &bench->streams, error);
    if (!status && bench->streams.largest > bench->values.questions)
        return error_set(error, STATUS_INVALID, "--streams: %u are more than --questions",
                         bench->streams.largest);
    return status;
}

static void print_head(const struct mtp_bench *bench) {
    printf(bench->values.json ? "{\"numerics\":\"%s\",\"questions\":%u,\"runs\":%u,\"streams\":["
                              : "numerics %s, %u questions, median of %u runs each way\n",
           model_numerics_id(model_of(bench)), bench->question_count, (uint32_t)bench->values.runs);
}

static void print_figures(const struct mtp_bench *bench, uint32_t index) {
    const struct mtp_figures *f = &bench->figures[index];
    bool json = bench->values.json;
    printf(json ? "%s{\"streams\":%u,\"accepted\":%.4f,\"without_tokens_per_second\":%.5g,"
                  "\"with_tokens_per_second\":%.5g,\"chosen_tokens_per_second\":%.5g,"
                  "\"speedup\":%.4f,\"chosen_speedup\":%.4f,\"byte_bound\":%.4f}"
                : "%s%3u streams: %5.1f%% of the drafts right, %8.1f tokens/s without, %8.1f "
                  "with, %8.1f chosen: %.2f and %.2f times as fast (the bytes allow %.2f)\n",
           json && index ? ",\n " : "", bench->streams.values[index], f->right * (json ? 1 : 100),
           f->per_second[WITHOUT], f->per_second[WITH], f->per_second[CHOSEN],
           f->per_second[WITH] / f->per_second[WITHOUT],
           f->per_second[CHOSEN] / f->per_second[WITHOUT], f->bound);
    fflush(stdout);
}

int bench_mtp(int argc, char **argv) {
    struct mtp_bench bench = {.result = NULL};
    struct option_result result;
    struct error error = {.text = ""};
    int exit_code;
    if (!command_begin(&bench_mtp_options, argc, argv, &bench.values, &result, &exit_code))
        return exit_code;
    enum status status = read_streams(&bench, &error);
    if (!status) status = open_bench(&bench, &error);
    if (!status) print_head(&bench);
    for (uint32_t i = 0; i < bench.streams.count && !status; i++) {
        status = measure(&bench, i, &error);
        if (!status) print_figures(&bench, i);
    }
    if (!status && bench.values.json) printf("]}\n");
    for (uint32_t i = 0; bench.questions && i < bench.question_count; i++)
        free(bench.questions[i].tokens);
    free(bench.questions);
    free(bench.answers);
    free(bench.result);
    model_prompt_close(&bench.prompt);
    model_text_close(&bench.text);
    engine_close(bench.engine);
    return status ? command_failed(&bench_mtp_options, status, &error)
                  : command_end(&bench_mtp_options);
}
