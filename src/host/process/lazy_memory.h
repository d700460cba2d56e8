/* SPDX-License-Identifier: Apache-2.0
 * Memory sized for the worst case: pools and tables of gigabytes; a quiet server touches little of
 * them. It costs nothing before it is touched, whatever malloc is configured to do with new memory
 * (MALLOC_PERTURB_ fills it all, which took a starting unit ten seconds).
 */
#pragma once

#include <stddef.h>

struct lazy_memory {
    void *start; /* zeros; NULL: there is none */
    size_t bytes;
};

/* start NULL: there is no room. */
struct lazy_memory lazy_memory_take(size_t bytes);

/* Uses huge pages if the system has them: for memory in which each step touches a little
 * everywhere. Untouched memory is then also allocated in larger pieces. */
void lazy_memory_widen(const struct lazy_memory *memory);

/* Frees all but the first `bytes`, rounded up to whole pages. */
void lazy_memory_trim(struct lazy_memory *memory, size_t bytes);

/* Empty memory is allowed. */
void lazy_memory_free(struct lazy_memory *memory);
