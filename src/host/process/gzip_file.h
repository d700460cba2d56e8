/* SPDX-License-Identifier: Apache-2.0
 * Files that may be compressed by gzip: request traces, which shrink to a fifth. Whether one is, its
 * first bytes say, not its name.
 */
#pragma once

#include "base/bytes.h"
#include "base/status.h"

/* Reads a regular file of at most bytes_max bytes, as they are when unpacked, into memory that the
 * caller frees (free(out->data)), with a terminator behind it. As file_take, and CORRUPT. */
enum status gzip_file_take(const char *path, size_t bytes_max, struct bytes *out,
                           struct error *error) MUST_USE;
