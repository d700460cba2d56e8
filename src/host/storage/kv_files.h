/* SPDX-License-Identifier: Apache-2.0
 * The files of one block format's folder (serving/cache/store_format.h): found, opened, made, read
 * back into entries, removed. Any number of processes share a folder:
 *
 *   - each makes segments of its own, named at random, and writes only to the one it holds locked
 *     (flock, which ends with the process);
 *   - all read all; a sidecar only grows, by whole entries written at its end;
 *   - a process locks a segment before it removes it; others that have it open can still read it.
 *
 * People remove and replace files without any lock. A segment with a file that has lost its name
 * is gone: it takes no more blocks, no name is touched for it, and its place
 * in the table stays taken until its last use and its last write have ended. A sidecar that is
 * missing or damaged is rewritten by the process that gets the segment's lock. A missing folder is
 * created again with the next segment. Users' prompts can be derived from the files, so only their
 * owner can read them (0600, in folders of 0700).
 *
 * Calls block; the asynchronous transfers of blocks are the backend's
 * (host/storage/kv_files_backend.h). One thread.
 */
#ifndef HOST_STORAGE_KV_FILES_H
#define HOST_STORAGE_KV_FILES_H

#include "host/storage/kv_files_io.h"
#include "serving/cache/store_format.h"

#define KV_SEGMENT_NONE UINT32_MAX

enum kv_slot_state { KV_SLOT_UNKNOWN, KV_SLOT_BLOCK, KV_SLOT_DEAD };

struct kv_segment {
    uint64_t id;
    int data, sidecar; /* data: direct I/O where the file system has it */
    uint32_t slot_count;
    uint32_t next_slot;     /* behind the last that is known of */
    uint8_t *slots;         /* [slot_count] enum kv_slot_state */
    uint64_t sidecar_bytes; /* read so far */
    uint64_t bytes;         /* of both files */
    uint32_t damaged_entries;
    uint32_t writes; /* under way */
    bool stopped;    /* it takes no more: a write failed, or a file was removed or cut */
    uint32_t uses;   /* by transfers under way; it stays open until there are none */
    bool active;     /* ours, locked: we write to it; it stays open until we end it */
    bool locked;     /* by us */
    bool gone;       /* its files are removed or replaced; closed with its last use */
    int64_t modified_ns;
};

struct kv_files {
    char *path;   /* of the folder */
    int folder;   /* -1: the path leads to none */
    bool guarded; /* it and the directory have to be ours or root's */
    struct kv_format format;
    size_t block_bytes, slice_bytes;
    struct kv_io_faults faults;
    struct kv_segment *segments[KV_SEGMENTS_MAX]; /* NULL: free */
    uint32_t segment_count;                       /* places in use lie below */
    int64_t scanned_ns;                           /* the folder's time of change, when scanned */
    void *page;                                   /* one, aligned */
    struct store_entry *entries;                  /* scratch */
};

/* Makes DIRECTORY and the folder in it if need be. STATUS_INVALID where others than their owner may
 * write to either (host/process/own_file), now or after they were replaced; `guarded`: or where that
 * owner is another user. Only root's look at another user's storage is not guarded. */
enum status kv_files_open(struct kv_files *files, const char *directory,
                          const struct kv_format *format, const struct kv_io_faults *faults,
                          bool guarded, struct error *error) MUST_USE;
void kv_files_close(struct kv_files *files);

enum kv_scan {
    KV_SCAN_LOOK,    /* no file changes */
    KV_SCAN_MEND,    /* one sidecar that is missing or damaged is written anew */
    KV_SCAN_RECOVER, /* all of those; and slots behind a sidecar's last entry are looked at */
};

/* Finds new and removed segments, and reads what is new in sidecars; what changes files leaves
 * segments alone that somebody writes to. An active segment that lost a file, or part of one, is
 * `stopped`. */
void kv_files_scan(struct kv_files *files, enum kv_scan how,
                   const struct kv_backend_listener *listener);

/* Bytes of all segments. */
uint64_t kv_files_bytes(const struct kv_files *files);

/* An active segment: one that a process left unfilled, else a new one of slot_count slots. Makes
 * the folders again if they are gone. */
enum status kv_files_begin(struct kv_files *files, uint32_t slot_count, bool adopt,
                           uint32_t *segment_out, struct error *error) MUST_USE;

/* It takes no more blocks: gives back the room behind its last one (all of it, if there is none).
 */
void kv_files_end(struct kv_files *files, uint32_t index);

/* Adds an entry to a sidecar; 0 or the errno (ESTALE: the segment's files were removed). */
int kv_files_note(struct kv_files *files, uint32_t index, const struct store_entry *entry);

/* Removes a segment's files, if they exist, and if no one writes to it. Reads of it go on until
 * the last use ends. */
bool kv_files_remove(struct kv_files *files, uint32_t index);

/* One use more or less. */
void kv_files_use(struct kv_files *files, uint32_t index);
void kv_files_unuse(struct kv_files *files, uint32_t index);

/* Reads so many bytes of a slot, from `offset` within it on; both whole pages. 0 or the errno. */
int kv_files_read(struct kv_files *files, uint32_t index, uint32_t slot, size_t offset,
                  void *memory, size_t bytes);

#endif
