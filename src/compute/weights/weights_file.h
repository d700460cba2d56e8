/* SPDX-License-Identifier: Apache-2.0
 * Packed weights in a file that several processes map and that outlives them. A later process with
 * the same key uses what is there and packs only the rest.
 *
 * The file holds parts. A part is empty or whole; a whole one says what it holds and has a digest.
 * Its state is written last, and only by who holds the part's lock, so a process that dies in
 * mid-work leaves an empty part and a free lock. Several processes may fill one file together. Of a
 * file that was opened `alone` there is one user at a time.
 *
 * The name is made from the key; the key is everything that the bytes depend on. A file of another
 * boot is not trusted: its bytes may not have reached the disk in order.
 *
 * Memory is allocated before it is written to (a full tmpfs is a status, never a signal), in huge
 * pages where the kernel gives them.
 */
#pragma once

#include <stdbool.h>

#include "base/sha256.h"
#include "compute/kernels/team.h"

#define WEIGHTS_FILE_EMPTY UINT64_MAX /* what an empty part holds */

struct weights_file_plan {
    const char *directory; /* made if absent */
    const char *name;      /* start of the file's name: what kind it is, for people */
    uint8_t key[SHA256_BYTES];
    size_t bytes;
    size_t bytes_now; /* allocated when the file is made; the rest by weights_file_allocate */
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

/* Opens the file, or makes it. STATUS_FULL: there is no room for it; STATUS_TIMEOUT: alone, and
 * somebody else has it; STATUS_IO. */
enum status weights_file_open(const struct weights_file_plan *plan, struct team *team,
                              struct weights_file *file, struct error *error) MUST_USE;
/* Leaves the file. */
void weights_file_close(struct weights_file *file);

/* The name stored in a part; WEIGHTS_FILE_EMPTY if it is not complete. */
uint64_t weights_file_holds(const struct weights_file *file, uint32_t part);

/* False: another process fills the part now. True: it is ours, until filled or given back; it may
 * have become whole in the meantime, and stays so until it is emptied. */
bool weights_file_claim(struct weights_file *file, uint32_t part) MUST_USE;
/* Waits until no process has the part. */
void weights_file_wait(struct weights_file *file, uint32_t part);
/* The part, which is claimed, is about to be written to. */
void weights_file_empty(struct weights_file *file, uint32_t part);
/* The part, which is claimed, is memory [first, first + bytes) and holds `what` from now on;
 * `digest` is weights_file_digest of the memory. */
void weights_file_fill(struct weights_file *file, uint32_t part, const char *first, size_t bytes,
                       uint64_t what, uint64_t digest);
void weights_file_give_back(struct weights_file *file, uint32_t part);

/* Memory [first, first + bytes), whole pages, can be written to from here on. False: the file has
 * no room for it, and the memory is private to this process. */
bool weights_file_allocate(struct weights_file *file, char *first, size_t bytes) MUST_USE;

/* True if the whole part's bytes are as they were when it was filled. */
bool weights_file_verify(const struct weights_file *file, uint32_t part);

/* From here on this process can only read the memory. */
void weights_file_protect(struct weights_file *file);

/* The bytes' move_checksum (compute/exchange/move_checksum.h): finds damage, not intent. */
uint64_t weights_file_digest(const void *data, size_t bytes);
