/* SPDX-License-Identifier: Apache-2.0
 * device.h with CUDA's runtime. Verified by emulation; not yet run on a GPU: this file is only
 * compiled and linked.
 *
 * A call that enqueues work and fails records its error, and the next wait returns it. An error of
 * a kernel is recorded when CUDA reports it, later. After a launch the error is read from the
 * thread's last error, which every failing call sets. So an error that was returned, or that is no
 * failure, is cleared there.
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
    cudaError_t failure; /* the first error of enqueued work */
    const char *failed;  /* the operation that failed */
};

static struct cuda_device *cuda_of(struct device *device) {
    return (struct cuda_device *)(void *)device;
}

static cudaStream_t cuda_stream_of(struct device_stream *stream) {
    return (cudaStream_t)(void *)stream;
}

static cudaEvent_t cuda_event_of(struct device_event *event) {
    return (cudaEvent_t)(void *)event;
}

static void cuda_forget_error(void) {
    (void)cudaGetLastError();
}

static enum status device_cuda_failed(cudaError_t code, const char *what, enum status status,
                                      struct error *error) {
    cuda_forget_error();
    return error_set(error, status, "%s: CUDA says '%s'", what, cudaGetErrorString(code));
}

static void device_cuda_note(struct device *device, cudaError_t code, const char *what) {
    struct cuda_device *cuda = cuda_of(device);
    if (code == cudaSuccess) return;
    pthread_mutex_lock(&cuda->lock);
    if (cuda->failure == cudaSuccess) {
        cuda->failure = code;
        cuda->failed = what;
    }
    pthread_mutex_unlock(&cuda->lock);
}

/* CUDA's current device belongs to the thread. */
static void cuda_enter(struct device *device) {
    device_cuda_note(device, cudaSetDevice(cuda_of(device)->index), "the device");
}

static enum status cuda_report(struct device *device, cudaError_t code, struct error *error) {
    struct cuda_device *cuda = cuda_of(device);
    device_cuda_note(device, code, "work on the GPU");
    pthread_mutex_lock(&cuda->lock);
    cudaError_t failure = cuda->failure;
    const char *what = cuda->failed;
    pthread_mutex_unlock(&cuda->lock);
    return failure == cudaSuccess ? STATUS_OK : device_cuda_failed(failure, what, STATUS_IO, error);
}

static void cuda_close_device(struct device *device) {
    pthread_mutex_destroy(&cuda_of(device)->lock);
    free(device);
}

/* An IPC handle names a whole allocation of CUDA, so each shared memory is one. */
#define BLOCK_BYTES ((size_t)2 << 20)

static enum status cuda_allocate(struct device *device, size_t bytes, const char *what,
                                 enum device_memory kind, void **memory_out, struct error *error) {
    bool pinned = kind == DEVICE_PINNED;
    cuda_enter(device);
    if (kind == DEVICE_SHARED) bytes = (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
    cudaError_t code = pinned ? cudaHostAlloc(memory_out, bytes, cudaHostAllocDefault)
                              : cudaMalloc(memory_out, bytes);
    if (code == cudaSuccess) return STATUS_OK;
    cuda_forget_error();
    return error_set(error, STATUS_NO_MEMORY, "no %s of %zu bytes for %s: CUDA says '%s'",
                     pinned ? "page-locked memory" : "memory on the GPU", bytes, what,
                     cudaGetErrorString(code));
}

static void device_cuda_release(struct device *device, void *memory) {
    struct cudaPointerAttributes attributes;
    cuda_enter(device);
    cudaError_t code = cudaPointerGetAttributes(&attributes, memory);
    if (code == cudaSuccess)
        code = attributes.type == cudaMemoryTypeHost ? cudaFreeHost(memory) : cudaFree(memory);
    device_cuda_note(device, code, "release of memory");
}

static enum status cuda_share(struct device *device, void *memory, struct device_handle *handle_out,
                              struct error *error) {
    static_assert(sizeof(cudaIpcMemHandle_t) == sizeof *handle_out, "a handle is CUDA's");
    cudaIpcMemHandle_t handle;
    cuda_enter(device);
    cudaError_t code = cudaIpcGetMemHandle(&handle, memory);
    if (code != cudaSuccess)
        return device_cuda_failed(code, "sharing memory", STATUS_UNSUPPORTED, error);
    memcpy(handle_out, &handle, sizeof handle);
    return STATUS_OK;
}

static enum status cuda_map(struct device *device, const struct device_handle *handle,
                            const char *what, void **memory_out, struct error *error) {
    cudaIpcMemHandle_t of;
    memcpy(&of, handle, sizeof of);
    cuda_enter(device);
    cudaError_t code = cudaIpcOpenMemHandle(memory_out, of, cudaIpcMemLazyEnablePeerAccess);
    return code == cudaSuccess ? STATUS_OK : device_cuda_failed(code, what, STATUS_IO, error);
}

static void cuda_unmap(struct device *device, void *memory) {
    cuda_enter(device);
    (void)cudaIpcCloseMemHandle(memory); /* the other process may have ended */
    cuda_forget_error();
}

static enum status cuda_open_stream(struct device *device, struct device_stream **stream_out,
                                    struct error *error) {
    cudaStream_t stream;
    cuda_enter(device);
    cudaError_t code = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (code != cudaSuccess) return device_cuda_failed(code, "a stream", STATUS_NO_MEMORY, error);
    *stream_out = (struct device_stream *)(void *)stream;
    return STATUS_OK;
}

static void cuda_close_stream(struct device *device, struct device_stream *stream) {
    device_cuda_note(device, cudaStreamDestroy(cuda_stream_of(stream)), "a stream's end");
}

static enum status cuda_open_event(struct device *device, bool timed,
                                   struct device_event **event_out, struct error *error) {
    cudaEvent_t event;
    cuda_enter(device);
    cudaError_t code =
        cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming);
    if (code != cudaSuccess) return device_cuda_failed(code, "an event", STATUS_NO_MEMORY, error);
    *event_out = (struct device_event *)(void *)event;
    return STATUS_OK;
}

