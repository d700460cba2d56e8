/* SPDX-License-Identifier: Apache-2.0
 * The device seam: memory of a GPU, page-locked host memory, copies, streams, events, graphs and
 * launches (tensor maps are the kernels' own). device_cuda.c implements it by CUDA's runtime, with
 * -Dcuda=enabled: verified by emulation; not yet run on a GPU. For tests compute/emulated
 * implements it on the CPU, and reports what a GPU would not forgive.
 *
 * The rules, which the emulated device checks: device memory is touched by kernels and copies
 * alone, and page-locked memory by the host only when no copy of it is under way. Work of one
 * stream runs in its order; work of two streams in any order, but for what an event says. Nothing
 * is released while work is in line.
 *
 * Memory may be shared: other processes of the machine, each with a device of its own, map it by a
 * handle and let their kernels touch it. No event goes from process to process: the processes send
 * each other messages when their work there is done.
 *
 * A link joins devices of several processes, on whatever hosts: what is given it in one call, sends
 * and receives of some of them, is one group on a stream. CUDA's are NCCL's communicators; verified
 * by emulation; not yet run on a GPU.
 *
 * Calls that put work in line return nothing: what fails shows at the next device_wait or
 * device_wait_stream, and stays. Any thread may call, each stream from one thread at a time.
 */
#ifndef COMPUTE_DEVICE_DEVICE_H
#define COMPUTE_DEVICE_DEVICE_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct device_stream;
struct device_event;
struct device_graph;
struct device_link;

/* A kernel as the host starts it: `start` reads its arguments, which begin with `pointers` pointers
 * to device memory (or NULL), and launches on `native`, CUDA's stream; the stand-in calls it when
 * the kernel's turn has come, with NULL, and it has run when it returns. */
struct device_kernel {
    const char *name;
    uint32_t pointers;
    void (*start)(const void *arguments, void *native);
};
#define DEVICE_ARGUMENT_BYTES 512 /* of a kernel, at most */

enum device_memory { DEVICE_PLAIN, DEVICE_SHARED, DEVICE_PINNED };
/* A name for shared memory, with which another process maps it. */
struct device_handle {
    uint64_t words[8];
};

/* A link's name, which its maker sends to the other devices. */
struct device_link_name {
    uint64_t words[16];
};
/* Bytes of the device's memory that go to another device of the link, or come from it: as many, at
 * least one, as that one says. */
struct device_transfer {
    void *memory;
    size_t bytes;
    uint32_t peer; /* which of the link's devices */
    bool receives;
};

enum device_way { DEVICE_FROM_HOST, DEVICE_TO_HOST, DEVICE_WITHIN };

/* A copy of rows; row_count 1: of one run of bytes. The host's side is page-locked. */
struct device_copy {
    void *to;
    const void *from;
    size_t to_pitch, from_pitch; /* bytes between two rows' beginnings */
    size_t row_bytes, row_count;
    enum device_way way;
};

struct device {
    const struct device_body *body;
    const char *name; /* "cuda" or "emulated" */
};

/* The functions of a device's body. `what` names memory in messages, and must outlive it. */
struct device_body {
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
    void (*follow)(struct device *device, struct device_stream *stream, struct device_event *event);
    bool (*passed)(struct device *device, struct device_event *event);
    double (*seconds)(struct device *device, struct device_event *from, struct device_event *to);
    enum status (*wait)(struct device *device, struct device_event *event, struct error *error);
    enum status (*wait_stream)(struct device *device, struct device_stream *stream,
                               struct error *error);
    void (*begin_capture)(struct device *device, struct device_stream *stream);
    enum status (*end_capture)(struct device *device, struct device_stream *stream,
                               struct device_graph **graph_out, struct error *error);
    void (*launch_graph)(struct device *device, struct device_stream *stream,
                         struct device_graph *graph);
    void (*close_graph)(struct device *device, struct device_graph *graph);
    enum status (*load_links)(struct device *device, struct error *error);
    enum status (*name_link)(struct device *device, uint32_t count,
                             struct device_link_name *name_out, struct error *error);
    enum status (*open_link)(struct device *device, const struct device_link_name *name,
                             uint32_t count, uint32_t own, struct device_link **link_out,
                             struct error *error);
    void (*close_link)(struct device *device, struct device_link *link);
    enum status (*settled)(struct device *device, struct device_link *link, bool *settled_out,
                           struct error *error);
    void (*transfer)(struct device *device, struct device_stream *stream, struct device_link *link,
                     const struct device_transfer *list, uint32_t count);
};

