/* SPDX-License-Identifier: Apache-2.0 */
#include "host/storage/kv_files_check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/format.h"
#include "host/process/own_file.h"
#include "host/storage/kv_files.h"
#include "host/storage/kv_files_others.h"

struct inspection { /* of one folder */
    struct kv_files files;
    struct kv_check check;
    const struct kv_check_listener *listener;
    char *block;
};

static void ignore_entry(void *context, uint32_t segment, const struct store_entry *entry) {
}
static void ignore_gone(void *context, uint32_t segment) {
}
static const struct kv_backend_listener ignores_all = {.entry = ignore_entry, .gone = ignore_gone};

static void report_damage(struct inspection *inspection, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void report_damage(struct inspection *inspection, const char *format, ...) {
    char line[400];
    va_list arguments;
    va_start(arguments, format);
    format_va(line, sizeof line, format, arguments);
    va_end(arguments);
    inspection->check.damaged++;
    if (inspection->listener->damage)
        inspection->listener->damage(inspection->listener->context, line);
}

/* Calls `each` for the names in a folder or directory, in any order, and closes it. */
static void for_names(DIR *directory, void (*each)(void *context, const char *name),
                      void *context) {
    for (struct dirent *entry; (entry = readdir(directory));)
        if (entry->d_name[0] != '.') each(context, entry->d_name);
    closedir(directory);
}

/* Calls `each` for the names in the open folder, even if its path has another folder by now. */
static void for_files(const struct kv_files *files, void (*each)(void *context, const char *name),
                      void *context) {
    int again =
        files->folder < 0 ? -1 : openat(files->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = again < 0 ? NULL : fdopendir(again);
    if (!directory && again >= 0) close(again);
    if (directory) for_names(directory, each, context);
}

/* Root may inspect the storage of any user, other users only their own. */
static bool is_guarded(void) {
    return geteuid() != 0;
}

/* Refuses a directory that other users may write to, as servers do. */
static enum status kv_files_check_open_directory(const char *path, DIR **directory_out,
                                                 struct error *error) {
    DIR *directory = opendir(path);
    if (!directory)
        return error_set(error, STATUS_NOT_FOUND, "%.300s: cannot open this directory: %s", path,
                         strerror(errno));
    enum status status = is_guarded() ? own_file_check_folder(dirfd(directory), path, error)
                                      : own_file_check_mode(dirfd(directory), path, error);
    if (status)
        closedir(directory);
    else
        *directory_out = directory;
    return status;
}

static bool kv_files_check_ends_with(const char *name, const char *suffix) {
    size_t length = strlen(name), tail = strlen(suffix);
    return length > tail && strcmp(name + length - tail, suffix) == 0;
}

/* True if the scan has found the segment in this file's name. */
static bool known_name(const struct kv_files *files, const char *name) {
    uint64_t id = strtoull(name, NULL, 16);
    for (uint32_t i = 0; i < files->segment_count; i++)
        if (files->segments[i] && files->segments[i]->id == id) return true;
    return false;
}

static void inspect_name(void *context, const char *name) {
    struct inspection *inspection = context;
    if (!kv_files_check_ends_with(name, ".kv") || known_name(&inspection->files, name)) return;
    int file = own_file_openat(inspection->files.folder, name, O_RDONLY, 0);
    report_damage(inspection, "%s/%.100s: is not a segment: %s", inspection->files.path, name,
                  file < 0 ? own_file_why(errno) : "damaged head");
    if (file >= 0) close(file);
}

/* ---- slots ---- */

/* Returns a description of the block's damage, or NULL if the block is sound. */
static const char *block_damage(struct inspection *inspection, uint32_t segment, uint32_t slot,
                                char *text, size_t text_bytes) {
    struct kv_files *files = &inspection->files;
    int failure = kv_files_read(files, segment, slot, 0, inspection->block, files->block_bytes);
    if (failure) {
        format_text(text, text_bytes, "cannot be read: %s", strerror(failure));
        return text;
    }
    enum store_flaw flaw = store_format_verify(inspection->block, &files->format, NULL);
    if (flaw != STORE_SOUND) return store_format_flaw_name(flaw);
    for (uint32_t i = 0; i < files->format.slice_count; i++) {
        const char *slice = inspection->block + STORE_PAGE_BYTES + i * files->slice_bytes;
        if (store_format_slice_sound(inspection->block, slice, &files->format, i)) continue;
        format_text(text, text_bytes, "slice %u is damaged", i);
        return text;
    }
    return NULL;
}

static void inspect_slots(struct inspection *inspection, uint32_t index) {
    struct kv_segment *segment = inspection->files.segments[index];
    struct stat about;
    char text[200];
    if (fstat(segment->data, &about)) about.st_size = 0;
    for (uint32_t slot = 0; slot < segment->slot_count; slot++) {
        bool known = segment->slots[slot] == KV_SLOT_BLOCK;
        uint64_t end = store_format_slot_offset(inspection->files.block_bytes, slot + 1);
        if (segment->slots[slot] == KV_SLOT_DEAD) continue;
        if (!known && end > (uint64_t)about.st_size) break;
        const char *flaw = block_damage(inspection, index, slot, text, sizeof text);
        bool empty = flaw == store_format_flaw_name(STORE_EMPTY);
        if (!flaw)
            inspection->check.sound++;
        else if (known)
            report_damage(inspection, "%s/%016llx.kv: slot %u: %s", inspection->files.path,
                          (unsigned long long)segment->id, slot, flaw);
        else
            inspection->check.unfinished += !empty;
        if (empty && !known && slot >= segment->next_slot) break; /* slots are filled in order */
    }
}

/* ---- folders ---- */

static bool written_to(const struct kv_segment *segment) {
    if (flock(segment->data, LOCK_EX | LOCK_NB)) return true;
    flock(segment->data, LOCK_UN);
    return false;
}

static void inspect_segment(struct inspection *inspection, uint32_t index, bool deep) {
    const struct kv_segment *segment = inspection->files.segments[index];
    struct kv_check *check = &inspection->check;
    check->segments++;
    check->bytes += segment->bytes;
    check->writers += written_to(segment);
    for (uint32_t slot = 0; slot < segment->slot_count; slot++) {
        check->blocks += segment->slots[slot] == KV_SLOT_BLOCK;
        check->retired += segment->slots[slot] == KV_SLOT_DEAD;
    }
    if (segment->sidecar < 0 || segment->damaged_entries)
        report_damage(inspection, "%s/%016llx.idx: %s", inspection->files.path,
                      (unsigned long long)segment->id,
                      segment->sidecar < 0 ? "is missing" : "is damaged");
    if (deep) inspect_slots(inspection, index);
}

static enum status inspect_folder(const char *directory, const char *name, bool deep,
                                  const struct kv_check_listener *listener, struct kv_check *out,
                                  struct error *error) {
    struct inspection inspection = {.listener = listener};
    struct kv_format format;
    if (!store_format_parse_folder(name, &format)) return STATUS_OK;
    format_text(inspection.check.folder, sizeof inspection.check.folder, "%s", name);
    enum status status =
        kv_files_open(&inspection.files, directory, &format, NULL, is_guarded(), error);
    if (status) return status;
    inspection.check.block_bytes = inspection.files.block_bytes;
    inspection.block = aligned_alloc(STORE_PAGE_BYTES, inspection.files.block_bytes);
    if (!inspection.block)
        status = error_set(error, STATUS_NO_MEMORY, "no memory for a block of %zu bytes",
                           inspection.files.block_bytes);
    if (!status) {
        kv_files_scan(&inspection.files, KV_SCAN_READ_ONLY, &ignores_all);
        for_files(&inspection.files, inspect_name, &inspection);
        for (uint32_t i = 0; i < inspection.files.segment_count; i++)
            if (inspection.files.segments[i]) inspect_segment(&inspection, i, deep);
        if (listener->folder) listener->folder(listener->context, &inspection.check);
        *out = inspection.check;
    }
    free(inspection.block);
    kv_files_close(&inspection.files);
    return status;
}

struct walk {
    const char *directory;
    bool deep;
    const struct kv_check_listener *listener;
    struct kv_check total;
    enum status status;
    struct error *error;
};

static void add_folder(void *context, const char *name) {
    struct walk *walk = context;
    struct kv_check one = {.segments = 0}, *total = &walk->total;
    enum status status =
        inspect_folder(walk->directory, name, walk->deep, walk->listener, &one, walk->error);
    if (status) walk->status = status;
    total->segments += one.segments;
    total->bytes += one.bytes;
    total->blocks += one.blocks;
    total->retired += one.retired;
    total->writers += one.writers;
    total->sound += one.sound;
    total->damaged += one.damaged;
    total->unfinished += one.unfinished;
}

enum status kv_files_check(const char *directory, bool deep,
                           const struct kv_check_listener *listener, struct kv_check *total_out,
                           struct error *error) {
    struct walk walk = {.directory = directory, .deep = deep, .listener = listener, .error = error};
    DIR *names;
    enum status status = kv_files_check_open_directory(directory, &names, error);
    if (status) return status;
    for_names(names, add_folder, &walk);
    if (!walk.status) *total_out = walk.total;
    return walk.status;
}

/* ---- shrinking ---- */

/* Removes a useless file: an unlocked data file without a sound header, or a leftover sidecar. */
static void sweep_name(void *context, const char *name) {
    struct kv_files *files = context;
    bool data = kv_files_check_ends_with(name, ".kv");
    if (known_name(files, name) ? !kv_files_check_ends_with(name, ".new")
                                : !data && !kv_files_check_ends_with(name, ".idx") &&
                                      !kv_files_check_ends_with(name, ".new"))
        return;
    int file = data ? own_file_openat(files->folder, name, O_RDWR, 0) : -1;
    bool is_refused = data && file < 0 && (errno == ELOOP || errno == EPERM); /* as in servers */
    if (!data || is_refused || (file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0))
        unlinkat(files->folder, name, 0);
    if (file >= 0) close(file);
}

struct sweep {
    const char *directory;
    enum status status;
    struct error *error;
};

static void sweep_folder(void *context, const char *name) {
    struct sweep *sweep = context;
    struct kv_format format;
    struct kv_files files;
    if (!store_format_parse_folder(name, &format)) return;
    enum status status =
        kv_files_open(&files, sweep->directory, &format, NULL, is_guarded(), sweep->error);
    if (status) {
        sweep->status = status;
        return;
    }
    kv_files_scan(&files, KV_SCAN_READ_ONLY, &ignores_all);
    for_files(&files, sweep_name, &files);
    kv_files_close(&files);
}

enum status kv_files_check_shrink(const char *directory, uint64_t bytes, uint64_t *removed_out,
                                  uint64_t *left_out, struct error *error) {
    struct sweep sweep = {.directory = directory, .error = error};
    uint64_t removed = 0;
    DIR *names;
    enum status status = kv_files_check_open_directory(directory, &names, error);
    if (status) return status;
    int at = dup(dirfd(names));
    if (at < 0) {
        closedir(names);
        return error_set(error, STATUS_IO, "%.300s: cannot open this directory again: %s",
                         directory, strerror(errno));
    }
    for_names(names, sweep_folder, &sweep);
    if (!sweep.status) {
        while (kv_files_others_bytes(at, ".", NULL) > bytes &&
               kv_files_others_remove(at, ".", NULL, INT64_MAX))
            removed++;
        *removed_out = removed;
        *left_out = kv_files_others_bytes(at, ".", NULL);
    }
    close(at);
    return sweep.status;
}
