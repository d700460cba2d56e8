/* SPDX-License-Identifier: Apache-2.0
 * Memory that several processes of a machine map: a file without a place in any directory (memfd_create), which
 * goes with the last process that has it. Who made it tells others where they find it.
 */
#ifndef BASE_SHARED_FILE_H
#define BASE_SHARED_FILE_H

#include <stddef.h>
#include <stdint.h>

/* Where to find it, from processes that see its process under the same number. */
struct shared_file {
    uint64_t
        name; /* drawn at random: what is found is this memory and no other; 0: there is none */
    uint32_t process, file;
};

/* A file of so many zeros; returns its descriptor. -1: there can be none, and `where_out` says so. */
int shared_file_make(size_t bytes, struct shared_file *where_out);
/* That of another process, or of this one. -1: it is not there any more, or not reached, or of another size. */
int shared_file_open(const struct shared_file *where, size_t bytes);

#endif
