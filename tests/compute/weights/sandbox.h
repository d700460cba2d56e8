/* SPDX-License-Identifier: Apache-2.0
 * A directory of its own for each test, to write checkpoints into and to damage them.
 */
#pragma once

#include "base/bytes.h"
#include "compute/weights/random_checkpoint.h"

/* cmocka setup and teardown: *state is the directory's path. */
int sandbox_make(void **state);
int sandbox_remove(void **state);

/* Writes a random checkpoint there; `plan` without directory. */
void sandbox_write(const char *directory, struct random_checkpoint plan);

/* A whole file, terminated; the caller frees .data. */
struct bytes sandbox_read(const char *directory, const char *file);
void sandbox_replace(const char *directory, const char *file, struct bytes content);
void sandbox_delete(const char *directory, const char *file);
void sandbox_cut(const char *directory, const char *file, size_t bytes_less);

/* Replaces the first `old` in a text file, or in a safetensors file's header (whose length
 * follows). */
void sandbox_edit(const char *directory, const char *file, const char *old, const char *new);
