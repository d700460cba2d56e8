/* SPDX-License-Identifier: Apache-2.0
 * The interface to a GPU: device memory, page-locked host memory, copies, streams, events, graphs,
 * launches and communicators. Tensor maps are made by the kernels themselves. device_cuda.c
 * implements it with CUDA's runtime (-Dcuda=enabled); it is verified by emulation and has not yet
 * run on a GPU. For tests compute/emulated implements it on the CPU and reports each misuse.
 *
 * Rules, which the emulated device checks. Only kernels and copies access device memory. The host
 * accesses page-locked memory only while no copy of it is in progress. Work of one stream runs in
 * order; work of different streams runs in any order that events allow. Nothing is released while
 * enqueued work uses it.
 *
 * Device memory can be shared: other processes of the machine, each with a device of its own, map
 * it by a handle, and their kernels access it. Events do not cross processes, so processes send
 * messages when their accesses are done.
 *
 * A communicator connects devices of several processes on any hosts. One call enqueues a group of
 * sends and receives on a stream. CUDA's communicators are NCCL's.
 *
 * Calls that enqueue work return nothing. A failure is returned by the next
 * device_synchronize_event or device_synchronize_stream, and by all later ones. Any thread may
 * call, but only one thread at a time for each stream.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct device_stream;
struct device_event;
struct device_graph;
struct device_comm;

/* A kernel. `start` receives its arguments, which begin with `pointers` pointers to device memory
 * (or NULL), and launches it on `native`, CUDA's stream. The emulated device calls it with NULL
 * when the kernel's turn has come; then the kernel has run when it returns. */
struct device_kernel {
    const char *name;
    uint32_t pointers;
    void (*start)(const void *arguments, void *native);
};
#define DEVICE_ARGUMENT_BYTES 512 /* the most bytes of a kernel's arguments */

enum device_memory { DEVICE_PLAIN, DEVICE_SHARED, DEVICE_PINNED };
/* A handle for shared memory, by which another process maps it. */
struct device_handle {
    uint64_t words[8];
};

/* The id of a communicator, which its first device makes and sends to the others (NCCL's unique
 * id). */
struct device_comm_id {
    uint64_t words[16];
};
/* A send to another device of the communicator, or a receive. Both sides give the same number of
 * bytes, at least one. */
struct device_transfer {
    void *memory;
    size_t bytes;
    uint32_t peer; /* index of the other device in the communicator */
    bool receives;
};

enum device_direction { DEVICE_FROM_HOST, DEVICE_TO_HOST, DEVICE_WITHIN };

/* A copy of rows of bytes. The host's side is page-locked. */
struct device_copy {
    void *to;
    const void *from;
    size_t to_pitch, from_pitch; /* bytes from row to row */
    size_t row_bytes, row_count;
    enum device_direction direction;
};

struct device {
    const struct device_backend *backend;
    const char *name; /* "cuda" or "emulated" */
};

/* The functions of a device. `what` names memory in messages, and must outlive it. */
struct device_backend {
    void (*close)(struct device *device);
    enum status (*allocate)(struct device *device, size_t bytes, const char *what,
                            enum device_memory kind, void **memory_out, struct error *error);
    void (*release)(struct device *device, void *memory);
    enum status (*share)(struct device *device, void *memory, struct device_handle *handle_out,
                         struct error *error);
    enum status (*map)(struct device *device, const struct device_handle *handle, const char *what,
                       void **memory_out, struct error *error);
    void (*unmap)(struct device *device, void *memory);
    enum status (*open_stream)(struct device *device, struct device_stream **stream_out,
                               struct error *error);
    void (*close_stream)(struct device *device, struct device_stream *stream);
    enum status (*open_event)(struct device *device, bool timed, struct device_event **event_out,
                              struct error *error);
    void (*close_event)(struct device *device, struct device_event *event);
    void (*copy)(struct device *device, struct device_stream *stream,
                 const struct device_copy *copy);
    void (*fill)(struct device *device, struct device_stream *stream, void *memory, uint8_t value,
                 size_t bytes);
    void (*launch)(struct device *device, struct device_stream *stream,
                   const struct device_kernel *kernel, const void *arguments, size_t bytes);
    void (*record)(struct device *device, struct device_event *event, struct device_stream *stream);
    void (*stream_wait_event)(struct device *device, struct device_stream *stream,
                              struct device_event *event);
    bool (*event_done)(struct device *device, struct device_event *event);
    double (*elapsed_seconds)(struct device *device, struct device_event *from,
                              struct device_event *to);
    enum status (*synchronize_event)(struct device *device, struct device_event *event,
                                     struct error *error);
    enum status (*synchronize_stream)(struct device *device, struct device_stream *stream,
                                      struct error *error);
    void (*begin_capture)(struct device *device, struct device_stream *stream);
    enum status (*end_capture)(struct device *device, struct device_stream *stream,
                               struct device_graph **graph_out, struct error *error);
    void (*launch_graph)(struct device *device, struct device_stream *stream,
                         struct device_graph *graph);
    void (*close_graph)(struct device *device, struct device_graph *graph);
    enum status (*load_comm)(struct device *device, struct error *error);
    enum status (*make_comm_id)(struct device *device, uint32_t count,
                                struct device_comm_id *id_out, struct error *error);
    enum status (*open_comm)(struct device *device, const struct device_comm_id *id, uint32_t count,
                             uint32_t own, struct device_comm **comm_out, struct error *error);
    void (*close_comm)(struct device *device, struct device_comm *comm);
    enum status (*comm_ready)(struct device *device, struct device_comm *comm, bool *ready_out,
                              struct error *error);
    void (*transfer)(struct device *device, struct device_stream *stream, struct device_comm *comm,
                     const struct device_transfer *list, uint32_t count);
};

