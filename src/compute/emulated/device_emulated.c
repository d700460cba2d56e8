/* SPDX-License-Identifier: Apache-2.0
 * Finds faults of an engine's host part without a GPU.
 * Work is queued in its stream until a caller waits for it, or until the dice release it; then
 * streams run in an order drawn from the seed, as far as events allow. Device memory is mapped
 * between guard pages. After one in eight runs of work it is inaccessible until the next run, so a
 * host that reads a device pointer crashes soon. A kernel's arguments must be device memory. New
 * memory holds 0xFF, which is NaN in every float format. A copy runs in two steps: first its target
 * holds 0xFF, later the bytes. A copy to the host spoils its target when it is queued. A copy from
 * the host records a checksum of the source, which must match when it runs. The clock counts
 * operations that have run. Shared memory is an anonymous file that other processes map.
 *
 * A group of transfers at its stream's head waits until each peer has queued its part. Its messages
 * move in pieces, in a drawn order, interleaved with other streams' work (device_mailboxes.h). A
 * GPU does so while the host does something else, so a thread runs queued work while transfers are
 * queued.
 */
#include "compute/emulated/device_emulated.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/shared_file.h"
#include "compute/emulated/device_mailboxes.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define POISON 0xFF
#define CANARY 0xC5
#define MEMORY_ALIGN 256
#define POISONED_BYTES_MAX ((size_t)256 << 20) /* larger memory is not all used, and stays empty */
#define EAGER_OUT_OF 32                        /* 1 in EAGER_OUT_OF calls runs some work at once */
#define OPERATION_S 1e-6                       /* how long each operation takes by its clock */
#define CLOSED_OUT_OF 8 /* changing the protection takes time, so not after every run */

struct allocation {
    char *memory; /* [bytes], followed by a canary up to `end`, where a guard page begins */
    size_t bytes;
    char *mapping, *end;
    const char *what;
    enum device_memory kind;
    bool pinned, gone, borrowed; /* mapped: another process's */
    struct shared_file file;     /* of this device's shared memory */
};

/* The contents of a handle: the file, its size, and where in it the memory begins. */
struct shared_memory {
    struct shared_file file;
    uint64_t mapped, bytes, at;
};

enum operation_kind {
    OPERATION_COPY_BEGIN,
    OPERATION_COPY_END,
    OPERATION_FILL,
    OPERATION_LAUNCH,
    OPERATION_RECORD,
    OPERATION_FOLLOW,
    OPERATION_GRAPH,
    OPERATION_TRANSFER
};

struct operation {
    enum operation_kind kind;
    struct operation *next;
    struct device_stream *stream; /* in a graph: of the capture */
    struct device_copy copy;
    uint64_t checksum; /* of what a copy from the host read */
    uint8_t fill;
    const struct device_kernel *kernel;
    struct device_event *event;
    uint64_t version; /* of the event */
    struct device_graph *graph;
    struct device_comm *comm; /* of a transfer; NULL: it was closed */
    struct device_group *group;
    uint32_t awaits; /* in a graph, a follow: 1 + index of the record; 0: it is outside */
    bool done;       /* in a graph, in this run */
    size_t argument_bytes;
    _Alignas(16) char arguments[DEVICE_ARGUMENT_BYTES];
};

struct device_stream {
    struct device_stream *next;
    struct operation *first, *last;
    struct device_graph *capture; /* NULL: work goes in line */
};

struct device_event {
    uint64_t recorded, passed;
    struct device_graph *capture; /* of its last record, if that was captured */
    uint32_t record;              /* 1 + index in that capture */
    bool timed;
    uint64_t at; /* number of operations that had run when it was last done */
};

struct device_graph {
    struct operation **operations;
    uint32_t count, capacity;
};

struct emulated {
    struct device device;
    struct device_emulation emulation;
    pthread_mutex_t lock;
    uint64_t dice;
    struct device_stream *streams;
    struct allocation *allocations;
    uint32_t allocation_count, allocation_capacity;
    uint32_t events, graphs, pending; /* events and graphs that are open; operations in line */
    uint64_t used_bytes, ran;         /* ran: operations, its clock */
    bool open;                        /* device memory is accessible */
    uint32_t links, transfers;        /* open communicators; enqueued groups */
    pthread_t thread;                 /* while there are communicators */
    pthread_cond_t asked;             /* a group is enqueued, or the last communicator is closed */
};

static struct emulated *emulated_of(struct device *device) {
    return (struct emulated *)(void *)device;
}

