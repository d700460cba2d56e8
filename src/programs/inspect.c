/* SPDX-License-Identifier: Apache-2.0
 * fathom inspect: shows what the program knows, without serving. One file per subject; `options`,
 * which needs the other subjects' tables, is here.
 */
#include <stdio.h>

#include "base/check.h"
#include "bench/bench.h"
#include "programs/inspect.h"
#include "programs/programs.h"

static const struct option_table inspect_options_options = {
    .command = "inspect options",
    .arguments = "",
    .description = "Prints every option of every command.",
};

static int inspect_options(int argc, char **argv);

static const struct command_subject subjects[] = {
    {"cpu", "kernel levels, threads, caches, memory", inspect_cpu, &inspect_cpu_options},
    {"gpu", "the GPUs of this machine and their limits", inspect_gpu, &inspect_gpu_options},
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
    for (size_t i = 0; i < bench_subject_count; i++) {
        options_print(bench_subjects[i].options, stdout);
        printf("\n");
    }
    for (size_t i = 0; i < ARRAY_COUNT(subjects); i++) {
        printf("%s", i ? "\n" : "");
        options_print(subjects[i].options, stdout);
    }
    return command_end(&inspect_options_options);
}

int program_inspect(int argc, char **argv) {
    return command_dispatch("inspect", subjects, ARRAY_COUNT(subjects), argc, argv);
}
