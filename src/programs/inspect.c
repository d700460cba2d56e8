/* SPDX-License-Identifier: Apache-2.0
 * fathom inspect: shows facts about the machine, a model, or the options. Each subject has its own
 * file, except `options`, which is here: it prints the option tables of all commands.
 */
#include <stdio.h>

#include "programs/programs.h"

static const struct option_table inspect_options_options = {
    .command = "inspect options",
    .arguments = "",
    .description = "Prints every option of every command.",
};

static command_action inspect_options;

#define SUBJECT(name, summary)                                                                     \
    { #name, summary, inspect_##name, &inspect_##name##_options, NULL }

const struct command inspect_subjects[] = {
    SUBJECT(cpu, "SIMD levels of the compute kernels, threads, caches, memory"),
    SUBJECT(gpu, "the GPUs of this machine and their limits"),
    SUBJECT(model, "a checkpoint's parameters, sizes, and memory per rank"),
    SUBJECT(options, "every option of every command"),
    {.name = NULL},
};

static int inspect_options(void *values, const struct option_result *result) {
    for (const struct command *program = programs; program->name; program++)
        for (const struct command *subcommand = NULL;
             (subcommand = command_next_subcommand(program, subcommand));) {
            options_print(subcommand->options, true, stdout);
            printf("\n");
        }
    return command_end(STATUS_OK, NULL);
}
