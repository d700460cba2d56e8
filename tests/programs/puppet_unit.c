/* SPDX-License-Identifier: Apache-2.0
 * puppet_unit MODEL_DIRECTORY GATEWAY_ADDRESS [STEP_MS]: a unit whose answers say what their prompt
 * tells them to say, for tests of the API: no small model calls a tool, or thinks the same thoughts
 * twice. Everything but the engine is the real thing: the unit machine, its queue, pages and prefix
 * cache, the wire. MODEL_DIRECTORY needs a config.json and a tokenizer.json, no weights. A step
 * takes STEP_MS (1).
 *
 * The last mark of the prompt counts, wherever it stands: in a message, in a tool's result.
 *
 *     [[say:TEXT]]     the answer is TEXT
 *     [[repeat:TEXT]]  TEXT again and again, until somebody ends it
 *     [[fail:TEXT]]    TEXT, then the step fails
 *     [[show:]]        the answer is the prompt itself, percent-encoded where it has marks
 *
 * TEXT is percent-encoded (encodeURIComponent), so that it comes unchanged through JSON, templates
 * and whatever else escapes; special tokens in it are recognized, as a model writes them. A prompt
 * without a mark is answered "I have nothing to say.". A page holds the tokens themselves, so an
 * answer shows whether the unit lets its rows read what was written for them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "compute/weights/checkpoint.h"
#include "contract/slot_pages.h"
#include "host/loop.h"
#include "host/process/lazy_memory.h"
#include "host/process/model_text.h"
#include "serving/unit/rank_units.h"

enum { CONTEXT_TOKENS = 131072, PAGES = 8192, ROWS_MAX = 64, STEP_TOKENS = 2048, REQUESTS = 256 };

#define TEXT_BYTES_MAX ((size_t)1 << 20) /* of a prompt, and of what it asks for */
#define WHOLE_BYTES ((size_t)4 << 20)

enum verb { VERB_SAY, VERB_REPEAT, VERB_FAIL, VERB_SHOW };

struct puppet {
    struct model_text text;
    struct tokenizer_scratch *scratch;
    struct lazy_memory memory, unit_memory;
    uint32_t vocab, eos;
    uint8_t model_id[32];
    uint32_t (*pages)[KV_BLOCK_TOKENS]; /* [PAGES] the token that each row stands for */
    char *prompt, *shown;               /* [TEXT_BYTES_MAX] */
    uint32_t *ids;                      /* [TEXT_BYTES_MAX] */
    struct slot_pages slots;
    struct step_plan *whole; /* [WHOLE_BYTES] the plan at hand */
    struct step_result *result;
    long step_ms;
};

/* ---- what the prompt tells it ---- */

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* In place. */
static size_t decode_percents(char *text, size_t count) {
    size_t to = 0;
    for (size_t from = 0; from < count; from++) {
        char c = text[from];
        if (c == '%' && count - from > 2 && hex_digit(text[from + 1]) >= 0 &&
            hex_digit(text[from + 2]) >= 0) {
            c = (char)(hex_digit(text[from + 1]) << 4 | hex_digit(text[from + 2]));
            from += 2;
        }
        text[to++] = c;
    }
    return to;
}

/* The verb of a mark that begins here; *inside_out is behind it. */
static bool begins_mark(const char *at, enum verb *verb_out, char **inside_out) {
    static const char *const marks[] = {"[[say:", "[[repeat:", "[[fail:", "[[show:"};
    for (int verb = VERB_SAY; verb <= VERB_SHOW; verb++) {
        size_t count = strlen(marks[verb]);
        if (strncmp(at, marks[verb], count) != 0) continue;
        *verb_out = (enum verb)verb;
        *inside_out = (char *)(uintptr_t)at + count;
        return true;
    }
    return false;
}

