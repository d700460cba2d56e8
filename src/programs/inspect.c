/* SPDX-License-Identifier: Apache-2.0
 * fathom inspect: shows what the program knows, without serving: `options` (every option of every
 * command), `cpu` (inspect_cpu.c).
 */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "programs/command.h"

enum { INSPECT_OPTIONS, INSPECT_COUNT };

const struct option_table inspect_options[INSPECT_COUNT] = {
    [INSPECT_OPTIONS] = {.command = "inspect options",
                         .arguments = "",
                         .description = "Prints every option of every command."},
};

static int inspect_all_options(int argc, char **argv) {
    const struct option_table *table = &inspect_options[INSPECT_OPTIONS];
    struct option_result result;
    int exit_code;
    if (!command_begin(table, argc, argv, NULL, &result, &exit_code)) return exit_code;
    const char *gap = "";
    for (size_t i = 0; i < program_count; i++) {
        for (size_t k = 0; k < programs[i].option_table_count; k++) {
            printf("%s", gap);
            options_print(&programs[i].options[k], stdout);
            gap = "\n";
        }
    }
    return command_end(table);
}

static const struct {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} subjects[] = {
    {"options", "every option of every command", inspect_all_options},
};

static void print_help(FILE *out) {
    fprintf(out, "usage: fathom inspect SUBJECT [options]\n\nsubjects:\n");
    for (size_t i = 0; i < ARRAY_COUNT(subjects); i++)
        fprintf(out, "  %-12s %s\n", subjects[i].name, subjects[i].summary);
    fprintf(out, "\n`fathom inspect SUBJECT --help` describes a subject and its options.\n");
}

int program_inspect(int argc, char **argv) {
    if (argc < 2) {
        print_help(stderr);
        return EXIT_CODE_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        print_help(stdout);
        return EXIT_CODE_OK;
    }
    for (size_t i = 0; i < ARRAY_COUNT(subjects); i++)
        if (!strcmp(argv[1], subjects[i].name)) return subjects[i].run(argc - 1, argv + 1);
    fprintf(stderr, "fathom inspect: no subject named '%s'; `fathom inspect --help` lists them\n",
            argv[1]);
    return EXIT_CODE_USAGE;
}
