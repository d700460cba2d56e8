/* SPDX-License-Identifier: Apache-2.0
 * Implements the same interface with io_uring and with threads. An operation that ends with an
 * injected fault does not reach the kernel. It goes to the list of operations that threads have
 * ended.
 */
#include "host/storage/kv_files_io.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"

#ifdef FATHOM_URING
#include <liburing.h>
#endif

#define THREADS 8
#define PAGE_BYTES 4096

struct list {
    struct kv_io_op *first, **end;
};

struct kv_io {
    enum kv_io_kind kind;
    uint32_t depth, count;
    int event;
    struct kv_io_faults faults;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool finishing;
    struct list waiting, ended; /* protected by the lock */
    pthread_t threads[THREADS];
    uint32_t thread_count;
#ifdef FATHOM_URING
    struct io_uring ring;
#endif
};

static void list_put(struct list *list, struct kv_io_op *op) {
    op->next = NULL;
    *list->end = op;
    list->end = &op->next;
}

static struct kv_io_op *list_take(struct list *list) {
    struct kv_io_op *op = list->first;
    if (op && !(list->first = op->next)) list->end = &list->first;
    return op;
}

/* Returns the length of the next transfer, or 0 with op->error after an injected fault. */
static size_t kv_files_io_next_bytes(const struct kv_io_faults *faults, struct kv_io_op *op) {
    size_t bytes = op->bytes - op->done;
    if (faults->before) op->error = faults->before(faults->context, op, &bytes);
    return op->error ? 0 : bytes;
}

/* Adds the result of a transfer. Returns true if the operation has ended. The rest of a direct
 * transfer must begin at a page boundary. */
static bool transferred(struct kv_io_op *op, ssize_t result) {
    if (result == -EINTR || result == -EAGAIN) return false;
    if (result < 0) {
        op->error = (int)-result;
        return true;
    }
    op->done += (size_t)result;
    if (op->done >= op->bytes) return true;
    if (result > 0 && op->done % PAGE_BYTES == 0) return false;
    op->error = EIO;
    return true;
}

int kv_files_io_now(const struct kv_io_faults *faults, struct kv_io_op *op) {
    static const struct kv_io_faults none;
    op->done = 0;
    op->error = 0;
    for (;;) {
        size_t bytes = kv_files_io_next_bytes(faults ? faults : &none, op);
        if (op->error) return op->error;
        off_t offset = (off_t)(op->offset + op->done);
        ssize_t result = op->write ? pwrite(op->file, op->memory + op->done, bytes, offset)
                                   : pread(op->file, op->memory + op->done, bytes, offset);
        if (transferred(op, result < 0 ? -errno : result)) return op->error;
    }
}

static void kv_files_io_report(const struct kv_io *io) {
    uint64_t one = 1;
    ssize_t written = write(io->event, &one, sizeof one);
    (void)written; /* fails only if the eventfd is readable already */
}

static void *run_thread(void *context) {
    struct kv_io *io = context;
    pthread_mutex_lock(&io->lock);
    for (;;) {
        struct kv_io_op *op = list_take(&io->waiting);
        if (!op && io->finishing) break;
        if (!op) {
            pthread_cond_wait(&io->wake, &io->lock);
            continue;
        }
        pthread_mutex_unlock(&io->lock);
        kv_files_io_now(&io->faults, op);
        pthread_mutex_lock(&io->lock);
        list_put(&io->ended, op);
        kv_files_io_report(io);
    }
    pthread_mutex_unlock(&io->lock);
    return NULL;
}

static enum status open_threads(struct kv_io *io, struct error *error) {
    for (; io->thread_count < THREADS; io->thread_count++)
        if (pthread_create(&io->threads[io->thread_count], NULL, run_thread, io)) break;
    if (io->thread_count > 0) return STATUS_OK;
    return error_set(error, STATUS_NO_MEMORY, "cannot start a thread for the KV storage");
}

/* ---- io_uring ---- */

#ifdef FATHOM_URING
static enum status open_ring(struct kv_io *io, struct error *error) {
    int result = io_uring_queue_init(io->depth, &io->ring, 0);
    if (result == 0) {
        result = io_uring_register_eventfd(&io->ring, io->event);
        if (result == 0) return STATUS_OK;
        io_uring_queue_exit(&io->ring);
    }
    return error_set(error, STATUS_UNSUPPORTED, "the kernel does not provide io_uring: %s",
                     strerror(-result));
}

