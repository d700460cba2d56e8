/* SPDX-License-Identifier: Apache-2.0
 * In a build without NCCL rows of ranks on several hosts pass through the hosts' memory.
 * device_nccl_load refuses, and no caller calls any other function after that.
 */
#include "compute/device/device_nccl.h"

static enum status refuse(struct error *error) {
    return error_set(error, STATUS_UNSUPPORTED, "this build has no NCCL (nccl.h, -Dnccl)");
}

enum status device_nccl_load(struct error *error) {
    return refuse(error);
}

enum status device_nccl_name(struct device_link_name *name_out, struct error *error) {
    return refuse(error);
}

enum status device_nccl_open(const struct device_link_name *name, uint32_t count, uint32_t own,
                             struct device_link **link_out, struct error *error) {
    return refuse(error);
}

void device_nccl_close(struct device_link *link) {
}

enum status device_nccl_settled(struct device_link *link, bool *settled_out, struct error *error) {
    return refuse(error);
}

void device_nccl_transfer(void *stream, struct device_link *link,
                          const struct device_transfer *list, uint32_t count) {
}
