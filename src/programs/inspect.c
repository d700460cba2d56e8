/* SPDX-License-Identifier: Apache-2.0
 * fathom inspect: shows what the program knows, without serving. One file per subject; `options`,
 * which needs the other subjects' tables, is here.
 */
#include <stdio.h>

#include "base/check.h"
#include "programs/inspect.h"
#include "programs/programs.h"

static const struct option_table inspect_options_options = {
    .command = "inspect options",
    .arguments = "",
    .description = "Prints every option of every command.",
};

static int inspect_options(int argc, char **argv);

const struct command_subject inspect_subjects[] = {
    {"cpu", "kernel levels, threads, caches, memory", inspect_cpu, &inspect_cpu_options},
    {"gpu", "the GPUs of this machine and their limits", inspect_gpu, &inspect_gpu_options},
    {"model", "a checkpoint's shape, sizes, memory per rank", inspect_model,
     &inspect_model_options},
    {"options", "every option of every command", inspect_options, &inspect_options_options},
};
const size_t inspect_subject_count = ARRAY_COUNT(inspect_subjects);

static void inspect_print_table(const struct option_table *table) {
    options_print(table, stdout);
    printf("\n");
}

static int inspect_options(int argc, char **argv) {
    struct option_result result;
    int exit_code;
    if (!command_begin(&inspect_options_options, argc, argv, NULL, &result, &exit_code))
        return exit_code;
    for (size_t i = 0; i < program_count; i++) {
        const struct program *program = &programs[i];
        size_t subject_count = program->subject_count ? *program->subject_count : 0;
        for (size_t k = 0; k < program->option_table_count; k++)
            inspect_print_table(&program->options[k]);
        for (size_t k = 0; k < subject_count; k++)
            inspect_print_table(program->subjects[k].options);
    }
    return command_end(&inspect_options_options);
}

int program_inspect(int argc, char **argv) {
    return command_dispatch("inspect", inspect_subjects, inspect_subject_count, argc, argv);
}
