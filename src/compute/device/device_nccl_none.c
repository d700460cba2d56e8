/* SPDX-License-Identifier: Apache-2.0
 * A build without NCCL: device_nccl_load fails, so rows between hosts pass through host memory, and
 * no other function is called.
 */
#include "compute/device/device_nccl.h"

static enum status refuse(struct error *error) {
    return error_set(error, STATUS_UNSUPPORTED, "this build has no NCCL (nccl.h, -Dnccl)");
}

enum status device_nccl_load(struct error *error) {
    return refuse(error);
}

enum status device_nccl_name(struct device_comm_id *id_out, struct error *error) {
    return refuse(error);
}

enum status device_nccl_open(const struct device_comm_id *id, uint32_t count, uint32_t own,
                             struct device_comm **comm_out, struct error *error) {
    return refuse(error);
}

void device_nccl_close(struct device_comm *comm) {
}

enum status device_nccl_ready(struct device_comm *comm, bool *ready_out, struct error *error) {
    return refuse(error);
}

void device_nccl_transfer(void *stream, struct device_comm *comm,
                          const struct device_transfer *list, uint32_t count) {
}
