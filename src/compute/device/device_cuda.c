/* SPDX-License-Identifier: Apache-2.0
 * The device seam on CUDA's runtime. Verified by emulation; not yet run on a GPU: this file is
 * compiled and linked, no more.
 *
 * A call that puts work in line and fails notes its error, which the next wait tells; so does an
 * error of a kernel, which CUDA tells late by itself. A launch finds its own in the thread's last error, where each
 * call that did not succeed leaves one: whatever was told, or is no failure, is taken away from there.
 */
#include "compute/device/device_nccl.h"

#include <assert.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct cuda_device {
    struct device device;
    int index;
    pthread_mutex_t lock;
    cudaError_t failure; /* the first of work that was put in line */
    const char *failed;  /* what that was */
};

static struct cuda_device *cuda_of(struct device *device) {
    return (struct cuda_device *)(void *)device;
}

static cudaStream_t stream_of(struct device_stream *stream) {
    return (cudaStream_t)(void *)stream;
}

static cudaEvent_t event_of(struct device_event *event) {
    return (cudaEvent_t)(void *)event;
}

static void forget_error(void) {
    (void)cudaGetLastError();
}

static enum status failed(cudaError_t code, const char *what, enum status status,
                          struct error *error) {
    forget_error();
    return error_set(error, status, "%s: CUDA says '%s'", what, cudaGetErrorString(code));
}

static void note(struct device *device, cudaError_t code, const char *what) {
    struct cuda_device *cuda = cuda_of(device);
    if (code == cudaSuccess) return;
    pthread_mutex_lock(&cuda->lock);
    if (cuda->failure == cudaSuccess) {
        cuda->failure = code;
        cuda->failed = what;
    }
    pthread_mutex_unlock(&cuda->lock);
}

/* CUDA keeps a device for each thread. */
static void enter(struct device *device) {
    note(device, cudaSetDevice(cuda_of(device)->index), "the device");
}

static enum status tell(struct device *device, cudaError_t code, struct error *error) {
    struct cuda_device *cuda = cuda_of(device);
    note(device, code, "work on the GPU");
    pthread_mutex_lock(&cuda->lock);
    cudaError_t failure = cuda->failure;
    const char *what = cuda->failed;
    pthread_mutex_unlock(&cuda->lock);
    return failure == cudaSuccess ? STATUS_OK : failed(failure, what, STATUS_IO, error);
}

static void close_device(struct device *device) {
    pthread_mutex_destroy(&cuda_of(device)->lock);
    free(device);
}

/* An IPC handle is of a whole block of CUDA's, so shared memory has one of its own. */
#define BLOCK_BYTES ((size_t)2 << 20)

static enum status allocate(struct device *device, size_t bytes, const char *what,
                            enum device_memory kind, void **memory_out, struct error *error) {
    bool pinned = kind == DEVICE_PINNED;
    enter(device);
    if (kind == DEVICE_SHARED) bytes = (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
    cudaError_t code = pinned ? cudaHostAlloc(memory_out, bytes, cudaHostAllocDefault)
                              : cudaMalloc(memory_out, bytes);
    if (code == cudaSuccess) return STATUS_OK;
    forget_error();
    return error_set(error, STATUS_NO_MEMORY, "no %s of %zu bytes for %s: CUDA says '%s'",
                     pinned ? "page-locked memory" : "memory on the GPU", bytes, what,
                     cudaGetErrorString(code));
}

static void release(struct device *device, void *memory) {
    struct cudaPointerAttributes attributes;
    enter(device);
    cudaError_t code = cudaPointerGetAttributes(&attributes, memory);
    if (code == cudaSuccess)
        code = attributes.type == cudaMemoryTypeHost ? cudaFreeHost(memory) : cudaFree(memory);
    note(device, code, "release of memory");
}

static enum status share(struct device *device, void *memory, struct device_handle *handle_out,
                         struct error *error) {
    static_assert(sizeof(cudaIpcMemHandle_t) == sizeof *handle_out, "a handle is CUDA's");
    cudaIpcMemHandle_t handle;
    enter(device);
    cudaError_t code = cudaIpcGetMemHandle(&handle, memory);
    if (code != cudaSuccess) return failed(code, "sharing memory", STATUS_UNSUPPORTED, error);
    memcpy(handle_out, &handle, sizeof handle);
    return STATUS_OK;
}

static enum status map(struct device *device, const struct device_handle *handle, const char *what,
                       void **memory_out, struct error *error) {
    cudaIpcMemHandle_t of;
    memcpy(&of, handle, sizeof of);
    enter(device);
    cudaError_t code = cudaIpcOpenMemHandle(memory_out, of, cudaIpcMemLazyEnablePeerAccess);
    return code == cudaSuccess ? STATUS_OK : failed(code, what, STATUS_IO, error);
}

static void unmap(struct device *device, void *memory) {
    enter(device);
    (void)cudaIpcCloseMemHandle(memory); /* whose process may have ended */
    forget_error();
}

static enum status open_stream(struct device *device, struct device_stream **stream_out,
                               struct error *error) {
    cudaStream_t stream;
    enter(device);
    cudaError_t code = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (code != cudaSuccess) return failed(code, "a stream", STATUS_NO_MEMORY, error);
    *stream_out = (struct device_stream *)(void *)stream;
    return STATUS_OK;
}

static void close_stream(struct device *device, struct device_stream *stream) {
    note(device, cudaStreamDestroy(stream_of(stream)), "a stream's end");
}

static enum status open_event(struct device *device, bool timed, struct device_event **event_out,
                              struct error *error) {
    cudaEvent_t event;
    enter(device);
    cudaError_t code =
        cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming);
    if (code != cudaSuccess) return failed(code, "an event", STATUS_NO_MEMORY, error);
    *event_out = (struct device_event *)(void *)event;
    return STATUS_OK;
}

