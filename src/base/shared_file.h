/* SPDX-License-Identifier: Apache-2.0
 * Memory shared by processes of one host: an anonymous file (memfd_create) that is freed when the
 * last process closes it. The creator sends its location to the other processes.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The location of a shared file, for processes in the same PID namespace. */
struct shared_file {
    uint64_t name;          /* random number that identifies the file; 0: no file */
    uint32_t process, file; /* the creator, and its descriptor of the file */
};

/* Creates a file of `bytes` zeros and returns its descriptor. Returns -1 on failure, with an empty
 * location in where_out. */
int shared_file_create(size_t bytes, struct shared_file *where_out);
/* Opens a shared file of another process or of this one. Returns -1 if it no longer exists, cannot
 * be opened, or is not `bytes` long. */
int shared_file_open(const struct shared_file *where, size_t bytes);
