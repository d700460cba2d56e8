/* SPDX-License-Identifier: Apache-2.0
 * Reads files that may be compressed by gzip, such as request traces, which shrink to a fifth. The
 * first bytes of a file decide whether it is compressed, not its name.
 */
#pragma once

#include "base/bytes.h"
#include "base/status.h"

/* Reads a regular file of at most bytes_max unpacked bytes into memory that the caller frees
 * (free(out->data)), with a terminator after it. Errors of file_take, and STATUS_CORRUPT. */
enum status gzip_file_take(const char *path, size_t bytes_max, struct bytes *out,
                           struct error *error) MUST_USE;