/* STATUS_UNSUPPORTED: a build without CUDA, or no such GPU with compute capability 9.0. */
enum status device_open_cuda(uint32_t index, struct device **device_out,
                             struct error *error) MUST_USE;

/* Receives allocations and releases of device memory. An emulator of kernels allows accesses to no
 * other memory. */
struct device_watch {
    void (*added)(const void *memory, size_t bytes, const char *what);
    void (*dropped)(const void *memory);
};

/* Everything that was opened must be closed before. */
static inline void device_close(struct device *device) {
    if (device) device->backend->close(device);
}

/* Allocates device memory, aligned to 256 bytes, which other processes can map if it is shared; or
 * page-locked host memory. STATUS_NO_MEMORY. The content is undefined. */
static inline enum status device_allocate_kind(struct device *device, size_t bytes,
                                               const char *what, enum device_memory kind,
                                               void **memory_out, struct error *error) {
    return device->backend->allocate(device, bytes, what, kind, memory_out, error);
}
static inline enum status device_allocate(struct device *device, size_t bytes, const char *what,
                                          void **memory_out, struct error *error) {
    return device_allocate_kind(device, bytes, what, DEVICE_PLAIN, memory_out, error);
}
static inline enum status device_allocate_pinned(struct device *device, size_t bytes,
                                                 const char *what, void **memory_out,
                                                 struct error *error) {
    return device_allocate_kind(device, bytes, what, DEVICE_PINNED, memory_out, error);
}
/* Releases memory of any kind; NULL is allowed. */
static inline void device_release(struct device *device, void *memory) {
    if (memory) device->backend->release(device, memory);
}

/* Exports memory that was allocated as shared. */
static inline enum status device_share(struct device *device, void *memory,
                                       struct device_handle *handle_out, struct error *error) {
    return device->backend->share(device, memory, handle_out, error);
}
/* Maps another process's shared memory for this device's kernels; it stays valid if that process
 * ends. Not OK: the process has ended, or the devices cannot reach each other. */
static inline enum status device_map(struct device *device, const struct device_handle *handle,
                                     const char *what, void **memory_out, struct error *error) {
    return device->backend->map(device, handle, what, memory_out, error);
}
static inline void device_unmap(struct device *device, void *memory) {
    if (memory) device->backend->unmap(device, memory);
}

static inline enum status
device_open_stream(struct device *device, struct device_stream **stream_out, struct error *error) {
    return device->backend->open_stream(device, stream_out, error);
}
static inline void device_close_stream(struct device *device, struct device_stream *stream) {
    if (stream) device->backend->close_stream(device, stream);
}

/* An event is done when all work enqueued before its last device_record is done. An event that was
 * never recorded is done. */
static inline enum status device_open_event(struct device *device, struct device_event **event_out,
                                            struct error *error) {
    return device->backend->open_event(device, false, event_out, error);
}
/* An event that also records its time. */
static inline enum status device_open_timed_event(struct device *device,
                                                  struct device_event **event_out,
                                                  struct error *error) {
    return device->backend->open_event(device, true, event_out, error);
}
static inline void device_close_event(struct device *device, struct device_event *event) {
    if (event) device->backend->close_event(device, event);
}

