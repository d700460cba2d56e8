/* SPDX-License-Identifier: Apache-2.0
 * Weights on their way to a device: each thread fills one of its two page-locked buffers while the
 * other one's bytes are copied, on a stream of the thread's own.
 */
#pragma once

#include "compute/device/device.h"

struct upload;

struct upload_rows { /* rows that lie behind each other, as they are to lie there */
    void *to;
    size_t row_bytes, row_count;
    size_t pitch; /* bytes between two rows there */
};

/* Two buffers of `bytes` for each of `members` threads. */
enum status upload_open(struct device *device, uint32_t members, size_t bytes,
                        struct upload **upload_out, struct error *error);
/* Waits for what is under way. */
void upload_close(struct upload *upload);

/* The thread's next buffer, once its last bytes are there. */
void *upload_room(struct upload *upload, uint32_t member);
/* Sends rows that lie in that buffer. */
void upload_send(struct upload *upload, uint32_t member, const struct upload_rows *rows);

/* Returns when all that was sent is there. */
enum status upload_finish(struct upload *upload, struct error *error);
