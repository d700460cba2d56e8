/* SPDX-License-Identifier: Apache-2.0
 * XXH3-64, the checksum of KV blocks (contract/kv_block.h) and cache files. It detects accidental
 * damage. Keys that must resist forgery use SHA-256 (base/sha256.h).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

uint64_t checksum_of(const void *data, size_t bytes);
