/* SPDX-License-Identifier: Apache-2.0
 * Memory that a test reads until it ends. It stays reachable, so that what LeakSanitizer reports is
 * what the product lost.
 */
#pragma once

#include <stdint.h>
#include <stdlib.h>

#include "base/check.h"

struct test_kept {
    struct test_kept *next;
    const void *memory;
};

static struct test_kept *test_kept_first;

/* Returns `memory`, which is not NULL. It may be freed; nobody has to. */
static inline void *test_keep(const void *memory) {
    struct test_kept *kept = malloc(sizeof *kept);
    check(memory && kept);
    *kept = (struct test_kept){test_kept_first, memory};
    test_kept_first = kept;
    return (void *)(uintptr_t)memory;
}