/* So that no mark of a call or of thoughts is in it. */
static struct bytes encode_percents(const char *text, char *out) {
    size_t count = 0;
    for (; *text && count + 3 < TEXT_BYTES_MAX; text++) {
        if (strchr("%<[{", *text))
            count += (size_t)sprintf(out + count, "%%%02x", (unsigned char)*text);
        else
            out[count++] = *text;
    }
    return (struct bytes){out, count};
}

/* What the prompt's last whole mark says; it lies in the prompt, which changes, or in `shown`. */
static struct bytes find_wish(struct puppet *puppet, enum verb *verb_out) {
    char *inside = NULL, *end = NULL;
    for (char *at = puppet->prompt; (at = strstr(at, "[[")); at++) {
        enum verb verb;
        char *text, *close;
        if (!begins_mark(at, &verb, &text) || !(close = strstr(text, "]]"))) continue;
        *verb_out = verb;
        inside = text;
        end = close;
    }
    if (inside && *verb_out == VERB_SHOW) return encode_percents(puppet->prompt, puppet->shown);
    if (inside) return (struct bytes){inside, decode_percents(inside, (size_t)(end - inside))};
    *verb_out = VERB_SAY;
    return bytes_of("I have nothing to say.");
}

/* ---- the engine ---- */

static uint32_t *row_tokens(struct puppet *puppet, const struct step_plan *plan,
                            const struct step_row *row, uint32_t position) {
    uint32_t page = step_plan_pages(plan)[row->page_index + position / KV_BLOCK_TOKENS].index;
    check(page < PAGES);
    return &puppet->pages[page][position % KV_BLOCK_TOKENS];
}

/* The prompt's text as it stands in the pages. */
static void read_prompt(struct puppet *puppet, const struct step_plan *plan,
                        const struct step_row *row, uint32_t prompt_count) {
    size_t used = 0;
    for (uint32_t i = 0; i < prompt_count; i++) {
        uint32_t id = *row_tokens(puppet, plan, row, i);
        struct bytes bytes = tokenizer_token_bytes(puppet->text.tokenizer, id);
        if (bytes.count >= TEXT_BYTES_MAX - used) break;
        if (bytes.count) memcpy(puppet->prompt + used, bytes.data, bytes.count);
        used += bytes.count;
    }
    puppet->prompt[used] = 0;
}

static bool is_banned(const struct step_plan *plan, const struct step_row *row, uint32_t token) {
    const struct token_bias *biases = step_plan_biases(plan) + row->bias_index;
    for (uint32_t i = 0; i < row->bias_count; i++)
        if (biases[i].token == token && biases[i].bias < -100) return true;
    return false;
}

/* The answer's next token. False: the step is to fail. */
static bool choose(struct puppet *puppet, const struct step_plan *plan, const struct step_row *row,
                   uint32_t *token_out) {
    enum verb verb;
    size_t count;
    uint32_t at = row->output_position;
    read_prompt(puppet, plan, row, row->first_position + row->token_count - at);
    struct bytes wish = find_wish(puppet, &verb);
    enum status status = tokenizer_encode(puppet->text.tokenizer, puppet->scratch, wish,
                                          plain_text_nowhere, puppet->ids, TEXT_BYTES_MAX, &count);
    check(status == STATUS_OK);
    if (verb == VERB_REPEAT && count > 0) at %= (uint32_t)count;
    *token_out = at < count ? puppet->ids[at] : puppet->eos;
    if (at >= count && is_banned(plan, row, puppet->eos))
        *token_out = count ? puppet->ids[count - 1] : puppet->eos - 1;
    return at < count || verb != VERB_FAIL;
}

/* The token itself is half as likely as sure, the next ones by number less and less. */
static void report_logprobs(const struct puppet *puppet, struct step_result *result, uint32_t token,
                            uint32_t each) {
    for (uint32_t i = 0; i < each; i++) {
        uint32_t other = i ? i - 1 : 0;
        step_result_logprobs(result)[result->logprob_count++] = (struct token_logprob){
            (token + other) % puppet->vocab, -0.6931472f * (float)(other + 1)};
    }
}

