/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/recording/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "host/process/log/log.h"
#include "host/process/own_file.h"
#include "host/process/recording/recording.h"
#include "host/process/timed_wait.h"

#define BEHIND_BYTES_MAX ((size_t)256 << 20) /* limit of buffers that wait to be written */
#define WRITE_NS ((int64_t)100000000)        /* longest time before a buffer is written */
#define PATH_BYTES 4096

struct piece { /* a buffer of entries: a chunk's payload */
    struct piece *next;
    size_t count, room;
    char *memory;
};

struct recorder {
    struct recorder_options options;
    struct recording_mask mask;
    struct machine inner;
    char path[PATH_BYTES];
    int file;
    uint32_t sequence; /* of the next chunk; used by the thread only */
    uint64_t bytes;    /* written so far; used by the thread only */
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock; /* protects the fields below */
    pthread_cond_t wake;
    struct piece *first, *last; /* the last one is being filled */
    size_t behind_bytes;
    bool ending;
    bool over; /* no further entries */
    enum recording_end end;
};

/* ---- the file ---- */

static bool recorder_write_all(struct recorder *recorder, const void *data, size_t bytes) {
    const char *at = data;
    while (bytes) {
        ssize_t written = write(recorder->file, at, bytes);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        at += written;
        bytes -= (size_t)written;
        recorder->bytes += (size_t)written;
    }
    return true;
}

static bool write_chunk(struct recorder *recorder, enum recording_chunk_kind kind,
                        const void *payload, size_t bytes) {
    struct recording_chunk chunk = recording_chunk_of(kind, recorder->sequence++, payload, bytes);
    return recorder_write_all(recorder, &chunk, sizeof chunk) &&
           recorder_write_all(recorder, payload, bytes);
}

static void free_pieces(struct piece *piece) {
    while (piece) {
        struct piece *next = piece->next;
        free(piece->memory);
        free(piece);
        piece = next;
    }
}

/* ---- the thread ---- */

/* Ends the recording; later calls do nothing. Called with the lock. */
static void end_with(struct recorder *recorder, enum recording_end end) {
    if (recorder->over) return;
    recorder->over = true;
    recorder->end = end;
    if (end != RECORDING_CLOSED)
        log_say(LOG_WARNING, "recording", "ends here path=%s why=%s", recorder->path,
                recording_end_name(end));
}

/* Called without the lock. RECORDING_CLOSED: the recording continues. */
static enum recording_end write_pieces(struct recorder *recorder, const struct piece *first) {
    for (const struct piece *piece = first; piece; piece = piece->next) {
        if (piece->count == 0) continue;
        if (recorder->bytes + piece->count > recorder->options.bytes_max) return RECORDING_FULL;
        if (!write_chunk(recorder, RECORDING_ENTRIES, piece->memory, piece->count))
            return RECORDING_FAILED;
    }
    return RECORDING_CLOSED;
}

static void recorder_wait(struct recorder *recorder) {
    const struct timespec until = timed_wait_deadline(WRITE_NS);
    while (!recorder->ending && recorder->first == recorder->last)
        if (pthread_cond_timedwait(&recorder->wake, &recorder->lock, &until)) return;
}

static void *write_on(void *argument) {
    struct recorder *recorder = argument;
    bool last = false;
    pthread_mutex_lock(&recorder->lock);
    while (!last) {
        recorder_wait(recorder);
        struct piece *pieces = recorder->first;
        last = recorder->ending || recorder->over;
        recorder->first = recorder->last = NULL;
        recorder->behind_bytes = 0;
        pthread_mutex_unlock(&recorder->lock);
        enum recording_end end = write_pieces(recorder, pieces);
        free_pieces(pieces);
        pthread_mutex_lock(&recorder->lock);
        if (end != RECORDING_CLOSED) end_with(recorder, end);
        last |= recorder->over;
    }
    end_with(recorder, RECORDING_CLOSED);
    uint64_t end = recorder->end;
    pthread_mutex_unlock(&recorder->lock);
    if (end != RECORDING_FAILED) write_chunk(recorder, RECORDING_END, &end, sizeof end);
    return NULL;
}

/* ---- entries ---- */

