/* SPDX-License-Identifier: Apache-2.0
 * A KV storage's directory looked at from outside, while servers may be using it: what lies in it,
 * what of it is damaged, and making it smaller. All block formats in it.
 */
#ifndef HOST_STORAGE_KV_FILES_CHECK_H
#define HOST_STORAGE_KV_FILES_CHECK_H

#include "host/storage/kv_backend.h"

/* Sums in *total_out; `deep` reads every byte. STATUS_NOT_FOUND: there is no such directory.
 * STATUS_INVALID: a server would not use it, for others than its owner may write to it; or it is another
 * user's, and who looks is not root. */
enum status kv_files_check(const char *directory, bool deep,
                           const struct kv_check_listener *listener, struct kv_check *total_out,
                           struct error *error) MUST_USE;

/* Removes files that are no use, then segments, oldest first, until at most `bytes` are left. Those
 * that somebody writes to stay. */
enum status kv_files_check_shrink(const char *directory, uint64_t bytes, uint64_t *removed_out,
                                  uint64_t *left_out, struct error *error) MUST_USE;

#endif
