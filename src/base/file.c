/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

static enum status refuse(const char *path, const char *what, struct error *error) {
    enum status status = errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO;
    return error_set(error, status, "%.300s: cannot %s: %s", path, what, strerror(errno));
}

/* Reads up to `count` bytes into `memory`. Returns their number, or -1 with errno. */
static ssize_t file_read_all(int descriptor, char *memory, size_t count) {
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

static const char *file_kind_of(mode_t mode) {
    return S_ISDIR(mode)    ? "a directory"
           : S_ISFIFO(mode) ? "a FIFO (named pipe)"
           : S_ISSOCK(mode) ? "a socket"
                            : "a device";
}

/* Rejects a file that is not regular. A socket cannot be opened, so its kind is determined by
 * name. */
static enum status refuse_kind(const char *path, mode_t mode, struct error *error) {
    return error_set(error, STATUS_INVALID, "%.300s: expected a regular file, found %s", path,
                     file_kind_of(mode));
}

enum status file_open(const char *path, size_t bytes_max, int *descriptor_out, size_t *bytes_out,
                      struct error *error) {
    struct stat about;
    int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (descriptor < 0 && errno == ENXIO && stat(path, &about) == 0)
        return refuse_kind(path, about.st_mode, error);
    if (descriptor < 0) return refuse(path, "open it", error);
    enum status status = STATUS_OK;
    if (fstat(descriptor, &about))
        status = refuse(path, "look at it", error);
    else if (!S_ISREG(about.st_mode))
        status = refuse_kind(path, about.st_mode, error);
    else if (about.st_size < 0 || (uintmax_t)about.st_size > bytes_max)
        status = error_set(error, STATUS_TOO_LARGE, "%.300s: has %lld bytes, expected at most %zu",
                           path, (long long)about.st_size, bytes_max);
    if (status) {
        close(descriptor);
        return status;
    }
    *descriptor_out = descriptor;
    *bytes_out = (size_t)about.st_size;
    return STATUS_OK;
}

static enum status file_take_each(int descriptor, const char *path, size_t bytes, struct bytes *out,
                                  struct error *error) {
    char *memory = malloc(bytes + 1);
    if (!memory)
        return error_set(error, STATUS_NO_MEMORY, "%.300s: no memory for its %zu bytes", path,
                         bytes);
    ssize_t got = file_read_all(descriptor, memory, bytes);
    if (got < 0) {
        free(memory);
        return refuse(path, "read it", error);
    }
    memory[got] = '\0';
    *out = (struct bytes){memory, (size_t)got};
    return STATUS_OK;
}

/* Opens an anonymous pipe that the parent process holds open. Returns -1 if the path is not one. */
static int open_pipe(const char *path) {
    struct stat about;
    struct statfs where;
    if (stat(path, &about) || !S_ISFIFO(about.st_mode) || statfs(path, &where) ||
        where.f_type != PIPEFS_MAGIC)
        return -1;
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* Reads a pipe until it ends or exceeds its limit. */
static enum status take_pipe(int descriptor, const char *path, size_t bytes_max, struct bytes *out,
                             struct error *error) {
    enum status status = file_take_each(descriptor, path, bytes_max + 1, out, error);
    if (status || out->count <= bytes_max) return status;
    free((void *)(uintptr_t)out->data);
    return error_set(error, STATUS_TOO_LARGE, "%.300s: has more than %zu bytes", path, bytes_max);
}

enum status file_take(const char *path, size_t bytes_max, struct bytes *out, struct error *error) {
    int descriptor = open_pipe(path);
    bool is_pipe = descriptor >= 0;
    size_t bytes = 0;
    struct bytes text;
    enum status status =
        is_pipe ? STATUS_OK : file_open(path, bytes_max, &descriptor, &bytes, error);
    if (status) return status;
    status = is_pipe ? take_pipe(descriptor, path, bytes_max, &text, error)
                     : file_take_each(descriptor, path, bytes, &text, error);
    close(descriptor);
    if (!status) *out = text;
    return status;
}
