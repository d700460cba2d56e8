/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static enum status refuse(const char *path, const char *what, struct error *error) {
    enum status status = errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO;
    return error_set(error, status, "%.300s: cannot %s: %s", path, what, strerror(errno));
}

/* Bytes read into `memory`, or -1 with errno. */
static ssize_t read_all(int descriptor, char *memory, size_t count) {
    size_t done = 0;
    while (done < count) {
        ssize_t got = read(descriptor, memory + done, count - done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -1;
        if (got == 0) break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

static enum status take(int descriptor, const char *path, size_t bytes_max, struct bytes *out,
                        struct error *error) {
    struct stat about;
    if (fstat(descriptor, &about)) return refuse(path, "look at it", error);
    if (!S_ISREG(about.st_mode))
        return error_set(error, STATUS_INVALID, "%.300s: is not a regular file", path);
    if (about.st_size < 0 || (uintmax_t)about.st_size > bytes_max)
        return error_set(error, STATUS_TOO_LARGE, "%.300s: has %lld bytes, expected at most %zu",
                         path, (long long)about.st_size, bytes_max);
    char *memory = malloc((size_t)about.st_size + 1);
    if (!memory)
        return error_set(error, STATUS_NO_MEMORY, "%.300s: no memory for its %lld bytes", path,
                         (long long)about.st_size);
    ssize_t got = read_all(descriptor, memory, (size_t)about.st_size);
    if (got < 0) {
        free(memory);
        return refuse(path, "read it", error);
    }
    memory[got] = '\0';
    *out = (struct bytes){memory, (size_t)got};
    return STATUS_OK;
}

enum status file_take(const char *path, size_t bytes_max, struct bytes *out, struct error *error) {
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return refuse(path, "open it", error);
    enum status status = take(descriptor, path, bytes_max, out, error);
    close(descriptor);
    return status;
}