static void cuda_close_event(struct device *device, struct device_event *event) {
    device_cuda_note(device, cudaEventDestroy(cuda_event_of(event)), "an event's end");
}

static void cuda_copy(struct device *device, struct device_stream *stream,
                      const struct device_copy *copy) {
    static const enum cudaMemcpyKind kinds[] = {
        [DEVICE_FROM_HOST] = cudaMemcpyHostToDevice,
        [DEVICE_TO_HOST] = cudaMemcpyDeviceToHost,
        [DEVICE_WITHIN] = cudaMemcpyDeviceToDevice,
    };
    cuda_enter(device);
    device_cuda_note(device,
                     copy->row_count == 1
                         ? cudaMemcpyAsync(copy->to, copy->from, copy->row_bytes,
                                           kinds[copy->direction], cuda_stream_of(stream))
                         : cudaMemcpy2DAsync(copy->to, copy->to_pitch, copy->from, copy->from_pitch,
                                             copy->row_bytes, copy->row_count,
                                             kinds[copy->direction], cuda_stream_of(stream)),
                     "a copy");
}

static void cuda_fill(struct device *device, struct device_stream *stream, void *memory,
                      uint8_t value, size_t bytes) {
    cuda_enter(device);
    device_cuda_note(device, cudaMemsetAsync(memory, value, bytes, cuda_stream_of(stream)),
                     "a fill");
}

static void cuda_launch(struct device *device, struct device_stream *stream,
                        const struct device_kernel *kernel, const void *arguments, size_t bytes) {
    cuda_enter(device);
    kernel->start(arguments, cuda_stream_of(stream));
    device_cuda_note(device, cudaGetLastError(), kernel->name);
}

static void cuda_record(struct device *device, struct device_event *event,
                        struct device_stream *stream) {
    cuda_enter(device);
    device_cuda_note(device, cudaEventRecord(cuda_event_of(event), cuda_stream_of(stream)),
                     "an event's record");
}

static void cuda_stream_wait_event(struct device *device, struct device_stream *stream,
                                   struct device_event *event) {
    cuda_enter(device);
    device_cuda_note(device, cudaStreamWaitEvent(cuda_stream_of(stream), cuda_event_of(event), 0),
                     "a stream's wait");
}

static bool cuda_event_done(struct device *device, struct device_event *event) {
    cuda_enter(device);
    cudaError_t code = cudaEventQuery(cuda_event_of(event));
    if (code == cudaErrorNotReady) {
        cuda_forget_error();
        return false;
    }
    device_cuda_note(device, code, "work before an event");
    return true;
}

static double cuda_elapsed_seconds(struct device *device, struct device_event *from,
                                   struct device_event *to) {
    float ms = 0;
    cuda_enter(device);
    device_cuda_note(device, cudaEventElapsedTime(&ms, cuda_event_of(from), cuda_event_of(to)),
                     "a time");
    return (double)ms * 1e-3;
}

static enum status cuda_synchronize_event(struct device *device, struct device_event *event,
                                          struct error *error) {
    cuda_enter(device);
    return cuda_report(device, cudaEventSynchronize(cuda_event_of(event)), error);
}

static enum status cuda_synchronize_stream(struct device *device, struct device_stream *stream,
                                           struct error *error) {
    cuda_enter(device);
    return cuda_report(device, cudaStreamSynchronize(cuda_stream_of(stream)), error);
}

/* Relaxed: the thread may query events of other streams meanwhile. */
static void cuda_begin_capture(struct device *device, struct device_stream *stream) {
    cuda_enter(device);
    device_cuda_note(device,
                     cudaStreamBeginCapture(cuda_stream_of(stream), cudaStreamCaptureModeRelaxed),
                     "a capture");
}