/* STATUS_UNSUPPORTED: a build without CUDA, or no such GPU of compute capability 9.0. */
enum status device_open_cuda(uint32_t index, struct device **device_out,
                             struct error *error) MUST_USE;

/* Receives the device memory that is allocated and released. An emulator of kernels lets them touch
 * no other memory. */
struct device_watch {
    void (*added)(const void *memory, size_t bytes, const char *what);
    void (*dropped)(const void *memory);
};

/* Everything that was opened is closed before. */
static inline void device_close(struct device *device) {
    if (device) device->body->close(device);
}

/* Memory of the device, at a multiple of 256, of which other processes may map what is shared; or
 * page-locked memory of the host. STATUS_NO_MEMORY. What is in it is undefined. */
static inline enum status device_allocate_kind(struct device *device, size_t bytes,
                                               const char *what, enum device_memory kind,
                                               void **memory_out, struct error *error) {
    return device->body->allocate(device, bytes, what, kind, memory_out, error);
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
    if (memory) device->body->release(device, memory);
}

/* `memory` was allocated to be shared. */
static inline enum status device_share(struct device *device, void *memory,
                                       struct device_handle *handle_out, struct error *error) {
    return device->body->share(device, memory, handle_out, error);
}
/* Another process's shared memory, for this device's kernels, until it is unmapped; it may end
 * before. Not OK: it has ended, or the devices do not reach each other. */
static inline enum status device_map(struct device *device, const struct device_handle *handle,
                                     const char *what, void **memory_out, struct error *error) {
    return device->body->map(device, handle, what, memory_out, error);
}
static inline void device_unmap(struct device *device, void *memory) {
    if (memory) device->body->unmap(device, memory);
}

static inline enum status
device_open_stream(struct device *device, struct device_stream **stream_out, struct error *error) {
    return device->body->open_stream(device, stream_out, error);
}
static inline void device_close_stream(struct device *device, struct device_stream *stream) {
    if (stream) device->body->close_stream(device, stream);
}

/* An event passes when all that stood in line at its last device_record is done; one that was never
 * recorded has passed. */
static inline enum status device_open_event(struct device *device, struct device_event **event_out,
                                            struct error *error) {
    return device->body->open_event(device, false, event_out, error);
}
/* One that notes when it passes, too. */
static inline enum status device_open_timed_event(struct device *device,
                                                  struct device_event **event_out,
                                                  struct error *error) {
    return device->body->open_event(device, true, event_out, error);
}
static inline void device_close_event(struct device *device, struct device_event *event) {
    if (event) device->body->close_event(device, event);
}

static inline void device_copy(struct device *device, struct device_stream *stream, void *to,
                               const void *from, size_t bytes, enum device_way way) {
    struct device_copy copy = {to, from, bytes, bytes, bytes, 1, way};
    if (bytes) device->body->copy(device, stream, &copy);
}
static inline void device_copy_rows(struct device *device, struct device_stream *stream,
                                    const struct device_copy *copy) {
    if (copy->row_bytes && copy->row_count) device->body->copy(device, stream, copy);
}
/* Each byte becomes `value`. */
static inline void device_fill(struct device *device, struct device_stream *stream, void *memory,
                               uint8_t value, size_t bytes) {
    if (bytes) device->body->fill(device, stream, memory, value, bytes);
}
/* The arguments are copied. */
static inline void device_launch(struct device *device, struct device_stream *stream,
                                 const struct device_kernel *kernel, const void *arguments,
                                 size_t bytes) {
    device->body->launch(device, stream, kernel, arguments, bytes);
}