static void device_emulated_report(struct emulated *emulated, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void device_emulated_report(struct emulated *emulated, const char *format, ...) {
    struct error text;
    va_list arguments;
    va_start(arguments, format);
    format_va(text.text, sizeof text.text, format, arguments);
    va_end(arguments);
    if (!emulated->emulation.report) check_failed(text.text, "emulated device", 0);
    emulated->emulation.report(emulated->emulation.context, text.text);
}

static uint32_t device_emulated_draw(struct emulated *emulated, uint32_t below) {
    emulated->dice = emulated->dice * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((emulated->dice >> 33) % below);
}

/* ---- memory ---- */

static struct allocation *find(struct emulated *emulated, const void *memory) {
    const char *at = memory;
    for (uint32_t i = emulated->allocation_count; i-- > 0;) {
        struct allocation *allocation = &emulated->allocations[i];
        if (at >= allocation->memory && at < allocation->end) return allocation;
    }
    return NULL;
}

/* Whether [memory, memory + bytes) is of one allocation of the kind, and reports why not. */
static bool device_emulated_lies_in(struct emulated *emulated, const void *memory, size_t bytes,
                                    bool pinned, const char *what) {
    const struct allocation *allocation = find(emulated, memory);
    if (!allocation || allocation->pinned != pinned)
        device_emulated_report(emulated, "%s: expected %s, found an address that is none", what,
                               pinned ? "page-locked memory" : "device memory");
    else if (allocation->gone)
        device_emulated_report(emulated, "%s: %s was released", what, allocation->what);
    else if ((size_t)((const char *)memory - allocation->memory) > allocation->bytes ||
             bytes > allocation->bytes - (size_t)((const char *)memory - allocation->memory))
        device_emulated_report(emulated, "%s: %zu bytes reach beyond the end of %s", what, bytes,
                               allocation->what);
    else
        return true;
    return false;
}

/* While it is closed the host cannot access device memory. */
static void open_memory(struct emulated *emulated, bool open) {
    if (open == emulated->open) return;
    emulated->open = open;
    for (uint32_t i = 0; i < emulated->allocation_count; i++) {
        const struct allocation *of = &emulated->allocations[i];
        if (of->pinned || of->gone) continue;
        int failed = mprotect(of->mapping, (size_t)(of->end - of->mapping),
                              open ? PROT_READ | PROT_WRITE : PROT_NONE);
        check(!failed);
    }
}

/* Room for one more in the list. */
static bool grow(struct emulated *emulated) {
    if (emulated->allocation_count < emulated->allocation_capacity) return true;
    uint32_t capacity = 2 * emulated->allocation_capacity + 16;
    void *more = realloc(emulated->allocations, capacity * sizeof *emulated->allocations);
    if (!more) return false;
    emulated->allocations = more;
    emulated->allocation_capacity = capacity;
    return true;
}

/* Maps addresses followed by a guard page; with a file, its first `mapped` bytes. */
static char *map_room(size_t mapped, int file) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *mapping =
        mmap(NULL, mapped + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED || file < 0) return mapping;
    return mmap(mapping, mapped, PROT_NONE, MAP_SHARED | MAP_FIXED, file, 0);
}

static enum status allocate(struct device *device, size_t bytes, const char *what,
                            enum device_memory kind, void **memory_out, struct error *error) {
    struct emulated *emulated = emulated_of(device);
    bool pinned = kind == DEVICE_PINNED;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = round_up(bytes + 1, MEMORY_ALIGN);
    size_t mapped = round_up(room, page);
    pthread_mutex_lock(&emulated->lock);
    bool fits = pinned || emulated->used_bytes + mapped <= emulated->emulation.memory_bytes;
    struct shared_file where = {0};
    int file = fits && kind == DEVICE_SHARED ? shared_file_create(mapped, &where) : -1;
    check(file >= 0 || !fits || kind != DEVICE_SHARED);
    char *mapping = fits && grow(emulated) ? map_room(mapped, file) : MAP_FAILED;
    if (mapping == MAP_FAILED) {
        if (file >= 0) close(file);
        pthread_mutex_unlock(&emulated->lock);
        return error_set(error, STATUS_NO_MEMORY,
                         "the emulated device has no %zu bytes for %s: %llu of %llu are in use",
                         bytes, what, (unsigned long long)emulated->used_bytes,
                         (unsigned long long)emulated->emulation.memory_bytes);
    }
    struct allocation *of = &emulated->allocations[emulated->allocation_count++];
    *of = (struct allocation){.memory = mapping + mapped - room,
                              .bytes = bytes,
                              .mapping = mapping,
                              .end = mapping + mapped,
                              .what = what,
                              .kind = kind,
                              .pinned = pinned,
                              .file = where};
    int failed = mprotect(mapping, mapped, PROT_READ | PROT_WRITE);
    check(!failed);
    if (bytes <= POISONED_BYTES_MAX) memset(of->memory, POISON, bytes);
    memset(of->memory + bytes, CANARY, room - bytes);
    if (!pinned) {
        const struct device_watch *watch = emulated->emulation.watch;
        if (watch) watch->added(of->memory, bytes, what);
        emulated->used_bytes += mapped;
        failed = emulated->open ? 0 : mprotect(mapping, mapped, PROT_NONE);
        check(!failed);
    }
    *memory_out = of->memory;
    pthread_mutex_unlock(&emulated->lock);
    return STATUS_OK;
}

