/* SPDX-License-Identifier: Apache-2.0 */
#include "cut_disk.h"

#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"

#define SECTOR 512
#define FILES_MAX 64
#define FILE_BYTES_MAX (4 << 20)
#define SHARED_BYTES 32768

struct change { /* not synced */
    struct change *next;
    uint64_t offset;
    size_t bytes;
    bool truncates; /* to `offset` bytes */
    unsigned char data[];
};

/* A file from its making to its deletion; another one of the same name is another one. */
struct kept {
    char path[200];
    bool is_linked;  /* its name is durable */
    bool is_deleted; /* which is not durable yet */
    unsigned char *durable;
    size_t durable_bytes;
    struct change *first, **last;
};

struct cut_file {
    sqlite3_file base;
    struct kept *kept;  /* NULL: of no interest (a temporary file) */
    bool syncs_folder;  /* with its first sync */
    sqlite3_file *real; /* behind this */
};

static sqlite3_vfs *usual;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static struct kept *files[FILES_MAX];                    /* in the order of their making */
static uint32_t file_count;
static uint64_t calls, cut_at;
static bool is_cut, is_lying;
static uint64_t steps, kill_at;

/* ---- what is remembered ---- */

static void drop_changes(struct kept *kept) {
    for (struct change *next; kept->first; kept->first = next) {
        next = kept->first->next;
        free(kept->first);
    }
    kept->last = &kept->first;
}

static void drop_file(uint32_t number) {
    drop_changes(files[number]);
    free(files[number]->durable);
    free(files[number]);
    memmove(&files[number], &files[number + 1], (--file_count - number) * sizeof(struct kept *));
}

static struct kept *find_file(const char *path) {
    for (uint32_t i = 0; i < file_count; i++)
        if (!files[i]->is_deleted && !strcmp(files[i]->path, path)) return files[i];
    return NULL;
}

static void grow(unsigned char *image, size_t *bytes, size_t to) {
    if (to <= *bytes) return;
    memset(image + *bytes, 0, to - *bytes);
    *bytes = to;
}

static void grow_durable(struct kept *kept, size_t to) {
    if (to <= kept->durable_bytes) return;
    kept->durable = realloc(kept->durable, to);
    check(kept->durable);
    grow(kept->durable, &kept->durable_bytes, to);
}

static struct kept *keep_file(const char *path) {
    struct kept *kept = calloc(1, sizeof *kept);
    check(kept && file_count < FILES_MAX && strlen(path) < sizeof kept->path);
    memcpy(kept->path, path, strlen(path));
    kept->last = &kept->first;
    FILE *file = fopen(path, "rb");
    if (file) {
        check(fseek(file, 0, SEEK_END) == 0);
        grow_durable(kept, (size_t)ftell(file));
        rewind(file);
        check(fread(kept->durable, 1, kept->durable_bytes, file) == kept->durable_bytes);
        fclose(file);
    }
    kept->is_linked = kept->durable_bytes > 0;
    files[file_count++] = kept;
    return kept;
}

static void add_change(struct kept *kept, uint64_t offset, const void *data, size_t bytes,
                       bool truncates) {
    struct change *change = malloc(sizeof *change + bytes);
    check(change && offset + bytes <= FILE_BYTES_MAX);
    *change = (struct change){.offset = offset, .bytes = bytes, .truncates = truncates};
    if (bytes) memcpy(change->data, data, bytes);
    *kept->last = change;
    kept->last = &change->next;
}

static void sync_file(struct kept *kept) {
    for (struct change *change = kept->first; change; change = change->next) {
        if (change->truncates && change->offset < kept->durable_bytes)
            kept->durable_bytes = change->offset;
        if (change->bytes == 0) continue;
        grow_durable(kept, change->offset + change->bytes);
        memcpy(kept->durable + change->offset, change->data, change->bytes);
    }
    drop_changes(kept);
}

static void sync_folder(void) {
    for (uint32_t i = file_count; i-- > 0;) {
        files[i]->is_linked = true;
        if (files[i]->is_deleted) drop_file(i);
    }
}

/* A call that changes the disk. False: it has lost its power before, or with this call. */
static bool count_call(void) {
    if (is_cut) return false;
    is_cut = ++calls == cut_at;
    return !is_cut;
}

/* ---- a file as SQLite sees it ---- */

static void step(void) {
    if (kill_at && ++steps == kill_at) raise(SIGKILL);
}

static sqlite3_file *real_of(sqlite3_file *file) {
    return ((struct cut_file *)file)->real;
}

static const sqlite3_io_methods *methods_of(sqlite3_file *file) {
    step();
    return real_of(file)->pMethods;
}

static int cut_close(sqlite3_file *file) {
    return methods_of(file)->xClose(real_of(file));
}

static int cut_read(sqlite3_file *file, void *data, int bytes, sqlite3_int64 offset) {
    if (cut_disk_is_cut()) return SQLITE_IOERR_READ;
    return methods_of(file)->xRead(real_of(file), data, bytes, offset);
}

