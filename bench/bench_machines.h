/* SPDX-License-Identifier: Apache-2.0
 * The subjects of bench_machines.c.
 */
#ifndef BENCH_MACHINES_H
#define BENCH_MACHINES_H

#include "command/command.h"

command_action bench_gateway, bench_plan;
extern const struct option_table bench_gateway_options, bench_plan_options;

#endif
