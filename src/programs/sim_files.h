/* SPDX-License-Identifier: Apache-2.0
 * The files that a scenario names: files embedded in the binary (`fathom sim --list`) or files on
 * disk. A path in a scenario file is relative to that file.
 */
#pragma once

#include "base/arena.h"
#include "simulate/load/load_trace.h"
#include "simulate/scenario/scenario_edit.h"

#define SIM_TRACE_BYTES_MAX ((size_t)1 << 30)

struct sim_files {
    const char *scenario; /* a built-in name or a path */
    char folder[512];     /* the scenario file's, up to the last '/'; or "" */
};

/* Parses the scenario without resolving its names. Fills in *files_out for the calls below. */
enum status sim_files_read(const char *scenario, struct arena *arena, struct sim_files *files_out,
                           const struct tree **tree_out, struct error *error) MUST_USE;

/* Resolves the scenario's names. `files` must outlive the result. */
struct scenario_library sim_files_library(struct sim_files *files);

/* Reads the trace at that path. The caller frees *memory_out, which holds it. */
enum status sim_files_trace(const struct sim_files *files, const char *name, void **memory_out,
                            struct load_trace *trace_out, struct error *error) MUST_USE;

/* Prints the names of the embedded files. */
void sim_files_list(void);
