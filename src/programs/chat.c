/* SPDX-License-Identifier: Apache-2.0
 * fathom chat: a conversation in the terminal, with a model in this process (chat_model.h) or on a
 * server (chat_remote.h). On a terminal Ctrl-C stops the answer, whose text is kept, and Ctrl-D
 * quits. From a pipe each line is a question or a command.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"
#include "base/format.h"
#include "programs/chat_model.h"
#include "programs/chat_remote.h"
#include "programs/line_editor.h"
#include "programs/outside_text.h"
#include "programs/programs.h"

#define FILE_BYTES_MAX ((size_t)16 << 20) /* of /file */
#define PATH_BYTES 4096

#define AT(field) .offset = offsetof(struct chat_values, field)

static const struct option chat_rows[] = {
    MODEL_RUN_OPTIONS,
    {"url", OPTION_TEXT, NULL,
     "talk to this server, as http://HOST:PORT, in place of a model here; --model is then the "
     "name of its model (default: the first that it lists), and FATHOM_API_KEY the key",
     AT(url)},
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
    {"max-new", OPTION_COUNT, NULL, "maximum tokens of an answer; 0: all that fit", AT(max_new),
     .maximum = LIMIT_CONTEXT},
    {"max-context", OPTION_COUNT, NULL,
     "maximum tokens of the whole conversation; 0: the model's maximum, or what memory has room "
     "for",
     AT(max_context), .maximum = LIMIT_CONTEXT},
    {"history", OPTION_FLAG, "true",
     "keep the questions of a terminal in ~/.local/state/fathom/chat_history", AT(history)},
};

const struct option_table chat_options = {
    .command = "chat",
    .arguments = "",
    .description = "A conversation in the terminal. /help lists its commands.",
    .options = chat_rows,
    .option_count = ARRAY_COUNT(chat_rows),
};

static const char help_text[] =
    "  /new             begin a new conversation\n"
    "  /file PATH       put a file's text in front of the next question\n"
    "  /set NAME VALUE  change an option such as temperature; /set alone lists them\n"
    "  /save FILE       write the conversation as JSON; /save! FILE replaces a file\n"
    "  /load FILE       continue a conversation that /save has written\n"
    "  /help            this text\n"
    "  arrows, Ctrl-R   edit the line, earlier questions, search them\n"
    "  Ctrl-C           stop the answer; what was written is kept\n"
    "  /exit, Ctrl-D    leave\n"
    "Pasted lines are one question.\n";

/* The options that /set can change. */
static const char *const settable[] = {"temperature",
                                       "top-p",
                                       "top-k",
                                       "min-p",
                                       "frequency-penalty",
                                       "presence-penalty",
                                       "repetition-penalty",
                                       "logit-bias",
                                       "min-tokens",
                                       "seed",
                                       "max-new"};

struct growing_text {
    char *data;
    size_t count, room;
};

struct chat {
    struct chat_values values;
    struct chat_model *model;   /* NULL: the server answers */
    struct chat_remote *remote; /* NULL: the model answers */
    struct chat_conversation conversation;
    struct growing_text answer;   /* the current answer without thoughts */
    struct growing_text attached; /* files in front of the next question */
    struct answer_view view;
    char *logit_bias; /* of /set, the one text among its options; NULL: none */
    bool leaves;      /* the user has asked to leave */
};

static void append_text(struct growing_text *text, struct bytes more) {
    if (text->count + more.count > text->room) {
        text->room = 2 * (text->count + more.count);
        text->data = realloc(text->data, text->room);
        check(text->data);
    }
    if (more.count) memcpy(text->data + text->count, more.data, more.count);
    text->count += more.count;
}

/* ---- questions ---- */

static enum status begin_conversation(struct chat *chat, struct error *error) {
    conversation_clear(&chat->conversation);
    chat->attached.count = 0;
    if (!chat->values.system) return STATUS_OK;
    return conversation_add(&chat->conversation, "system", bytes_of(chat->values.system), error);
}

static void chat_show(void *context, enum answer_part part, struct bytes text) {
    struct chat *chat = context;
    answer_view_push(&chat->view, part, text);
    if (part == ANSWER_TEXT) append_text(&chat->answer, text);
}

static void chat_wait(void *context, const char *text) {
    answer_view_wait(&((struct chat *)context)->view, text);
}

void chat_report_prompt(const struct chat_sink *sink, uint32_t ready, uint32_t total) {
    char text[64];
    format_text(text, sizeof text, "Reading the prompt: %u %%",
                (unsigned)((uint64_t)100 * ready / total));
    sink->wait(sink->context, text);
}

