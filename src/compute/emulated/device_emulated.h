/* SPDX-License-Identifier: Apache-2.0
 * The interface to a GPU (compute/device/device.h) on the CPU, for tests. It runs enqueued work in
 * an order drawn from a seed, and reports each misuse. The product does not link it.
 */
#pragma once

#include "compute/device/device.h"

/* Receives each misuse as one line. Without a reporter the first misuse ends the program. */
typedef void device_reporter(void *context, const char *text);

struct device_emulation {
    uint64_t seed; /* seed of the order in which streams run */
    uint64_t memory_bytes;
    device_reporter *report;
    void *context;
    const struct device_watch *watch; /* or NULL */
};
enum status device_emulated_open(const struct device_emulation *emulation,
                                 struct device **device_out, struct error *error) MUST_USE;