static void close_event(struct device *device, struct device_event *event) {
    note(device, cudaEventDestroy(event_of(event)), "an event's end");
}

static void copy(struct device *device, struct device_stream *stream,
                 const struct device_copy *copy) {
    static const enum cudaMemcpyKind kinds[] = {
        [DEVICE_FROM_HOST] = cudaMemcpyHostToDevice,
        [DEVICE_TO_HOST] = cudaMemcpyDeviceToHost,
        [DEVICE_WITHIN] = cudaMemcpyDeviceToDevice,
    };
    enter(device);
    note(device,
         copy->row_count == 1
             ? cudaMemcpyAsync(copy->to, copy->from, copy->row_bytes, kinds[copy->way],
                               stream_of(stream))
             : cudaMemcpy2DAsync(copy->to, copy->to_pitch, copy->from, copy->from_pitch,
                                 copy->row_bytes, copy->row_count, kinds[copy->way],
                                 stream_of(stream)),
         "a copy");
}

static void fill(struct device *device, struct device_stream *stream, void *memory, uint8_t value,
                 size_t bytes) {
    enter(device);
    note(device, cudaMemsetAsync(memory, value, bytes, stream_of(stream)), "a fill");
}

static void launch(struct device *device, struct device_stream *stream,
                   const struct device_kernel *kernel, const void *arguments, size_t bytes) {
    enter(device);
    kernel->start(arguments, stream_of(stream));
    note(device, cudaGetLastError(), kernel->name);
}

static void record(struct device *device, struct device_event *event,
                   struct device_stream *stream) {
    enter(device);
    note(device, cudaEventRecord(event_of(event), stream_of(stream)), "an event's record");
}

static void follow(struct device *device, struct device_stream *stream,
                   struct device_event *event) {
    enter(device);
    note(device, cudaStreamWaitEvent(stream_of(stream), event_of(event), 0), "a stream's wait");
}

static bool passed(struct device *device, struct device_event *event) {
    enter(device);
    cudaError_t code = cudaEventQuery(event_of(event));
    if (code == cudaErrorNotReady) {
        forget_error();
        return false;
    }
    note(device, code, "work before an event");
    return true;
}

static double seconds(struct device *device, struct device_event *from, struct device_event *to) {
    float ms = 0;
    enter(device);
    note(device, cudaEventElapsedTime(&ms, event_of(from), event_of(to)), "a time");
    return (double)ms * 1e-3;
}

static enum status wait_event(struct device *device, struct device_event *event,
                              struct error *error) {
    enter(device);
    return tell(device, cudaEventSynchronize(event_of(event)), error);
}

static enum status wait_stream(struct device *device, struct device_stream *stream,
                               struct error *error) {
    enter(device);
    return tell(device, cudaStreamSynchronize(stream_of(stream)), error);
}

/* Relaxed: meanwhile the thread may ask for events of other streams. */
static void begin_capture(struct device *device, struct device_stream *stream) {
    enter(device);
    note(device, cudaStreamBeginCapture(stream_of(stream), cudaStreamCaptureModeRelaxed),
         "a capture");
}

