/* SPDX-License-Identifier: Apache-2.0
 * fathom inspect: shows what the program knows, without serving. One file per subject; `options`,
 * which needs the other subjects' tables, is here.
 */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "programs/bench.h"
#include "programs/command.h"
#include "programs/inspect.h"

static const struct option_table inspect_options_options = {
    .command = "inspect options",
    .arguments = "",
    .description = "Prints every option of every command.",
};

static int inspect_options(int argc, char **argv);

static const struct {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
    const struct option_table *options;
} subjects[] = {
    {"cpu", "kernel levels, threads, caches, memory", inspect_cpu, &inspect_cpu_options},
    {"model", "a checkpoint's shape, sizes, memory per rank", inspect_model,
     &inspect_model_options},
    {"options", "every option of every command", inspect_options, &inspect_options_options},
};

static int inspect_options(int argc, char **argv) {
    struct option_result result;
    int exit_code;
    if (!command_begin(&inspect_options_options, argc, argv, NULL, &result, &exit_code))
        return exit_code;
    for (size_t i = 0; i < program_count; i++) {
        for (size_t k = 0; k < programs[i].option_table_count; k++) {
            options_print(&programs[i].options[k], stdout);
            printf("\n");
        }
    }
    for (size_t i = 0; i < bench_option_table_count; i++) {
        options_print(bench_option_tables[i], stdout);
        printf("\n");
    }
    for (size_t i = 0; i < ARRAY_COUNT(subjects); i++) {
        printf("%s", i ? "\n" : "");
        options_print(subjects[i].options, stdout);
    }
    return command_end(&inspect_options_options);
}

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
