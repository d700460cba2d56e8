/* SPDX-License-Identifier: Apache-2.0
 * fathom bench, and its subjects, one file each (bench_<subject>.c).
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include "command/command.h"

int bench_run(int argc, char **argv);

/* Also for `inspect options`. */
extern const struct command_subject bench_subjects[];
extern const size_t bench_subject_count;

int bench_balance(int argc, char **argv);
int bench_cache(int argc, char **argv);
int bench_calibrate(int argc, char **argv);
int bench_eplb(int argc, char **argv);
int bench_nodes(int argc, char **argv);
int bench_hardware(int argc, char **argv);
int bench_exchange(int argc, char **argv);
int bench_front(int argc, char **argv);
int bench_gateway(int argc, char **argv);
int bench_kernels(int argc, char **argv);
int bench_layer(int argc, char **argv);
int bench_ledger(int argc, char **argv);
int bench_model(int argc, char **argv);
int bench_log(int argc, char **argv);
int bench_mtp(int argc, char **argv);
int bench_orders(int argc, char **argv);
int bench_overlap(int argc, char **argv);
int bench_rebalance(int argc, char **argv);
int bench_peers(int argc, char **argv);
int bench_plan(int argc, char **argv);
int bench_serve(int argc, char **argv);
int bench_transfer(int argc, char **argv);
int bench_ttft(int argc, char **argv);
extern const struct option_table bench_balance_options;
extern const struct option_table bench_cache_options;
extern const struct option_table bench_calibrate_options;
extern const struct option_table bench_eplb_options;
extern const struct option_table bench_nodes_options;
extern const struct option_table bench_hardware_options;
extern const struct option_table bench_exchange_options;
extern const struct option_table bench_front_options;
extern const struct option_table bench_gateway_options;
extern const struct option_table bench_kernels_options;
extern const struct option_table bench_layer_options;
extern const struct option_table bench_ledger_options;
extern const struct option_table bench_model_options;
extern const struct option_table bench_log_options;
extern const struct option_table bench_mtp_options;
extern const struct option_table bench_orders_options;
extern const struct option_table bench_overlap_options;
extern const struct option_table bench_rebalance_options;
extern const struct option_table bench_peers_options;
extern const struct option_table bench_plan_options;
extern const struct option_table bench_serve_options;
extern const struct option_table bench_transfer_options;
extern const struct option_table bench_ttft_options;

/* The size of a step, into `rows` and `context` of the command's values (contract/kv_block.h). */
#define STEP_SIZE_OPTIONS(owner, context_help)                                                     \
    {.name = "rows",                                                                               \
     .type = OPTION_COUNT,                                                                         \
     .fallback = "88",                                                                             \
     .help = "requests of a rank, all of them in every step",                                      \
     .minimum = 1,                                                                                 \
     .maximum = LIMIT_STEP_ROWS,                                                                   \
     .offset = offsetof(owner, rows)},                                                             \
    {                                                                                              \
        .name = "context", .type = OPTION_COUNT, .fallback = "5000", .help = context_help,         \
        .minimum = KV_BLOCK_TOKENS, .maximum = 131072, .offset = offsetof(owner, context)          \
    }

#endif
