/* SPDX-License-Identifier: Apache-2.0
 * fathom chat: a conversation in the terminal. It runs the model directly, without a unit, as a
 * single user needs no scheduling. On a terminal Ctrl-C stops the answer, and Ctrl-D quits.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/utf8.h"
#include "command/model_run.h"
#include "host/process/model_prompt.h"
#include "programs/programs.h"
#include "programs/sampler.h"

#define CONTEXT_DEFAULT 4096
#define MESSAGES_MAX 1024

struct chat_values {
    struct model_run_values run;
    const char *system;
    const char *content_specials, *chat_template;
    double temperature, top_p;
    struct sampler_values sampler;
    uint64_t max_context, seed, top_k;
};

#define AT(field) .offset = offsetof(struct chat_values, field)

static const struct option chat_rows[] = {
    MODEL_RUN_OPTIONS,
    {"system", OPTION_TEXT, NULL, "the system message", AT(system)},
    CONTENT_SPECIALS_OPTION(struct chat_values, content_specials),
    CHAT_TEMPLATE_OPTION(struct chat_values, chat_template),
    {"temperature", OPTION_NUMBER, "-1",
     "0: always the likeliest token; higher values vary more; -1: the model's own", AT(temperature),
     .minimum = -1, .maximum = 2},
    {"top-p", OPTION_NUMBER, "-1",
     "sample from the likeliest tokens with this total probability; -1: the model's own", AT(top_p),
     .minimum = -1, .maximum = 1},
    {"top-k", OPTION_COUNT, NULL, "sample from this many tokens; 0: the model's own", AT(top_k),
     .maximum = LIMIT_VOCAB},
    SAMPLER_OPTIONS(struct chat_values),
    {"seed", OPTION_COUNT, NULL, "seed for repeatable answers; 0: a new one each time", AT(seed)},
    {"max-context", OPTION_COUNT, NULL,
     "maximum tokens of the whole conversation; 0: 4096, or the model's maximum if lower",
     AT(max_context), .maximum = LIMIT_CONTEXT},
};

const struct option_table chat_options = {
    .command = "chat",
    .arguments = "",
    .description = "A conversation in the terminal.",
    .options = chat_rows,
    .option_count = ARRAY_COUNT(chat_rows),
};

static const char help_text[] = "  /reset   forget the conversation\n"
                                "  /help    this text\n"
                                "  Ctrl-C   stop the answer\n"
                                "  Ctrl-D   leave\n";

struct chat {
    struct chat_values values;
    struct solo *solo;
    struct model_text text;
    struct sampler sampler;
    uint32_t vocab, context_max;
    float *logits; /* [vocab] */
    struct model_prompt prompt;
    struct chat_turn messages[MESSAGES_MAX]; /* each content on the heap, valid UTF-8 */
    size_t message_count;
    /* The current answer. */
    char *answer;
    size_t answer_bytes, answer_capacity;
    enum token_stream_part shown;
    bool has_colour, anything_shown;
};

/* Ctrl-C sets a flag and writes a byte to a pipe. The byte ends a wait for a line even if the
 * signal arrives just before the wait begins, and on any thread. */
static volatile sig_atomic_t interrupted;
static int interrupt_pipe[2];

static void on_interrupt(int number) {
    int saved = errno;
    interrupted = 1;
    if (write(interrupt_pipe[1], "", 1) < 0) interrupted = 1; /* a full pipe has a byte */
    errno = saved;
}

static enum status chat_no_memory(struct error *error) {
    return error_set(error, STATUS_NO_MEMORY, "no memory for the conversation");
}

/* ---- messages ---- */

static enum status chat_add_message(struct chat *chat, const char *role, struct bytes content,
                                    struct error *error) {
    size_t capacity = 3 * content.count + 1, count = 0; /* an invalid byte may become three */
    char *copy = malloc(capacity);
    if (!copy) return chat_no_memory(error);
    if (chat->message_count == MESSAGES_MAX) {
        free(copy);
        return error_set(error, STATUS_FULL, "the conversation has %d messages: /reset it",
                         MESSAGES_MAX);
    }
    check(!utf8_repair(content, copy, capacity, &count));
    chat->messages[chat->message_count++] = (struct chat_turn){role, {copy, count}};
    return STATUS_OK;
}

static void drop_message(struct chat *chat) {
    free((void *)(uintptr_t)chat->messages[--chat->message_count].content.data);
}

static enum status reset(struct chat *chat, struct error *error) {
    while (chat->message_count)
        drop_message(chat);
    if (!chat->values.system) return STATUS_OK;
    return chat_add_message(chat, "system", bytes_of(chat->values.system), error);
}

/* ---- writing an answer ---- */

static void set_dim(const struct chat *chat, bool dim) {
    if (chat->has_colour) fputs(dim ? "\033[2m" : "\033[0m", stdout);
}

