/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/lazy_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"

struct lazy_memory lazy_memory_take(size_t bytes) {
    void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) return (struct lazy_memory){.start = NULL};
    return (struct lazy_memory){start, bytes};
}

void lazy_memory_widen(const struct lazy_memory *memory) {
    (void)madvise(memory->start, memory->bytes, MADV_HUGEPAGE); /* only an optimization */
}

void lazy_memory_trim(struct lazy_memory *memory, size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), kept = round_up(bytes, page);
    if (kept == 0 || kept >= memory->bytes) return;
    check(munmap((char *)memory->start + kept, memory->bytes - kept) == 0);
    memory->bytes = kept;
}

void lazy_memory_free(struct lazy_memory *memory) {
    if (memory->start) check(munmap(memory->start, memory->bytes) == 0);
    *memory = (struct lazy_memory){.start = NULL};
}