static int cut_write(sqlite3_file *file, const void *data, int bytes, sqlite3_int64 offset) {
    struct kept *kept = ((struct cut_file *)file)->kept;
    pthread_mutex_lock(&lock);
    if (!is_cut && kept) add_change(kept, (uint64_t)offset, data, (size_t)bytes, false);
    bool fine = count_call();
    pthread_mutex_unlock(&lock);
    return fine ? methods_of(file)->xWrite(real_of(file), data, bytes, offset) : SQLITE_IOERR_WRITE;
}

static int cut_truncate(sqlite3_file *file, sqlite3_int64 bytes) {
    struct kept *kept = ((struct cut_file *)file)->kept;
    pthread_mutex_lock(&lock);
    if (!is_cut && kept) add_change(kept, (uint64_t)bytes, NULL, 0, true);
    bool fine = count_call();
    pthread_mutex_unlock(&lock);
    return fine ? methods_of(file)->xTruncate(real_of(file), bytes) : SQLITE_IOERR_TRUNCATE;
}

static int cut_sync(sqlite3_file *file, int flags) {
    struct cut_file *cut = (struct cut_file *)file;
    (void)flags;
    step();
    pthread_mutex_lock(&lock);
    bool fine = count_call();
    if (fine && !is_lying && cut->kept) {
        sync_file(cut->kept);
        if (cut->syncs_folder) sync_folder();
        cut->syncs_folder = false;
    }
    pthread_mutex_unlock(&lock);
    return fine ? SQLITE_OK : SQLITE_IOERR_FSYNC;
}

static int cut_size(sqlite3_file *file, sqlite3_int64 *bytes) {
    return methods_of(file)->xFileSize(real_of(file), bytes);
}

static int cut_lock(sqlite3_file *file, int level) {
    return methods_of(file)->xLock(real_of(file), level);
}

static int cut_unlock(sqlite3_file *file, int level) {
    return methods_of(file)->xUnlock(real_of(file), level);
}

static int cut_is_reserved(sqlite3_file *file, int *out) {
    return methods_of(file)->xCheckReservedLock(real_of(file), out);
}

static int cut_control(sqlite3_file *file, int what, void *value) {
    if (what == SQLITE_FCNTL_SIZE_HINT || what == SQLITE_FCNTL_CHUNK_SIZE) return SQLITE_OK;
    return methods_of(file)->xFileControl(real_of(file), what, value);
}

static int cut_sector(sqlite3_file *file) {
    return methods_of(file)->xSectorSize(real_of(file));
}

static int cut_device(sqlite3_file *file) {
    return methods_of(file)->xDeviceCharacteristics(real_of(file));
}

static int cut_shared_map(sqlite3_file *file, int page, int bytes, int extend,
                          void volatile **out) {
    return methods_of(file)->xShmMap(real_of(file), page, bytes, extend, out);
}

static int cut_shared_lock(sqlite3_file *file, int offset, int count, int flags) {
    return methods_of(file)->xShmLock(real_of(file), offset, count, flags);
}

static void cut_shared_barrier(sqlite3_file *file) {
    methods_of(file)->xShmBarrier(real_of(file));
}

static int cut_shared_unmap(sqlite3_file *file, int deletes) {
    return methods_of(file)->xShmUnmap(real_of(file), deletes);
}

/* No mapped reads: they would see what was never written. */
static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = cut_close,
    .xRead = cut_read,
    .xWrite = cut_write,
    .xTruncate = cut_truncate,
    .xSync = cut_sync,
    .xFileSize = cut_size,
    .xLock = cut_lock,
    .xUnlock = cut_unlock,
    .xCheckReservedLock = cut_is_reserved,
    .xFileControl = cut_control,
    .xSectorSize = cut_sector,
    .xDeviceCharacteristics = cut_device,
    .xShmMap = cut_shared_map,
    .xShmLock = cut_shared_lock,
    .xShmBarrier = cut_shared_barrier,
    .xShmUnmap = cut_shared_unmap,
};

/* ---- files by their names ---- */

static int cut_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *file, int flags, int *out) {
    struct cut_file *cut = (struct cut_file *)file;
    int beside = SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL;
    (void)vfs;
    *cut = (struct cut_file){.real = (sqlite3_file *)(cut + 1)};
    pthread_mutex_lock(&lock);
    bool fine = !is_cut, is_kept = path && (flags & (beside | SQLITE_OPEN_MAIN_DB));
    if (fine && is_kept) {
        cut->kept = find_file(path);
        if (!cut->kept) cut->kept = keep_file(path);
        cut->syncs_folder = flags & beside && flags & SQLITE_OPEN_CREATE;
    }
    pthread_mutex_unlock(&lock);
    if (!fine) return SQLITE_CANTOPEN;
    int code = usual->xOpen(usual, path, cut->real, flags, out);
    if (code == SQLITE_OK) cut->base.pMethods = &methods;
    return code;
}

