/* SPDX-License-Identifier: Apache-2.0
 * What the program offers of devices, which its build says: with -Dcuda=enabled the kernels that nvcc made;
 * else, with -Demulated=true, the stand-in for a GPU, and the kernels on an emulator. A library of
 * its own, which nothing but programs links: both kinds of kernels have the same names.
 */
#ifndef COMPUTE_GPU_GPU_PROGRAM_H
#define COMPUTE_GPU_GPU_PROGRAM_H

/* Before anything is asked of devices. */
void gpu_program_offer(void);

#endif
