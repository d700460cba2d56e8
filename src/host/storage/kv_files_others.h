/* SPDX-License-Identifier: Apache-2.0
 * Segments of many block formats in a KV storage's directory, by name and age alone. To a process,
 * those of other formats count in the directory's size and may be removed, though it cannot read
 * them; `fathom cache gc` removes those of all.
 *
 * `at` and `name` lead to the directory, as for openat. `but`: a format that is left out; NULL: none.
 */
#pragma once

#include "serving/cache/store_format.h"

/* Bytes of all files in the formats' folders. */
uint64_t kv_files_others_bytes(int at, const char *name, const struct kv_format *but);

/* Removes the segment that was written to longest ago, if that was before `before_ns` (a file's time
 * of change) and no one writes to it; false: there is none. */
bool kv_files_others_remove(int at, const char *name, const struct kv_format *but,
                            int64_t before_ns);
