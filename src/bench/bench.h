/* SPDX-License-Identifier: Apache-2.0
 * The command fathom bench and its subjects, one file each (bench_<subject>.c).
 */
#pragma once

#include "command/command.h"

command_action bench_run;

/* Also used by `inspect options`. */
extern const struct command bench_subjects[];

command_action bench_cache, bench_calibrate, bench_exchange, bench_front, bench_kernels,
    bench_layer, bench_model, bench_overlap, bench_peers, bench_serve, bench_transfer, bench_ttft;

/* Removes the KV storage in a directory, and the directory if nothing else is in it. */
enum status bench_cache_clear(const char *directory, struct error *error);

extern const struct option_table bench_cache_options, bench_calibrate_options,
    bench_exchange_options, bench_front_options, bench_kernels_options, bench_layer_options,
    bench_model_options, bench_overlap_options, bench_peers_options, bench_serve_options,
    bench_transfer_options, bench_ttft_options;
