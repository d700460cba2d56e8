/* SPDX-License-Identifier: Apache-2.0
 * Step and slices share a word, so that they are read together. The step before it is written
 * first, so a reader that sees a new step knows its predecessor. Watching and writing are
 * sequentially consistent: either the writer sees the watch and wakes the reader, or the reader,
 * which checks after switching it on, sees the written slices.
 */
#include "host/engine/step_progress.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/limits.h"

#define SLICE_BITS 16
_Static_assert(LIMIT_LAYERS < 1 << SLICE_BITS, "slices and the step share a word");

struct step_progress {
    _Atomic uint64_t written; /* step << SLICE_BITS | slices */
    _Atomic uint64_t before;  /* the previous step that wrote */
    atomic_bool watched;
    int file; /* eventfd */
};

enum status step_progress_open(struct step_progress **progress_out, struct error *error) {
    struct step_progress *progress = calloc(1, sizeof *progress);
    int file = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (!progress || file < 0) {
        int failure = errno;
        if (file >= 0) close(file);
        free(progress);
        return error_set(error, STATUS_NO_MEMORY, "cannot follow the engine's steps: %s",
                         strerror(failure));
    }
    progress->file = file;
    *progress_out = progress;
    return STATUS_OK;
}

void step_progress_close(struct step_progress *progress) {
    if (!progress) return;
    close(progress->file);
    free(progress);
}

static void step_progress_written_each(void *context, uint64_t step, uint32_t slices) {
    struct step_progress *progress = context;
    uint64_t one = 1, last = atomic_load(&progress->written) >> SLICE_BITS;
    if (last != step) atomic_store(&progress->before, last);
    atomic_store(&progress->written, step << SLICE_BITS | slices);
    if (atomic_load(&progress->watched))
        check(write(progress->file, &one, sizeof one) == sizeof one);
}

void step_progress_break(struct step_progress *progress) {
    atomic_store(&progress->written, 0);
}

struct model_follower step_progress_follower(struct step_progress *progress) {
    return (struct model_follower){.context = progress, .written = step_progress_written_each};
}

uint32_t step_progress_written(const struct step_progress *progress, uint64_t step) {
    uint64_t now = atomic_load(&progress->written), at = now >> SLICE_BITS;
    if (at != step) return atomic_load(&progress->before) == step ? UINT32_MAX : 0;
    return (uint32_t)(now & ((1 << SLICE_BITS) - 1));
}

void step_progress_watch(struct step_progress *progress, bool watch) {
    atomic_store(&progress->watched, watch);
}

int step_progress_file(const struct step_progress *progress) {
    return progress->file;
}

void step_progress_hush(struct step_progress *progress) {
    uint64_t count;
    if (read(progress->file, &count, sizeof count) < 0) check(errno == EAGAIN || errno == EINTR);
}
