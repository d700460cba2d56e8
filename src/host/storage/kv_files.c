/* SPDX-License-Identifier: Apache-2.0
 * A segment's data file is locked while the segment is written to, removed or recovered. Its
 * sidecar only gets whole entries at its end (O_APPEND), or is replaced under the lock.
 */
#include "host/storage/kv_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/format.h"
#include "host/process/own_file.h"

#define NAME_BYTES 32
#define ENTRIES_AT_ONCE 1024
#define ENTRIES_PER_SLOT_MAX 16 /* one for its block, and one per process that finds it damaged */
#define SETTLED_NS 100000000
#define FOLDER_MODE 0700
#define FILE_MODE 0600

static void kv_files_name_of(uint64_t id, const char *suffix, char out[NAME_BYTES]) {
    format_text(out, NAME_BYTES, "%016llx%s", (unsigned long long)id, suffix);
}

/* Parses the name of a data file. Returns false for other names. */
static bool kv_files_parse_name(const char *name, uint64_t *id_out) {
    char again[NAME_BYTES], *end;
    uint64_t id = strtoull(name, &end, 16);
    kv_files_name_of(id, ".kv", again);
    *id_out = id;
    return strcmp(name, again) == 0;
}

static int64_t kv_files_ns_of(struct timespec time) {
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* ---- the folder ---- */

static int kv_files_open_folder(int at, const char *name, int flags) {
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);
}

/* Opens a folder and checks which users may write to it. `makes`: creates it if it is missing. */
static enum status check_folder(const struct kv_files *files, bool makes, int at, const char *name,
                                int flags, int *folder_out, struct error *error) {
    const char *path = files->path;
    if (makes && mkdirat(at, name, FOLDER_MODE) && errno != EEXIST)
        return error_set(error, STATUS_IO, "%.300s: cannot make this folder for the KV storage: %s",
                         path, strerror(errno));
    int folder = kv_files_open_folder(at, name, flags);
    if (folder < 0 && flags && (errno == ELOOP || errno == ENOTDIR))
        return error_set(error, STATUS_INVALID, "%.300s: expected a folder, not a link: remove it",
                         path);
    if (folder < 0)
        return error_set(error, STATUS_IO, "%.300s: cannot open this folder: %s", path,
                         strerror(errno));
    enum status status = files->guarded ? own_file_check_folder(folder, path, error)
                                        : own_file_check_mode(folder, path, error);
    if (status)
        close(folder);
    else
        *folder_out = folder;
    return status;
}

