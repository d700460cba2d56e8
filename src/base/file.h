/* SPDX-License-Identifier: Apache-2.0
 * Files that come from outside: configurations, tokenizers, keys, traces, shards of weights. Each
 * is opened here, so that none but a regular file is ever waited for or read; and, where a whole
 * small file is taken, a pipe that the caller of this program holds open ("<(...)", /dev/stdin).
 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/bytes.h"
#include "base/status.h"

/* Opens a regular file of at most bytes_max bytes for reading; never blocks. The caller closes
 * the descriptor. NOT_FOUND, INVALID (a directory, FIFO, socket or device), TOO_LARGE, or IO; the
 * message names the file. */
enum status file_open(const char *path, size_t bytes_max, int *descriptor_out, size_t *bytes_out,
                      struct error *error) MUST_USE;

/* Reads a file of at most bytes_max bytes into memory that the caller frees (free(out->data)), with
 * a terminator behind it. A pipe without a name is read to its end. As file_open, and NO_MEMORY. */
enum status file_take(const char *path, size_t bytes_max, struct bytes *out,
                      struct error *error) MUST_USE;

#endif
