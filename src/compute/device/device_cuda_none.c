/* SPDX-License-Identifier: Apache-2.0
 * In a build without CUDA there is no GPU.
 */
#include "compute/device/device.h"

enum status device_open_cuda(uint32_t index, struct device **device_out, struct error *error) {
    return error_set(
        error, STATUS_UNSUPPORTED,
        "this build has no CUDA; build with -Dcuda=enabled where CUDA 12.9 or later is "
        "installed");
}
