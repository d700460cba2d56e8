/* SPDX-License-Identifier: Apache-2.0
 * For LD_PRELOAD: a disk whose reads fail. While the file that FAIL_READS names is there, every
 * second read of a KV segment ends with an error. io_uring would pass by the C library, so there is
 * none.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

ssize_t pread64(int file, void *memory, size_t bytes, off64_t offset);
int io_uring_queue_init(unsigned entries, void *ring, unsigned flags);

int io_uring_queue_init(unsigned entries, void *ring, unsigned flags) {
    return -ENOSYS;
}

static int is_segment(int file) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path);
    return length > 3 && memcmp(path + length - 3, ".kv", 3) == 0;
}

ssize_t pread64(int file, void *memory, size_t bytes, off64_t offset) {
    static _Atomic unsigned turn;
    static ssize_t (*real)(int, void *, size_t, off64_t);
    const char *sign = getenv("FAIL_READS");
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "pread64");
    if (sign && access(sign, F_OK) == 0 && is_segment(file) && turn++ % 2 == 0) {
        errno = EIO;
        return -1;
    }
    return real(file, memory, bytes, offset);
}
