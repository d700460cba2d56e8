/* SPDX-License-Identifier: Apache-2.0
 * struct bytes: a borrowed byte string. It is often UTF-8 text and has no terminator.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes {
    const char *data;
    size_t count;
};

/* A range of a text in bytes; `end` is exclusive. */
struct text_span {
    uint32_t start, end;
};

#define BYTES_LITERAL(text) ((struct bytes){(text), sizeof(text) - 1})

static inline struct bytes bytes_of(const char *text) {
    return (struct bytes){text, strlen(text)};
}

static inline bool bytes_equal(struct bytes a, struct bytes b) {
    return a.count == b.count && (a.count == 0 || memcmp(a.data, b.data, a.count) == 0);
}

static inline bool bytes_start_with(struct bytes text, struct bytes prefix) {
    return text.count >= prefix.count && memcmp(text.data, prefix.data, prefix.count) == 0;
}

static inline bool bytes_contain(struct bytes text, struct bytes part) {
    return part.count == 0 ||
           (text.count >= part.count && memmem(text.data, text.count, part.data, part.count));
}

static inline size_t round_up(size_t value, size_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

/* Bytes of an array, rounded up so that any element can follow it in the same memory. */
static inline size_t round_up_8(size_t bytes) {
    return round_up(bytes, 8);
}

static inline size_t divide_up(size_t value, size_t divisor) {
    return (value + divisor - 1) / divisor;
}
