/* SPDX-License-Identifier: Apache-2.0
 * fathom tokenize and fathom detokenize: text to token ids and back, with the tokenizer of a model
 * directory. The input is one text from the command line or standard input. With --jsonl,
 * input and output are one JSON object per line.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/tree.h"
#include "command/json_print.h"
#include "command/model_run.h"
#include "host/process/model_text.h"
#include "programs/programs.h"

struct tokenize_values {
    const char *model;
    bool jsonl;
    bool framed;
    bool special; /* tokenize: recognize added tokens; detokenize: keep special ones */
};

#define MODEL_OPTION                                                                               \
    {                                                                                              \
        "model", OPTION_TEXT, NULL,                                                                \
            "directory with tokenizer.json or tiktoken.model, or GGUF file (default: the model "   \
            "that comes with "                                                                     \
            "Fathom)",                                                                             \
            AT(model)                                                                              \
    }

#define AT(field) .offset = offsetof(struct tokenize_values, field)

static const struct option tokenize_rows[] = {
    MODEL_OPTION,
    {"jsonl", OPTION_FLAG, NULL,
     "read lines {\"text\":\"...\",\"special\":true}, write lines {\"ids\":[...]}", AT(jsonl)},
    {"special", OPTION_FLAG, "true",
     "recognize added tokens in the text; a line's \"special\" takes precedence", AT(special)},
    {"add-special-tokens", OPTION_FLAG, NULL,
     "add the special tokens of a completion's prompt; a line's \"add_special_tokens\" takes "
     "precedence",
     AT(framed)},
};

static const struct option detokenize_rows[] = {
    MODEL_OPTION,
    {"jsonl", OPTION_FLAG, NULL,
     "read lines {\"ids\":[...],\"skip_special\":false}, write lines {\"text\":\"...\"}",
     AT(jsonl)},
    {"special", OPTION_FLAG, "true",
     "print special tokens; a line's \"skip_special\" takes precedence", AT(special)},
};

const struct option_table tokenize_options = {
    .command = "tokenize",
    .arguments = "[TEXT]",
    .description = "Prints the token ids of a text (of standard input, if there is no TEXT).",
    .options = tokenize_rows,
    .option_count = sizeof tokenize_rows / sizeof tokenize_rows[0],
    .positional_max = 1,
};

const struct option_table detokenize_options = {
    .command = "detokenize",
    .arguments = "[ID,ID,...]",
    .description = "Prints the text of token ids (of standard input, if there are none).",
    .options = detokenize_rows,
    .option_count = sizeof detokenize_rows / sizeof detokenize_rows[0],
    .positional_max = 1,
};

/* The state of one run. Its buffers grow with the longest line. */
struct session {
    struct tokenize_values values;
    bool encodes;                 /* text to ids */
    struct model_text model_text; /* no template */
    struct tokenizer_scratch *scratch;
    size_t text_bytes_max; /* for which scratch was sized */
    void *scratch_memory, *tree_memory, *out_memory;
    size_t tree_bytes, out_bytes;
    struct error error;
};

static enum status tokenize_no_memory(struct session *session) {
    return error_set(&session->error, STATUS_NO_MEMORY, "no memory");
}

static enum status grow(struct session *session, void **memory, size_t *bytes, size_t wanted) {
    if (wanted <= *bytes) return STATUS_OK;
    free(*memory);
    *bytes = wanted;
    *memory = malloc(wanted);
    if (*memory) return STATUS_OK;
    *bytes = 0;
    return tokenize_no_memory(session);
}

static enum status tokenize_session_open(struct session *session) {
    const char *model;
    enum status status = model_run_directory(session->values.model, &model, &session->error);
    bool frames = session->encodes && (session->values.framed || session->values.jsonl);
    if (!status && frames)
        status = model_text_open_words(model, &session->model_text, &session->error);
    if (!status && !session->model_text.tokenizer)
        status = model_text_open_tokenizer(model, &session->model_text, &session->error);
    return status;
}

static void tokenize_session_close(struct session *session) {
    model_text_close(&session->model_text);
    free(session->scratch_memory);
    free(session->tree_memory);
    free(session->out_memory);
}