static bool same_file(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Closes the folder if it was removed or replaced at its path. */
static void leave_folder(struct kv_files *files) {
    struct stat ours, now;
    if (files->folder < 0) return;
    if (fstat(files->folder, &ours) == 0) {
        bool there = stat(files->path, &now) == 0;
        if (there ? same_file(&ours, &now) : errno != ENOENT && errno != ENOTDIR) return;
    }
    close(files->folder);
    files->folder = -1;
    files->scanned_ns = -1;
}

/* Opens the folder that is at the path now, unless it is open already. The directory may be a
 * symbolic link, because the operator named it. The folder in it must not be a link. */
static enum status follow_path(struct kv_files *files, bool makes, struct error *error) {
    char *end = strrchr(files->path, '/');
    int directory;
    leave_folder(files);
    if (files->folder >= 0) return STATUS_OK;
    *end = 0;
    enum status status = check_folder(files, makes, AT_FDCWD, files->path, 0, &directory, error);
    *end = '/';
    if (status) return status;
    status = check_folder(files, makes, directory, end + 1, O_NOFOLLOW, &files->folder, error);
    close(directory);
    return status;
}

/* Opens the folder, and creates it and its directory if they are missing. */
static enum status have_folder(struct kv_files *files, struct error *error) {
    return follow_path(files, true, error);
}

/* True if the file still has this name in the folder. Processes never remove or replace a file that
 * another process has locked, but users do. */
static bool kv_files_is_listed(const struct kv_files *files, uint64_t id, const char *suffix,
                               int file) {
    char name[NAME_BYTES];
    struct stat ours, now;
    kv_files_name_of(id, suffix, name);
    return file >= 0 && fstat(file, &ours) == 0 &&
           fstatat(files->folder, name, &now, AT_SYMLINK_NOFOLLOW) == 0 && same_file(&ours, &now);
}

static bool data_listed(const struct kv_files *files, const struct kv_segment *segment) {
    return kv_files_is_listed(files, segment->id, ".kv", segment->data);
}

/* True if the sidecar still has its name and has not shrunk. */
static bool sidecar_listed(const struct kv_files *files, const struct kv_segment *segment) {
    struct stat now;
    return kv_files_is_listed(files, segment->id, ".idx", segment->sidecar) &&
           fstat(segment->sidecar, &now) == 0 && (uint64_t)now.st_size >= segment->sidecar_bytes;
}

static uint64_t kv_files_data_bytes(const struct kv_files *files, uint32_t slots) {
    return store_format_slot_offset(files->block_bytes, slots);
}

/* True if an active segment has its full size and its sidecar. */
static bool kv_files_is_whole(const struct kv_files *files, const struct kv_segment *segment) {
    struct stat data;
    return fstat(segment->data, &data) == 0 &&
           (uint64_t)data.st_size >= kv_files_data_bytes(files, segment->slot_count) &&
           sidecar_listed(files, segment);
}

enum status kv_files_open(struct kv_files *files, const char *directory,
                          const struct kv_format *format, const struct kv_io_faults *faults,
                          bool guarded, struct error *error) {
    char name[STORE_NAME_BYTES];
    check(kv_format_is_valid(format));
    *files = (struct kv_files){
        .folder = -1,
        .guarded = guarded,
        .format = *format,
        .block_bytes = kv_format_block_bytes(format),
        .slice_bytes = kv_format_slice_bytes(format),
    };
    if (faults) files->faults = *faults;
    store_format_folder(format, name);
    enum status status = STATUS_OK;
    size_t path_bytes = strlen(directory) + sizeof name + 2;
    files->path = malloc(path_bytes);
    files->page = aligned_alloc(STORE_PAGE_BYTES, STORE_PAGE_BYTES);
    files->entries = malloc(ENTRIES_AT_ONCE * sizeof *files->entries);
    if (!files->path || !files->page || !files->entries)
        status = error_set(error, STATUS_NO_MEMORY, "no memory for the KV storage");
    if (!status) {
        format_text(files->path, path_bytes, "%s/%s", directory, name);
        status = have_folder(files, error);
    }
    if (status) kv_files_close(files);
    return status;
}

static void close_segment(struct kv_files *files, uint32_t index) {
    struct kv_segment *segment = files->segments[index];
    check(segment->uses == 0);
    if (segment->data >= 0) close(segment->data); /* also releases the lock */
    if (segment->sidecar >= 0) close(segment->sidecar);
    free(segment->slots);
    free(segment);
    files->segments[index] = NULL;
}

/* Closes a segment that is gone and no longer in use. */
static void close_unused(struct kv_files *files, uint32_t index) {
    const struct kv_segment *segment = files->segments[index];
    if (segment->gone && !segment->active && segment->uses == 0) close_segment(files, index);
}

static void forget_segment(struct kv_files *files, uint32_t index) {
    struct kv_segment *segment = files->segments[index];
    segment->gone = true;
    segment->stopped = true;
    segment->bytes = 0;
    close_unused(files, index);
}

void kv_files_close(struct kv_files *files) {
    for (uint32_t i = 0; i < files->segment_count; i++)
        if (files->segments[i]) close_segment(files, i);
    if (files->folder >= 0) close(files->folder);
    free(files->entries);
    free(files->page);
    free(files->path);
    *files = (struct kv_files){.folder = -1};
}

uint64_t kv_files_bytes(const struct kv_files *files) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < files->segment_count; i++)
        if (files->segments[i]) sum += files->segments[i]->bytes;
    return sum;
}

/* ---- opening a segment ---- */

static uint32_t kv_files_free_place(struct kv_files *files) {
    for (uint32_t i = 0; i < files->segment_count; i++)
        if (!files->segments[i]) return i;
    return files->segment_count < KV_SEGMENTS_MAX ? files->segment_count++ : KV_SEGMENT_NONE;
}

