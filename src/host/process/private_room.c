/* SPDX-License-Identifier: Apache-2.0
 * The path is <base>/fathom-<user>/<process>-XXXXXX. The owner locks its directory. The kernel
 * frees the lock when the owner ends in any way; children do not inherit it. A lock on the user's
 * directory protects a new room that is not locked yet from removal.
 */
#include "host/process/private_room.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES_AT_ONCE 16

static int private_room_open_directory(const char *path) {
    return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int remove_one(const char *path, const struct stat *found, int kind, struct FTW *walk) {
    (void)remove(path); /* errors are ignored */
    return 0;
}

void private_room_remove(const char *path) {
    nftw(path, remove_one, FILES_AT_ONCE, FTW_DEPTH | FTW_PHYS);
}

/* Opens the user's directory. Others may write to its parent, so its owner is checked. */
static int open_users(const char *base, char *path, size_t path_bytes, struct error *error) {
    struct stat info;
    snprintf(path, path_bytes, "%s/fathom-%u", base, (unsigned)getuid());
    mkdir(path, 0700);
    int users = private_room_open_directory(path);
    bool known = users >= 0 && fstat(users, &info) == 0;
    if (known && (info.st_uid != getuid() || info.st_mode & 077))
        status_error_write(error, "%.200s: expected a directory that is ours alone", path);
    else if (!known || flock(users, LOCK_EX))
        status_error_write(error, "%.200s: %s", path, strerror(errno));
    else
        return users;
    if (users >= 0) close(users);
    return -1;
}

static void sweep(int users, const char *path) {
    char room[512];
    int copy = dup(users);
    DIR *entries = copy < 0 ? NULL : fdopendir(copy);
    if (!entries && copy >= 0) close(copy);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        if (entry->d_name[0] == '.') continue;
        snprintf(room, sizeof room, "%.200s/%.250s", path, entry->d_name);
        int descriptor = private_room_open_directory(room);
        if (descriptor < 0) continue;
        if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) private_room_remove(room);
        close(descriptor);
    }
    if (entries) closedir(entries);
}

enum status private_room_open(const char *base, struct private_room *room, struct error *error) {
    char path[200];
    if (!base) base = access("/dev/shm", W_OK) ? getenv("XDG_RUNTIME_DIR") : "/dev/shm";
    if (!base) return error_set(error, STATUS_NOT_FOUND, "/dev/shm: %s", strerror(errno));
    int users = open_users(base, path, sizeof path, error);
    if (users < 0) return STATUS_IO;
    enum status status = STATUS_OK;
    sweep(users, path);
    snprintf(room->path, sizeof room->path, "%.200s/%d-XXXXXX", path, (int)getpid());
    if (!mkdtemp(room->path))
        status = error_set(error, STATUS_IO, "%.200s: %s", room->path, strerror(errno));
    if (status == STATUS_OK) {
        room->descriptor = private_room_open_directory(room->path);
        if (room->descriptor < 0 || flock(room->descriptor, LOCK_EX))
            status = error_set(error, STATUS_IO, "%.200s: %s", room->path, strerror(errno));
    }
    close(users);
    return status;
}

void private_room_close(struct private_room *room) {
    if (!room->path[0]) return;
    private_room_remove(room->path);
    close(room->descriptor);
    *room = (struct private_room){.path = ""};
}