/* Releases memory. Its addresses are never reused, and every access fails. */
static void device_emulated_drop(struct emulated *emulated, struct allocation *of) {
    const struct device_watch *watch = emulated->emulation.watch;
    size_t mapped = (size_t)(of->end - of->mapping);
    of->gone = true;
    if (watch && !of->pinned) watch->dropped(of->memory);
    madvise(of->mapping, mapped, MADV_DONTNEED);
    int failed = mprotect(of->mapping, mapped, PROT_NONE);
    check(!failed);
    if (of->file.name) close((int)of->file.file);
    of->file.name = 0;
}

static void device_emulated_release(struct device *device, void *memory) {
    struct emulated *emulated = emulated_of(device);
    pthread_mutex_lock(&emulated->lock);
    struct allocation *of = find(emulated, memory);
    if (!of || of->memory != memory) {
        device_emulated_report(emulated, "release of an address that was never given out");
    } else if (of->borrowed) {
        device_emulated_report(emulated, "release of %s, which is another device's", of->what);
    } else if (of->gone) {
        device_emulated_report(emulated, "release of %s, which was released", of->what);
    } else {
        size_t mapped = (size_t)(of->end - of->mapping);
        if (emulated->pending)
            device_emulated_report(emulated, "release of %s while work is in line", of->what);
        int failed = mprotect(of->mapping, mapped, PROT_READ);
        check(!failed);
        for (const char *at = of->memory + of->bytes; at < of->end; at++)
            if ((uint8_t)*at != CANARY) {
                device_emulated_report(emulated, "%s was written to beyond its end", of->what);
                break;
            }
        if (!of->pinned) emulated->used_bytes -= mapped;
        device_emulated_drop(emulated, of);
    }
    pthread_mutex_unlock(&emulated->lock);
}

/* ---- memory of other processes ---- */

static enum status device_emulated_share(struct device *device, void *memory,
                                         struct device_handle *handle_out, struct error *error) {
    struct emulated *emulated = emulated_of(device);
    pthread_mutex_lock(&emulated->lock);
    const struct allocation *of = find(emulated, memory);
    bool shared = of && of->memory == memory && !of->gone && of->kind == DEVICE_SHARED;
    if (shared) {
        struct shared_memory is = {of->file, (uint64_t)(of->end - of->mapping), of->bytes,
                                   (uint64_t)(of->memory - of->mapping)};
        *handle_out = (struct device_handle){{0}};
        memcpy(handle_out, &is, sizeof is);
    } else {
        device_emulated_report(emulated, "a handle of memory that is not shared");
    }
    pthread_mutex_unlock(&emulated->lock);
    return shared ? STATUS_OK : error_set(error, STATUS_INVALID, "the memory is not shared");
}

static enum status device_emulated_map(struct device *device, const struct device_handle *handle,
                                       const char *what, void **memory_out, struct error *error) {
    struct emulated *emulated = emulated_of(device);
    struct shared_memory is;
    memcpy(&is, handle, sizeof is);
    int file = shared_file_open(&is.file, is.mapped);
    pthread_mutex_lock(&emulated->lock);
    char *mapping = file >= 0 && grow(emulated) ? map_room(is.mapped, file) : MAP_FAILED;
    if (mapping != MAP_FAILED) {
        struct allocation *of = &emulated->allocations[emulated->allocation_count++];
        *of = (struct allocation){.memory = mapping + is.at,
                                  .bytes = is.bytes,
                                  .mapping = mapping,
                                  .end = mapping + is.mapped,
                                  .what = what,
                                  .kind = DEVICE_SHARED,
                                  .borrowed = true};
        int failed = emulated->open ? mprotect(mapping, is.mapped, PROT_READ | PROT_WRITE) : 0;
        check(!failed);
        const struct device_watch *watch = emulated->emulation.watch;
        if (watch) watch->added(of->memory, of->bytes, what);
        *memory_out = of->memory;
    }
    pthread_mutex_unlock(&emulated->lock);
    if (file >= 0) close(file);
    if (mapping != MAP_FAILED) return STATUS_OK;
    return error_set(error, STATUS_IO, "%s cannot be mapped: its process has ended", what);
}

static void device_emulated_unmap(struct device *device, void *memory) {
    struct emulated *emulated = emulated_of(device);
    pthread_mutex_lock(&emulated->lock);
    struct allocation *of = find(emulated, memory);
    if (!of || of->memory != memory || !of->borrowed || of->gone) {
        device_emulated_report(emulated, "an address is unmapped that was not mapped");
    } else {
        if (emulated->pending)
            device_emulated_report(emulated, "%s is unmapped while work is in line", of->what);
        device_emulated_drop(emulated, of);
    }
    pthread_mutex_unlock(&emulated->lock);
}

/* ---- work ---- */

static uint64_t device_emulated_checksum_of(const struct device_copy *copy) {
    uint64_t sum = 0;
    for (size_t row = 0; row < copy->row_count; row++)
        sum = hash_bytes(sum, (const char *)copy->from + row * copy->from_pitch, copy->row_bytes);
    return sum;
}

