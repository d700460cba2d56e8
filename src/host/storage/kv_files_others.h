/* SPDX-License-Identifier: Apache-2.0
 * The other block formats in a KV storage's directory: their segments count in its size and may be
 * removed, though this process cannot read them. Only their age is known.
 */
#ifndef HOST_STORAGE_KV_FILES_OTHERS_H
#define HOST_STORAGE_KV_FILES_OTHERS_H

#include "host/storage/kv_files.h"

/* Bytes of all files in the folders of other formats. */
uint64_t kv_files_others_bytes(const struct kv_files *files);

/* Removes the segment of another format that was written to longest ago, if that was before
 * `before_ns` (a file's time of change) and no one writes to it; false: there is none. */
bool kv_files_others_remove(const struct kv_files *files, int64_t before_ns);

#endif
