/* SPDX-License-Identifier: Apache-2.0
 * What a scenario's names stand for: files that the binary carries (`fathom sim --list`), or files
 * on disk. A path in a scenario file is relative to that file.
 */
#pragma once

#include "base/arena.h"
#include "simulate/load/load_trace.h"
#include "simulate/scenario/scenario_edit.h"

#define SIM_TRACE_BYTES_MAX ((size_t)1 << 30)

struct sim_files {
    const char *scenario; /* as named: a built-in name or a path */
    char folder[512];     /* of the scenario's file, with its last '/'; "" */
};

/* The scenario's tree, names not yet resolved. Fills *files_out for what follows. */
enum status sim_files_read(const char *scenario, struct arena *arena, struct sim_files *files_out,
                           const struct tree **tree_out, struct error *error) MUST_USE;

/* Finds the files that the scenario's names mean. `files` lives as long as it. */
struct scenario_library sim_files_library(struct sim_files *files);

/* The trace at that path; its memory is *memory_out, which the caller frees. */
enum status sim_files_trace(const struct sim_files *files, const char *name, void **memory_out,
                            struct load_trace *trace_out, struct error *error) MUST_USE;

/* Prints the names of the embedded files. */
void sim_files_list(void);