static bool copy_lies_in(struct emulated *emulated, const struct device_copy *copy) {
    size_t to = (copy->row_count - 1) * copy->to_pitch + copy->row_bytes;
    size_t from = (copy->row_count - 1) * copy->from_pitch + copy->row_bytes;
    return device_emulated_lies_in(emulated, copy->to, to, copy->direction == DEVICE_TO_HOST,
                                   "target of a copy") &&
           device_emulated_lies_in(emulated, copy->from, from, copy->direction == DEVICE_FROM_HOST,
                                   "source of a copy");
}

static void spoil(const struct device_copy *copy) {
    for (size_t row = 0; row < copy->row_count; row++)
        memset((char *)copy->to + row * copy->to_pitch, POISON, copy->row_bytes);
}

static void run_copy(struct emulated *emulated, const struct operation *operation, bool end) {
    const struct device_copy *copy = &operation->copy;
    if (!copy_lies_in(emulated, copy)) return;
    if (!end) {
        if (copy->direction != DEVICE_WITHIN) spoil(copy);
        return;
    }
    if (copy->direction == DEVICE_FROM_HOST &&
        operation->checksum != device_emulated_checksum_of(copy))
        device_emulated_report(emulated,
                               "the source of a copy from the host changed before it was read");
    for (size_t row = 0; row < copy->row_count; row++)
        memmove((char *)copy->to + row * copy->to_pitch,
                (const char *)copy->from + row * copy->from_pitch, copy->row_bytes);
}

static void run_kernel(struct emulated *emulated, const struct operation *operation) {
    const void *const *pointers = (const void *const *)(const void *)operation->arguments;
    for (uint32_t i = 0; i < operation->kernel->pointers; i++) {
        char what[96];
        if (!pointers[i]) continue;
        format_text(what, sizeof what, "pointer %u of kernel %s", i, operation->kernel->name);
        if (!device_emulated_lies_in(emulated, pointers[i], 0, false, what)) return;
    }
    operation->kernel->start(operation->arguments, NULL);
}

/* ---- transfers ---- */

static bool device_emulated_is_over(const struct operation *operation) {
    return !operation->comm || device_mailboxes_group_is_over(operation->group);
}

static bool may_transfer(const struct operation *operation) {
    return !operation->comm || device_mailboxes_group_may_move(operation->comm, operation->group);
}

/* Moves a piece of one of its messages. */
static void device_emulated_run_transfer(struct emulated *emulated, struct operation *operation) {
    struct device_group *group = operation->group;
    struct device_message *message = device_mailboxes_group_next(
        operation->comm, group, device_emulated_draw(emulated, group->count));
    message->is_over =
        !device_emulated_lies_in(emulated, message->memory, message->bytes, false, "a transfer");
    if (message->is_over || device_mailboxes_move(operation->comm, message)) return;
    device_emulated_report(emulated,
                           "a transfer of %zu bytes from device %u is of another size there",
                           message->bytes, message->peer);
    message->is_over = true;
}

static void device_emulated_end_transfer(struct emulated *emulated, struct operation *operation) {
    emulated->transfers--;
    device_mailboxes_group_close(operation->comm, operation->group);
}

static void run_graph(struct emulated *emulated, const struct device_graph *graph);

static void run_operation(struct emulated *emulated, const struct operation *operation) {
    switch (operation->kind) {
    case OPERATION_COPY_BEGIN:
    case OPERATION_COPY_END:
        run_copy(emulated, operation, operation->kind == OPERATION_COPY_END);
        break;
    case OPERATION_FILL:
        if (device_emulated_lies_in(emulated, operation->copy.to, operation->copy.row_bytes, false,
                                    "a fill"))
            memset(operation->copy.to, operation->fill, operation->copy.row_bytes);
        break;
    case OPERATION_LAUNCH:
        run_kernel(emulated, operation);
        break;
    case OPERATION_RECORD:
        if (operation->event->passed < operation->version)
            operation->event->passed = operation->version;
        operation->event->at = emulated->ran;
        break;
    case OPERATION_FOLLOW:
    case OPERATION_TRANSFER: /* run_one runs it, step by step */
        break;
    case OPERATION_GRAPH:
        run_graph(emulated, operation->graph);
        break;
    }
}

/* Whether an operation of a graph may run: the one before it of its stream has, and its event. */
static bool may_run(const struct device_graph *graph, uint32_t index) {
    const struct operation *operation = graph->operations[index];
    if (operation->done) return false;
    if (operation->awaits && !graph->operations[operation->awaits - 1]->done) return false;
    for (uint32_t i = index; i-- > 0;)
        if (graph->operations[i]->stream == operation->stream) return graph->operations[i]->done;
    return true;
}

static void run_graph(struct emulated *emulated, const struct device_graph *graph) {
    for (uint32_t i = 0; i < graph->count; i++)
        graph->operations[i]->done = false;
    for (uint32_t left = graph->count; left > 0; left--) {
        uint32_t index = device_emulated_draw(emulated, graph->count);
        while (!may_run(graph, index))
            index = (index + 1) % graph->count;
        if (graph->operations[index]->kind != OPERATION_RECORD)
            run_operation(emulated, graph->operations[index]);
        graph->operations[index]->done = true;
    }
}

