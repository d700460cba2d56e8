/* SPDX-License-Identifier: Apache-2.0
 * The backend of the KV storage that keeps blocks in files of a directory: its location is the
 * directory's path. Segments are pairs of files (host/storage/kv_files.h) in the folder of the
 * blocks' format; folders of other formats may be in the same directory (kv_files_others.h).
 */
#pragma once

#include "host/storage/kv_backend.h"

extern const struct kv_backend_calls kv_files_backend;
