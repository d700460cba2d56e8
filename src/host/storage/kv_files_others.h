/* SPDX-License-Identifier: Apache-2.0
 * Segments of all block formats in a KV storage's directory, known by name and age only. Segments
 * of other formats count towards the limit of the directory, so a process may have to remove them
 * although it cannot read them. `fathom cache gc` removes segments of all formats.
 *
 * `at` and `name` identify the directory, as for openat. `but` is a format to skip; NULL: none.
 */
#pragma once

#include "serving/cache/store_format.h"

/* Total bytes of all files in the formats' folders. */
uint64_t kv_files_others_bytes(int at, const char *name, const struct kv_format *but);

/* Removes the segment with the oldest last write (mtime) among those last written before
 * `before_ns` that no process writes to. Returns false if there is none. */
bool kv_files_others_remove(int at, const char *name, const struct kv_format *but,
                            int64_t before_ns);