/* Returns room for an entry; NULL: the recording has ended. Called with the lock. */
static char *recorder_take_room(struct recorder *recorder, size_t bytes) {
    struct piece *piece = recorder->last;
    if (recorder->behind_bytes + bytes > BEHIND_BYTES_MAX) end_with(recorder, RECORDING_BEHIND);
    if (recorder->over) return NULL;
    if (!piece || piece->count + bytes > piece->room) {
        piece = malloc(sizeof *piece);
        size_t room = bytes > RECORDING_CHUNK_BYTES ? bytes : RECORDING_CHUNK_BYTES;
        if (piece) *piece = (struct piece){.room = room, .memory = malloc(room)};
        if (!piece || !piece->memory) {
            free(piece);
            end_with(recorder, RECORDING_BEHIND);
            return NULL;
        }
        *(recorder->last ? &recorder->last->next : &recorder->first) = piece;
        recorder->last = piece;
        pthread_cond_signal(&recorder->wake);
    }
    char *room = piece->memory + piece->count;
    piece->count += bytes;
    recorder->behind_bytes += bytes;
    return room;
}

static bool is_masked_request(const struct recorder *recorder, const struct record *given) {
    return recorder->options.is_gateway && given && given->kind == RECORD_CLIENT_REQUEST;
}

static size_t given_bytes(const struct recorder *recorder, const struct record *given) {
    if (is_masked_request(recorder, given))
        return recording_mask_request_bytes((const struct record_client_request *)given);
    return given ? given->bytes : 0;
}

static void copy_given(const struct recorder *recorder, const struct record *given, void *out) {
    const struct recording_mask *mask = &recorder->mask;
    if (is_masked_request(recorder, given)) {
        recording_mask_request(mask, (const struct record_client_request *)given, out);
        return;
    }
    memcpy(out, given, given->bytes);
    if (!recorder->options.is_gateway)
        recording_mask_unit(mask, out);
    else if (given->kind == RECORD_ACCOUNTS)
        recording_mask_keys(mask, out);
}

static void copy_put(const struct recorder *recorder, const struct outbox *outbox, uint32_t before,
                     char *out) {
    size_t bytes = outbox->used - before;
    if (bytes) memcpy(out, outbox->memory + before, bytes);
    for (size_t at = 0; at < bytes;) {
        struct record *record = (struct record *)(void *)(out + at);
        at += record->bytes;
        if (recorder->options.is_gateway)
            recording_mask_put(&recorder->mask, record);
        else
            recording_mask_unit(&recorder->mask, record);
    }
}

static void recorder_note(struct recorder *recorder, enum recording_call call, enum status status,
                          const struct record *given, uint32_t before, int64_t now_ns) {
    const struct outbox *outbox = recorder->inner.outbox;
    struct recording_entry entry = {.call = (uint8_t)call,
                                    .status = (uint8_t)status,
                                    .outbox_before = before,
                                    .given_bytes = (uint32_t)given_bytes(recorder, given),
                                    .now_ns = now_ns};
    entry.bytes = (uint32_t)(sizeof entry + entry.given_bytes + (outbox->used - before));
    pthread_mutex_lock(&recorder->lock);
    char *room = recorder_take_room(recorder, entry.bytes);
    if (room) {
        memcpy(room, &entry, sizeof entry);
        if (given) copy_given(recorder, given, room + sizeof entry);
        copy_put(recorder, outbox, before, room + sizeof entry + entry.given_bytes);
    }
    pthread_mutex_unlock(&recorder->lock);
}

/* ---- the machine ---- */

/* Copies accounts with masked salts, to memory that the caller frees. */
static struct record_accounts *mask_accounts(const struct recorder *recorder,
                                             const struct record *record) {
    struct record_accounts *accounts = malloc(record->bytes);
    check(accounts);
    memcpy(accounts, record, record->bytes);
    recording_mask_salts(&recorder->mask, accounts);
    return accounts;
}

static enum status recorder_receive(void *self, const struct record *record, int64_t now_ns) {
    struct recorder *recorder = self;
    const struct machine *inner = &recorder->inner;
    struct record_accounts *accounts = NULL;
    if (record->kind == RECORD_ACCOUNTS) accounts = mask_accounts(recorder, record);
    if (accounts) record = &accounts->record;
    uint32_t before = inner->outbox->used;
    enum status status = inner->receive(inner->self, record, now_ns);
    recorder_note(recorder, RECORDING_RECEIVE, status, record, before, now_ns);
    free(accounts);
    return status;
}

static void recorder_step(void *self, int64_t now_ns) {
    struct recorder *recorder = self;
    uint32_t before = recorder->inner.outbox->used;
    recorder->inner.step(recorder->inner.self, now_ns);
    recorder_note(recorder, RECORDING_STEP, STATUS_OK, NULL, before, now_ns);
}