static enum status reserve_scratch(struct session *session, size_t text_bytes) {
    size_t wanted = text_bytes < 1 << 20 ? 1 << 20 : 2 * text_bytes;
    if (text_bytes <= session->text_bytes_max && session->scratch) return STATUS_OK;
    size_t bytes = tokenizer_scratch_bytes(wanted);
    struct arena arena;
    free(session->scratch_memory);
    session->scratch_memory = malloc(bytes);
    if (!session->scratch_memory) return tokenize_no_memory(session);
    arena_over(&arena, session->scratch_memory, bytes);
    session->scratch = tokenizer_scratch_create(&arena, wanted);
    session->text_bytes_max = wanted;
    return session->scratch ? STATUS_OK : tokenize_no_memory(session);
}

/* ---- one text, one list of ids ---- */

static void tokenize_print_list(struct json_print *print, const uint32_t *ids, size_t count,
                                bool *first) {
    for (size_t i = 0; i < count; i++, *first = false) {
        json_print_count(print, NULL, ids[i]);
        json_print_say(print, "%s%" PRIu32, *first ? "" : " ", ids[i]);
    }
}

static enum status tokenize_print_ids(struct session *session, struct bytes text, bool special,
                                      bool framed) {
    static const struct prompt_frame none;
    const struct prompt_frame *frame = framed ? &session->model_text.frame : &none;
    size_t capacity = 3 * text.count, count = 0; /* an invalid byte may become three */
    bool first = true;
    enum status status = reserve_scratch(session, capacity);
    if (!status)
        status = grow(session, &session->out_memory, &session->out_bytes,
                      (capacity + 1) * sizeof(uint32_t));
    if (status) return status;
    uint32_t *ids = session->out_memory;
    status = tokenizer_encode(session->model_text.tokenizer, session->scratch, text,
                              special ? plain_text_nowhere : plain_text_everywhere, ids, capacity,
                              &count);
    if (status)
        return error_set(&session->error, status, "cannot tokenize this text: a pattern gave up");
    struct json_print print = json_print_begin(session->values.jsonl);
    json_print_open(&print, "ids", '[');
    tokenize_print_list(&print, frame->front, frame->front_count, &first);
    tokenize_print_list(&print, ids, count, &first);
    tokenize_print_list(&print, frame->back, frame->back_count, &first);
    json_print_close(&print);
    json_print_close(&print);
    json_print_say(&print, "\n");
    return STATUS_OK;
}

static enum status tokenize_print_text(struct session *session, const uint32_t *ids, size_t count,
                                       bool skip_special) {
    char *text = session->out_memory;
    size_t bytes = 0;
    if (tokenizer_decode(session->model_text.tokenizer, ids, count, skip_special, text,
                         session->out_bytes, &bytes)) {
        enum status status = grow(session, &session->out_memory, &session->out_bytes, 2 * bytes);
        if (status) return status;
        text = session->out_memory;
        status = tokenizer_decode(session->model_text.tokenizer, ids, count, skip_special, text,
                                  session->out_bytes, &bytes);
        if (status) return error_set(&session->error, status, "cannot decode these tokens");
    }
    if (!session->values.jsonl) {
        fwrite(text, 1, bytes, stdout);
        putchar('\n');
        return STATUS_OK;
    }
    struct json_print print = json_print_begin(true);
    json_print_string(&print, "text", (struct bytes){text, bytes});
    json_print_close(&print);
    return STATUS_OK;
}

/* ---- lines of JSON ---- */

static enum status tokenize_line(struct session *session, const struct tree *line) {
    struct bytes text;
    bool special = session->values.special, framed = session->values.framed;
    const struct tree *flag = tree_member(line, "special");
    const struct tree *frame = tree_member(line, "add_special_tokens");
    if (!tree_get_string(tree_member(line, "text"), &text))
        return error_set(&session->error, STATUS_INVALID, "expected a string \"text\"");
    if (flag && !tree_get_bool(flag, &special))
        return error_set(&session->error, STATUS_INVALID, "\"special\" must be true or false");
    if (frame && !tree_get_bool(frame, &framed))
        return error_set(&session->error, STATUS_INVALID,
                         "\"add_special_tokens\" must be true or false");
    return tokenize_print_ids(session, text, special, framed);
}

