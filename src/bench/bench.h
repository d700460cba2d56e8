/* SPDX-License-Identifier: Apache-2.0
 * The command fathom bench and its subjects, one file each (bench_<subject>.c).
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include "command/command.h"

int bench_run(int argc, char **argv);

/* Also used by `inspect options`. */
extern const struct command_subject bench_subjects[];
extern const size_t bench_subject_count;

int bench_cache(int argc, char **argv);
int bench_calibrate(int argc, char **argv);
int bench_exchange(int argc, char **argv);
int bench_front(int argc, char **argv);
int bench_kernels(int argc, char **argv);
int bench_layer(int argc, char **argv);
int bench_model(int argc, char **argv);
int bench_overlap(int argc, char **argv);
int bench_peers(int argc, char **argv);
int bench_serve(int argc, char **argv);
int bench_transfer(int argc, char **argv);
int bench_ttft(int argc, char **argv);

/* Removes the KV storage in a directory, and the directory if nothing else is in it. */
enum status bench_cache_clear(const char *directory, struct error *error);

extern const struct option_table bench_cache_options;
extern const struct option_table bench_calibrate_options;
extern const struct option_table bench_exchange_options;
extern const struct option_table bench_front_options;
extern const struct option_table bench_kernels_options;
extern const struct option_table bench_layer_options;
extern const struct option_table bench_model_options;
extern const struct option_table bench_overlap_options;
extern const struct option_table bench_peers_options;
extern const struct option_table bench_serve_options;
extern const struct option_table bench_transfer_options;
extern const struct option_table bench_ttft_options;

#endif