static bool is_ready(const struct device_stream *stream) {
    const struct operation *first = stream->first;
    if (!first) return false;
    if (first->kind == OPERATION_TRANSFER) return may_transfer(first);
    return first->kind != OPERATION_FOLLOW || first->event->passed >= first->version;
}

/* Runs the next operation of some stream. False: none can run. */
static bool device_emulated_run_one(struct emulated *emulated) {
    uint32_t ready = 0;
    struct device_stream *stream;
    for (stream = emulated->streams; stream; stream = stream->next)
        ready += is_ready(stream);
    if (!ready) return false;
    uint32_t chosen = device_emulated_draw(emulated, ready);
    for (stream = emulated->streams; stream; stream = stream->next)
        if (is_ready(stream) && chosen-- == 0) break;
    check(stream); /* other processes make more streams ready, never fewer */
    struct operation *operation = stream->first;
    if (operation->kind == OPERATION_TRANSFER) {
        if (!device_emulated_is_over(operation)) device_emulated_run_transfer(emulated, operation);
        if (!device_emulated_is_over(operation)) return true;
        device_emulated_end_transfer(emulated, operation);
    }
    stream->first = operation->next;
    if (!stream->first) stream->last = NULL;
    emulated->pending--;
    emulated->ran++;
    run_operation(emulated, operation);
    free(operation);
    return true;
}

/* Others may call meanwhile. */
static void device_emulated_nap(struct emulated *emulated) {
    pthread_mutex_unlock(&emulated->lock);
    device_mailboxes_rest();
    pthread_mutex_lock(&emulated->lock);
}

/* Runs operations until `done` says so, or `most` of them. */
static void run_until(struct emulated *emulated, bool (*done)(const void *), const void *context,
                      uint32_t most) {
    if (done(context) || !emulated->pending) return;
    open_memory(emulated, true);
    while (!done(context) && most-- > 0)
        if (!device_emulated_run_one(emulated)) {
            if (most < UINT32_MAX / 2) break; /* only some were to run */
            if (emulated->transfers) {        /* peers have not come yet */
                device_emulated_nap(emulated);
                open_memory(emulated, true);
                continue;
            }
            device_emulated_report(emulated,
                                   "what is waited for never comes: streams wait for one another");
            break;
        }
    if (device_emulated_draw(emulated, CLOSED_OUT_OF) == 0) open_memory(emulated, false);
}

static bool never(const void *context) {
    return false;
}

static struct operation *new_operation(struct emulated *emulated, enum operation_kind kind) {
    struct operation *operation = calloc(1, sizeof *operation);
    check(operation); /* some hundred bytes */
    operation->kind = kind;
    return operation;
}

static void add_captured(struct device_graph *graph, struct operation *operation) {
    if (graph->count == graph->capacity) {
        graph->capacity = 2 * graph->capacity + 64;
        graph->operations =
            realloc(graph->operations, graph->capacity * sizeof(struct operation *));
        check(graph->operations);
    }
    graph->operations[graph->count++] = operation;
}

static void add(struct emulated *emulated, struct device_stream *stream,
                struct operation *operation) {
    operation->stream = stream;
    if (stream->capture) {
        add_captured(stream->capture, operation);
        return;
    }
    if (stream->last)
        stream->last->next = operation;
    else
        stream->first = operation;
    stream->last = operation;
    emulated->pending++;
}

/* Runs some work at once, in one of many calls. */
static void perhaps_run(struct emulated *emulated) {
    if (device_emulated_draw(emulated, EAGER_OUT_OF) == 0)
        run_until(emulated, never, NULL, 1 + device_emulated_draw(emulated, 2 * EAGER_OUT_OF));
}

static void device_emulated_copy(struct device *device, struct device_stream *stream,
                                 const struct device_copy *copy) {
    struct emulated *emulated = emulated_of(device);
    pthread_mutex_lock(&emulated->lock);
    if (copy_lies_in(emulated, copy)) {
        uint64_t checksum = copy->direction == DEVICE_FROM_HOST && !stream->capture
                                ? device_emulated_checksum_of(copy)
                                : 0;
        if (copy->direction == DEVICE_TO_HOST) spoil(copy);
        for (int end = 0; end < 2; end++) {
            struct operation *operation =
                new_operation(emulated, end ? OPERATION_COPY_END : OPERATION_COPY_BEGIN);
            operation->copy = *copy;
            operation->checksum = checksum;
            add(emulated, stream, operation);
        }
        perhaps_run(emulated);
    }
    pthread_mutex_unlock(&emulated->lock);
}

static void fill(struct device *device, struct device_stream *stream, void *memory, uint8_t value,
                 size_t bytes) {
    struct emulated *emulated = emulated_of(device);
    pthread_mutex_lock(&emulated->lock);
    struct operation *operation = new_operation(emulated, OPERATION_FILL);
    operation->copy = (struct device_copy){.to = memory, .row_bytes = bytes};
    operation->fill = value;
    add(emulated, stream, operation);
    perhaps_run(emulated);
    pthread_mutex_unlock(&emulated->lock);
}

