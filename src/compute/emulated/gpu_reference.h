/* SPDX-License-Identifier: Apache-2.0
 * The table of kernels with plain reference bodies, which define the result of each kernel. Only
 * the emulated device can run them.
 */
#pragma once

#include "compute/gpu/gpu_kernels.h"

extern const struct gpu_kernels gpu_reference;