static enum status end_capture(struct device *device, struct device_stream *stream,
                               struct device_graph **graph_out, struct error *error) {
    cudaGraph_t graph;
    cudaGraphExec_t instance;
    enter(device);
    cudaError_t code = cudaStreamEndCapture(stream_of(stream), &graph);
    if (code == cudaSuccess) {
        code = cudaGraphInstantiate(&instance, graph, 0);
        cudaGraphDestroy(graph);
    }
    if (code != cudaSuccess) return failed(code, "a graph", STATUS_IO, error);
    *graph_out = (struct device_graph *)(void *)instance;
    return STATUS_OK;
}

static void launch_graph(struct device *device, struct device_stream *stream,
                         struct device_graph *graph) {
    enter(device);
    note(device, cudaGraphLaunch((cudaGraphExec_t)(void *)graph, stream_of(stream)), "a graph");
}

static void close_graph(struct device *device, struct device_graph *graph) {
    note(device, cudaGraphExecDestroy((cudaGraphExec_t)(void *)graph), "a graph's end");
}

static enum status load_links(struct device *device, struct error *error) {
    return device_nccl_load(error);
}

static enum status name_link(struct device *device, uint32_t count,
                             struct device_link_name *name_out, struct error *error) {
    enter(device);
    return device_nccl_name(name_out, error);
}

static enum status open_link(struct device *device, const struct device_link_name *name,
                             uint32_t count, uint32_t own, struct device_link **link_out,
                             struct error *error) {
    enter(device);
    return device_nccl_open(name, count, own, link_out, error);
}

static void close_link(struct device *device, struct device_link *link) {
    enter(device);
    device_nccl_close(link);
}

static enum status settled(struct device *device, struct device_link *link, bool *settled_out,
                           struct error *error) {
    enter(device);
    return device_nccl_settled(link, settled_out, error);
}

static void transfer(struct device *device, struct device_stream *stream, struct device_link *link,
                     const struct device_transfer *list, uint32_t count) {
    enter(device);
    device_nccl_transfer(stream_of(stream), link, list, count);
}

static const struct device_body body = {
    .close = close_device,
    .allocate = allocate,
    .release = release,
    .share = share,
    .map = map,
    .unmap = unmap,
    .open_stream = open_stream,
    .close_stream = close_stream,
    .open_event = open_event,
    .close_event = close_event,
    .copy = copy,
    .fill = fill,
    .launch = launch,
    .record = record,
    .follow = follow,
    .passed = passed,
    .seconds = seconds,
    .wait = wait_event,
    .wait_stream = wait_stream,
    .begin_capture = begin_capture,
    .end_capture = end_capture,
    .launch_graph = launch_graph,
    .close_graph = close_graph,
    .load_links = load_links,
    .name_link = name_link,
    .open_link = open_link,
    .close_link = close_link,
    .settled = settled,
    .transfer = transfer,
};

/* Kernels are built for Hopper alone (sm_90a). */
static enum status check_gpu(uint32_t index, struct error *error) {
    int count = 0, major = 0, minor = 0;
    cudaError_t code = cudaGetDeviceCount(&count);
    if (code != cudaSuccess) return failed(code, "no GPU can be used", STATUS_UNSUPPORTED, error);
    if (index >= (uint32_t)count)
        return error_set(error, STATUS_UNSUPPORTED,
                         "GPU %u is not there: this process may use %d, and each rank of a host "
                         "takes one",
                         index, count);
    code = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, (int)index);
    if (code == cudaSuccess)
        code = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, (int)index);
    if (code != cudaSuccess) return failed(code, "a GPU cannot be used", STATUS_UNSUPPORTED, error);
    if (major != 9 || minor != 0)
        return error_set(error, STATUS_UNSUPPORTED,
                         "GPU %u has compute capability %d.%d, expected 9.0 (H100, H200, H800)",
                         index, major, minor);
    return STATUS_OK;
}

enum status device_open_cuda(uint32_t index, struct device **device_out, struct error *error) {
    enum status status = check_gpu(index, error);
    if (status != STATUS_OK) return status;
    struct cuda_device *cuda = calloc(1, sizeof *cuda);
    if (!cuda) return error_set(error, STATUS_NO_MEMORY, "no memory for the device");
    cuda->device = (struct device){&body, "cuda"};
    cuda->index = (int)index;
    pthread_mutex_init(&cuda->lock, NULL);
    *device_out = &cuda->device;
    return STATUS_OK;
}