static void device_emulated_launch(struct device *device, struct device_stream *stream,
                                   const struct device_kernel *kernel, const void *arguments,
                                   size_t bytes) {
    struct emulated *emulated = emulated_of(device);
    check(bytes <= DEVICE_ARGUMENT_BYTES && kernel->pointers * sizeof(void *) <= bytes);
    pthread_mutex_lock(&emulated->lock);
    struct operation *operation = new_operation(emulated, OPERATION_LAUNCH);
    operation->kernel = kernel;
    operation->argument_bytes = bytes;
    memcpy(operation->arguments, arguments, bytes);
    add(emulated, stream, operation);
    perhaps_run(emulated);
    pthread_mutex_unlock(&emulated->lock);
}

/* ---- events ---- */

static void record(struct device *device, struct device_event *event,
                   struct device_stream *stream) {
    struct emulated *emulated = emulated_of(device);
    pthread_mutex_lock(&emulated->lock);
    struct operation *operation = new_operation(emulated, OPERATION_RECORD);
    operation->event = event;
    event->capture = stream->capture;
    if (stream->capture)
        event->record = stream->capture->count + 1;
    else
        operation->version = ++event->recorded;
    add(emulated, stream, operation);
    pthread_mutex_unlock(&emulated->lock);
}

static void device_emulated_stream_wait_event(struct device *device, struct device_stream *stream,
                                              struct device_event *event) {
    struct emulated *emulated = emulated_of(device);
    pthread_mutex_lock(&emulated->lock);
    struct operation *operation = new_operation(emulated, OPERATION_FOLLOW);
    operation->event = event;
    if (event->capture && !stream->capture && !stream->first) stream->capture = event->capture;
    if (event->capture != stream->capture)
        device_emulated_report(emulated, "a stream follows an event from outside its capture");
    if (stream->capture)
        operation->awaits = event->record;
    else
        operation->version = event->recorded;
    add(emulated, stream, operation);
    pthread_mutex_unlock(&emulated->lock);
}

static bool has_passed(const void *context) {
    const struct device_event *event = context;
    return event->passed >= event->recorded;
}

static bool passed(struct device *device, struct device_event *event) {
    struct emulated *emulated = emulated_of(device);
    pthread_mutex_lock(&emulated->lock);
    perhaps_run(emulated);
    bool result = has_passed(event);
    pthread_mutex_unlock(&emulated->lock);
    return result;
}

static double seconds(struct device *device, struct device_event *from, struct device_event *to) {
    struct emulated *emulated = emulated_of(device);
    pthread_mutex_lock(&emulated->lock);
    if (!from->timed || !to->timed)
        device_emulated_report(emulated, "an event that notes no time is asked for it");
    if (!has_passed(from) || !has_passed(to))
        device_emulated_report(emulated, "an event is asked for its time before it has passed");
    double between = (double)(to->at - from->at) * OPERATION_S;
    pthread_mutex_unlock(&emulated->lock);
    return between;
}

static enum status device_emulated_synchronize_event(struct device *device,
                                                     struct device_event *event,
                                                     struct error *error) {
    struct emulated *emulated = emulated_of(device);
    pthread_mutex_lock(&emulated->lock);
    run_until(emulated, has_passed, event, UINT32_MAX);
    pthread_mutex_unlock(&emulated->lock);
    return STATUS_OK;
}

static bool device_emulated_is_empty(const void *context) {
    const struct device_stream *stream = context;
    return !stream->first;
}

static enum status wait_stream(struct device *device, struct device_stream *stream,
                               struct error *error) {
    struct emulated *emulated = emulated_of(device);
    pthread_mutex_lock(&emulated->lock);
    if (stream->capture)
        device_emulated_report(emulated, "the host waits for a stream that is captured");
    run_until(emulated, device_emulated_is_empty, stream, UINT32_MAX);
    pthread_mutex_unlock(&emulated->lock);
    return STATUS_OK;
}

/* ---- communicators ---- */

static enum status load_comm(struct device *device, struct error *error) {
    return STATUS_OK;
}

static enum status make_comm_id(struct device *device, uint32_t count,
                                struct device_comm_id *id_out, struct error *error) {
    return device_mailboxes_name(count, id_out, error);
}

/* Runs enqueued work while peers may wait for it. */
static void *run_transfers(void *context) {
    struct emulated *emulated = context;
    pthread_mutex_lock(&emulated->lock);
    while (emulated->links) {
        if (emulated->transfers) {
            run_until(emulated, never, NULL, 1 + device_emulated_draw(emulated, EAGER_OUT_OF));
            device_emulated_nap(emulated);
        } else {
            pthread_cond_wait(&emulated->asked, &emulated->lock);
        }
    }
    pthread_mutex_unlock(&emulated->lock);
    return NULL;
}

