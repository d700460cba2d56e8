/* SPDX-License-Identifier: Apache-2.0 */
#include "base/shared_file.h"

#include "base/format.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME "fathom-%016llx"
#define NAME_BYTES 64

int shared_file_create(size_t bytes, struct shared_file *where_out) {
    char text[NAME_BYTES];
    uint64_t name;
    *where_out = (struct shared_file){0};
    if (getrandom(&name, sizeof name, 0) != (ssize_t)sizeof name || !name) return -1;
    format_text(text, sizeof text, NAME, (unsigned long long)name);
    int file = memfd_create(text, MFD_CLOEXEC);
    if (file < 0) return -1;
    if (ftruncate(file, (off_t)bytes)) {
        close(file);
        return -1;
    }
    *where_out = (struct shared_file){name, (uint32_t)getpid(), (uint32_t)file};
    return file;
}

/* Checks the file before it opens it: the process id may have been reused. */
int shared_file_open(const struct shared_file *where, size_t bytes) {
    char path[NAME_BYTES], wanted[NAME_BYTES], found[NAME_BYTES] = "";
    struct stat about;
    if (!where->name) return -1;
    format_text(path, sizeof path, "/proc/%u/fd/%u", where->process, where->file);
    format_text(wanted, sizeof wanted, "/memfd:" NAME " (deleted)",
                (unsigned long long)where->name);
    if (readlink(path, found, sizeof found - 1) < 0 || strcmp(found, wanted) != 0) return -1;
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0 || (fstat(file, &about) == 0 && (size_t)about.st_size == bytes)) return file;
    close(file);
    return -1;
}
