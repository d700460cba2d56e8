/* SPDX-License-Identifier: Apache-2.0
 * The program's devices, which its main passes to compute_gpu_offer. Two libraries define the
 * table: gpu_program_dep for `fathom`, and gpu_program_emulated_dep for the tests' `fathom-
 * emulated`.
 */
#pragma once

#include "compute/gpu/compute_gpu.h"

extern const struct gpu_offer gpu_program;