static bool run_row(struct puppet *puppet, const struct step_plan *plan, const struct step_row *row,
                    struct step_result_row *out) {
    const uint32_t *tokens = step_plan_tokens(plan) + row->token_index;
    struct step_result *result = puppet->result;
    uint32_t each = row->sampling.flags & SAMPLING_LOGPROBS ? 1 + row->sampling.top_logprobs : 0;
    for (uint32_t i = 0; i < row->token_count; i++)
        *row_tokens(puppet, plan, row, row->first_position + i) = tokens[i];
    *out = (struct step_result_row){.slot = row->slot, .logprobs_each = each};
    out->score_index = result->logprob_count;
    out->scored_count = row->scored_count;
    for (uint32_t i = 0; i < row->scored_count; i++)
        report_logprobs(puppet, result, step_scored_token(row, tokens, i), each);
    if (!row->sample) return true;
    out->token_count = 1;
    out->logprob_index = result->logprob_count;
    if (!choose(puppet, plan, row, &out->tokens[0])) return false;
    report_logprobs(puppet, result, out->tokens[0], each);
    return true;
}

/* It compiles nothing: every constraint that comes ahead of its request is ready at once. */
static void report_ready(const struct step_plan *plan, struct step_result *result) {
    result->constraint_count = plan->constraint_count;
    for (uint32_t i = 0; i < plan->constraint_count; i++)
        if (step_plan_constraints(plan)[i].row == STEP_NO_ROW)
            step_result_ready(result)[result->ready_count++] = step_plan_constraints(plan)[i].slot;
    if (result->ready_count % 2) step_result_ready(result)[result->ready_count] = 0; /* 8 bytes */
}

static void run_step(void *context, struct worker *worker, const struct record *record) {
    if (!record) return; /* it is called once to look around */
    struct puppet *puppet = context;
    struct step_result *result = puppet->result;
    const struct step_plan *plan = puppet->whole;
    if (record->kind != RECORD_RUN_STEP) return; /* a rank's DRAIN: there are no experts to move */
    size_t whole_bytes = slot_pages_whole_bytes(&puppet->slots, (const void *)record);
    check(whole_bytes > 0 && whole_bytes <= WHOLE_BYTES);
    slot_pages_expand(&puppet->slots, (const void *)record, puppet->whole);
    nanosleep(&(struct timespec){puppet->step_ms / 1000, puppet->step_ms % 1000 * 1000000}, NULL);
    *result = (struct step_result){.record = record_head(RECORD_STEP_DONE, 0),
                                   .step = plan->step,
                                   .rank = plan->rank,
                                   .compute_ns = 1000000};
    result->row_count = plan->row_count;
    for (uint32_t i = 0; i < plan->row_count && !result->failed; i++)
        result->failed =
            !run_row(puppet, plan, &step_plan_rows(plan)[i], &step_result_rows(result)[i]);
    if (result->failed) result->row_count = result->logprob_count = 0;
    report_ready(plan, result);
    record_set_head(result, RECORD_STEP_DONE);
    worker_answer(worker, &result->record);
}

/* ---- the unit ---- */

static void *take(struct arena *arena, size_t bytes) {
    void *memory = arena_take(arena, bytes);
    check(memory);
    return memory;
}

