/* SPDX-License-Identifier: Apache-2.0
 * Writes manual pages with man(7)'s macros: fathom.1 and one page for each command. Its command
 * line, `fathom help --man`, also prints shell completion.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "host/process/own_file.h"
#include "programs/completion.h"
#include "programs/programs.h"

/* ---- text in a manual page ---- */

/* Prints a character, escaped if groff would replace it or read it as a request. */
static void print_character(char c, bool first, FILE *out) {
    static const char set[] = "\\-'`^~";
    static const char *const as[] = {"\\e", "\\-", "\\(aq", "\\(ga", "\\(ha", "\\(ti"};
    const char *found = strchr(set, c);
    if (c == '.' && first) fputs("\\&", out);
    if (found)
        fputs(as[found - set], out);
    else
        putc(c, out);
}

static void manual_print_text(const char *text, size_t bytes, FILE *out) {
    for (size_t i = 0; i < bytes; i++)
        print_character(text[i], i == 0, out);
}

static void print_all(const char *text, FILE *out) {
    manual_print_text(text, strlen(text), out);
}

/* Lines that begin with a space are kept. Others form paragraphs, which empty lines separate. */
static void print_paragraphs(const char *text, FILE *out) {
    bool as_it_is = false;
    while (*text) {
        size_t bytes = strcspn(text, "\n");
        bool wants = bytes > 0 && *text == ' ';
        if (wants && !as_it_is) fputs(".PP\n.nf\n", out);
        if (!wants && as_it_is) fputs(".fi\n", out);
        if (bytes == 0) fputs(".PP\n", out);
        manual_print_text(text, bytes, out);
        if (bytes) putc('\n', out);
        as_it_is = wants;
        text += bytes + (text[bytes] == '\n');
    }
    if (as_it_is) fputs(".fi\n", out);
}

/* ---- a page ---- */

static void manual_print_option(const struct option *option, FILE *out) {
    char text[OPTION_TEXT_BYTES];
    const char *value = options_value(option);
    bool experiment = options_is_experiment(option);
    fputs(".TP\n\\fB", out);
    if (!experiment) fputs(options_is_on(option) ? "\\-\\-[no\\-]" : "\\-\\-", out);
    print_all(option->name, out);
    fprintf(out, "\\fR%s\\fI", experiment ? "=" : *value ? " " : "");
    print_all(value, out);
    fputs("\\fR\n", out);
    options_describe(option, text);
    print_all(text, out);
    putc('\n', out);
}

/* `alone`: the page has no other table. */
static void manual_print_table(const struct option_table *table, bool alone, FILE *out) {
    fprintf(out, alone ? ".SH SYNOPSIS\n" : ".SS ");
    fputs("\\fBfathom ", out);
    print_all(table->command, out);
    fprintf(out, "\\fR%s%s", table->option_count ? " [\\fIoptions\\fR]" : "",
            *table->arguments ? " " : "");
    print_all(table->arguments, out);
    fprintf(out, "\n%s", alone ? ".SH DESCRIPTION\n" : ".PP\n");
    print_paragraphs(table->description, out);
    if (alone && table->option_count) fputs(".SH OPTIONS\n", out);
    for (int group = 0; group < OPTION_GROUP_COUNT; group++) {
        size_t count = options_group_count(table, (enum option_group)group);
        if (count && count < table->option_count)
            fprintf(out, ".%s %s\n", alone ? "SS" : "PP\n",
                    options_group_title(table, (enum option_group)group));
        for (size_t i = 0; i < table->option_count; i++)
            if ((int)table->options[i].group == group) manual_print_option(&table->options[i], out);
    }
}

static void manual_print_head(const char *name, const char *summary, FILE *out) {
    fputs(".\\\" Written by `fathom help --man`.\n.TH \"", out);
    print_all(name, out);
    fprintf(out, "\" 1 \"\" \"fathom %s\" \"Fathom\"\n.SH NAME\n", FATHOM_VERSION);
    print_all(name, out);
    fputs(" \\- ", out);
    print_all(summary, out);
    putc('\n', out);
}