static enum status cuda_end_capture(struct device *device, struct device_stream *stream,
                                    struct device_graph **graph_out, struct error *error) {
    cudaGraph_t graph;
    cudaGraphExec_t instance;
    cuda_enter(device);
    cudaError_t code = cudaStreamEndCapture(cuda_stream_of(stream), &graph);
    if (code == cudaSuccess) {
        code = cudaGraphInstantiate(&instance, graph, 0);
        cudaGraphDestroy(graph);
    }
    if (code != cudaSuccess) return device_cuda_failed(code, "a graph", STATUS_IO, error);
    *graph_out = (struct device_graph *)(void *)instance;
    return STATUS_OK;
}

static void cuda_launch_graph(struct device *device, struct device_stream *stream,
                              struct device_graph *graph) {
    cuda_enter(device);
    device_cuda_note(
        device, cudaGraphLaunch((cudaGraphExec_t)(void *)graph, cuda_stream_of(stream)), "a graph");
}

static void cuda_close_graph(struct device *device, struct device_graph *graph) {
    device_cuda_note(device, cudaGraphExecDestroy((cudaGraphExec_t)(void *)graph), "a graph's end");
}

static enum status cuda_load_comm(struct device *device, struct error *error) {
    return device_nccl_load(error);
}

static enum status cuda_make_comm_id(struct device *device, uint32_t count,
                                     struct device_comm_id *id_out, struct error *error) {
    cuda_enter(device);
    return device_nccl_name(id_out, error);
}

static enum status cuda_open_comm(struct device *device, const struct device_comm_id *id,
                                  uint32_t count, uint32_t own, struct device_comm **comm_out,
                                  struct error *error) {
    cuda_enter(device);
    return device_nccl_open(id, count, own, comm_out, error);
}

static void cuda_close_comm(struct device *device, struct device_comm *comm) {
    cuda_enter(device);
    device_nccl_close(comm);
}

static enum status cuda_comm_ready(struct device *device, struct device_comm *comm, bool *ready_out,
                                   struct error *error) {
    cuda_enter(device);
    return device_nccl_ready(comm, ready_out, error);
}

static void cuda_transfer(struct device *device, struct device_stream *stream,
                          struct device_comm *comm, const struct device_transfer *list,
                          uint32_t count) {
    cuda_enter(device);
    device_nccl_transfer(cuda_stream_of(stream), comm, list, count);
}

static const struct device_backend body = {
    .close = cuda_close_device,
    .allocate = cuda_allocate,
    .release = device_cuda_release,
    .share = cuda_share,
    .map = cuda_map,
    .unmap = cuda_unmap,
    .open_stream = cuda_open_stream,
    .close_stream = cuda_close_stream,
    .open_event = cuda_open_event,
    .close_event = cuda_close_event,
    .copy = cuda_copy,
    .fill = cuda_fill,
    .launch = cuda_launch,
    .record = cuda_record,
    .stream_wait_event = cuda_stream_wait_event,
    .event_done = cuda_event_done,
    .elapsed_seconds = cuda_elapsed_seconds,
    .synchronize_event = cuda_synchronize_event,
    .synchronize_stream = cuda_synchronize_stream,
    .begin_capture = cuda_begin_capture,
    .end_capture = cuda_end_capture,
    .launch_graph = cuda_launch_graph,
    .close_graph = cuda_close_graph,
    .load_comm = cuda_load_comm,
    .make_comm_id = cuda_make_comm_id,
    .open_comm = cuda_open_comm,
    .close_comm = cuda_close_comm,
    .comm_ready = cuda_comm_ready,
    .transfer = cuda_transfer,
};

/* Kernels are built for Hopper only (sm_90a). */
static enum status device_cuda_check_gpu(uint32_t index, struct error *error) {
    int count = 0, major = 0, minor = 0;
    cudaError_t code = cudaGetDeviceCount(&count);
    if (code != cudaSuccess)
        return device_cuda_failed(code, "no GPU can be used", STATUS_UNSUPPORTED, error);
    if (index >= (uint32_t)count)
        return error_set(error, STATUS_UNSUPPORTED,
                         "there is no GPU %u: this process can use %d, and each rank of a host "
                         "needs one",
                         index, count);
    code = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, (int)index);
    if (code == cudaSuccess)
        code = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, (int)index);
    if (code != cudaSuccess)
        return device_cuda_failed(code, "a GPU cannot be used", STATUS_UNSUPPORTED, error);
    if (major != 9 || minor != 0)
        return error_set(error, STATUS_UNSUPPORTED,
                         "GPU %u has compute capability %d.%d, expected 9.0 (H100, H200, H800)",
                         index, major, minor);
    return STATUS_OK;
}

enum status device_open_cuda(uint32_t index, struct device **device_out, struct error *error) {
    enum status status = device_cuda_check_gpu(index, error);
    if (status != STATUS_OK) return status;
    struct cuda_device *cuda = calloc(1, sizeof *cuda);
    if (!cuda) return error_set(error, STATUS_NO_MEMORY, "no memory for the device");
    cuda->device = (struct device){&body, "cuda"};
    cuda->index = (int)index;
    pthread_mutex_init(&cuda->lock, NULL);
    *device_out = &cuda->device;
    return STATUS_OK;
}
