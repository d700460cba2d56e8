/* SPDX-License-Identifier: Apache-2.0
 * Links of GPUs as NCCL's communicators, for device_cuda.c, which has chosen the device that the
 * calling thread means. Private to src/compute/device. What each call does: device.h. Verified by
 * emulation; not yet run on a GPU.
 */
#ifndef COMPUTE_DEVICE_DEVICE_NCCL_H
#define COMPUTE_DEVICE_DEVICE_NCCL_H

#include "compute/device/device.h"

/* Before all others. STATUS_UNSUPPORTED: a build without NCCL. STATUS_IO: its library cannot be
 * loaded. */
enum status device_nccl_load(struct error *error) MUST_USE;
enum status device_nccl_name(struct device_link_name *name_out, struct error *error) MUST_USE;
enum status device_nccl_open(const struct device_link_name *name, uint32_t count, uint32_t own,
                             struct device_link **link_out, struct error *error) MUST_USE;
void device_nccl_close(struct device_link *link);
enum status device_nccl_settled(struct device_link *link, bool *settled_out,
                                struct error *error) MUST_USE;
/* `stream`: CUDA's. device_nccl_settled reports failures, too. */
void device_nccl_transfer(void *stream, struct device_link *link,
                          const struct device_transfer *list, uint32_t count);

#endif
