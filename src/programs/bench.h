/* SPDX-License-Identifier: Apache-2.0
 * The subjects of `fathom bench`, one file each (bench_<subject>.c).
 */
#ifndef PROGRAMS_BENCH_H
#define PROGRAMS_BENCH_H

#include "programs/command.h"

int bench_kernels(int argc, char **argv);
extern const struct option_table bench_kernels_options;

#endif
