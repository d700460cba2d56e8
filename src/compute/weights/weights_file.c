/* SPDX-License-Identifier: Apache-2.0
 * The file has a head of whole pages, then the memory. Bytes of the file are locked with "open file
 * description" locks, which the kernel frees with the last descriptor, however the process ends:
 *
 *   byte 0            held while creating the file; with `alone`, held by the user all the time
 *   byte 1            shared by all users; while it is held, no process removes the file as old
 *   byte 2 + part     held while filling the part
 *
 * A file with an unexpected or unfinished head is replaced by a new file of the same name.
 * Processes that map the old one keep it.
 *
 * tmpfs gives no huge pages by itself. But if one small page of a 2 MiB range is present, the range
 * can be collapsed into a huge page (MADV_COLLAPSE, Linux 6.1) at the cost of an ordinary page.
 */
#include "compute/weights/weights_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "compute/exchange/move_checksum.h"

/* Some C libraries are too old to define it. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define PAGE ((size_t)4096)
#define HUGE_PAGE ((size_t)2 << 20)
#define TOUCH_BYTES (16 * HUGE_PAGE)   /* touched by a thread at a time */
#define HEAD_MAGIC 0x7374686769657746u /* "Fweights" in ASCII, little-endian */
#define HEAD_VERSION 1
#define KEY_DIGITS 16 /* in a file name */
#define BOOT_BYTES 64
#define MAKER_LOCK 0
#define USER_LOCK 1
#define PART_LOCK 2
#define POLL_US 1000
#define ALONE_POLLS 5000

struct file_part {
    uint64_t holds;
    uint64_t digest;
    uint64_t first, bytes; /* offset and size in the memory */
};

struct head {
    uint64_t magic;
    uint32_t version;
    uint32_t part_count;
    uint64_t bytes; /* of the whole file */
    uint8_t key[SHA256_BYTES];
    char boot[BOOT_BYTES];
    uint64_t ready; /* HEAD_MAGIC once the rest of the head and the memory are complete */
    struct file_part parts[];
};

uint64_t weights_file_digest(const void *data, size_t bytes) {
    struct move_checksum sum;
    move_checksum_begin(&sum);
    move_checksum_add(&sum, data, bytes);
    return move_checksum_end(&sum);
}

static struct head *weights_file_head_of(const struct weights_file *file) {
    return file->mapping;
}

static size_t head_bytes(uint32_t part_count) {
    return round_up(sizeof(struct head) + part_count * sizeof(struct file_part), PAGE);
}

/* ---- locks ---- */

static bool change_lock(int descriptor, int command, uint32_t byte, short type) {
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    int result;
    do
        result = fcntl(descriptor, command, &range);
    while (result < 0 && errno == EINTR);
    return result == 0;
}

static bool lock(int descriptor, uint32_t byte, short type) {
    return change_lock(descriptor, F_OFD_SETLK, byte, type);
}

/* Waits for a lock. Its holder is working, or has died and will release it. */
static bool lock_and_wait(int descriptor, uint32_t byte, short type) {
    return change_lock(descriptor, F_OFD_SETLKW, byte, type);
}

/* Tries to lock for a while, as a killed job's processes may take time to end. */
static bool lock_soon(int descriptor, uint32_t byte, short type) {
    for (uint32_t i = 0; !lock(descriptor, byte, type); i++) {
        if (i == ALONE_POLLS) return false;
        usleep(POLL_US);
    }
    return true;
}

/* ---- creating ---- */

static void weights_file_read_boot(char boot[BOOT_BYTES]) {
    memset(boot, 0, BOOT_BYTES);
    int descriptor = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return;
    if (read(descriptor, boot, BOOT_BYTES - 1) < 0) boot[0] = 0;
    close(descriptor);
}

static enum status weights_file_failed(const char *path, struct error *error) {
    bool full = errno == ENOSPC || errno == EDQUOT || errno == ENOMEM;
    return error_set(error, full ? STATUS_FULL : STATUS_IO, "%.400s: %s", path, strerror(errno));
}

static enum status map_whole(struct weights_file *file, const char *path, struct error *error) {
    char *space = mmap(NULL, file->mapping_bytes + HUGE_PAGE, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED) return weights_file_failed(path, error);
    size_t before = round_up((uintptr_t)space, HUGE_PAGE) - (uintptr_t)space;
    void *mapping = mmap(space + before, file->mapping_bytes, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_FIXED, file->descriptor, 0);
    if (mapping == MAP_FAILED) {
        munmap(space, file->mapping_bytes + HUGE_PAGE);
        return weights_file_failed(path, error);
    }
    size_t used = before + round_up(file->mapping_bytes, PAGE);
    if (before) munmap(space, before);
    if (used < file->mapping_bytes + HUGE_PAGE)
        munmap(space + used, file->mapping_bytes + HUGE_PAGE - used);
    madvise(mapping, file->mapping_bytes, MADV_HUGEPAGE);
    file->mapping = mapping;
    file->memory = (char *)mapping + head_bytes(file->part_count);
    return STATUS_OK;
}

