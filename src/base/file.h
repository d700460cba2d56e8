/* SPDX-License-Identifier: Apache-2.0
 * Input files: configurations, tokenizers, keys, traces, weight shards. They are opened only here,
 * so that the process reads only regular files and never blocks. file_take also accepts a pipe that
 * the parent process holds open ("<(...)", /dev/stdin).
 */
#pragma once

#include "base/bytes.h"
#include "base/status.h"

/* Opens a regular file of at most bytes_max bytes for reading; never blocks. The caller closes the
 * descriptor. Returns NOT_FOUND, INVALID (a directory, FIFO, socket or device), TOO_LARGE or IO
 * with a message that names the file. */
enum status file_open(const char *path, size_t bytes_max, int *descriptor_out, size_t *bytes_out,
                      struct error *error) MUST_USE;

/* Reads a file of at most bytes_max bytes and appends a terminator. The caller frees out->data. An
 * anonymous pipe is read to its end. Returns the errors of file_open and NO_MEMORY. */
enum status file_take(const char *path, size_t bytes_max, struct bytes *out,
                      struct error *error) MUST_USE;
