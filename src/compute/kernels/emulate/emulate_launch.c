/* SPDX-License-Identifier: Apache-2.0
 * Launches: runs a grid's blocks one after another in a random order. Connects the parts of the
 * emulator: memory, warps, copies and tensor cores begin and end with each block.
 */
#include "compute/kernels/emulate/emulate_block.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

static emulate_stream_put *put_on_stream;

void emulate_streams(emulate_stream_put *put) {
    put_on_stream = put;
}

static void end_block(void) {
    emulate_copy_end_block();
    emulate_wgmma_end_block();
}

/* False: something was found, and the launch ends. */
static bool emulate_launch_block(uint32_t x, uint32_t y, uint32_t number) {
    struct block *block = &emulate_block_now;
    block->x = x;
    block->y = y;
    block->number = number;
    emulate_memory_begin_block();
    emulate_warp_begin_block();
    emulate_copy_begin_block();
    emulate_wgmma_begin_block();
    bool whole = emulate_run_threads(end_block);
    emulate_copy_forget();
    return whole;
}

struct job {
    struct emulate_launch launch;
    size_t closure_bytes;
    _Alignas(64) char closure[];
};

static void run_launch(void *argument) {
    struct job *job = argument;
    uint32_t count = job->launch.grid_x * job->launch.grid_y;
    uint32_t *order = malloc(count * sizeof *order);
    check(order && !emulate_run_running());
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    emulate_block_now = (struct block){.launch = job->launch,
                                       .closure = job->closure,
                                       .closure_bytes = job->closure_bytes,
                                       .advance = emulate_copy_advance,
                                       .check_stack = emulate_wgmma_check_stack};
    emulate_memory_begin_launch();
    for (uint32_t i = 0; i < count; i++) {
        uint32_t drawn = i + emulate_run_random(count - i), block = order[drawn];
        order[drawn] = order[i];
        if (!emulate_launch_block(block % job->launch.grid_x, block / job->launch.grid_x, i + 1))
            break;
    }
    free(order);
}

void emulate_launch(const struct emulate_launch *launch, const void *closure, size_t bytes,
                    void *stream) {
    check(launch->threads && launch->threads % WARP == 0 &&
          launch->threads <= EMULATE_THREADS_MAX && launch->shared_bytes <= EMULATE_SHARED_MAX);
    struct job *job = aligned_alloc(64, (sizeof *job + bytes + 63) / 64 * 64);
    check(job);
    job->launch = *launch;
    job->closure_bytes = bytes;
    memcpy(job->closure, closure, bytes);
    if (put_on_stream) {
        put_on_stream(stream, run_launch, job);
        return;
    }
    run_launch(job);
    free(job);
}