static inline void device_record(struct device *device, struct device_event *event,
                                 struct device_stream *stream) {
    device->body->record(device, event, stream);
}
/* Work added to the stream from now on runs after the event's last record. */
static inline void device_follow(struct device *device, struct device_stream *stream,
                                 struct device_event *event) {
    device->body->follow(device, stream, event);
}
static inline bool device_passed(struct device *device, struct device_event *event) {
    return device->body->passed(device, event);
}
/* Between the moments at which two timed events passed, on the device's clock; both have. */
static inline double device_seconds(struct device *device, struct device_event *from,
                                    struct device_event *to) {
    return device->body->seconds(device, from, to);
}
/* Returns when the event has passed, or the stream's work is done. Not OK: the device has failed,
 * and nothing on it can be believed any more. */
static inline enum status device_wait(struct device *device, struct device_event *event,
                                      struct error *error) {
    return device->body->wait(device, event, error);
}
static inline enum status device_wait_stream(struct device *device, struct device_stream *stream,
                                             struct error *error) {
    return device->body->wait_stream(device, stream, error);
}

/* Work added to the stream between the two becomes a graph instead of running. So does the work of
 * streams that follow its events meanwhile and that it follows again before the end. Other streams may
 * run or be captured at the same time. */
static inline void device_begin_capture(struct device *device, struct device_stream *stream) {
    device->body->begin_capture(device, stream);
}
static inline enum status device_end_capture(struct device *device, struct device_stream *stream,
                                             struct device_graph **graph_out, struct error *error) {
    return device->body->end_capture(device, stream, graph_out, error);
}
static inline void device_launch_graph(struct device *device, struct device_stream *stream,
                                       struct device_graph *graph) {
    device->body->launch_graph(device, stream, graph);
}
static inline void device_close_graph(struct device *device, struct device_graph *graph) {
    if (graph) device->body->close_graph(device, graph);
}

/* Whether there can be links. STATUS_UNSUPPORTED: the build has none. STATUS_IO: what they need is
 * not there, with the cure. */
static inline enum status device_load_links(struct device *device, struct error *error) {
    return device->body->load_links(device, error);
}
/* The first of `count` devices names the link, and opens it, too; the name goes to the others. */
static inline enum status device_name_link(struct device *device, uint32_t count,
                                           struct device_link_name *name_out, struct error *error) {
    return device->body->name_link(device, count, name_out, error);
}
/* Joins the link as its device `own`. It can be used when it has settled, which takes all of them.
 * */
static inline enum status device_open_link(struct device *device,
                                           const struct device_link_name *name, uint32_t count,
                                           uint32_t own, struct device_link **link_out,
                                           struct error *error) {
    return device->body->open_link(device, name, count, own, link_out, error);
}
/* At any time: groups that are in line are over then, and what they should have received is
 * anything. The others' wait until they close it, too. */
static inline void device_close_link(struct device *device, struct device_link *link) {
    if (link) device->body->close_link(device, link);
}
/* Whether all have joined, and the last group is in line. To be asked until it says so, behind the
 * opening and behind each group: until then nothing may be put in line behind it. Not OK: the link
 * is of no use any more. */
static inline enum status device_settled(struct device *device, struct device_link *link,
                                         bool *settled_out, struct error *error) {
    return device->body->settled(device, link, settled_out, error);
}
/* One group, which is over when all of it is: so when each peer's stream has come to the group that
 * takes the other side. A link's groups run in their order, whatever their streams, and each pair
 * of devices names what goes between them in the same order. The list is copied. */
static inline void device_transfer(struct device *device, struct device_stream *stream,
                                   struct device_link *link, const struct device_transfer *list,
                                   uint32_t count) {
    if (count) device->body->transfer(device, stream, link, list, count);
}

#endif