static void chat_show(void *context, enum token_stream_part part, struct bytes text) {
    struct chat *chat = context;
    if (chat->anything_shown && part != chat->shown) fputs("\n\n", stdout);
    if (!chat->anything_shown || part != chat->shown) set_dim(chat, part == TOKEN_STREAM_REASONING);
    chat->anything_shown = true;
    chat->shown = part;
    fwrite(text.data, 1, text.count, stdout);
    fflush(stdout);
    if (part != TOKEN_STREAM_CONTENT) return;
    size_t bytes = chat->answer_bytes + text.count;
    if (bytes > chat->answer_capacity) {
        size_t capacity = 2 * bytes;
        char *grown = realloc(chat->answer, capacity);
        check(grown != NULL);
        chat->answer = grown;
        chat->answer_capacity = capacity;
    }
    memcpy(chat->answer + chat->answer_bytes, text.data, text.count);
    chat->answer_bytes = bytes;
}

static enum status encode_conversation(struct chat *chat, struct error *error) {
    enum status status = model_prompt_turns(&chat->prompt, chat->messages, chat->message_count,
                                            !strcmp(chat->values.content_specials, "on"), error);
    if (status == STATUS_TOO_LARGE || (!status && chat->prompt.token_count >= chat->context_max))
        return error_set(error, STATUS_TOO_LARGE,
                         "the conversation is longer than %u tokens: /reset it, or start with a "
                         "larger --max-context",
                         chat->context_max);
    return status;
}

/* Generates and prints an answer, from the prompt's last logits to its end. */
static enum status write_answer(struct chat *chat, struct token_stream *stream,
                                uint32_t prompt_tokens, struct error *error) {
    chat->sampler.sampling.seed++;
    sampler_begin(&chat->sampler, chat->prompt.tokens, prompt_tokens);
    for (uint32_t position = 0; prompt_tokens + position < chat->context_max; position++) {
        uint32_t token = sampler_choose(&chat->sampler, chat->logits, NULL);
        if (sampler_ends(&chat->sampler, token) || interrupted) return STATUS_OK;
        token_stream_push(stream, token, chat_show, chat);
        struct solo_row row = {
            .form = TOKEN_GENERATED, .tokens = &token, .token_count = 1, .logits_count = 1};
        enum status status = solo_step(chat->solo, &row, 1, chat->logits, NULL, error);
        if (status) return status;
    }
    fprintf(stderr, "\n(the context of %u tokens is full: /reset it)", chat->context_max);
    return STATUS_OK;
}

static enum status compute_answer(struct chat *chat, struct error *error) {
    struct token_stream stream;
    enum status status = encode_conversation(chat, error);
    if (status) return status;
    uint32_t count = (uint32_t)chat->prompt.token_count;
    solo_reset(chat->solo, 0);
    chat->answer_bytes = 0;
    chat->anything_shown = false;
    token_stream_open(&stream, chat->text.tokenizer, NULL, chat->prompt.stream, NULL);
    status = solo_prefill(chat->solo, 0, chat->prompt.tokens, count, 0, chat->logits, error);
    if (!status) status = write_answer(chat, &stream, count, error);
    token_stream_finish(&stream, chat_show, chat);
    set_dim(chat, false);
    if (chat->anything_shown) fputs("\n\n", stdout);
    fflush(stdout);
    return status;
}

/* Answers a question. Drops it if it does not fit, so that the conversation can continue. */
static enum status chat_answer(struct chat *chat, struct bytes question, struct error *error) {
    enum status status = chat_add_message(chat, "user", question, error);
    bool asked = !status;
    if (!status) status = compute_answer(chat, error);
    if (!status)
        status = chat_add_message(chat, "assistant",
                                  (struct bytes){chat->answer, chat->answer_bytes}, error);
    if (status != STATUS_FULL && status != STATUS_TOO_LARGE) return status;
    fprintf(stderr, "%s\n", error->text);
    if (asked) drop_message(chat);
    return STATUS_OK;
}

/* ---- opening ---- */

static enum status chat_take_room(struct chat *chat, struct error *error) {
    chat->logits = malloc(chat->vocab * sizeof(float));
    if (!chat->logits) return chat_no_memory(error);
    /* the average token is rarely longer */
    enum status status =
        model_prompt_open(&chat->prompt, &chat->text, (size_t)chat->context_max * 64, error);
    return status ? status : sampler_open(&chat->sampler, chat->vocab, chat->context_max, error);
}

static enum status choose_sampling(struct chat *chat, struct error *error) {
    const struct chat_values *values = &chat->values;
    struct sampling *sampling = &chat->sampler.sampling;
    *sampling = chat->text.sampling;
    if (values->temperature >= 0) sampling->temperature = (float)values->temperature;
    if (values->top_p >= 0) sampling->top_p = (float)values->top_p;
    if (values->top_k) sampling->top_k = (uint32_t)values->top_k;
    sampling->seed = values->seed;
    if (values->seed == 0)
        check(getrandom(&sampling->seed, sizeof sampling->seed, 0) == sizeof sampling->seed);
    return sampler_apply(&chat->sampler, &values->sampler, chat->text.stop_tokens,
                         chat->text.stop_token_count, error);
}