static enum status detokenize_line(struct session *session, struct arena *arena,
                                   const struct tree *line) {
    bool skip_special = !session->values.special;
    const struct tree *list = tree_member(line, "ids"), *flag = tree_member(line, "skip_special");
    if (!list || tree_kind(list) != TREE_ARRAY)
        return error_set(&session->error, STATUS_INVALID, "expected an array \"ids\"");
    if (flag && !tree_get_bool(flag, &skip_special))
        return error_set(&session->error, STATUS_INVALID, "\"skip_special\" must be true or false");
    size_t count = tree_count(list);
    uint32_t *ids = arena_take(arena, count * sizeof *ids);
    if (!ids) return tokenize_no_memory(session);
    for (size_t i = 0; i < count; i++) {
        int64_t id = -1;
        if (!tree_get_integer(tree_at(list, i), &id) || id < 0 || id >= LIMIT_VOCAB)
            return error_set(&session->error, STATUS_INVALID,
                             "ids[%zu]: expected an integer from 0 to %d", i, LIMIT_VOCAB - 1);
        ids[i] = (uint32_t)id;
    }
    return tokenize_print_text(session, ids, count, skip_special);
}

static enum status tokenize_run_line(void *context, struct bytes text) {
    struct session *session = context;
    const struct tree *line = NULL;
    struct arena arena;
    enum status status = grow(session, &session->tree_memory, &session->tree_bytes,
                              ((size_t)64 << 10) + 64 * text.count);
    if (status) return status;
    arena_over(&arena, session->tree_memory, session->tree_bytes);
    status = tree_parse(&arena, text, "the line", &line, &session->error);
    if (status) return status;
    return session->encodes ? tokenize_line(session, line) : detokenize_line(session, &arena, line);
}

/* ---- without JSON ---- */

/* Ids, separated by commas or white space. */
static enum status print_text_of(struct session *session, struct bytes list) {
    enum status status = grow(session, &session->tree_memory, &session->tree_bytes,
                              (list.count + 1) * sizeof(uint32_t));
    if (status) return status;
    uint32_t *ids = session->tree_memory;
    size_t count = 0;
    for (size_t i = 0; i < list.count;) {
        char byte = list.data[i];
        if (byte == ',' || byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r') {
            i++;
            continue;
        }
        uint32_t id = 0;
        size_t start = i;
        while (i < list.count && list.data[i] >= '0' && list.data[i] <= '9' && id < LIMIT_VOCAB)
            id = 10 * id + (uint32_t)(list.data[i++] - '0');
        if (i == start || id >= LIMIT_VOCAB)
            return error_set(&session->error, STATUS_INVALID,
                             "token id %zu: expected an integer from 0 to %d", count,
                             LIMIT_VOCAB - 1);
        ids[count++] = id;
    }
    return tokenize_print_text(session, ids, count, !session->values.special);
}

static enum status tokenize_run_one(struct session *session, const struct option_result *result) {
    struct bytes taken = {NULL, 0}, input;
    enum status status = STATUS_OK;
    if (result->positional_count == 0) status = command_read_input(&taken, &session->error);
    input = taken.data ? taken : bytes_of(result->positional_count ? result->positional[0] : "");
    if (!status)
        status = session->encodes ? tokenize_print_ids(session, input, session->values.special,
                                                       session->values.framed)
                                  : print_text_of(session, input);
    free((void *)(uintptr_t)taken.data);
    return status;
}

static int run(const struct tokenize_values *values, const struct option_result *result,
               bool encode) {
    struct session session = {.values = *values, .encodes = encode};
    if (values->jsonl && result->positional_count > 0)
        return command_misused("--jsonl reads standard input, not an argument");
    enum status status = tokenize_session_open(&session);
    if (!status)
        status = values->jsonl ? command_read_lines(tokenize_run_line, &session, &session.error)
                               : tokenize_run_one(&session, result);
    tokenize_session_close(&session);
    return command_end(status, &session.error);
}

int program_tokenize(void *values, const struct option_result *result) {
    return run(values, result, true);
}

int program_detokenize(void *values, const struct option_result *result) {
    return run(values, result, false);
}
