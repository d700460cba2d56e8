/* SPDX-License-Identifier: Apache-2.0
 * The lock is fcntl's instead of flock's, because the kernel reports which process holds it.
 */
#include "host/process/agent/agent_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TRIES 500 /* 10 ms each: freeing a killed process's memory takes time */

/* True if the locked file still has its name: the file may have been replaced. */
static bool agent_lock_is_there(int file, const char *path) {
    struct stat own, named;
    return fstat(file, &own) == 0 && stat(path, &named) == 0 && own.st_ino == named.st_ino;
}

/* The process that holds the lock; 0: none, or it is not visible. */
static pid_t holder(int file) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(file, F_GETLK, &lock) || lock.l_type == F_UNLCK) return 0;
    return lock.l_pid > 0 ? lock.l_pid : 0;
}

enum status agent_lock_take(const char *directory, const char *unit, struct agent_lock *lock,
                            bool *was_held_out, struct error *error) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    *was_held_out = false;
    snprintf(lock->path, sizeof lock->path, "%.400s/unit-%.64s", directory, unit);
    for (int try = 0; try < TRIES; try++) {
        lock->file = open(lock->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (lock->file < 0)
            return error_set(error, STATUS_IO, "%.300s: %s", lock->path, strerror(errno));
        if (fcntl(lock->file, F_SETLK, &whole) == 0 && agent_lock_is_there(lock->file, lock->path))
            return STATUS_OK;
        pid_t pid = holder(lock->file);
        if (pid && kill(pid, SIGKILL) == 0) *was_held_out = true;
        close(lock->file);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    lock->file = -1;
    return error_set(error, STATUS_TIMEOUT,
                     "the unit's previous agent still runs and cannot be killed; see `ps`");
}

void agent_lock_drop(struct agent_lock *lock) {
    if (lock->file < 0) return;
    unlink(lock->path);
    close(lock->file);
    lock->file = -1;
}