static enum status open_puppet(struct puppet *puppet, const char *directory, struct error *error) {
    struct checkpoint *checkpoint;
    struct arena arena;
    enum status status = checkpoint_open(directory, CHECKPOINT_SHAPE_ONLY, &checkpoint, error);
    if (status) return status;
    const struct shape *shape = checkpoint_shape(checkpoint);
    puppet->vocab = shape->vocab;
    checkpoint_identity(checkpoint, puppet->model_id);
    puppet->eos = shape->eos_token_count ? shape->eos_tokens[0] : 1;
    checkpoint_close(checkpoint);
    status = model_text_open_tokenizer(directory, &puppet->text, error);
    if (status) return status;
    size_t result_bytes = step_result_bytes_max(ROWS_MAX, STEP_TOKENS);
    size_t bytes = tokenizer_scratch_bytes(TEXT_BYTES_MAX) + sizeof(uint32_t) * TEXT_BYTES_MAX +
                   2 * TEXT_BYTES_MAX + result_bytes + sizeof *puppet->pages * PAGES + WHOLE_BYTES +
                   slot_pages_bytes(REQUESTS, CONTEXT_TOKENS / KV_BLOCK_TOKENS) + 4096;
    puppet->memory = lazy_memory_take(bytes);
    check(puppet->memory.start);
    arena_over(&arena, puppet->memory.start, bytes);
    puppet->scratch = tokenizer_scratch_create(&arena, TEXT_BYTES_MAX);
    check(puppet->scratch);
    puppet->pages = take(&arena, sizeof *puppet->pages * PAGES);
    puppet->ids = take(&arena, sizeof(uint32_t) * TEXT_BYTES_MAX);
    puppet->prompt = take(&arena, TEXT_BYTES_MAX);
    puppet->shown = take(&arena, TEXT_BYTES_MAX);
    puppet->whole = take(&arena, WHOLE_BYTES);
    puppet->result = take(&arena, result_bytes);
    bool opened =
        slot_pages_open(&puppet->slots, &arena, REQUESTS, CONTEXT_TOKENS / KV_BLOCK_TOKENS);
    check(opened);
    return STATUS_OK;
}

static enum status open_unit(struct puppet *puppet, struct loop_parts *parts, struct error *error) {
    const int64_t pid = getpid();
    struct rank_units *units;
    struct arena arena;
    const struct unit_options options = {.requests_max = REQUESTS,
                                         .page_count = PAGES,
                                         .context_tokens_max = CONTEXT_TOKENS,
                                         .step_rows_max = ROWS_MAX,
                                         .step_tokens_max = STEP_TOKENS,
                                         .vocab_count = puppet->vocab,
                                         .prefix_cache = true,
                                         .reuse_generated = true,
                                         .model_id = puppet->model_id,
                                         .numerics_id = "puppet",
                                         .pids = &pid};
    size_t bytes = rank_units_memory_bytes(&options, 1) + 64;
    puppet->unit_memory = lazy_memory_take(bytes);
    check(puppet->unit_memory.start);
    arena_over(&arena, puppet->unit_memory.start, bytes);
    enum status status = rank_units_create(&arena, &options, 1, &units, error);
    if (status) return status;
    parts->unit = rank_units_machine(units);
    parts->engine = run_step;
    parts->engine_context = puppet;
    return STATUS_OK;
}

static enum status run(struct puppet *puppet, char **argv, struct loop **loop_out,
                       struct error *error) {
    struct loop_parts parts = {.wire = {.address = argv[2]}};
    enum status status = open_puppet(puppet, argv[1], error);
    if (!status) status = open_unit(puppet, &parts, error);
    if (!status) status = loop_open(NULL, 0, loop_out, error);
    return status ? status : loop_run(*loop_out, &parts, error);
}

int main(int argc, char **argv) {
    static struct puppet puppet;
    struct loop *loop = NULL;
    struct error error;
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: puppet_unit MODEL_DIRECTORY GATEWAY_ADDRESS [STEP_MS]\n");
        return 2;
    }
    puppet.step_ms = argc == 4 ? strtol(argv[3], NULL, 10) : 1;
    enum status status = run(&puppet, argv, &loop, &error);
    if (status) fprintf(stderr, "puppet_unit: %s\n", error.text);
    if (loop && !loop_close(loop)) _exit(1);
    model_text_close(&puppet.text);
    lazy_memory_free(&puppet.unit_memory);
    lazy_memory_free(&puppet.memory);
    return status ? 1 : 0;
}