static enum status compute_answer(struct chat *chat, struct error *error) {
    struct chat_sink sink = {chat_show, chat_wait, chat};
    enum chat_end end = CHAT_END_STOP;
    chat->answer.count = 0;
    answer_view_begin(&chat->view);
    enum status status = chat->model ? chat_model_answer(chat->model, &chat->values,
                                                         &chat->conversation, &sink, &end, error)
                                     : chat_remote_answer(chat->remote, &chat->values,
                                                          &chat->conversation, &sink, &end, error);
    if (answer_view_finish(&chat->view)) fputs("\n\n", stdout);
    fflush(stdout);
    if (!status && end == CHAT_END_INTERRUPTED) fputs("(stopped)\n", stderr);
    if (!status && end == CHAT_END_LENGTH)
        fputs("(cut off at a length: of --max-new, or the context is full; /new begins another)\n",
              stderr);
    return status;
}

/* Answers a question. Drops it if it cannot be answered, so that the conversation can continue. */
static enum status chat_answer(struct chat *chat, struct bytes question, struct error *error) {
    append_text(&chat->attached, question);
    struct bytes whole = {chat->attached.data, chat->attached.count};
    enum status status = conversation_add(&chat->conversation, "user", whole, error);
    bool asked = !status;
    chat->attached.count = 0;
    if (!status) status = compute_answer(chat, error);
    if (!status)
        status = conversation_add(&chat->conversation, "assistant",
                                  (struct bytes){chat->answer.data, chat->answer.count}, error);
    bool continues = status == STATUS_FULL || status == STATUS_TOO_LARGE ||
                     status == STATUS_INVALID || chat->remote; /* invalid: what /set has set */
    if (!status || !continues) return status;
    fprintf(stderr, "%s\n", error->text);
    if (asked) conversation_drop_last(&chat->conversation);
    return STATUS_OK;
}

/* ---- commands ---- */

static void show_settings(const struct chat *chat) {
    for (size_t i = 0; i < ARRAY_COUNT(settable); i++) {
        char text[OPTION_TEXT_BYTES];
        const struct option *option = options_find(&chat_options, settable[i]);
        size_t count = options_format(option, &chat->values, text, sizeof text);
        printf("  %s\n", count ? text + 2 : settable[i]); /* without the dashes */
    }
}

static enum status set_option(struct chat *chat, char *arguments, struct error *error) {
    char *value = arguments + strcspn(arguments, " \t");
    if (*value) *value++ = 0;
    value += strspn(value, " \t");
    for (size_t i = 0; i < ARRAY_COUNT(settable); i++) {
        if (strcmp(arguments, settable[i]) != 0) continue;
        char *copy = strdup(value);
        check(copy);
        enum status status = options_set(&chat_options, arguments, copy, &chat->values, error);
        bool is_kept = !status && options_find(&chat_options, arguments)->type == OPTION_TEXT;
        free(is_kept ? chat->logit_bias : copy);
        if (is_kept) chat->logit_bias = copy;
        return status;
    }
    return error_set(error, STATUS_INVALID, "no such option; /set alone lists them");
}

static enum status attach_file(struct chat *chat, const char *path, struct error *error) {
    struct bytes text;
    enum status status = file_take(path, FILE_BYTES_MAX, &text, error);
    if (status) return status;
    append_text(&chat->attached, bytes_of(path));
    append_text(&chat->attached, BYTES_LITERAL(":\n```\n"));
    append_text(&chat->attached, text);
    if (text.count && text.data[text.count - 1] != '\n')
        append_text(&chat->attached, BYTES_LITERAL("\n"));
    append_text(&chat->attached, BYTES_LITERAL("```\n\n"));
    fprintf(stderr, "(%zu bytes go with the next question)\n", text.count);
    free((void *)(uintptr_t)text.data);
    return STATUS_OK;
}

static enum status run_command(struct chat *chat, const char *name, char *arguments,
                               struct error *error) {
    bool replaces = !strcmp(name, "/save!"), saves = replaces || !strcmp(name, "/save");
    bool needs = saves || !strcmp(name, "/load") || !strcmp(name, "/file");
    if (needs && !*arguments)
        return error_set(error, STATUS_INVALID, "%s needs the path of a file", name);
    if (!strcmp(name, "/help"))
        fputs(help_text, stdout);
    else if (!strcmp(name, "/new") || !strcmp(name, "/reset"))
        return begin_conversation(chat, error);
    else if (!strcmp(name, "/exit") || !strcmp(name, "/quit") || !strcmp(name, "/bye"))
        chat->leaves = true;
    else if (saves)
        return conversation_save(&chat->conversation, arguments, replaces, error);
    else if (!strcmp(name, "/load"))
        return conversation_load(&chat->conversation, arguments, error);
    else if (!strcmp(name, "/file"))
        return attach_file(chat, arguments, error);
    else if (!strcmp(name, "/set") && *arguments)
        return set_option(chat, arguments, error);
    else if (!strcmp(name, "/set"))
        show_settings(chat);
    else
        return error_set(error, STATUS_NOT_FOUND, "no such command; /help lists them");
    return STATUS_OK;
}

