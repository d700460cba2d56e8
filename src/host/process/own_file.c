/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/own_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The owner of a file that this process creates in the folder; -1: it cannot create any. */
static uid_t owner_of_ours(int folder) {
    char name[64];
    struct stat made;
    snprintf(name, sizeof name, ".fathom-owner-%ld", (long)getpid());
    int file = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0) return (uid_t)-1;
    bool known = fstat(file, &made) == 0;
    unlinkat(folder, name, 0);
    close(file);
    return known ? made.st_uid : (uid_t)-1;
}

static bool is_owned(int folder, uid_t owner) {
    return owner == geteuid() || owner == 0 || owner == owner_of_ours(folder);
}

/* Write permission of our own group is accepted: on most systems it is a private group. */
static bool others_write(const struct stat *info) {
    if (info->st_mode & S_ISVTX && info->st_uid == 0) return false;
    return info->st_mode & S_IWOTH || (info->st_mode & S_IWGRP && info->st_gid != getegid());
}

static enum status refuse_look(const char *path, struct error *error) {
    return error_set(error, STATUS_IO, "%.300s: cannot inspect this folder: %s", path,
                     strerror(errno));
}

enum status own_file_check_mode(int folder, const char *path, struct error *error) {
    struct stat info;
    if (fstat(folder, &info)) return refuse_look(path, error);
    if (!others_write(&info)) return STATUS_OK;
    return error_set(
        error, STATUS_INVALID,
        "%.300s: expected a folder that only its owner may write to; it has mode %03o, so others "
        "could replace files by links: remove that permission (chmod go-w)",
        path, (unsigned)(info.st_mode & 07777));
}

enum status own_file_check_folder(int folder, const char *path, struct error *error) {
    struct stat info;
    if (fstat(folder, &info)) return refuse_look(path, error);
    if (!is_owned(folder, info.st_uid))
        return error_set(
            error, STATUS_INVALID,
            "%.300s: expected a folder of user %u, who runs this, or of root; its owner is user "
            "%u, who could replace files by links: choose another, or chown it",
            path, (unsigned)geteuid(), (unsigned)info.st_uid);
    return own_file_check_mode(folder, path, error);
}

static bool own_file_is_sound(int folder, int file) {
    struct stat info, around;
    if (fstat(file, &info) || fstat(folder, &around)) return false;
    return S_ISREG(info.st_mode) && info.st_nlink <= 1 &&
           (info.st_uid == geteuid() || info.st_uid == around.st_uid);
}

int own_file_openat(int folder, const char *name, int flags, mode_t mode) {
    int careful = (flags & ~O_TRUNC) | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    int file = openat(folder, name, careful, mode), number = EPERM;
    if (file < 0) {
        if (errno == ENXIO || errno == EISDIR) errno = EPERM; /* a FIFO, a socket or a folder */
        return -1;
    }
    if (own_file_is_sound(folder, file) && fcntl(file, F_SETFL, flags & ~O_NONBLOCK) == 0 &&
        (!(flags & O_TRUNC) || ftruncate(file, 0) == 0 || (number = errno, false)))
        return file;
    close(file);
    errno = number;
    return -1;
}

int own_file_open(const char *path, int flags, mode_t mode) {
    char above[PATH_MAX];
    const char *end = strrchr(path, '/'), *name = end ? end + 1 : path;
    size_t length = end ? (size_t)(end - path) : 0;
    if (length >= sizeof above) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(above, path, length);
    above[length] = 0;
    int folder = open(!end ? "." : length ? above : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return -1;
    int file = own_file_openat(folder, name, flags, mode), number = errno;
    close(folder);
    errno = number;
    return file;
}

FILE *own_file_named(const char *path, int how, mode_t mode) {
    struct stat info;
    bool there = lstat(path, &info) == 0, is_file = !there || S_ISREG(info.st_mode);
    int flags = O_WRONLY | O_CREAT | O_CLOEXEC | how;
    if (there && S_ISLNK(info.st_mode) && info.st_uid != geteuid() && info.st_uid != 0) {
        errno = ELOOP;
        return NULL;
    }
    int file = is_file ? own_file_open(path, flags, mode) : open(path, flags, mode);
    FILE *report = file < 0 ? NULL : fdopen(file, "w");
    if (!report && file >= 0) close(file);
    return report;
}

FILE *own_file_report(const char *path) {
    return own_file_named(path, O_TRUNC, 0666);
}

const char *own_file_why(int number) {
    if (number == ELOOP) return "it is a link, which is not followed: remove it";
    if (number == EPERM)
        return "expected a regular file of the user who runs this, with one name: remove it, or "
               "name another";
    return strerror(number);
}
