/* SPDX-License-Identifier: Apache-2.0
 * Uploads weights to a device. Each thread fills one of its two page-locked buffers while the other
 * one is copied on the thread's own stream.
 */
#pragma once

#include "compute/device/device.h"

struct upload;

struct upload_rows { /* contiguous rows, and their destination on the device */
    void *to;
    size_t row_bytes, row_count;
    size_t pitch; /* bytes from row to row on the device */
};

/* Two buffers of `bytes` for each of `members` threads. */
enum status upload_open(struct device *device, uint32_t members, size_t bytes,
                        struct upload **upload_out, struct error *error);
/* Waits for running copies. */
void upload_close(struct upload *upload);

/* Returns the thread's next buffer, after its previous copy is complete. */
void *upload_room(struct upload *upload, uint32_t member);
/* Starts the copy of rows in that buffer. */
void upload_send(struct upload *upload, uint32_t member, const struct upload_rows *rows);

/* Waits until all copies are complete. */
enum status upload_finish(struct upload *upload, struct error *error);
