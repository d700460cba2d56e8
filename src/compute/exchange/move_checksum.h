/* SPDX-License-Identifier: Apache-2.0
 * The checksum of an expert's bytes on a move: every single changed word of 8 bytes changes it. It
 * is summed up as chunks go, and the engine alone, which has no XXH3 (base/checksum.h), has it too.
 */
#ifndef COMPUTE_EXCHANGE_MOVE_CHECKSUM_H
#define COMPUTE_EXCHANGE_MOVE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

struct move_checksum {
    uint64_t channels[4];
    uint64_t bytes;
};

void move_checksum_begin(struct move_checksum *sum);
/* All pieces but the last have a multiple of 32 bytes. */
void move_checksum_add(struct move_checksum *sum, const char *data, size_t bytes);
uint64_t move_checksum_end(const struct move_checksum *sum);

#endif