static enum status device_emulated_open_comm(struct device *device, const struct device_comm_id *id,
                                             uint32_t count, uint32_t own,
                                             struct device_comm **comm_out, struct error *error) {
    struct emulated *emulated = emulated_of(device);
    enum status status = device_mailboxes_open(id, count, own, comm_out, error);
    if (status != STATUS_OK) return status;
    pthread_mutex_lock(&emulated->lock);
    if (emulated->links++ == 0) {
        int failed = pthread_create(&emulated->thread, NULL, run_transfers, emulated);
        check(!failed);
    }
    pthread_mutex_unlock(&emulated->lock);
    return STATUS_OK;
}

/* Ends its groups; memory for what they should have received stays invalid. */
static void device_emulated_close_comm(struct device *device, struct device_comm *comm) {
    struct emulated *emulated = emulated_of(device);
    pthread_mutex_lock(&emulated->lock);
    for (struct device_stream *stream = emulated->streams; stream; stream = stream->next)
        for (struct operation *at = stream->first; at; at = at->next)
            if (at->comm == comm) at->comm = NULL;
    bool last = --emulated->links == 0;
    pthread_cond_broadcast(&emulated->asked);
    pthread_mutex_unlock(&emulated->lock);
    if (last) pthread_join(emulated->thread, NULL);
    device_mailboxes_close(comm);
}

static enum status comm_ready(struct device *device, struct device_comm *comm, bool *ready_out,
                              struct error *error) {
    *ready_out = device_mailboxes_is_whole(comm);
    return STATUS_OK;
}

static void transfer(struct device *device, struct device_stream *stream, struct device_comm *comm,
                     const struct device_transfer *list, uint32_t count) {
    struct emulated *emulated = emulated_of(device);
    pthread_mutex_lock(&emulated->lock);
    const char *fault =
        stream->capture ? "in a capture" : device_mailboxes_fault(comm, list, count);
    if (fault) {
        device_emulated_report(emulated, "a transfer %s", fault);
    } else {
        struct operation *operation = new_operation(emulated, OPERATION_TRANSFER);
        operation->group = device_mailboxes_group_open(comm, list, count);
        operation->comm = comm;
        emulated->transfers++;
        add(emulated, stream, operation);
        pthread_cond_broadcast(&emulated->asked);
        perhaps_run(emulated);
    }
    pthread_mutex_unlock(&emulated->lock);
}

/* ---- opening and closing ---- */

static enum status open_stream(struct device *device, struct device_stream **stream_out,
                               struct error *error) {
    struct emulated *emulated = emulated_of(device);
    struct device_stream *stream = calloc(1, sizeof *stream);
    if (!stream) return error_set(error, STATUS_NO_MEMORY, "no memory for a stream");
    pthread_mutex_lock(&emulated->lock);
    stream->next = emulated->streams;
    emulated->streams = stream;
    pthread_mutex_unlock(&emulated->lock);
    *stream_out = stream;
    return STATUS_OK;
}

static void close_stream(struct device *device, struct device_stream *stream) {
    struct emulated *emulated = emulated_of(device);
    pthread_mutex_lock(&emulated->lock);
    struct device_stream **at = &emulated->streams;
    if (stream->first) device_emulated_report(emulated, "a stream is closed while work is in it");
    run_until(emulated, device_emulated_is_empty, stream, UINT32_MAX);
    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    pthread_mutex_unlock(&emulated->lock);
    free(stream);
}

static enum status open_event(struct device *device, bool timed, struct device_event **event_out,
                              struct error *error) {
    struct emulated *emulated = emulated_of(device);
    struct device_event *event = calloc(1, sizeof *event);
    if (!event) return error_set(error, STATUS_NO_MEMORY, "no memory for an event");
    event->timed = timed;
    pthread_mutex_lock(&emulated->lock);
    emulated->events++;
    pthread_mutex_unlock(&emulated->lock);
    *event_out = event;
    return STATUS_OK;
}

static void close_event(struct device *device, struct device_event *event) {
    struct emulated *emulated = emulated_of(device);
    pthread_mutex_lock(&emulated->lock);
    if (!has_passed(event))
        device_emulated_report(emulated, "an event is closed before it has passed");
    run_until(emulated, has_passed, event, UINT32_MAX);
    emulated->events--;
    pthread_mutex_unlock(&emulated->lock);
    free(event);
}

static void begin_capture(struct device *device, struct device_stream *stream) {
    struct emulated *emulated = emulated_of(device);
    pthread_mutex_lock(&emulated->lock);
    check(!stream->capture);
    stream->capture = calloc(1, sizeof *stream->capture);
    check(stream->capture); /* some bytes */
    emulated->graphs++;
    pthread_mutex_unlock(&emulated->lock);
}

/* Whether all that was captured ends before the stream's last operation. */
static bool comes_back(const struct device_graph *graph, const struct device_stream *stream) {
    for (uint32_t i = 0; i < graph->count; i++) {
        const struct operation *operation = graph->operations[i];
        bool followed = operation->stream == stream;
        for (uint32_t k = i + 1; k < graph->count && !followed; k++)
            followed = graph->operations[k]->stream == operation->stream ||
                       graph->operations[k]->awaits == i + 1;
        if (!followed) return false;
    }
    return true;
}

