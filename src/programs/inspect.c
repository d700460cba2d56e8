/* SPDX-License-Identifier: Apache-2.0
 * fathom inspect: shows facts about machine, model and options. There is one file per subject, but
 * `options` is here, as it needs the other subjects' tables.
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
    SUBJECT(cpu, "kernel levels, threads, caches, memory"),
    SUBJECT(gpu, "the GPUs of this machine and their limits"),
    SUBJECT(model, "a checkpoint's shape, sizes, memory per rank"),
    SUBJECT(options, "every option of every command"),
    {.name = NULL},
};

static int inspect_options(void *given, const struct option_result *result) {
    for (const struct command *program = programs; program->name; program++)
        for (const struct command *part = NULL; (part = command_next_part(program, part));) {
            options_print(part->options, stdout);
            printf("\n");
        }
    return command_end(STATUS_OK, NULL);
}