static enum status chat_open(struct chat *chat, struct error *error) {
    struct solo_options options = {.sequences = 1, .schedule = chat->values.run.schedule};
    uint64_t wanted = chat->values.max_context ? chat->values.max_context : CONTEXT_DEFAULT;
    enum status status = model_run_options(&chat->values.run, &options.model, error);
    if (status) return status;
    options.model.step_tokens_max = MODEL_RUN_STEP_TOKENS;
    struct shape shape;
    status = model_run_shape(options.model.directory, &shape, error);
    if (status) return status;
    if (chat->values.max_context > shape.context_max)
        return error_set(error, STATUS_TOO_LARGE,
                         "--max-context %" PRIu64 ": the model has at most %u tokens "
                         "(max_position_embeddings of %.300s/config.json); give that or less",
                         wanted, shape.context_max, options.model.directory);
    chat->vocab = shape.vocab;
    chat->context_max = wanted < shape.context_max ? (uint32_t)wanted : shape.context_max;
    struct template_choice choice = {.chat_template = chat->values.chat_template};
    status = model_text_open(options.model.directory, &shape, &choice, &chat->text, error);
    if (status) return status;
    if (!chat->text.stop_token_count)
        fprintf(stderr, "fathom chat: %s " MODEL_RUN_ENDLESS "\n", options.model.directory);
    if (!chat->text.tokenizer || !chat->text.chat_template.present)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%.300s has no tokenizer.json, or no chat template: `fathom generate "
                         "--tokens` needs neither",
                         options.model.directory);
    options.context_max = chat->context_max;
    status = model_run_open(&options, &chat->solo, error);
    if (!status) status = chat_take_room(chat, error);
    if (!status) status = choose_sampling(chat, error);
    return status ? status : reset(chat, error);
}

static void chat_close(struct chat *chat) {
    while (chat->message_count)
        drop_message(chat);
    if (chat->solo) solo_close(chat->solo);
    model_prompt_close(&chat->prompt);
    model_text_close(&chat->text);
    free(chat->logits);
    sampler_close(&chat->sampler);
    free(chat->answer);
}

/* ---- the terminal ---- */

/* Handles Ctrl-C: it ends a wait for a line, or an answer, but not the program. */
static enum status catch_interrupts(struct error *error) {
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
    if (pipe2(interrupt_pipe, O_NONBLOCK | O_CLOEXEC) != 0)
        return error_set(error, STATUS_IO, "cannot make a pipe: %s", strerror(errno));
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    return STATUS_OK;
}

static void forget_interrupts(void) {
    char byte[64];
    while (read(interrupt_pipe[0], byte, sizeof byte) > 0)
        ;
    interrupted = 0;
}

/* Waits for input. On a terminal a read returns one line, so stdin's buffer has no further line.
 * Returns false after Ctrl-C. */
static bool wait_for_line(void) {
    struct pollfd ends[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                             {.fd = interrupt_pipe[0], .events = POLLIN}};
    while (poll(ends, 2, -1) < 0)
        check(errno == EINTR);
    return ends[1].revents == 0;
}

static struct bytes chat_trimmed(struct bytes text) {
    while (text.count && strchr(" \t\r\n", text.data[text.count - 1]))
        text.count--;
    while (text.count && strchr(" \t", text.data[0]))
        text.data++, text.count--;
    return text;
}

static enum status converse(struct chat *chat, bool terminal, struct error *error) {
    char *line = NULL;
    size_t capacity = 0;
    enum status status = STATUS_OK;
    while (!status) {
        if (terminal) {
            forget_interrupts();
            fputs("> ", stdout);
            fflush(stdout);
            if (!wait_for_line()) {
                fputs("\n(Ctrl-D leaves)\n", stdout);
                continue;
            }
        }
        ssize_t count = getline(&line, &capacity, stdin);
        if (count < 0) break;
        struct bytes text = chat_trimmed((struct bytes){line, (size_t)count});
        if (text.count == 0) continue;
        if (bytes_equal(text, BYTES_LITERAL("/help")))
            fputs(help_text, stdout);
        else if (bytes_equal(text, BYTES_LITERAL("/reset")))
            status = reset(chat, error);
        else if (text.data[0] == '/')
            fprintf(stderr, "no such command; /help lists them\n");
        else
            status = chat_answer(chat, text, error);
    }
    if (terminal) fputs("\n", stdout);
    free(line);
    return status;
}

int program_chat(void *given, const struct option_result *result) {
    static struct chat chat;
    struct error error = {""};
    chat.values = *(const struct chat_values *)given;
    enum status status = chat_open(&chat, &error);
    if (!status) {
        chat.has_colour = isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
        bool terminal = isatty(STDIN_FILENO);
        if (terminal) fprintf(stderr, "Ctrl-C stops an answer, /help helps\n");
        if (terminal) status = catch_interrupts(&error);
        if (!status) status = converse(&chat, terminal, &error);
    }
    chat_close(&chat);
    return command_end(status, &error);
}