/* Allocates huge pages if possible. The rest is allocated later in small pages. */
static void weights_file_touch(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct weights_file *file = context;
    size_t at = first * TOUCH_BYTES, end = at + count * TOUCH_BYTES;
    if (end > file->touch_bytes) end = file->touch_bytes;
    end = end / HUGE_PAGE * HUGE_PAGE;
    for (; at < end; at += HUGE_PAGE) {
        char *page = (char *)file->mapping + at;
        if (madvise(page, PAGE, MADV_POPULATE_WRITE) || madvise(page, HUGE_PAGE, MADV_COLLAPSE))
            return;
    }
}

static enum status fill_new(const struct weights_file_plan *plan, struct team *team,
                            struct weights_file *file, const char *path, struct error *error) {
    if (ftruncate(file->descriptor, (off_t)file->mapping_bytes))
        return weights_file_failed(path, error);
    enum status status = map_whole(file, path, error);
    if (status != STATUS_OK) return status;
    file->touch_bytes = head_bytes(file->part_count) + plan->bytes_now;
    team_run(team, weights_file_touch, file, (uint32_t)divide_up(file->touch_bytes, TOUCH_BYTES),
             1);
    errno = posix_fallocate(file->descriptor, 0, (off_t)file->touch_bytes);
    if (errno) return weights_file_failed(path, error);
    struct head *head = weights_file_head_of(file);
    *head = (struct head){.magic = HEAD_MAGIC,
                          .version = HEAD_VERSION,
                          .part_count = plan->part_count,
                          .bytes = file->mapping_bytes};
    memcpy(head->key, plan->key, SHA256_BYTES);
    weights_file_read_boot(head->boot);
    for (uint32_t i = 0; i < plan->part_count; i++)
        head->parts[i].holds = WEIGHTS_FILE_EMPTY;
    __atomic_store_n(&head->ready, HEAD_MAGIC, __ATOMIC_RELEASE);
    return STATUS_OK;
}

static bool is_ours(const struct weights_file_plan *plan, const struct weights_file *file) {
    const struct head *head = weights_file_head_of(file);
    char boot[BOOT_BYTES];
    weights_file_read_boot(boot);
    return __atomic_load_n(&head->ready, __ATOMIC_ACQUIRE) == HEAD_MAGIC &&
           head->magic == HEAD_MAGIC && head->version == HEAD_VERSION &&
           head->part_count == plan->part_count && head->bytes == file->mapping_bytes &&
           !memcmp(head->key, plan->key, SHA256_BYTES) && !memcmp(head->boot, boot, BOOT_BYTES);
}

/* ---- opening ---- */

static void make_directories(const char *path) {
    char part[4096];
    snprintf(part, sizeof part, "%s", path);
    for (char *at = part + 1; *at; at++) {
        if (*at != '/') continue;
        *at = 0;
        mkdir(part, 0700);
        *at = '/';
    }
    mkdir(part, 0700);
}

static void weights_file_path_of(const struct weights_file_plan *plan, char *path,
                                 size_t path_bytes) {
    char key[KEY_DIGITS + 1];
    for (int i = 0; i < KEY_DIGITS / 2; i++)
        snprintf(key + 2 * i, 3, "%02x", plan->key[i]);
    snprintf(path, path_bytes, "%s/%s-%s.weights", plan->directory, plan->name, key);
}

/* True for this user's regular file with one link. */
static bool is_owned_by_us(const struct stat *info) {
    return S_ISREG(info->st_mode) && info->st_uid == geteuid() && info->st_nlink == 1;
}

/* Prepares the file for use if it is new or matches the plan. Otherwise removes it and sets
 * *again. */
static enum status use(const struct weights_file_plan *plan, struct team *team,
                       struct weights_file *file, const char *path, bool *again,
                       struct error *error) {
    struct stat info;
    enum status status = STATUS_OK;
    if (fstat(file->descriptor, &info)) return weights_file_failed(path, error);
    *again = info.st_nlink == 0; /* replaced while we waited */
    if (*again) return STATUS_OK;
    if (!is_owned_by_us(&info))
        return error_set(error, STATUS_INVALID,
                         "%.400s: expected a file of user %u, who runs this, with one name: its "
                         "weights could be others'; remove it",
                         path, (unsigned)geteuid());
    if (info.st_size == 0) {
        status = fill_new(plan, team, file, path, error);
        if (status != STATUS_OK) unlink(path);
        return status;
    }
    if ((size_t)info.st_size == file->mapping_bytes) status = map_whole(file, path, error);
    if (status != STATUS_OK || (file->mapping && is_ours(plan, file))) return status;
    *again = true;
    return unlink(path) ? weights_file_failed(path, error) : STATUS_OK;
}

