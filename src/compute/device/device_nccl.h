/* SPDX-License-Identifier: Apache-2.0
 * Communicators of GPUs by NCCL, for device_cuda.c, which has set the calling thread's device.
 * device.h describes the calls. Private to src/compute/device. Verified by emulation; not yet run
 * on a GPU.
 */
#pragma once

#include "compute/device/device.h"

/* To be called first. STATUS_UNSUPPORTED: a build without NCCL. STATUS_IO: its library cannot be
 * loaded. */
enum status device_nccl_load(struct error *error) MUST_USE;
enum status device_nccl_name(struct device_comm_id *id_out, struct error *error) MUST_USE;
enum status device_nccl_open(const struct device_comm_id *id, uint32_t count, uint32_t own,
                             struct device_comm **comm_out, struct error *error) MUST_USE;
void device_nccl_close(struct device_comm *comm);
enum status device_nccl_ready(struct device_comm *comm, bool *ready_out,
                              struct error *error) MUST_USE;
/* `stream` is CUDA's. device_nccl_ready also reports failures. */
void device_nccl_transfer(void *stream, struct device_comm *comm,
                          const struct device_transfer *list, uint32_t count);