static inline void device_copy(struct device *device, struct device_stream *stream, void *to,
                               const void *from, size_t bytes, enum device_direction direction) {
    struct device_copy copy = {to, from, bytes, bytes, bytes, 1, direction};
    if (bytes) device->backend->copy(device, stream, &copy);
}
static inline void device_copy_rows(struct device *device, struct device_stream *stream,
                                    const struct device_copy *copy) {
    if (copy->row_bytes && copy->row_count) device->backend->copy(device, stream, copy);
}
/* Sets each byte to `value`. */
static inline void device_fill(struct device *device, struct device_stream *stream, void *memory,
                               uint8_t value, size_t bytes) {
    if (bytes) device->backend->fill(device, stream, memory, value, bytes);
}
/* The arguments are copied. */
static inline void device_launch(struct device *device, struct device_stream *stream,
                                 const struct device_kernel *kernel, const void *arguments,
                                 size_t bytes) {
    device->backend->launch(device, stream, kernel, arguments, bytes);
}

static inline void device_record(struct device *device, struct device_event *event,
                                 struct device_stream *stream) {
    device->backend->record(device, event, stream);
}
/* Work enqueued on the stream from now on waits for the event's last record. */
static inline void device_stream_wait_event(struct device *device, struct device_stream *stream,
                                            struct device_event *event) {
    device->backend->stream_wait_event(device, stream, event);
}
static inline bool device_event_done(struct device *device, struct device_event *event) {
    return device->backend->event_done(device, event);
}
/* The time between two timed events that are done, by the device's clock. */
static inline double device_elapsed_seconds(struct device *device, struct device_event *from,
                                            struct device_event *to) {
    return device->backend->elapsed_seconds(device, from, to);
}
/* Waits for an event, or for all work of a stream. Not OK: the device has failed, and its results
 * are invalid. */
static inline enum status
device_synchronize_event(struct device *device, struct device_event *event, struct error *error) {
    return device->backend->synchronize_event(device, event, error);
}
static inline enum status device_synchronize_stream(struct device *device,
                                                    struct device_stream *stream,
                                                    struct error *error) {
    return device->backend->synchronize_stream(device, stream, error);
}

/* Work enqueued between the two calls becomes a graph instead of running. This includes work of
 * streams that wait for its events and that it waits for again before the end. Other streams may
 * run or be captured at the same time. */
static inline void device_begin_capture(struct device *device, struct device_stream *stream) {
    device->backend->begin_capture(device, stream);
}
static inline enum status device_end_capture(struct device *device, struct device_stream *stream,
                                             struct device_graph **graph_out, struct error *error) {
    return device->backend->end_capture(device, stream, graph_out, error);
}
static inline void device_launch_graph(struct device *device, struct device_stream *stream,
                                       struct device_graph *graph) {
    device->backend->launch_graph(device, stream, graph);
}
static inline void device_close_graph(struct device *device, struct device_graph *graph) {
    if (graph) device->backend->close_graph(device, graph);
}

/* Loads what communicators need. STATUS_UNSUPPORTED: the build has none. STATUS_IO: something is
 * missing; the error names the cure. */
static inline enum status device_load_comm(struct device *device, struct error *error) {
    return device->backend->load_comm(device, error);
}
/* The first of `count` devices makes the communicator's id, and sends it to the others. It opens
 * the communicator, too. */
static inline enum status device_make_comm_id(struct device *device, uint32_t count,
                                              struct device_comm_id *id_out, struct error *error) {
    return device->backend->make_comm_id(device, count, id_out, error);
}
/* Joins the communicator as its device `own`. It can be used once device_comm_ready says so, for
 * which all devices must join. */
static inline enum status device_open_comm(struct device *device, const struct device_comm_id *id,
                                           uint32_t count, uint32_t own,
                                           struct device_comm **comm_out, struct error *error) {
    return device->backend->open_comm(device, id, count, own, comm_out, error);
}
/* Allowed at any time. Enqueued groups end, and what they should have received is arbitrary. The
 * other devices' groups wait until they close the communicator, too. */
static inline void device_close_comm(struct device *device, struct device_comm *comm) {
    if (comm) device->backend->close_comm(device, comm);
}
/* Whether all devices have joined, and the last group is enqueued. To be polled after opening and
 * after each group; until it is ready nothing may be enqueued after the group. Not OK: the
 * communicator is broken. */
static inline enum status device_comm_ready(struct device *device, struct device_comm *comm,
                                            bool *ready_out, struct error *error) {
    return device->backend->comm_ready(device, comm, ready_out, error);
}
/* Enqueues a group. It ends when all its sends and receives are done, for which the peers' streams
 * must reach their groups. Groups of a communicator run in order, on whatever streams, and each
 * pair of devices must list its transfers in the same order. The list is copied. */
static inline void device_transfer(struct device *device, struct device_stream *stream,
                                   struct device_comm *comm, const struct device_transfer *list,
                                   uint32_t count) {
    if (count) device->backend->transfer(device, stream, comm, list, count);
}
