/* SPDX-License-Identifier: Apache-2.0
 * Inspects, verifies and shrinks the directory of a KV storage, with all its block formats, while
 * servers may be using it.
 */
#pragma once

#include "host/storage/kv_backend.h"

/* Inspects a directory; *total_out gets the sums over all formats. `deep` reads every byte. Returns
 * STATUS_NOT_FOUND if there is no such directory. Returns STATUS_INVALID if users other than its
 * owner may write to it, or if it belongs to another user and this user is not root. */
enum status kv_files_check(const char *directory, bool deep,
                           const struct kv_check_listener *listener, struct kv_check *total_out,
                           struct error *error) MUST_USE;

/* Removes useless files, and then segments, oldest first, until at most `bytes` are left. Segments
 * that a process writes to are kept. */
enum status kv_files_check_shrink(const char *directory, uint64_t bytes, uint64_t *removed_out,
                                  uint64_t *left_out, struct error *error) MUST_USE;
