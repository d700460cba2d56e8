/* SPDX-License-Identifier: Apache-2.0
 * The files in the folder of one block format (serving/cache/store_format.h): finds, opens,
 * creates, reads and removes them. Any number of processes share a folder:
 *
 *   - each process creates its own segments, with random names, and writes only to the one that it
 *     has locked (flock, which ends with the process);
 *   - every process reads all segments; a sidecar only grows, by whole entries at its end;
 *   - a process locks a segment before it removes it; others that have it open can still read it.
 *
 * Users remove and replace files without a lock. If a file of a segment was removed or renamed, the
 * segment is gone: it accepts no more blocks, its names are not touched, and its place in the table
 * stays in use until the last use and the last write have ended. If a sidecar is missing or
 * damaged, the process that gets the segment's lock rewrites it. A missing folder is created again
 * with the next segment. Prompts can be derived from the files, so only their owner can read them
 * (0600, in folders of 0700).
 *
 * Calls block. The backend does asynchronous transfers (host/storage/kv_files_backend.h). Not
 * thread-safe.
 */
#pragma once

#include "host/storage/kv_files_io.h"
#include "serving/cache/store_format.h"

#define KV_SEGMENT_NONE UINT32_MAX

enum kv_slot_state { KV_SLOT_UNKNOWN, KV_SLOT_BLOCK, KV_SLOT_DEAD };

struct kv_segment {
    uint64_t id;
    int data, sidecar; /* data: opened for direct I/O if the file system supports it */
    uint32_t slot_count;
    uint32_t next_slot;     /* the slot after the last one that is known to be in use */
    uint8_t *slots;         /* [slot_count] enum kv_slot_state */
    uint64_t sidecar_bytes; /* read so far */
    uint64_t bytes;         /* of both files */
    uint32_t damaged_entries;
    uint32_t writes; /* number of writes in progress */
    bool stopped;  /* accepts no more blocks: a write failed, or a file was removed or truncated */
    uint32_t uses; /* number of holds (kv_files_use); the files stay open until it is 0 */
    bool active;   /* this process has it locked and writes to it */
    bool locked;   /* by this process */
    bool gone;     /* its files were removed or replaced; closed after the last use */
    int64_t modified_ns;
};

struct kv_files {
    char *path;   /* of the folder */
    int folder;   /* -1: there is no folder at the path */
    bool guarded; /* folder and directory must belong to this user or root */
    struct kv_format format;
    size_t block_bytes, slice_bytes;
    struct kv_io_faults faults;
    struct kv_segment *segments[KV_SEGMENTS_MAX]; /* NULL: free */
    uint32_t segment_count;                       /* all indices in use are below this */
    int64_t scanned_ns;                           /* the folder's mtime at the last scan */
    void *page;                                   /* scratch: one page, page-aligned */
    struct store_entry *entries;                  /* scratch */
};

/* Creates the directory and the folder in it if they are missing. Returns STATUS_INVALID if users
 * other than the owner may write to either (host/process/own_file), now or after a replacement;
 * with `guarded` also if the owner is another user. Only root inspects the storage of another user
 * without `guarded`. */
enum status kv_files_open(struct kv_files *files, const char *directory,
                          const struct kv_format *format, const struct kv_io_faults *faults,
                          bool guarded, struct error *error) MUST_USE;
void kv_files_close(struct kv_files *files);

enum kv_scan {
    KV_SCAN_READ_ONLY, /* changes no file */
    KV_SCAN_REPAIR,    /* rewrites one missing or damaged sidecar */
    KV_SCAN_RECOVER,   /* rewrites all of them, and reads slots after a sidecar's last entry */
};

/* Finds new and removed segments, and reads new entries of sidecars. Files of a segment are not
 * changed while another process writes to it. An active segment is `stopped` if a file was removed
 * or truncated. */
void kv_files_scan(struct kv_files *files, enum kv_scan how,
                   const struct kv_backend_listener *listener);

/* Bytes of all segments. */
uint64_t kv_files_bytes(const struct kv_files *files);

/* Returns an active segment: with `adopt` one that a process left partly filled, if there is one,
 * otherwise a new one of slot_count slots. Creates missing folders. */
enum status kv_files_begin(struct kv_files *files, uint32_t slot_count, bool adopt,
                           uint32_t *segment_out, struct error *error) MUST_USE;

/* Ends an active segment: truncates it after its last block, or removes it if it has none. */
void kv_files_end(struct kv_files *files, uint32_t index);

/* Adds an entry to a sidecar. Returns 0 or an errno (ESTALE: the segment's files were removed). */
int kv_files_note(struct kv_files *files, uint32_t index, const struct store_entry *entry);

/* Removes a segment's files if they exist and no process writes to it. Reads continue until the
 * last use ends. */
bool kv_files_remove(struct kv_files *files, uint32_t index);

/* Adds or removes a use. */
void kv_files_use(struct kv_files *files, uint32_t index);
void kv_files_unuse(struct kv_files *files, uint32_t index);

/* Reads bytes of a slot from an offset; both are multiples of a page. Returns 0 or an errno. */
int kv_files_read(struct kv_files *files, uint32_t index, uint32_t slot, size_t offset,
                  void *memory, size_t bytes);