static int cut_delete(sqlite3_vfs *vfs, const char *path, int with_folder) {
    (void)vfs;
    step();
    pthread_mutex_lock(&lock);
    struct kept *kept = is_cut ? NULL : find_file(path);
    if (kept) kept->is_deleted = true;
    bool fine = count_call();
    if (fine && with_folder && !is_lying) sync_folder();
    pthread_mutex_unlock(&lock);
    return fine ? usual->xDelete(usual, path, 0) : SQLITE_IOERR_DELETE;
}

void cut_disk_install(void) {
    static sqlite3_vfs own;
    sqlite3_initialize();
    usual = sqlite3_vfs_find(NULL);
    check(usual && usual->iVersion >= 1);
    own = *usual;
    own.zName = "cut_disk";
    own.szOsFile = (int)sizeof(struct cut_file) + usual->szOsFile;
    own.xOpen = cut_open;
    own.xDelete = cut_delete;
    check(sqlite3_vfs_register(&own, 1) == SQLITE_OK);
}

void cut_disk_kill_at(uint64_t call) {
    steps = 0;
    kill_at = call;
}

void cut_disk_begin(uint64_t call, bool lies) {
    cut_disk_end();
    cut_at = call;
    is_lying = lies;
}

bool cut_disk_is_cut(void) {
    pthread_mutex_lock(&lock);
    bool found = is_cut;
    pthread_mutex_unlock(&lock);
    return found;
}

void cut_disk_end(void) {
    while (file_count > 0)
        drop_file(file_count - 1);
    calls = 0;
    is_cut = false;
}

/* ---- what is left ---- */

struct dice {
    uint64_t state;
    uint32_t keep_of_8; /* eighths: whether a change survives */
};

static uint64_t roll(struct dice *dice) { /* splitmix64 */
    uint64_t z = dice->state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static bool survives(struct dice *dice) {
    return roll(dice) % 8 < dice->keep_of_8;
}

/* Of a sector that lost a change, later ones are lost as well: the disk had an earlier state of
 * it. */
static void apply_write(const struct change *change, struct dice *dice, bool *stopped,
                        unsigned char *image, size_t *bytes) {
    size_t end = change->offset + change->bytes;
    for (size_t at = change->offset, next; at < end; at = next) {
        next = (at / SECTOR + 1) * SECTOR;
        if (next > end) next = end;
        if (!stopped[at / SECTOR]) stopped[at / SECTOR] = !survives(dice);
        if (stopped[at / SECTOR]) continue;
        grow(image, bytes, next);
        memcpy(image + at, change->data + (at - change->offset), next - at);
    }
}

static size_t draw_image(const struct kept *kept, struct dice *dice, unsigned char *image) {
    static bool stopped[FILE_BYTES_MAX / SECTOR];
    size_t bytes = kept->durable_bytes;
    memset(stopped, 0, sizeof stopped);
    if (bytes) memcpy(image, kept->durable, bytes);
    for (const struct change *change = kept->first; change; change = change->next) {
        if (!change->truncates)
            apply_write(change, dice, stopped, image, &bytes);
        else if (change->offset < bytes && survives(dice))
            bytes = change->offset;
    }
    return bytes;
}

static void write_file(const char *folder, const char *path, const void *data, size_t bytes) {
    char name[300];
    snprintf(name, sizeof name, "%s/%s", folder, strrchr(path, '/') + 1);
    FILE *file = fopen(name, "wb");
    check(file && fwrite(data, 1, bytes, file) == bytes && fclose(file) == 0);
}

static void leave_trash(const char *folder, const char *path, struct dice *dice) {
    static uint64_t trash[SHARED_BYTES / 8];
    char name[300];
    for (size_t i = 0; i < sizeof trash / sizeof *trash; i++)
        trash[i] = roll(dice);
    snprintf(name, sizeof name, "%s-shm", path);
    write_file(folder, name, trash, sizeof trash);
}

/* Later files of a name come after earlier ones: one whose name is durable is there for certain. */
static bool is_there(const struct kept *kept, struct dice *dice) {
    if (kept->is_linked && !kept->is_deleted) return true;
    return kept->is_deleted ? kept->is_linked && !survives(dice) : survives(dice);
}

void cut_disk_leave(const char *folder, uint64_t seed) {
    static const uint32_t shares[] = {0, 8, 4, 1, 0, 8, 4, 7};
    static unsigned char image[FILE_BYTES_MAX];
    struct dice dice = {.state = seed, .keep_of_8 = shares[seed % 8]};
    for (uint32_t i = 0; i < file_count; i++) {
        size_t bytes = draw_image(files[i], &dice, image);
        if (!is_there(files[i], &dice)) continue;
        write_file(folder, files[i]->path, image, bytes);
        if (!strstr(files[i]->path, "-wal") && !strstr(files[i]->path, "-journal") && seed % 4 > 1)
            leave_trash(folder, files[i]->path, &dice);
    }
}
