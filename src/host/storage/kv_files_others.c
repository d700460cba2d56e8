/* SPDX-License-Identifier: Apache-2.0 */
#include "host/storage/kv_files_others.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/format.h"
#include "host/storage/retain_blocks.h"

#define SUFFIX ".kv"
#define SIDECAR ".idx"
#define STEM_BYTES 64

/* A data file of another format. */
struct other {
    char folder[STORE_NAME_BYTES], stem[STEM_BYTES];
};

struct others {
    struct other *names;       /* [count] */
    struct retain_other *ages; /* [count] */
    uint32_t count, capacity;
    uint64_t bytes;
};

static DIR *kv_files_others_open_folder(int at, const char *name) {
    int folder = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *directory = folder < 0 ? NULL : fdopendir(folder);
    if (!directory && folder >= 0) close(folder);
    return directory;
}

/* Makes room for one more segment. If memory is out, returns false, and it is not removed. */
static bool grow(struct others *others) {
    if (others->count < others->capacity) return true;
    uint32_t capacity = others->capacity ? 2 * others->capacity : 64;
    struct other *names = realloc(others->names, capacity * sizeof *names);
    if (names) others->names = names;
    struct retain_other *ages = realloc(others->ages, capacity * sizeof *ages);
    if (ages) others->ages = ages;
    if (!names || !ages) return false;
    others->capacity = capacity;
    return true;
}

static void note_file(struct others *others, const char *folder, const char *name,
                      const struct stat *about) {
    size_t length = strlen(name), tail = strlen(SUFFIX);
    others->bytes += (uint64_t)about->st_size;
    if (length <= tail || length - tail >= STEM_BYTES ||
        strcmp(name + length - tail, SUFFIX) != 0 || !grow(others))
        return;
    struct other *other = &others->names[others->count];
    format_text(other->folder, sizeof other->folder, "%s", folder);
    format_text(other->stem, length - tail + 1, "%s", name);
    others->ages[others->count++] = (struct retain_other){
        .movable = true,
        .written_ns = (int64_t)about->st_mtim.tv_sec * 1000000000 + about->st_mtim.tv_nsec};
}

static void kv_files_others_look_at_folder(struct others *others, int parent, const char *name) {
    DIR *folder = kv_files_others_open_folder(parent, name);
    if (!folder) return;
    for (struct dirent *entry; (entry = readdir(folder));) {
        struct stat about;
        if (fstatat(dirfd(folder), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(about.st_mode))
            note_file(others, name, entry->d_name, &about);
    }
    closedir(folder);
}

/* Lists the segments of all formats but `but`. Returns the open directory; NULL: unreadable. */
static DIR *look_around(int at, const char *name, const struct kv_format *but,
                        struct others *others) {
    char own[STORE_NAME_BYTES] = "";
    if (but) store_format_folder(but, own);
    DIR *directory = kv_files_others_open_folder(at, name);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        struct kv_format format;
        if (strcmp(entry->d_name, own) != 0 && store_format_parse_folder(entry->d_name, &format))
            kv_files_others_look_at_folder(others, dirfd(directory), entry->d_name);
    }
    return directory;
}

static void kv_files_others_forget(struct others *others, DIR *directory) {
    free(others->names);
    free(others->ages);
    if (directory) closedir(directory);
}

uint64_t kv_files_others_bytes(int at, const char *name, const struct kv_format *but) {
    struct others others = {.bytes = 0};
    DIR *directory = look_around(at, name, but, &others);
    kv_files_others_forget(&others, directory);
    return others.bytes;
}

/* Returns false if a process writes to the segment, or it was removed. */
static bool remove_segment(int directory, const struct other *other) {
    char name[STEM_BYTES + 8];
    DIR *folder = kv_files_others_open_folder(directory, other->folder);
    if (!folder) return false;
    format_text(name, sizeof name, "%s" SUFFIX, other->stem);
    int file = openat(dirfd(folder), name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    bool ours = file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0;
    if (ours) {
        unlinkat(dirfd(folder), name, 0);
        format_text(name, sizeof name, "%s" SIDECAR, other->stem);
        unlinkat(dirfd(folder), name, 0);
    }
    if (file >= 0) close(file);
    closedir(folder);
    return ours;
}

bool kv_files_others_remove(int at, const char *name, const struct kv_format *but,
                            int64_t before_ns) {
    struct others others = {.bytes = 0};
    DIR *directory = look_around(at, name, but, &others);
    bool removed = false;
    while (!removed) {
        uint32_t oldest = retain_blocks_oldest(others.ages, others.count, before_ns);
        if (oldest == RETAIN_NONE) break;
        check(oldest < others.count && others.names && others.ages);
        removed = remove_segment(dirfd(directory), &others.names[oldest]);
        others.ages[oldest].movable = false;
    }
    kv_files_others_forget(&others, directory);
    return removed;
}
