/* SPDX-License-Identifier: Apache-2.0
 * A unit's board: a line for each rank, in a file that the supervisor and the ranks map. A rank
 * writes its own line, without locks; the supervisor reads them all.
 */
#ifndef HOST_RANK_BOARD_H
#define HOST_RANK_BOARD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/pulse.h"
#include "base/status.h"

struct rank_line {
    _Alignas(128) struct pulse pulse;
    _Atomic int64_t pid; /* 0: not there yet; written last */
    char host[64];
};

struct rank_board {
    struct rank_line *lines; /* [rank_count] */
    uint32_t rank_count;
};

/* The supervisor's: makes the file anew. */
enum status rank_board_create(const char *path, uint32_t rank_count, struct rank_board *board_out,
                              struct error *error) MUST_USE;
void rank_board_close(struct rank_board *board);

/* A rank's: signs on, and gives its signs of life there from now on, for the life of the process.
 */
enum status rank_board_join(const char *path, uint32_t rank, struct error *error) MUST_USE;

#endif
