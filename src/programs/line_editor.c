/* SPDX-License-Identifier: Apache-2.0 */
#include "programs/line_editor.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#include "base/check.h"
#include "base/format.h"
#include "base/number.h"
#include "base/utf8.h"

#define HISTORY_LINES 1000
#define READ_BYTES ((size_t)4096)
#define PASTE_WAIT_MS 30
#define PASTE_BYTES_MIN 64 /* a shorter run without line ends may as well have been typed */
#define CTRL_D 4
#define PASTE_KEY 0x1F /* Ctrl-_, bound to insert_pasted */
#define PASTE_BEGIN BYTES_LITERAL("\033[200~")
#define PASTE_END BYTES_LITERAL("\033[201~")

/* The place in a key's sequence of bytes, which starts with ESC. */
enum key_place { KEY_NONE, KEY_ESCAPE, KEY_SEQUENCE };

struct line_editor {
    EditLine *edit;
    History *history;
    char *history_path; /* NULL: not kept */
    wchar_t *prompt;
    char *input; /* [input_count] bytes that were read and not used */
    size_t input_count, input_room;
    char *line;
    size_t line_room;
    enum key_place key;
    size_t typed_count; /* bytes at the start of the input that were not pasted */
    bool in_paste;      /* between the terminal's marks */
    bool at_end;
};

/* ---- signals ---- */

/* A signal writes its number to a pipe. The byte ends a wait for a line even if the signal arrives
 * just before the wait begins, and on any thread. */
static volatile sig_atomic_t interrupted;
static volatile sig_atomic_t ended_by; /* a signal that ends the process; 0: none */
static int signal_pipe[2];

/* While a line is edited, these wait until the terminal is as it was. */
static const int ending[] = {SIGTERM, SIGHUP, SIGQUIT};

static void on_signal(int number) {
    int saved = errno;
    char byte = (char)number;
    if (number == SIGINT) interrupted = 1;
    for (size_t i = 0; i < ARRAY_COUNT(ending); i++)
        if (number == ending[i]) ended_by = number;
    if (write(signal_pipe[1], &byte, 1) < 0) errno = 0; /* a full pipe wakes as well */
    errno = saved;
}

bool line_editor_interrupted(void) {
    return interrupted;
}

static enum status catch_signals(struct error *error) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    if (pipe2(signal_pipe, O_NONBLOCK | O_CLOEXEC) != 0)
        return error_set(error, STATUS_IO, "cannot make a pipe: %s", strerror(errno));
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGWINCH, &action, NULL);
    sigaction(SIGCONT, &action, NULL);
    return STATUS_OK;
}

