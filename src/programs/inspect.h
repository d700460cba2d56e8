/* SPDX-License-Identifier: Apache-2.0
 * The subjects of `fathom inspect`: inspect_<subject> in programs/inspect_<subject>.c, one row each
 * in inspect.c. argv[0] is the subject's name.
 */
#ifndef PROGRAMS_INSPECT_H
#define PROGRAMS_INSPECT_H

#include "command/command.h"

extern const struct command_subject inspect_subjects[];
extern const size_t inspect_subject_count;

int inspect_cpu(int argc, char **argv);
int inspect_gpu(int argc, char **argv);
int inspect_model(int argc, char **argv);

extern const struct option_table inspect_cpu_options;
extern const struct option_table inspect_gpu_options;
extern const struct option_table inspect_model_options;

#endif