static struct kv_segment *new_segment(struct kv_files *files, uint32_t index, uint64_t id,
                                      uint32_t slot_count) {
    struct kv_segment *segment = calloc(1, sizeof *segment);
    uint8_t *slots = calloc(slot_count, 1);
    if (!segment || !slots) {
        free(segment);
        free(slots);
        return NULL;
    }
    *segment = (struct kv_segment){
        .id = id, .data = -1, .sidecar = -1, .slot_count = slot_count, .slots = slots};
    files->segments[index] = segment;
    return segment;
}

static void open_sidecar(const struct kv_files *files, struct kv_segment *segment) {
    char name[NAME_BYTES];
    kv_files_name_of(segment->id, ".idx", name);
    segment->sidecar = own_file_openat(files->folder, name, O_RDWR | O_APPEND, 0);
    segment->sidecar_bytes = 0;
}

/* Opens a data file for direct I/O if the file system supports it. */
static int open_data(const struct kv_files *files, const char *name, int flags) {
    int file = own_file_openat(files->folder, name, flags | O_DIRECT, FILE_MODE);
    if (file < 0 && errno == EINVAL) file = own_file_openat(files->folder, name, flags, FILE_MODE);
    return file;
}

static void kv_files_measure(struct kv_segment *segment) {
    struct stat data, sidecar = {0};
    if (fstat(segment->data, &data)) return;
    if (segment->sidecar >= 0 && fstat(segment->sidecar, &sidecar)) return;
    segment->bytes = (uint64_t)data.st_size + (uint64_t)sidecar.st_size;
    segment->modified_ns = kv_files_ns_of(data.st_mtim);
}

/* Reads the header of a data file. Returns false if it is invalid or does not match the name. */
static bool kv_files_read_header(struct kv_files *files, int file, uint64_t id,
                                 struct store_segment *header_out) {
    struct kv_io_op op = {.file = file, .memory = files->page, .bytes = STORE_PAGE_BYTES};
    if (kv_files_io_now(&files->faults, &op)) return false;
    memcpy(header_out, files->page, sizeof *header_out);
    struct store_segment ours = store_format_segment(&files->format, id, header_out->slot_count);
    return store_format_segment_valid(header_out) && memcmp(&ours, header_out, sizeof ours) == 0;
}

static bool open_segment(struct kv_files *files, uint64_t id) {
    char name[NAME_BYTES];
    struct store_segment header;
    kv_files_name_of(id, ".kv", name);
    int file = open_data(files, name, O_RDWR);
    if (file < 0) return false;
    uint32_t index = KV_SEGMENT_NONE;
    if (kv_files_read_header(files, file, id, &header)) index = kv_files_free_place(files);
    struct kv_segment *segment =
        index == KV_SEGMENT_NONE ? NULL : new_segment(files, index, id, header.slot_count);
    if (!segment) {
        close(file);
        return false;
    }
    segment->data = file;
    open_sidecar(files, segment);
    kv_files_measure(segment);
    return true;
}

/* ---- entries ---- */

static void kv_files_note_entry(struct kv_segment *segment, uint32_t index,
                                const struct store_entry *entry,
                                const struct kv_backend_listener *listener) {
    uint8_t *slot = &segment->slots[entry->slot];
    if (entry->slot >= segment->next_slot) segment->next_slot = entry->slot + 1;
    if (*slot == KV_SLOT_DEAD) return;
    *slot = entry->kind == STORE_ENTRY_DEAD ? KV_SLOT_DEAD : KV_SLOT_BLOCK;
    listener->entry(listener->context, index, entry);
}

/* True if the sidecar begins with the segment's header. */
static bool sidecar_begins(struct kv_segment *segment) {
    struct store_segment header;
    return pread(segment->sidecar, &header, sizeof header, 0) == (ssize_t)sizeof header &&
           store_format_segment_valid(&header) && header.id == segment->id &&
           header.slot_count == segment->slot_count;
}

