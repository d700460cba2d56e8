/* SPDX-License-Identifier: Apache-2.0
 * Whole small files (configuration, tokenizers), read at start-up. Weights are mapped, not read.
 */
#ifndef HOST_PROCESS_FILE_H
#define HOST_PROCESS_FILE_H

#include "base/bytes.h"
#include "base/status.h"

/* Reads a file of at most bytes_max bytes into memory that the caller frees (free(out->data)), with
 * a terminator behind it. NOT_FOUND, TOO_LARGE, NO_MEMORY, or IO; the message names the file. */
enum status file_take(const char *path, size_t bytes_max, struct bytes *out,
                      struct error *error) MUST_USE;

#endif
