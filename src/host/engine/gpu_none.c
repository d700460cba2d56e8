/* SPDX-License-Identifier: Apache-2.0
 * gpu.h in a build without CUDA.
 */
#include "host/engine/gpu.h"

static enum status refuse(struct error *error) {
    return error_set(
        error, STATUS_UNSUPPORTED,
        "this build does not support GPUs: configure it with -Dcuda=enabled, where CUDA 12.9 or "
        "later is installed");
}

enum status gpu_count(uint32_t *count_out, struct error *error) {
    return refuse(error);
}

enum status gpu_describe(uint32_t index, struct gpu *gpu_out, struct error *error) {
    return refuse(error);
}

enum status gpu_libraries(struct gpu_libraries *libraries_out, struct error *error) {
    return refuse(error);
}