/* True if the sidecar is longer than its slots allow. Such a file is not read. */
static bool is_endless(const struct kv_segment *segment) {
    struct stat now;
    uint64_t entries = (uint64_t)ENTRIES_PER_SLOT_MAX * segment->slot_count;
    return fstat(segment->sidecar, &now) == 0 &&
           (uint64_t)now.st_size >
               sizeof(struct store_segment) + entries * sizeof(struct store_entry);
}

/* Reads new entries of a sidecar. */
static void read_sidecar(struct kv_files *files, uint32_t index,
                         const struct kv_backend_listener *listener) {
    struct kv_segment *segment = files->segments[index];
    struct store_entry *entries = files->entries;
    if (segment->sidecar < 0 || segment->active) return;
    if (is_endless(segment)) {
        segment->damaged_entries++;
        return;
    }
    if (segment->sidecar_bytes == 0) {
        if (!sidecar_begins(segment)) {
            segment->damaged_entries++;
            return;
        }
        segment->sidecar_bytes = sizeof(struct store_segment);
    }
    for (;;) {
        ssize_t got = pread(segment->sidecar, entries, ENTRIES_AT_ONCE * sizeof *entries,
                            (off_t)segment->sidecar_bytes);
        size_t count = got > 0 ? (size_t)got / sizeof *entries : 0;
        for (size_t i = 0; i < count; i++) {
            if (store_format_entry_valid(&entries[i], segment->slot_count))
                kv_files_note_entry(segment, index, &entries[i], listener);
            else
                segment->damaged_entries++;
        }
        segment->sidecar_bytes += count * sizeof *entries;
        if (count < ENTRIES_AT_ONCE) break;
    }
}

int kv_files_note(struct kv_files *files, uint32_t index, const struct store_entry *entry) {
    struct kv_segment *segment = files->segments[index];
    if (segment->gone || !data_listed(files, segment)) return ESTALE;
    if (segment->sidecar < 0) return EBADF;
    struct kv_io_op op = {.write = true,
                          .file = segment->sidecar,
                          .memory = (char *)(uintptr_t)entry,
                          .bytes = sizeof *entry};
    int failure = kv_files_io_now(&files->faults, &op);
    if (failure) return failure;
    segment->slots[entry->slot] = entry->kind == STORE_ENTRY_DEAD ? KV_SLOT_DEAD : KV_SLOT_BLOCK;
    segment->bytes += sizeof *entry;
    if (segment->active) segment->sidecar_bytes += sizeof *entry;
    return 0;
}

/* ---- recovering a segment ---- */

static void unlock_segment(struct kv_segment *segment) {
    flock(segment->data, LOCK_UN);
    segment->locked = false;
}

/* Returns false with errno if another process has the lock, or if the segment's name now belongs to
 * another file, which this lock would not protect. */
static bool lock_segment(const struct kv_files *files, struct kv_segment *segment) {
    if (!segment->locked) segment->locked = flock(segment->data, LOCK_EX | LOCK_NB) == 0;
    if (!segment->locked || data_listed(files, segment)) return segment->locked;
    unlock_segment(segment);
    errno = ESTALE;
    return false;
}

/* Makes the entry of a slot from the header page of its block. Returns false if it has no block. */
static bool recover_slot(struct kv_files *files, uint32_t index, uint32_t slot,
                         struct store_entry *entry_out) {
    if (kv_files_read(files, index, slot, 0, files->page, STORE_PAGE_BYTES)) return false;
    if (store_format_verify(files->page, &files->format, NULL) != STORE_SOUND) return false;
    const struct store_mark *mark = store_format_mark(files->page);
    *entry_out =
        store_format_entry(STORE_ENTRY_BLOCK, &mark->key, &mark->parent, slot, mark->position);
    return true;
}

/* Creates a sidecar. A file or link with that name is removed first. */
static int make_sidecar(const struct kv_files *files, const char *name) {
    unlinkat(files->folder, name, 0);
    return own_file_openat(files->folder, name, O_RDWR | O_CREAT | O_EXCL | O_APPEND, FILE_MODE);
}