/* Runs a command line. An error is printed, and the conversation continues. */
static void command_line(struct chat *chat, struct bytes text) {
    struct error error = {""};
    char *line = strndup(text.data, text.count);
    check(line);
    char *arguments = line + strcspn(line, " \t");
    if (*arguments) *arguments++ = 0;
    arguments += strspn(arguments, " \t");
    if (run_command(chat, line, arguments, &error) != STATUS_OK) {
        char *visible = outside_text_visible(error.text);
        fprintf(stderr, "%s\n", visible);
        free(visible);
    }
    fflush(stdout);
    free(line);
}

static struct bytes chat_trimmed(struct bytes text) {
    while (text.count && strchr(" \t\r\n", text.data[text.count - 1]))
        text.count--;
    while (text.count && strchr(" \t", text.data[0]))
        text.data++, text.count--;
    return text;
}

/* Several lines are a question even if they begin with a slash. */
static enum status handle_line(struct chat *chat, struct bytes line, struct error *error) {
    struct bytes text = chat_trimmed(line);
    if (text.count == 0) return STATUS_OK;
    if (text.data[0] != '/' || memchr(text.data, '\n', text.count))
        return chat_answer(chat, text, error);
    command_line(chat, text);
    return STATUS_OK;
}

/* ---- the terminal ---- */

/* Finds the history's file and makes its folders; false if there is no home. */
static bool find_history(char path_out[PATH_BYTES]) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char folder[PATH_BYTES - 16];
    if (state && *state == '/')
        format_text(folder, sizeof folder, "%s/fathom", state);
    else if (home && *home == '/')
        format_text(folder, sizeof folder, "%s/.local/state/fathom", home);
    else
        return false;
    for (char *slash = strchr(folder + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash) *slash = 0;
        mkdir(folder, S_IRWXU); /* if it fails, the history's file says so */
        if (!slash) break;
        *slash = '/';
    }
    format_text(path_out, PATH_BYTES, "%s/chat_history", folder);
    return true;
}

static enum status converse_on_terminal(struct chat *chat, struct error *error) {
    char path[PATH_BYTES];
    struct line_editor *editor = NULL;
    struct bytes line;
    bool kept = chat->values.history && find_history(path);
    fprintf(stderr, "Ctrl-C stops an answer, /help helps\n");
    enum status status = line_editor_open("> ", kept ? path : NULL, &editor, error);
    while (!status && !chat->leaves) {
        enum line_kind kind = line_editor_read(editor, &line);
        if (kind == LINE_END) break;
        if (kind == LINE_READ)
            status = handle_line(chat, line, error);
        else
            fputs("\n(Ctrl-D leaves)\n", stdout);
        fflush(stdout);
    }
    if (!status) fputs("\n", stdout);
    line_editor_close(editor);
    return status;
}

static enum status converse_through_pipe(struct chat *chat, struct error *error) {
    char *line = NULL;
    size_t capacity = 0;
    enum status status = STATUS_OK;
    for (ssize_t count;
         !status && !chat->leaves && (count = getline(&line, &capacity, stdin)) >= 0;)
        status = handle_line(chat, (struct bytes){line, (size_t)count}, error);
    free(line);
    return status;
}

static enum status open_chat(struct chat *chat, struct error *error) {
    answer_view_open(&chat->view);
    enum status status = chat->values.url ? chat_remote_open(&chat->values, &chat->remote, error)
                                          : chat_model_open(&chat->values, &chat->model, error);
    return status ? status : begin_conversation(chat, error);
}

static void close_chat(struct chat *chat) {
    conversation_clear(&chat->conversation);
    chat_model_close(chat->model);
    chat_remote_close(chat->remote);
    free(chat->answer.data);
    free(chat->attached.data);
    free(chat->logit_bias);
}

int program_chat(void *given, const struct option_result *result) {
    static struct chat chat;
    struct error error = {""};
    chat.values = *(const struct chat_values *)given;
    enum status status = open_chat(&chat, &error);
    if (!status && isatty(STDIN_FILENO))
        status = converse_on_terminal(&chat, &error);
    else if (!status)
        status = converse_through_pipe(&chat, &error);
    close_chat(&chat);
    return command_end(status, &error);
}
