/* SPDX-License-Identifier: Apache-2.0
 * The canary: dies on inputs that begin with "FATHOM". It proves that the fuzzers can find a bug
 * guarded by several bytes, and that the replayer notices one.
 */
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char word[] = "FATHOM";
    size_t same = 0;
    while (same < sizeof word - 1 && same < size && data[same] == (uint8_t)word[same])
        same++;
    if (same == sizeof word - 1) abort();
    return 0;
}