static void ring_give(struct kv_io *io, struct kv_io_op *op) {
    size_t bytes = kv_files_io_next_bytes(&io->faults, op);
    if (op->error) {
        pthread_mutex_lock(&io->lock);
        list_put(&io->ended, op);
        pthread_mutex_unlock(&io->lock);
        kv_files_io_report(io);
        return;
    }
    struct io_uring_sqe *entry = io_uring_get_sqe(&io->ring);
    check(entry); /* the ring has `depth` entries, and at most `depth` are in progress */
    char *memory = op->memory + op->done;
    uint64_t offset = op->offset + op->done;
    if (op->write)
        io_uring_prep_write(entry, op->file, memory, (unsigned)bytes, offset);
    else
        io_uring_prep_read(entry, op->file, memory, (unsigned)bytes, offset);
    io_uring_sqe_set_data(entry, op);
}

static struct kv_io_op *ring_take(struct kv_io *io) {
    struct io_uring_cqe *entry;
    while (io_uring_peek_cqe(&io->ring, &entry) == 0) {
        struct kv_io_op *op = io_uring_cqe_get_data(entry);
        ssize_t result = entry->res;
        io_uring_cqe_seen(&io->ring, entry);
        if (transferred(op, result)) return op;
        ring_give(io, op);
        io_uring_submit(&io->ring);
    }
    return NULL;
}
#else
static enum status open_ring(struct kv_io *io, struct error *error) {
    return error_set(error, STATUS_UNSUPPORTED, "this build has no io_uring (liburing)");
}
static void ring_give(struct kv_io *io, struct kv_io_op *op) {
}
static struct kv_io_op *ring_take(struct kv_io *io) {
    return NULL;
}
#endif

/* ---- interface ---- */

enum status kv_files_io_open(enum kv_io_kind kind, uint32_t depth, int event,
                             const struct kv_io_faults *faults, struct kv_io **io_out,
                             struct error *error) {
    struct kv_io *io = calloc(1, sizeof *io);
    if (!io) return error_set(error, STATUS_NO_MEMORY, "no memory for the KV storage");
    io->depth = depth;
    io->event = event;
    if (faults) io->faults = *faults;
    io->waiting.end = &io->waiting.first;
    io->ended.end = &io->ended.first;
    pthread_mutex_init(&io->lock, NULL);
    pthread_cond_init(&io->wake, NULL);
    io->kind = kind == KV_IO_AUTO ? KV_IO_URING : kind;
    enum status status = STATUS_OK;
    if (io->kind == KV_IO_URING) status = open_ring(io, error);
    if (status && kind == KV_IO_AUTO) {
        io->kind = KV_IO_THREADS;
        status = STATUS_OK;
    }
    if (!status && io->kind == KV_IO_THREADS) status = open_threads(io, error);
    if (status) {
        free(io);
        return status;
    }
    *io_out = io;
    return STATUS_OK;
}

void kv_files_io_give(struct kv_io *io, struct kv_io_op *op) {
    check(io->count < io->depth);
    io->count++;
    op->done = 0;
    op->error = 0;
    if (io->kind == KV_IO_URING) {
        ring_give(io, op);
        return;
    }
    pthread_mutex_lock(&io->lock);
    list_put(&io->waiting, op);
    pthread_cond_signal(&io->wake);
    pthread_mutex_unlock(&io->lock);
}

void kv_files_io_start(struct kv_io *io) {
#ifdef FATHOM_URING
    if (io->kind == KV_IO_URING) io_uring_submit(&io->ring);
#endif
}

struct kv_io_op *kv_files_io_take(struct kv_io *io) {
    pthread_mutex_lock(&io->lock);
    struct kv_io_op *op = list_take(&io->ended);
    pthread_mutex_unlock(&io->lock);
    if (!op && io->kind == KV_IO_URING) op = ring_take(io);
    if (op) io->count--;
    return op;
}

const char *kv_files_io_name(const struct kv_io *io) {
    return io->kind == KV_IO_URING ? "io_uring" : "threads";
}

void kv_files_io_close(struct kv_io *io) {
    if (!io) return;
    check(io->count == 0);
    pthread_mutex_lock(&io->lock);
    io->finishing = true;
    pthread_cond_broadcast(&io->wake);
    pthread_mutex_unlock(&io->lock);
    for (uint32_t i = 0; i < io->thread_count; i++)
        pthread_join(io->threads[i], NULL);
#ifdef FATHOM_URING
    if (io->kind == KV_IO_URING) io_uring_queue_exit(&io->ring);
#endif
    pthread_mutex_destroy(&io->lock);
    pthread_cond_destroy(&io->wake);
    free(io);
}
