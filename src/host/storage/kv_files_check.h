/* SPDX-License-Identifier: Apache-2.0
 * A KV storage's directory looked at from outside, while servers may be using it: what lies in it,
 * what of it is damaged, and making it smaller. All block formats in it.
 */
#ifndef HOST_STORAGE_KV_FILES_CHECK_H
#define HOST_STORAGE_KV_FILES_CHECK_H

#include "base/status.h"
#include "serving/cache/store_format.h"

struct kv_check { /* of one folder, or sums over all */
    char folder[STORE_NAME_BYTES];
    struct kv_format format;
    size_t block_bytes;
    uint64_t segments, bytes;
    uint64_t blocks;     /* that sidecars know */
    uint64_t retired;    /* slots that were found damaged before: never read again */
    uint64_t slots_free; /* in segments not full */
    uint64_t writers;    /* segments that somebody writes to now */
    uint64_t sound;      /* verify: blocks read, and right to the last byte */
    uint64_t damaged;    /* verify: blocks, sidecars and files that are not */
    uint64_t unfinished; /* verify: slots of a write that did not end, or has not yet */
};

/* Called with one line for each thing that is damaged, and for each folder once it is done. */
struct kv_check_listener {
    void (*damage)(void *context, const char *line);
    void (*folder)(void *context, const struct kv_check *check);
    void *context;
};

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
