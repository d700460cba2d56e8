/* SPDX-License-Identifier: Apache-2.0
 * The checksum of an expert's weights on a move. Any change of a single 8-byte word changes it. It
 * is computed chunk by chunk, and needs no library: a build of the engine alone has no XXH3
 * (base/checksum.h).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct move_checksum {
    uint64_t channels[4];
    uint64_t bytes;
};

void move_checksum_begin(struct move_checksum *sum);
/* Appends data. Every call but the last has a multiple of 32 bytes. */
void move_checksum_add(struct move_checksum *sum, const char *data, size_t bytes);
uint64_t move_checksum_end(const struct move_checksum *sum);
