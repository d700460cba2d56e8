/* SPDX-License-Identifier: Apache-2.0
 * For fuzz targets whose input is several texts.
 */
#pragma once

#include <string.h>

#include "base/bytes.h"

/* Takes what stands before the next 0xFF, or all. */
static inline struct bytes next_part(struct bytes *rest) {
    const char *end = memchr(rest->data, 0xFF, rest->count);
    size_t count = end ? (size_t)(end - rest->data) : rest->count;
    struct bytes part = {rest->data, count};
    count += end != NULL;
    *rest = (struct bytes){rest->data + count, rest->count - count};
    return part;
}