/* Replaces an unusable sidecar by one without entries. */
static bool renew_sidecar(struct kv_files *files, struct kv_segment *segment) {
    char name[NAME_BYTES], fresh[NAME_BYTES];
    struct store_segment header =
        store_format_segment(&files->format, segment->id, segment->slot_count);
    kv_files_name_of(segment->id, ".idx", name);
    kv_files_name_of(segment->id, ".new", fresh);
    int file = make_sidecar(files, fresh);
    if (file < 0) return false;
    if (write(file, &header, sizeof header) != (ssize_t)sizeof header ||
        renameat(files->folder, fresh, files->folder, name)) {
        close(file);
        unlinkat(files->folder, fresh, 0);
        return false;
    }
    if (segment->sidecar >= 0) close(segment->sidecar);
    segment->sidecar = file;
    segment->sidecar_bytes = sizeof header;
    return true;
}

static bool lacks_entries(const struct kv_segment *segment) {
    return segment->sidecar < 0 || segment->damaged_entries > 0;
}

/* Rebuilds a damaged sidecar from the header pages of the blocks. To a sound one, adds blocks after
 * its last entry, which were written just before their process ended. Returns false if a process
 * writes to the segment. */
static bool recover(struct kv_files *files, uint32_t index,
                    const struct kv_backend_listener *listener) {
    struct kv_segment *segment = files->segments[index];
    struct store_entry entry;
    bool damaged = lacks_entries(segment);
    if (segment->active || !lock_segment(files, segment)) return false;
    read_sidecar(files, index, listener); /* under the lock, no other process adds blocks */
    uint64_t torn = segment->sidecar_bytes;
    if (damaged)
        renew_sidecar(files, segment);
    else if (ftruncate(segment->sidecar, (off_t)torn))
        damaged = false; /* a failed truncation does no harm */
    uint32_t slot = damaged ? 0 : segment->next_slot;
    for (; slot < segment->slot_count; slot++) {
        if (segment->slots[slot] == KV_SLOT_DEAD) {
            static const struct block_key none;
            entry = store_format_entry(STORE_ENTRY_DEAD, &none, &none, slot, 0);
        } else if (!recover_slot(files, index, slot, &entry)) {
            if (!damaged) break;
            continue;
        }
        bool known = segment->slots[slot] != KV_SLOT_UNKNOWN;
        if (kv_files_note(files, index, &entry)) break;
        segment->sidecar_bytes += sizeof entry;
        if (!known) kv_files_note_entry(segment, index, &entry, listener);
    }
    segment->damaged_entries = 0;
    kv_files_measure(segment);
    unlock_segment(segment);
    return true;
}

/* ---- the scan ---- */

static uint32_t find_segment(const struct kv_files *files, uint64_t id) {
    for (uint32_t i = 0; i < files->segment_count; i++)
        if (files->segments[i] && files->segments[i]->id == id && !files->segments[i]->gone)
            return i;
    return KV_SEGMENT_NONE;
}

/* Reports and forgets segments with a removed or replaced data file. */
static void drop_unlisted(struct kv_files *files, const struct kv_backend_listener *listener) {
    for (uint32_t i = 0; i < files->segment_count; i++) {
        struct kv_segment *segment = files->segments[i];
        if (!segment || segment->gone) continue;
        if (data_listed(files, segment)) continue;
        listener->gone(listener->context, i);
        forget_segment(files, i);
    }
}

