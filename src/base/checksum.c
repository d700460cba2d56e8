/* SPDX-License-Identifier: Apache-2.0
 * xxHash is inlined here, which avoids a call into a shared object for each slice.
 */
#include "base/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t checksum_of(const void *data, size_t bytes) {
    return XXH3_64bits(data, bytes);
}
