/* SPDX-License-Identifier: Apache-2.0
 * Signs of life: what is taken for one can be used as it is.
 */
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "host/process/ranks/rank_watch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint8_t token[RANK_WATCH_TOKEN_BYTES] = "0123456789abcdef";
    struct rank_sign sign;
    if (!rank_watch_sign_valid(data, size, token, 8)) return 0;
    check(size == sizeof sign);
    memcpy(&sign, data, sizeof sign);
    check(sign.rank > 0 && sign.rank < 8 && sign.state < HEARTBEAT_STATE_COUNT && sign.number > 0);
    check(memchr(sign.host, 0, sizeof sign.host) && sign.pid > 0 && sign.cpu_ns >= 0);
    return 0;
}