/* Sets the action of the signals in `ending`, unless the process was started to ignore them. */
static void set_ending(void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, before;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < ARRAY_COUNT(ending); i++)
        if (sigaction(ending[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(ending[i], &action, NULL);
}

/* Handles the signals that have arrived. Returns false after Ctrl-C, and before the end. */
static bool handle_signals(struct line_editor *editor) {
    char number;
    while (read(signal_pipe[0], &number, 1) > 0) {
        if (number == SIGINT || ended_by) return false;
        if (number == SIGCONT) { /* the shell has changed the terminal's mode */
            el_set(editor->edit, EL_PREP_TERM, 0);
            el_set(editor->edit, EL_PREP_TERM, 1);
        }
        el_resize(editor->edit);
        el_set(editor->edit, EL_REFRESH);
    }
    return true;
}

static void forget_signals(void) {
    char numbers[64];
    while (read(signal_pipe[0], numbers, sizeof numbers) > 0)
        ;
    interrupted = 0;
}

/* ---- bytes from the terminal ---- */

enum input { INPUT_MORE, INPUT_NONE, INPUT_END, INPUT_INTERRUPTED };

/* Reads more bytes; waits at most wait_ms (-1: until some arrive). */
static enum input read_more(struct line_editor *editor, int wait_ms) {
    struct pollfd ends[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                             {.fd = signal_pipe[0], .events = POLLIN}};
    for (;;) {
        int ready = poll(ends, 2, wait_ms);
        if (ready == 0) return INPUT_NONE;
        if (ready < 0) check(errno == EINTR);
        if (ready < 0) continue;
        if (ends[1].revents && !handle_signals(editor)) return INPUT_INTERRUPTED;
        if (ends[0].revents) break;
    }
    if (editor->input_count + READ_BYTES > editor->input_room) {
        editor->input_room = 2 * (editor->input_count + READ_BYTES);
        editor->input = realloc(editor->input, editor->input_room);
        check(editor->input);
    }
    ssize_t count = read(STDIN_FILENO, editor->input + editor->input_count, READ_BYTES);
    if (count < 0 && errno == EINTR) return INPUT_MORE;
    if (count <= 0) return INPUT_END;
    editor->input_count += (size_t)count;
    return INPUT_MORE;
}

static void use_input(struct line_editor *editor, size_t count) {
    editor->input_count -= count;
    editor->typed_count -= min_u64(count, editor->typed_count);
    memmove(editor->input, editor->input + count, editor->input_count);
}

static bool is_line_end(char byte) {
    return byte == '\n' || byte == '\r';
}

static bool line_editor_is_text(char byte) {
    return ((uint8_t)byte >= 0x20 && byte != 0x7F) || byte == '\t';
}

static bool input_begins(const struct line_editor *editor, struct bytes mark) {
    return editor->input_count >= mark.count && !memcmp(editor->input, mark.data, mark.count);
}

/* The bytes at the start of the input without an incomplete character or end mark behind them. */
static size_t whole_count(const struct line_editor *editor) {
    struct bytes mark = PASTE_END;
    size_t count = editor->input_count;
    for (size_t part = min_u64(mark.count - 1, count); part > 0; part--)
        if (!memcmp(editor->input + count - part, mark.data, part)) return count - part;
    for (size_t part = 1; part < UTF8_BYTES_MAX && part <= count; part++) {
        size_t bytes;
        struct bytes tail = {editor->input + count - part, part};
        if (utf8_next(tail, &bytes) == UTF8_CUT && bytes == part) return count - part;
    }
    return count;
}

/* The bytes of a paste between marks that can be used now. */
static size_t marked_count(const struct line_editor *editor) {
    struct bytes mark = PASTE_END;
    const char *end = memmem(editor->input, editor->input_count, mark.data, mark.count);
    return end ? (size_t)(end - editor->input) : whole_count(editor);
}

/* The bytes at the start of the input that were pasted; 0: a key was pressed. */
static size_t pasted_count(struct line_editor *editor) {
    size_t count = 0;
    bool has_line_end = false;
    if (editor->in_paste) return marked_count(editor);
    if (editor->key != KEY_NONE || editor->typed_count) return 0;
    for (;;) {
        while (count < editor->input_count &&
               (line_editor_is_text(editor->input[count]) || is_line_end(editor->input[count])))
            count++;
        /* only the last line end can end the question, once nothing follows it */
        if (count < editor->input_count || count == 0) break;
        if (!is_line_end(editor->input[count - 1]) && count < PASTE_BYTES_MIN) break;
        if (read_more(editor, PASTE_WAIT_MS) != INPUT_MORE) break;
    }
    size_t run = count;
    if (count == editor->input_count) count = whole_count(editor);
    if (count == editor->input_count)
        while (count && is_line_end(editor->input[count - 1]))
            count--;
    for (size_t i = 0; i < count; i++)
        has_line_end |= is_line_end(editor->input[i]);
    if (has_line_end || count >= PASTE_BYTES_MIN) return count;
    editor->typed_count = run; /* so that a key is looked at once */
    return 0;
}

static void follow_key(struct line_editor *editor, wchar_t character) {
    if (character == 033)
        editor->key = KEY_ESCAPE;
    else if (editor->key == KEY_ESCAPE)
        editor->key = character == '[' || character == 'O' ? KEY_SEQUENCE : KEY_NONE;
    else if (character >= 0x40)
        editor->key = KEY_NONE;
}

/* libedit's source of characters: 1, or 0 at the end, or -1 after Ctrl-C. */
static int read_character(EditLine *edit, wchar_t *character_out) {
    struct line_editor *editor;
    el_get(edit, EL_CLIENTDATA, &editor);
    for (;;) {
        enum input more = editor->input_count ? INPUT_MORE : read_more(editor, -1);
        if (more == INPUT_MORE && !editor->input_count) continue;
        if (more == INPUT_MORE && editor->in_paste && input_begins(editor, PASTE_END)) {
            use_input(editor, PASTE_END.count);
            editor->in_paste = false;
            continue;
        }
        if (more == INPUT_MORE && !editor->in_paste && input_begins(editor, PASTE_BEGIN)) {
            use_input(editor, PASTE_BEGIN.count);
            editor->in_paste = true;
            continue;
        }
        if (more == INPUT_MORE && pasted_count(editor)) {
            *character_out = PASTE_KEY;
            return 1;
        }
        if (more == INPUT_MORE && editor->in_paste) more = read_more(editor, -1);
        if (more == INPUT_MORE && editor->in_paste) continue;
        size_t bytes = 0;
        struct bytes input = {editor->input, editor->input_count};
        enum utf8_kind kind = more == INPUT_MORE ? utf8_next(input, &bytes) : UTF8_INVALID;
        if (kind == UTF8_CUT) more = read_more(editor, -1);
        if (more == INPUT_INTERRUPTED) return -1;
        if (more == INPUT_END) {
            editor->at_end = true;
            return 0;
        }
        if (kind == UTF8_CUT) continue;
        unsigned read = 0;
        *character_out = kind == UTF8_WHOLE ? (wchar_t)utf8_read(editor->input, &read) : 0xFFFD;
        /* Ctrl-D during an answer, when the terminal was not in raw mode, arrives as a zero byte */
        if (*character_out == 0) *character_out = CTRL_D;
        follow_key(editor, *character_out);
        use_input(editor, bytes);
        return 1;
    }
}

/* A character of pasted text; other control characters than tabs and line ends become U+FFFD. */
static wchar_t pasted_character(uint32_t character) {
    bool kept = character >= 0x20 && (character < 0x7F || character >= 0xA0);
    return kept || character == '\t' || character == '\n' ? (wchar_t)character : 0xFFFD;
}

/* Inserts the paste at the start of the input, in one piece. */
static unsigned char insert_pasted(EditLine *edit, wint_t key) {
    struct line_editor *editor;
    el_get(edit, EL_CLIENTDATA, &editor);
    size_t count = pasted_count(editor), used = 0, length = 0;
    if (!count) return CC_NORM;
    wchar_t *text = calloc(count + 1, sizeof *text);
    check(text);
    while (used < count) {
        size_t bytes;
        unsigned read;
        const char *at = editor->input + used;
        enum utf8_kind kind = utf8_next((struct bytes){at, count - used}, &bytes);
        uint32_t character = kind == UTF8_WHOLE ? utf8_read(at, &read) : 0xFFFD;
        bool pair = character == '\r' && used + 1 < count && at[1] == '\n';
        used += bytes;
        if (!pair) text[length++] = pasted_character(character == '\r' ? '\n' : character);
    }
    use_input(editor, used);
    if (length && el_winsertstr(edit, text) != 0) length = 0;
    free(text);
    return length ? CC_REFRESH : CC_ERROR;
}

/* ---- history ---- */

static History *new_history(const char *path) {
    HistEvent event;
    History *list = history_init();
    if (!list) return NULL;
    history(list, &event, H_SETSIZE, HISTORY_LINES);
    history(list, &event, H_SETUNIQUE, 1);
    if (path) history(list, &event, H_LOAD, path); /* there may be no file yet */
    return list;
}

/* Replaces the history's file by one with the new line; it keeps what other chats have added. */
static bool line_editor_write_history(const char *path, const char *line) {
    HistEvent event;
    char partial[4096];
    History *list = new_history(path);
    format_text(partial, sizeof partial, "%s.%d", path, getpid());
    int descriptor =
        open(partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);
    FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "w");
    bool written = list && file && history(list, &event, H_ENTER, line) >= 0 &&
                   history(list, &event, H_SAVE_FP, file) >= 0;
    if (file) written &= fclose(file) == 0;
    if (written) written = rename(partial, path) == 0;
    if (!written && file) unlink(partial);
    if (list) history_end(list);
    return written;
}

static void keep_line(struct line_editor *editor) {
    HistEvent event;
    history(editor->history, &event, H_ENTER, editor->line);
    if (!editor->history_path || line_editor_write_history(editor->history_path, editor->line))
        return;
    fprintf(stderr, "(no history is kept: cannot write %s: %s)\n", editor->history_path,
            strerror(errno));
    free(editor->history_path);
    editor->history_path = NULL;
}

static enum status open_history(struct line_editor *editor, const char *path, struct error *error) {
    editor->history = new_history(path);
    if (!editor->history) return error_set(error, STATUS_NO_MEMORY, "no memory for the history");
    if (path) editor->history_path = strdup(path);
    el_set(editor->edit, EL_HIST, history, editor->history);
    return STATUS_OK;
}

/* ---- the editor ---- */

static wchar_t *line_editor_prompt_of(EditLine *edit) {
    struct line_editor *editor;
    el_get(edit, EL_CLIENTDATA, &editor);
    return editor->prompt;
}

enum status line_editor_open(const char *prompt, const char *history_path,
                             struct line_editor **editor_out, struct error *error) {
    struct line_editor *editor = calloc(1, sizeof *editor);
    if (!editor) return error_set(error, STATUS_NO_MEMORY, "no memory for the line editor");
    size_t length = strlen(prompt);
    editor->prompt = calloc(length + 1, sizeof *editor->prompt);
    for (size_t i = 0; editor->prompt && i < length; i++)
        editor->prompt[i] = (unsigned char)prompt[i];
    editor->edit = el_init("fathom", stdin, isatty(STDOUT_FILENO) ? stdout : stderr, stderr);
    enum status status = STATUS_OK;
    if (!editor->prompt || !editor->edit)
        status = error_set(error, STATUS_NO_MEMORY, "no memory for the line editor");
    if (!status) {
        el_set(editor->edit, EL_CLIENTDATA, editor);
        el_set(editor->edit, EL_EDITOR, "emacs");
        el_wset(editor->edit, EL_PROMPT, line_editor_prompt_of);
        el_set(editor->edit, EL_GETCFN, read_character);
        el_wset(editor->edit, EL_ADDFN, L"insert-pasted", L"Inserts pasted text", insert_pasted);
        el_set(editor->edit, EL_BIND, "^_", "insert-pasted", NULL);
        el_set(editor->edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
        el_set(editor->edit, EL_BIND, "\033[3~", "ed-delete-next-char", NULL);
        status = open_history(editor, history_path, error);
    }
    if (!status) status = catch_signals(error);
    if (status)
        line_editor_close(editor);
    else
        *editor_out = editor;
    return status;
}

void line_editor_close(struct line_editor *editor) {
    if (!editor) return;
    if (editor->edit) el_end(editor->edit);
    if (editor->history) history_end(editor->history);
    free(editor->history_path);
    free(editor->prompt);
    free(editor->input);
    free(editor->line);
    free(editor);
}

static struct bytes as_line(struct line_editor *editor, const wchar_t *text, size_t length) {
    size_t count = 0;
    if (UTF8_BYTES_MAX * length + 1 > editor->line_room) {
        editor->line_room = 2 * (UTF8_BYTES_MAX * length + 1);
        editor->line = realloc(editor->line, editor->line_room);
        check(editor->line);
    }
    for (size_t i = 0; i < length; i++)
        count += text[i] ? utf8_write((uint32_t)text[i], editor->line + count) : 0;
    while (count && is_line_end(editor->line[count - 1]))
        count--;
    editor->line[count] = 0;
    return (struct bytes){editor->line, count};
}

enum line_kind line_editor_read(struct line_editor *editor, struct bytes *line_out) {
    int length = 0;
    const char *terminal = getenv("TERM");
    FILE *out = isatty(STDOUT_FILENO) ? stdout : stderr;
    bool marks = terminal && strcmp(terminal, "dumb") != 0;
    forget_signals();
    set_ending(on_signal);
    editor->key = KEY_NONE;
    editor->in_paste = false;
    el_set(editor->edit, EL_PREP_TERM, 1); /* before the prompt, so that no key after it is lost */
    if (marks) fputs("\033[?2004h", out);
    const wchar_t *text = el_wgets(editor->edit, &length);
    if (marks) fputs("\033[?2004l", out);
    fflush(out);
    if (ended_by) el_set(editor->edit, EL_PREP_TERM, 0);
    set_ending(SIG_DFL);
    if (ended_by) raise(ended_by);
    if (text && length > 0) {
        *line_out = as_line(editor, text, (size_t)length);
        if (line_out->count) keep_line(editor);
        return LINE_READ;
    }
    if (!interrupted) return LINE_END;
    editor->input_count = editor->typed_count = 0;
    return LINE_INTERRUPTED;
}
