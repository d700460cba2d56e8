/* SPDX-License-Identifier: Apache-2.0
 * Protects the seam's body on CUDA from what CUDA's runtime keeps beside its results: a thread's
 * last error, which each call that does not succeed leaves, an event's query whose work is under
 * way among them. A kernel's launch asks for it. So whatever a call has told, or is no failure,
 * must not be there any more; what a launch leaves is told by the next wait, and stays. The runtime
 * is the test's own; it needs no GPU.
 */
#include "test_case.h"

#include <cuda_runtime_api.h>

#include "compute/device/device.h"

/* What the next calls return, and what the runtime keeps. */
static struct {
    cudaError_t memory, map, query, start, last;
    int minor;
} runtime;

static cudaError_t leave(cudaError_t code) {
    if (code != cudaSuccess) runtime.last = code;
    return code;
}

cudaError_t cudaGetLastError(void) {
    cudaError_t last = runtime.last;
    runtime.last = cudaSuccess;
    return last;
}

cudaError_t cudaGetDeviceCount(int *count) {
    *count = 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
    *value = attribute == cudaDevAttrComputeCapabilityMajor ? 9 : runtime.minor;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t code) {
    return code == cudaErrorLaunchFailure ? "launch failure" : "another error";
}

cudaError_t cudaMalloc(void **memory, size_t bytes) {
    return leave(runtime.memory);
}

cudaError_t cudaIpcOpenMemHandle(void **memory, cudaIpcMemHandle_t handle, unsigned flags) {
    return leave(runtime.map);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    *stream = (cudaStream_t)(void *)&runtime;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    *event = (cudaEvent_t)(void *)&runtime;
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    return leave(runtime.query);
}

static void start(const void *arguments, void *native) {
    leave(runtime.start);
}

static const struct device_kernel kernel = {"a kernel", 0, start};

struct opened {
    struct device *device;
    struct device_stream *stream;
    struct device_event *event;
};

static struct opened open_all(void) {
    struct opened all;
    struct error error;
    memset(&runtime, 0, sizeof runtime);
    assert_int_equal(device_open_cuda(0, &all.device, &error), STATUS_OK);
    assert_int_equal(device_open_stream(all.device, &all.stream, &error), STATUS_OK);
    assert_int_equal(device_open_event(all.device, &all.event, &error), STATUS_OK);
    return all;
}

static void close_all(struct opened all) {
    device_close_event(all.device, all.event);
    device_close_stream(all.device, all.stream);
    device_close(all.device);
}

/* Launches, and returns what the next wait says. */
static enum status launch(struct opened all, struct error *error) {
    const uint64_t arguments = 0;
    device_launch(all.device, all.stream, &kernel, &arguments, sizeof arguments);
    return device_synchronize_stream(all.device, all.stream, error);
}

TEST(work_that_is_under_way_is_no_failure_of_the_next_launch) {
    struct opened all = open_all();
    struct error error;
    runtime.query = cudaErrorNotReady;
    assert_false(device_event_done(all.device, all.event));
    assert_int_equal(launch(all, &error), STATUS_OK);
    runtime.query = cudaSuccess;
    assert_true(device_event_done(all.device, all.event));
    close_all(all);
}

TEST(what_was_refused_and_reported_is_no_failure_of_the_next_launch) {
    static const struct device_handle handle;
    struct opened all = open_all();
    struct error error;
    void *memory;
    runtime.memory = cudaErrorMemoryAllocation;
    runtime.map = cudaErrorInvalidValue;
    assert_int_equal(device_allocate(all.device, 64, "memory", &memory, &error), STATUS_NO_MEMORY);
    assert_int_equal(launch(all, &error), STATUS_OK);
    assert_int_equal(device_map(all.device, &handle, "a room", &memory, &error), STATUS_IO);
    assert_int_equal(launch(all, &error), STATUS_OK);
    close_all(all);
}

TEST(a_launch_that_fails_is_reported_by_each_wait_from_then_on) {
    struct opened all = open_all();
    struct error error;
    runtime.start = cudaErrorLaunchFailure;
    assert_int_equal(launch(all, &error), STATUS_IO);
    assert_string_equal(error.text, "a kernel: CUDA says 'launch failure'");
    runtime.start = cudaSuccess;
    assert_int_equal(launch(all, &error), STATUS_IO);
    close_all(all);
}

TEST(only_hopper_is_taken) {
    struct device *device;
    struct error error;
    memset(&runtime, 0, sizeof runtime);
    assert_int_equal(device_open_cuda(1, &device, &error), STATUS_UNSUPPORTED);
    assert_non_null(strstr(error.text, "there is no GPU 1"));
    runtime.minor = 5;
    assert_int_equal(device_open_cuda(0, &device, &error), STATUS_UNSUPPORTED);
    assert_non_null(strstr(error.text, "compute capability 9.5, expected 9.0"));
}
