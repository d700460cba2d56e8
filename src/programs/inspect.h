/* SPDX-License-Identifier: Apache-2.0
 * The subjects of `fathom inspect`: inspect_<subject> in programs/inspect_<subject>.c, one row each
 * in inspect.c. argv[0] is the subject's name.
 */
#ifndef PROGRAMS_INSPECT_H
#define PROGRAMS_INSPECT_H

#include "base/options.h"

int inspect_cpu(int argc, char **argv);
int inspect_gpu(int argc, char **argv);
int inspect_model(int argc, char **argv);

extern const struct option_table inspect_cpu_options;
extern const struct option_table inspect_gpu_options;
extern const struct option_table inspect_model_options;

#endif