static enum status device_emulated_end_capture(struct device *device, struct device_stream *stream,
                                               struct device_graph **graph_out,
                                               struct error *error) {
    struct emulated *emulated = emulated_of(device);
    pthread_mutex_lock(&emulated->lock);
    struct device_graph *graph = stream->capture;
    check(graph);
    if (!comes_back(graph, stream))
        device_emulated_report(emulated,
                               "a capture ends before a stream that joined it was followed");
    for (struct device_stream *each = emulated->streams; each; each = each->next)
        if (each->capture == graph) each->capture = NULL;
    for (uint32_t i = 0; i < graph->count; i++)
        if (graph->operations[i]->kind == OPERATION_RECORD)
            graph->operations[i]->event->capture = NULL;
    pthread_mutex_unlock(&emulated->lock);
    *graph_out = graph;
    return STATUS_OK;
}

/* A captured copy from the host reads the host's memory when the graph runs. */
static void launch_graph(struct device *device, struct device_stream *stream,
                         struct device_graph *graph) {
    struct emulated *emulated = emulated_of(device);
    pthread_mutex_lock(&emulated->lock);
    struct operation *operation = new_operation(emulated, OPERATION_GRAPH);
    operation->graph = graph;
    for (uint32_t i = 0; i < graph->count; i++) {
        struct operation *of = graph->operations[i];
        if (of->kind == OPERATION_COPY_END && of->copy.direction == DEVICE_FROM_HOST)
            of->checksum = device_emulated_checksum_of(&of->copy);
    }
    add(emulated, stream, operation);
    perhaps_run(emulated);
    pthread_mutex_unlock(&emulated->lock);
}

static bool is_in_line(const struct emulated *emulated, const struct device_graph *graph) {
    for (const struct device_stream *stream = emulated->streams; stream; stream = stream->next)
        for (const struct operation *at = stream->first; at; at = at->next)
            if (at->graph == graph) return true;
    return false;
}

static void close_graph(struct device *device, struct device_graph *graph) {
    struct emulated *emulated = emulated_of(device);
    pthread_mutex_lock(&emulated->lock);
    if (is_in_line(emulated, graph))
        device_emulated_report(emulated, "a graph is closed while it is in line");
    emulated->graphs--;
    pthread_mutex_unlock(&emulated->lock);
    for (uint32_t i = 0; i < graph->count; i++)
        free(graph->operations[i]);
    free(graph->operations);
    free(graph);
}

static void close_device(struct device *device) {
    struct emulated *emulated = emulated_of(device);
    for (uint32_t i = 0; i < emulated->allocation_count; i++) {
        const struct allocation *of = &emulated->allocations[i];
        if (!of->gone) device_emulated_report(emulated, "%s was not released", of->what);
        munmap(of->mapping, (size_t)(of->end - of->mapping) + (size_t)sysconf(_SC_PAGESIZE));
    }
    if (emulated->streams) device_emulated_report(emulated, "a stream was not closed");
    if (emulated->events)
        device_emulated_report(emulated, "%u events were not closed", emulated->events);
    if (emulated->graphs)
        device_emulated_report(emulated, "%u graphs were not closed", emulated->graphs);
    if (emulated->links)
        device_emulated_report(emulated, "%u links were not closed", emulated->links);
    pthread_cond_destroy(&emulated->asked);
    pthread_mutex_destroy(&emulated->lock);
    free(emulated->allocations);
    free(emulated);
}

static const struct device_backend body = {
    .close = close_device,
    .allocate = allocate,
    .release = device_emulated_release,
    .share = device_emulated_share,
    .map = device_emulated_map,
    .unmap = device_emulated_unmap,
    .open_stream = open_stream,
    .close_stream = close_stream,
    .open_event = open_event,
    .close_event = close_event,
    .copy = device_emulated_copy,
    .fill = fill,
    .launch = device_emulated_launch,
    .record = record,
    .stream_wait_event = device_emulated_stream_wait_event,
    .event_done = passed,
    .elapsed_seconds = seconds,
    .synchronize_event = device_emulated_synchronize_event,
    .synchronize_stream = wait_stream,
    .begin_capture = begin_capture,
    .end_capture = device_emulated_end_capture,
    .launch_graph = launch_graph,
    .close_graph = close_graph,
    .load_comm = load_comm,
    .make_comm_id = make_comm_id,
    .open_comm = device_emulated_open_comm,
    .close_comm = device_emulated_close_comm,
    .comm_ready = comm_ready,
    .transfer = transfer,
};

enum status device_emulated_open(const struct device_emulation *emulation,
                                 struct device **device_out, struct error *error) {
    struct emulated *emulated = calloc(1, sizeof *emulated);
    if (!emulated) return error_set(error, STATUS_NO_MEMORY, "no memory for the emulated device");
    emulated->device = (struct device){&body, "emulated"};
    emulated->emulation = *emulation, emulated->dice = emulation->seed;
    pthread_mutex_init(&emulated->lock, NULL);
    pthread_cond_init(&emulated->asked, NULL);
    *device_out = &emulated->device;
    return STATUS_OK;
}