/* Opens new data files of the folder. Returns false if the folder cannot be read. */
static bool list_segments(struct kv_files *files) {
    int again = openat(files->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = again < 0 ? NULL : fdopendir(again);
    if (!directory) {
        if (again >= 0) close(again);
        return false;
    }
    for (struct dirent *entry; (entry = readdir(directory));) {
        uint64_t id;
        if (kv_files_parse_name(entry->d_name, &id) && find_segment(files, id) == KV_SEGMENT_NONE)
            open_segment(files, id);
    }
    closedir(directory);
    return true;
}

/* Handles removals before new files, because a new file may have the name of a removed one. */
static void scan_folder(struct kv_files *files, const struct kv_backend_listener *listener) {
    struct stat folder;
    struct timespec now;
    struct error ignored;
    bool there =
        follow_path(files, false, &ignored) == STATUS_OK && fstat(files->folder, &folder) == 0;
    if (there && kv_files_ns_of(folder.st_mtim) == files->scanned_ns) return;
    drop_unlisted(files, listener);
    if (!there || !list_segments(files)) return;
    /* After a recent change, another one may follow with the same mtime. Then scan again. */
    clock_gettime(CLOCK_REALTIME, &now);
    bool settled = kv_files_ns_of(now) - kv_files_ns_of(folder.st_mtim) > SETTLED_NS;
    files->scanned_ns = settled ? kv_files_ns_of(folder.st_mtim) : -1;
}

void kv_files_scan(struct kv_files *files, enum kv_scan how,
                   const struct kv_backend_listener *listener) {
    bool mended = false; /* only one per scan: it reads header pages, and loads wait meanwhile */
    scan_folder(files, listener);
    for (uint32_t i = 0; i < files->segment_count; i++) {
        struct kv_segment *segment = files->segments[i];
        if (!segment || segment->gone) continue;
        if (segment->active) {
            segment->stopped = segment->stopped || !kv_files_is_whole(files, segment);
            continue;
        }
        if (segment->sidecar >= 0 && !sidecar_listed(files, segment)) {
            close(segment->sidecar); /* another process has rewritten it, or it was removed */
            segment->sidecar = -1;
        }
        if (segment->sidecar < 0) open_sidecar(files, segment); /* it may be created later */
        read_sidecar(files, i, listener);
        kv_files_measure(segment);
        bool mend = how == KV_SCAN_REPAIR && !mended && lacks_entries(segment);
        if (how == KV_SCAN_RECOVER || mend) mended = recover(files, i, listener);
    }
}

/* ---- writing ---- */

/* True if the sidecar was neither extended nor replaced since it was read. */
static bool up_to_date(const struct kv_files *files, const struct kv_segment *segment) {
    struct stat sidecar;
    return sidecar_listed(files, segment) && fstat(segment->sidecar, &sidecar) == 0 &&
           (uint64_t)sidecar.st_size == segment->sidecar_bytes;
}

/* Allocates space for all slots, so that a full disk is detected before the first block. */
static int kv_files_reserve(struct kv_files *files, struct kv_segment *segment) {
    off_t bytes = (off_t)kv_files_data_bytes(files, segment->slot_count);
    if (fallocate(segment->data, 0, 0, bytes) == 0) return 0;
    if (errno != EOPNOTSUPP) return errno;
    return ftruncate(segment->data, bytes) ? errno : 0;
}

static bool kv_files_adopt(struct kv_files *files, uint32_t *index_out) {
    for (uint32_t i = 0; i < files->segment_count; i++) {
        struct kv_segment *segment = files->segments[i];
        if (!segment || segment->gone || segment->locked || segment->sidecar < 0 ||
            segment->next_slot >= segment->slot_count || !lock_segment(files, segment))
            continue;
        if (segment->damaged_entries == 0 && up_to_date(files, segment) &&
            kv_files_reserve(files, segment) == 0) {
            segment->active = true;
            kv_files_measure(segment);
            *index_out = i;
            return true;
        }
        unlock_segment(segment);
    }
    return false;
}

/* Writes the header of both files. The data file's is last, because it makes the segment valid.
 * Returns 0 or an errno. */
static int write_heads(struct kv_files *files, struct kv_segment *segment) {
    struct store_segment header =
        store_format_segment(&files->format, segment->id, segment->slot_count);
    memset(files->page, 0, STORE_PAGE_BYTES);
    memcpy(files->page, &header, sizeof header);
    struct kv_io_op data = {
        .write = true, .file = segment->data, .memory = files->page, .bytes = STORE_PAGE_BYTES};
    struct kv_io_op sidecar = {
        .write = true, .file = segment->sidecar, .memory = files->page, .bytes = sizeof header};
    int failure = kv_files_io_now(&files->faults, &sidecar);
    return failure ? failure : kv_files_io_now(&files->faults, &data);
}

/* Creates and initializes the files of a new segment, and locks it. Returns 0 or an errno. */
static int make_files(struct kv_files *files, struct kv_segment *segment) {
    char name[NAME_BYTES];
    kv_files_name_of(segment->id, ".kv", name);
    segment->data = open_data(files, name, O_RDWR | O_CREAT | O_EXCL);
    if (segment->data < 0) return errno;
    if (!lock_segment(files, segment)) return errno;
    kv_files_name_of(segment->id, ".idx", name);
    segment->sidecar = make_sidecar(files, name);
    if (segment->sidecar < 0) return errno;
    int failure = kv_files_reserve(files, segment);
    return failure ? failure : write_heads(files, segment);
}

/* Removes the segment's files, unless its name now belongs to another file. */
static void unlink_files(const struct kv_files *files, const struct kv_segment *segment) {
    char name[NAME_BYTES];
    if (!data_listed(files, segment)) return;
    kv_files_name_of(segment->id, ".kv", name);
    unlinkat(files->folder, name, 0);
    kv_files_name_of(segment->id, ".idx", name);
    unlinkat(files->folder, name, 0);
}

enum status kv_files_begin(struct kv_files *files, uint32_t slot_count, bool adopt_first,
                           uint32_t *segment_out, struct error *error) {
    uint64_t id;
    enum status status = have_folder(files, error);
    if (status) return status;
    if (adopt_first && kv_files_adopt(files, segment_out)) return STATUS_OK;
    uint32_t index = kv_files_free_place(files);
    if (index == KV_SEGMENT_NONE || getrandom(&id, sizeof id, 0) != (ssize_t)sizeof id)
        return error_set(error, STATUS_FULL, "%.300s: has %d segments, which is the limit",
                         files->path, KV_SEGMENTS_MAX);
    struct kv_segment *segment = new_segment(files, index, id, slot_count);
    if (!segment) return error_set(error, STATUS_NO_MEMORY, "no memory for the KV storage");
    int failure = make_files(files, segment);
    if (failure) {
        unlink_files(files, segment);
        close_segment(files, index);
        return error_set(error, STATUS_IO, "%.300s: cannot make a segment of %llu bytes: %s",
                         files->path, (unsigned long long)kv_files_data_bytes(files, slot_count),
                         strerror(failure));
    }
    segment->active = true;
    segment->sidecar_bytes = sizeof(struct store_segment);
    kv_files_measure(segment);
    *segment_out = index;
    return STATUS_OK;
}

void kv_files_end(struct kv_files *files, uint32_t index) {
    struct kv_segment *segment = files->segments[index];
    check(segment->active);
    segment->active = false;
    if (segment->gone) {
        close_unused(files, index);
        return;
    }
    bool blocks = false;
    for (uint32_t i = 0; i < segment->next_slot; i++)
        blocks = blocks || segment->slots[i] == KV_SLOT_BLOCK;
    if (!blocks) {
        unlink_files(files, segment);
        forget_segment(files, index);
        return;
    }
    if (segment->next_slot < segment->slot_count &&
        ftruncate(segment->data, (off_t)kv_files_data_bytes(files, segment->next_slot)) == 0)
        kv_files_measure(segment);
    unlock_segment(segment);
}

bool kv_files_remove(struct kv_files *files, uint32_t index) {
    struct kv_segment *segment = files->segments[index];
    if (segment->active || segment->gone) return false;
    if (data_listed(files, segment) && !lock_segment(files, segment)) return false;
    unlink_files(files, segment);
    forget_segment(files, index);
    return true;
}

/* ---- reading ---- */

void kv_files_use(struct kv_files *files, uint32_t index) {
    files->segments[index]->uses++;
}

void kv_files_unuse(struct kv_files *files, uint32_t index) {
    struct kv_segment *segment = files->segments[index];
    check(segment->uses > 0);
    segment->uses--;
    close_unused(files, index);
}

int kv_files_read(struct kv_files *files, uint32_t index, uint32_t slot, size_t offset,
                  void *memory, size_t bytes) {
    struct kv_io_op op = {
        .file = files->segments[index]->data,
        .memory = memory,
        .offset = store_format_slot_offset(files->block_bytes, slot) + offset,
        .bytes = bytes,
    };
    return kv_files_io_now(&files->faults, &op);
}