static void print_tail(FILE *out) {
    fputs(".SH \"EXIT STATUS\"\n0: done. 1: the work failed. 2: the command line is wrong.\n"
          ".SH \"SEE ALSO\"\n\\fBfathom\\fR(1); the guides in \\fI/usr/share/doc/fathom/docs\\fR\n",
          out);
}

static void print_program(const struct command *program, FILE *out) {
    bool alone = !program->subjects;
    char name[64];
    snprintf(name, sizeof name, "fathom-%s", program->name);
    manual_print_head(name, program->summary, out);
    if (!alone) {
        fputs(".SH SYNOPSIS\n\\fBfathom ", out);
        print_all(program->name, out);
        fputs("\\fR \\fISUBJECT\\fR [\\fIoptions\\fR]\n.SH SUBJECTS\n", out);
    }
    for (const struct command *subcommand = NULL;
         (subcommand = command_next_subcommand(program, subcommand));)
        manual_print_table(subcommand->options, alone, out);
    print_tail(out);
}

static void print_overview(FILE *out) {
    manual_print_head("fathom", "an inference system for DeepSeek-V3 and R1", out);
    fputs(".SH SYNOPSIS\n\\fBfathom\\fR \\fICOMMAND\\fR [\\fIoptions\\fR]\n.SH DESCRIPTION\n", out);
    print_all(
        "Serves large language models of DeepSeek's architecture: an API server, a chat page, "
        "engines, and what it takes to run many of them. `fathom serve` alone serves the model "
        "that comes with it.",
        out);
    fputs("\n.SH COMMANDS\n", out);
    for (const struct command *program = programs; program->name; program++) {
        fputs(".TP\n\\fBfathom\\-", out);
        print_all(program->name, out);
        fputs("\\fR(1)\n", out);
        print_all(program->summary, out);
        putc('\n', out);
    }
    print_tail(out);
}

/* Writes the page of a program; NULL: the overview. */
static enum status manual_write_page(const char *directory, const struct command *program,
                                     struct error *error) {
    char path[4096];
    int bytes = snprintf(path, sizeof path, "%s/fathom%s%s.1", directory, program ? "-" : "",
                         program ? program->name : "");
    FILE *out = bytes < (int)sizeof path ? own_file_report(path) : NULL;
    if (!out) return error_set(error, STATUS_IO, "cannot write %.200s: %s", path, strerror(errno));
    if (program)
        print_program(program, out);
    else
        print_overview(out);
    bool failed = ferror(out);
    if (fclose(out) || failed)
        return error_set(error, STATUS_IO, "cannot write %.200s: %s", path, strerror(errno));
    return STATUS_OK;
}

static enum status manual_write_pages(const char *directory, struct error *error) {
    enum status status = manual_write_page(directory, NULL, error);
    for (const struct command *program = programs; program->name && !status; program++)
        status = manual_write_page(directory, program, error);
    return status;
}

/* ---- the command line ---- */

struct manual_values {
    const char *man, *completion;
};

static const struct option manual_rows[] = {
    {"man", OPTION_TEXT, NULL,
     "write a manual page for each command into this directory, and fathom.1",
     .offset = offsetof(struct manual_values, man)},
    {"completion", OPTION_CHOICE, NULL, "print what completes commands and options in this shell",
     .offset = offsetof(struct manual_values, completion), .choices = "bash|zsh|fish"},
};

static const struct option_table manual_options = {
    .command = "help",
    .arguments = "[COMMAND]",
    .description =
        "Describes a command and its options.\n\n"
        "examples:\n"
        "  fathom help serve                      what serve does, and its everyday options\n"
        "  fathom help serve --all                all options, as on the manual page\n"
        "  . <(fathom help --completion bash)     completion, in this shell (zsh: the same)\n"
        "  fathom help --completion fish | source completion, in fish",
    .options = manual_rows,
    .option_count = ARRAY_COUNT(manual_rows),
};

int manual_run(int argc, char **argv) {
    struct manual_values values;
    struct option_result result;
    struct error error;
    int exit_code;
    if (!command_begin(&manual_options, argc, argv, &values, &result, &exit_code)) return exit_code;
    enum status status = values.man ? manual_write_pages(values.man, &error) : STATUS_OK;
    if (!status && values.completion) completion_print(values.completion);
    return command_end(status, &error);
}
