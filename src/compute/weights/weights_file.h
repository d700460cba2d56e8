/* SPDX-License-Identifier: Apache-2.0
 * Packed weights in a file that several processes map and that outlives them. A later process with
 * the same key uses the complete parts and packs only the rest.
 *
 * The file consists of parts. A part is either empty or complete. A complete one has a name for its
 * contents, and a digest. Its state is written last, under the part's lock, so a process that dies
 * while packing leaves an empty part and a free lock. Several processes may fill one file together.
 * A file opened with `alone` has one user at a time.
 *
 * The file's name contains the key, which covers everything that the bytes depend on. A
 * file of an earlier boot is not trusted, as its bytes may not have reached the disk in order.
 *
 * Memory is allocated before it is written to, so that a full tmpfs gives a status, never a signal.
 * It uses huge pages if the kernel has them.
 */
#pragma once

#include <stdbool.h>

#include "base/sha256.h"
#include "compute/kernels/team.h"

#define WEIGHTS_FILE_EMPTY UINT64_MAX /* the name of an empty part */

struct weights_file_plan {
    const char *directory; /* created if absent */
    const char *name;      /* readable start of the file's name */
    uint8_t key[SHA256_BYTES];
    size_t bytes;
    size_t bytes_now; /* allocated at creation; weights_file_allocate allocates the rest */
    uint32_t part_count;
    bool alone;
};

struct weights_file {
    char *memory; /* [bytes], aligned to 4096 and, with the file, to huge pages */
    size_t bytes;
    uint32_t part_count;
    /* The rest is private. */
    int descriptor;
    void *mapping;
    size_t mapping_bytes, touch_bytes;
};

/* Opens or creates the file. STATUS_FULL: there is no space for it. STATUS_TIMEOUT: `alone`, and
 * another process has it. May also return STATUS_IO. */
enum status weights_file_open(const struct weights_file_plan *plan, struct team *team,
                              struct weights_file *file, struct error *error) MUST_USE;
/* Unmaps and closes the file. */
void weights_file_close(struct weights_file *file);

/* The name stored in a part; WEIGHTS_FILE_EMPTY if it is not complete. */
uint64_t weights_file_holds(const struct weights_file *file, uint32_t part);

/* Locks a part until it is filled or released. Returns false if another process is filling it. A
 * claimed part may have become complete in the meantime, and stays so until it is emptied. */
bool weights_file_claim(struct weights_file *file, uint32_t part) MUST_USE;
/* Waits until no process holds the part's lock. */
void weights_file_wait(struct weights_file *file, uint32_t part);
/* Marks a claimed part as empty, before it is written to. */
void weights_file_empty(struct weights_file *file, uint32_t part);
/* Marks a claimed part as complete and named `what`. Its memory is [first, first + bytes), with
 * `digest` from weights_file_digest. */
void weights_file_fill(struct weights_file *file, uint32_t part, const char *first, size_t bytes,
                       uint64_t what, uint64_t digest);
void weights_file_give_back(struct weights_file *file, uint32_t part);

/* Allocates memory [first, first + bytes), which are whole pages. Returns false if the file has no
 * space: the memory is then writable, but private to this process. */
bool weights_file_allocate(struct weights_file *file, char *first, size_t bytes) MUST_USE;

/* True if the bytes of a complete part match its digest. */
bool weights_file_verify(const struct weights_file *file, uint32_t part);

/* Makes the memory read-only for this process. */
void weights_file_protect(struct weights_file *file);

/* The bytes' move_checksum (compute/exchange/move_checksum.h). Detects damage, not tampering. */
uint64_t weights_file_digest(const void *data, size_t bytes);