static int64_t recorder_next_wake_ns(const void *self) {
    const struct machine *inner = &((const struct recorder *)self)->inner;
    return inner->next_wake_ns(inner->self);
}

struct machine recorder_machine(struct recorder *recorder, const struct machine *machine) {
    recorder->inner = *machine;
    return (struct machine){.self = recorder,
                            .outbox = machine->outbox,
                            .receive = recorder_receive,
                            .step = recorder_step,
                            .next_wake_ns = recorder_next_wake_ns};
}

/* ---- life ---- */

const struct recording_mask *recorder_mask(const struct recorder *recorder) {
    return &recorder->mask;
}

enum status recorder_open(const struct recorder_options *options, struct recorder **recorder_out,
                          struct error *error) {
    uint32_t vocab = options->prompts ? 0 : options->vocab_count;
    uint8_t key[32];
    struct recorder *recorder = calloc(1, sizeof *recorder);
    uint32_t *tokens = malloc((vocab + (size_t)1) * sizeof *tokens);
    if (!recorder || !tokens || getrandom(key, sizeof key, 0) != sizeof key) {
        free(recorder);
        free(tokens);
        return error_set(error, STATUS_NO_MEMORY, "no memory, or no random bits, for --record");
    }
    recorder->options = *options;
    recorder->file = -1;
    recording_mask_open(&recorder->mask, key, tokens, vocab);
    if (!recorder->mask.tokens) free(tokens);
    pthread_mutex_init(&recorder->lock, NULL);
    timed_wait_open(&recorder->wake);
    *recorder_out = recorder;
    return STATUS_OK;
}

static enum status cannot(const struct recorder *recorder, const char *what, struct error *error) {
    return error_set(error, STATUS_IO, "--record: cannot %s %s: %s", what, recorder->path,
                     own_file_why(errno));
}

static bool recorder_write_start(struct recorder *recorder, struct bytes head) {
    size_t bytes = round_up(head.count + 1, 8);
    char *padded = calloc(1, bytes);
    if (!padded) return false;
    memcpy(padded, head.data, head.count);
    struct recording_start start = {
        .magic = {0}, .version = RECORDING_VERSION, .record_version = RECORD_VERSION};
    memcpy(start.magic, RECORDING_MAGIC, sizeof start.magic);
    bool written = recorder_write_all(recorder, &start, sizeof start) &&
                   write_chunk(recorder, RECORDING_HEAD, padded, bytes);
    free(padded);
    return written;
}

/* Creates the folder if it is missing. The operator's name for it may be a link. */
static enum status recorder_open_file(struct recorder *recorder, struct error *error) {
    const char *directory = recorder->options.directory;
    struct error why;
    if (mkdir(directory, 0700) && errno != EEXIST) return cannot(recorder, "make", error);
    int folder = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return cannot(recorder, "open the folder of", error);
    enum status status = own_file_check_folder(folder, directory, &why);
    if (status) {
        status = error_set(error, status, "--record: %.600s", why.text);
    } else {
        recorder->file = own_file_openat(folder, strrchr(recorder->path, '/') + 1,
                                         O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (recorder->file < 0) status = cannot(recorder, "open", error);
    }
    close(folder);
    return status;
}

enum status recorder_start(struct recorder *recorder, struct bytes head, struct error *error) {
    const struct recorder_options *options = &recorder->options;
    int length = snprintf(recorder->path, PATH_BYTES, "%s/%s-%ld.rec", options->directory,
                          options->name, (long)getpid());
    if (length < 0 || length >= PATH_BYTES)
        return error_set(error, STATUS_INVALID, "--record: the folder's name is too long");
    enum status status = recorder_open_file(recorder, error);
    if (status) return status;
    if (!recorder_write_start(recorder, head)) return cannot(recorder, "write", error);
    if (pthread_create(&recorder->thread, NULL, write_on, recorder))
        return error_set(error, STATUS_NO_MEMORY, "--record: cannot start a thread");
    recorder->has_thread = true;
    return STATUS_OK;
}

void recorder_close(struct recorder *recorder) {
    if (!recorder) return;
    pthread_mutex_lock(&recorder->lock);
    recorder->ending = true;
    pthread_cond_signal(&recorder->wake);
    pthread_mutex_unlock(&recorder->lock);
    if (recorder->has_thread) pthread_join(recorder->thread, NULL);
    free_pieces(recorder->first);
    if (recorder->file >= 0) close(recorder->file);
    pthread_mutex_destroy(&recorder->lock);
    pthread_cond_destroy(&recorder->wake);
    free(recorder->mask.tokens);
    free(recorder);
}
