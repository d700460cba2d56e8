/* SPDX-License-Identifier: Apache-2.0
 * Prints completion scripts from the tables of options. bash's is one function, which needs no
 * other package; zsh runs the same function through its own bashcompinit. fish gets one rule for
 * each option, with the option's text.
 */
#include <stdio.h>
#include <string.h>

#include "programs/completion.h"
#include "programs/programs.h"

/* Prints the choices of a command's first argument, each after `separator`. The table lists them in
 * `word`, or its usage line names them: "stat|verify|gc DIR". */
static void print_first_words(const struct option_table *table, const char *separator) {
    const char *word;
    if (table->word) {
        for (uint32_t i = 0; (word = table->word(i)); i++)
            printf("%s%s", separator, word);
        return;
    }
    size_t bytes = strcspn(table->arguments, " ");
    if (!memchr(table->arguments, '|', bytes)) return;
    for (const char *at = table->arguments, *end = at + bytes; at < end;) {
        size_t length = strcspn(at, "| ");
        printf("%s%.*s", separator, (int)length, at);
        at += length + (at + length < end);
    }
}

/* ---- bash and zsh ---- */

/* Prints the words that select a table of options, such as "bench model". */
static void print_bash_table(const struct option_table *table) {
    printf("    '%s')\n        first='", table->command);
    print_first_words(table, " ");
    printf("'\n        options='");
    for (size_t i = 0; i < table->option_count; i++) {
        const struct option *option = &table->options[i];
        if (options_is_experiment(option)) continue;
        printf("--%s ", option->name);
        if (options_is_on(option)) printf("--no-%s ", option->name);
    }
    printf("--help'\n        case $before in\n");
    for (size_t i = 0; i < table->option_count; i++) {
        const struct option *option = &table->options[i];
        if (option->type != OPTION_CHOICE || options_is_experiment(option)) continue;
        printf("        --%s) values='%s' ;;\n", option->name, option->choices);
    }
    printf("        esac ;;\n");
}

static const char bash_head[] =
    "# Completion of fathom's commands and options; written by `fathom help --completion`.\n"
    "_fathom() {\n"
    "    local words=(\"${COMP_WORDS[@]}\") at=$COMP_CWORD word before command first= options= "
    "values=\n"
    "    # bash splits --name=value at the equals sign.\n"
    "    if [ \"${words[at]}\" = = ]; then words[at]=''; at=$((at + 1)); words[at]=''; fi\n"
    "    word=${words[at]} before=${words[at - 1]}\n"
    "    if [ \"$before\" = = ] || [ -z \"$before\" ]; then before=${words[at - 2]}; fi\n"
    "    command=${words[1]}\n"
    "    case $command in\n";

static void print_bash_names(const char *separator, const struct command *list) {
    for (const struct command *command = list; command->name; command++)
        printf("%s%s", command == list ? separator : "|", command->name);
    printf("' ;;\n");
}

static void print_bash(void) {
    fputs(bash_head, stdout);
    for (const struct command *program = programs; program->name; program++)
        if (program->subjects)
            printf("    %s) [ \"$at\" -eq 2 ] || command=\"$command ${words[2]}\" ;;\n",
                   program->name);
    printf("    esac\n    [ \"$at\" -gt 1 ] || command=\n    case $command in\n    '' | help) "
           "values='help");
    print_bash_names("|", programs);
    for (const struct command *program = programs; program->name; program++) {
        if (program->subjects) {
            printf("    '%s') values='", program->name);
            print_bash_names("", program->subjects);
        }
        for (const struct command *subcommand = NULL;
             (subcommand = command_next_subcommand(program, subcommand));)
            print_bash_table(subcommand->options);
    }
    printf("    esac\n"
           "    [ -n \"$values\" ] || [ \"${word:0:1}\" != - ] || values=$options\n"
           "    [ -n \"$values\" ] || [ \"$before\" != \"${command##* }\" ] || values=$first\n"
           "    COMPREPLY=($(compgen -W \"${values//|/ }\" -- \"$word\"))\n"
           "}\n"
           "complete -o default -F _fathom fathom\n");
}

/* ---- fish ---- */

/* Prints a text in single quotes, up to its first semicolon or line break. */
static void print_fish_text(const char *text) {
    putchar('\'');
    for (; *text && *text != ';' && *text != '\n'; text++) {
        if (*text == '\'' || *text == '\\') putchar('\\');
        putchar(*text);
    }
    putchar('\'');
}

/* Prints the beginning of a rule: `after` for the word right after a command, `in` for any. */
static void print_fish_rule(const char *place, const char *command) {
    printf("complete -c fathom -n '__fathom_%s %s'", place, command);
}

static void print_fish_table(const struct option_table *table) {
    char text[OPTION_TEXT_BYTES];
    print_fish_rule("after", table->command);
    printf(" -a '");
    print_first_words(table, " ");
    printf("'\n");
    for (size_t i = 0; i < table->option_count; i++) {
        const struct option *option = &table->options[i];
        if (options_is_experiment(option)) continue;
        options_describe(option, text);
        print_fish_rule("in", table->command);
        printf(" -l %s -d ", option->name);
        print_fish_text(text);
        if (option->type == OPTION_CHOICE) {
            printf(" -x -a '");
            for (const char *at = option->choices; *at; at++)
                putchar(*at == '|' ? ' ' : *at);
            putchar('\'');
        } else if (option->type != OPTION_FLAG) {
            printf(" -r -F");
        }
        putchar('\n');
        if (options_is_on(option)) {
            print_fish_rule("in", table->command);
            printf(" -l no-%s\n", option->name);
        }
    }
}

static void print_fish_names(const char *words, const struct command *list) {
    for (const struct command *command = list; command->name; command++) {
        print_fish_rule("after", words);
        printf(" -f -a %s -d ", command->name);
        print_fish_text(command->summary);
        putchar('\n');
    }
}

static const char fish_head[] =
    "# Completion of fathom's commands and options; written by `fathom help --completion fish`.\n"
    "function __fathom_after\n"
    "    set -l words (commandline -opc)\n"
    "    test \"$words[2..]\" = \"$argv\"\n"
    "end\n"
    "function __fathom_in\n"
    "    set -l words (commandline -opc) ''\n"
    "    test \"$words[2..\"(math (count $argv) + 1)\"]\" = \"$argv\"\n"
    "end\n";

static void print_fish(void) {
    fputs(fish_head, stdout);
    print_fish_names("", programs);
    print_fish_names("help", programs);
    for (const struct command *program = programs; program->name; program++) {
        if (program->subjects) print_fish_names(program->name, program->subjects);
        for (const struct command *subcommand = NULL;
             (subcommand = command_next_subcommand(program, subcommand));)
            print_fish_table(subcommand->options);
    }
}

void completion_print(const char *shell) {
    if (!strcmp(shell, "fish")) {
        print_fish();
        return;
    }
    if (!strcmp(shell, "zsh"))
        printf("#compdef fathom\nautoload -U +X compinit bashcompinit\n"
               "(( $+functions[compdef] )) || compinit\nbashcompinit\n");
    print_bash();
}
