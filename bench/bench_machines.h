/* SPDX-License-Identifier: Apache-2.0
 * The subjects of bench_machines.c.
 */
#ifndef BENCH_MACHINES_H
#define BENCH_MACHINES_H

#include "command/command.h"

int bench_gateway(int argc, char **argv);
int bench_plan(int argc, char **argv);
extern const struct option_table bench_gateway_options;
extern const struct option_table bench_plan_options;

#endif