static enum status open_once(const struct weights_file_plan *plan, struct team *team,
                             struct weights_file *file, const char *path, bool *again,
                             struct error *error) {
    *file = (struct weights_file){.bytes = plan->bytes,
                                  .part_count = plan->part_count,
                                  .mapping_bytes = head_bytes(plan->part_count) + plan->bytes};
    *again = false;
    file->descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file->descriptor < 0) return weights_file_failed(path, error);
    enum status status = STATUS_OK;
    if (plan->alone && !lock_soon(file->descriptor, MAKER_LOCK, F_WRLCK))
        status = error_set(error, STATUS_TIMEOUT, "%.400s: another process uses it", path);
    else if (!lock_and_wait(file->descriptor, MAKER_LOCK, F_WRLCK) ||
             !lock_and_wait(file->descriptor, USER_LOCK, F_RDLCK))
        status = weights_file_failed(path, error);
    if (status == STATUS_OK) status = use(plan, team, file, path, again, error);
    if (status == STATUS_OK && !*again && !plan->alone) lock(file->descriptor, MAKER_LOCK, F_UNLCK);
    if (status != STATUS_OK || *again) weights_file_close(file);
    return status;
}

/* True for NAME-KEY.weights, the format of weights_file_path_of. */
static bool is_named_for_weights(const char *name) {
    static const char end[] = ".weights";
    size_t length = strlen(name), tail = 1 + KEY_DIGITS + sizeof end - 1;
    if (length <= tail || name[length - tail] != '-') return false;
    const char *key = name + length - tail + 1;
    return strspn(key, "0123456789abcdef") == KEY_DIGITS && strcmp(key + KEY_DIGITS, end) == 0;
}

/* Removes this user's unused files in the directory. Returns false if there are none. */
static bool remove_unused(const char *directory) {
    char path[4096];
    bool removed = false;
    DIR *entries = opendir(directory);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        struct stat info;
        if (!is_named_for_weights(entry->d_name)) continue;
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        int descriptor = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (descriptor < 0) continue;
        if (fstat(descriptor, &info) == 0 && is_owned_by_us(&info) &&
            lock(descriptor, USER_LOCK, F_WRLCK) && unlink(path) == 0)
            removed = true;
        close(descriptor);
    }
    if (entries) closedir(entries);
    return removed;
}

enum status weights_file_open(const struct weights_file_plan *plan, struct team *team,
                              struct weights_file *file, struct error *error) {
    char path[4096];
    bool again = true, swept = false;
    enum status status = STATUS_OK;
    make_directories(plan->directory);
    weights_file_path_of(plan, path, sizeof path);
    while (again && status == STATUS_OK) {
        status = open_once(plan, team, file, path, &again, error);
        if (status != STATUS_FULL || swept) continue;
        swept = again = true;
        if (remove_unused(plan->directory)) status = STATUS_OK;
    }
    return status;
}

void weights_file_close(struct weights_file *file) {
    if (file->mapping) munmap(file->mapping, file->mapping_bytes);
    if (file->descriptor > 0) close(file->descriptor);
    *file = (struct weights_file){.bytes = 0};
}

/* ---- parts ---- */

static struct file_part *weights_file_part_of(const struct weights_file *file, uint32_t part) {
    check(part < file->part_count);
    return &weights_file_head_of(file)->parts[part];
}

uint64_t weights_file_holds(const struct weights_file *file, uint32_t part) {
    return __atomic_load_n(&weights_file_part_of(file, part)->holds, __ATOMIC_ACQUIRE);
}

bool weights_file_claim(struct weights_file *file, uint32_t part) {
    return lock(file->descriptor, PART_LOCK + part, F_WRLCK);
}

void weights_file_wait(struct weights_file *file, uint32_t part) {
    if (lock_and_wait(file->descriptor, PART_LOCK + part, F_WRLCK))
        weights_file_give_back(file, part);
}

void weights_file_empty(struct weights_file *file, uint32_t part) {
    __atomic_store_n(&weights_file_part_of(file, part)->holds, WEIGHTS_FILE_EMPTY,
                     __ATOMIC_SEQ_CST);
}

void weights_file_fill(struct weights_file *file, uint32_t part, const char *first, size_t bytes,
                       uint64_t what, uint64_t digest) {
    struct file_part *found = weights_file_part_of(file, part);
    found->first = (uint64_t)(first - file->memory);
    found->bytes = bytes;
    found->digest = digest;
    __atomic_store_n(&found->holds, what, __ATOMIC_RELEASE);
    weights_file_give_back(file, part);
}

void weights_file_give_back(struct weights_file *file, uint32_t part) {
    lock(file->descriptor, PART_LOCK + part, F_UNLCK);
}

bool weights_file_verify(const struct weights_file *file, uint32_t part) {
    const struct file_part *found = weights_file_part_of(file, part);
    if (found->first > file->bytes || found->bytes > file->bytes - found->first) return false;
    return weights_file_digest(file->memory + found->first, found->bytes) == found->digest;
}

bool weights_file_allocate(struct weights_file *file, char *first, size_t bytes) {
    off_t at = first - (char *)file->mapping;
    if (posix_fallocate(file->descriptor, at, (off_t)bytes) == 0) return true;
    void *memory = mmap(first, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    check(memory == first);
    return false;
}

void weights_file_protect(struct weights_file *file) {
    mprotect(file->memory, round_up(file->bytes, PAGE), PROT_READ);
}
