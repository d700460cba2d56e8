/* SPDX-License-Identifier: Apache-2.0
 * Records ggml_blocks.txt: blocks of random bits and the floats that ggml's own functions make of
 * them. It is not part of the build. With llama.cpp's source in $LLAMA (release 0.5.0 or later):
 *
 *   cc -O2 -ffp-contract=off -ffunction-sections -I$LLAMA/ggml/include -I$LLAMA/ggml/src \
 *     record_ggml.c $LLAMA/ggml/src/ggml-quants.c -Wl,--gc-sections \
 *     -Wl,--defsym=ggml_type_size=0,--defsym=ggml_type_name=0 -lm -o record_ggml
 *   ./record_ggml >ggml_blocks.txt
 *
 * A line has the type's name, the bytes of its blocks, and the bits of its values, in hexadecimal
 * digits. Half-floats that are infinite or NaN become 1.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define GGML_COMMON_DECL_C
#include "ggml-common.h"
#include "ggml-quants.h"

#define VALUES 512

static uint64_t state = 20261130;

static uint8_t random_byte(void) { /* xorshift64* */
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (uint8_t)(state * 0x2545F4914F6CDD1DULL >> 56);
}

static void make_finite(uint8_t *half) {
    if ((half[1] & 0x7C) == 0x7C) half[0] = 0, half[1] = 0x3C;
}

typedef void dequantize(const void *blocks, float *out, int64_t count);

static void record(const char *name, dequantize *function, size_t values, size_t bytes,
                   int first_half, int second_half) {
    uint8_t blocks[VALUES * 4];
    float out[VALUES];
    for (size_t b = 0; b < VALUES / values; b++) {
        uint8_t *block = blocks + b * bytes;
        for (size_t i = 0; i < bytes; i++)
            block[i] = random_byte();
        if (first_half >= 0) make_finite(block + first_half);
        if (second_half >= 0) make_finite(block + second_half);
    }
    if (first_half < 0) blocks[0] = 0, blocks[bytes] = 1, blocks[2 * bytes] = 254; /* MXFP4 */
    function(blocks, out, VALUES);
    printf("%s ", name);
    for (size_t i = 0; i < VALUES / values * bytes; i++)
        printf("%02x", blocks[i]);
    printf(" ");
    for (size_t i = 0; i < VALUES; i++) {
        uint32_t bits;
        memcpy(&bits, &out[i], sizeof bits);
        printf("%08x", bits);
    }
    printf("\n");
}

#define RECORD(name, lower, values, bytes, first, second)                                          \
    record(name, (dequantize *)dequantize_row_##lower, values, bytes, first, second)

int main(void) {
    RECORD("Q4_0", q4_0, 32, 18, 0, -1);
    RECORD("Q4_1", q4_1, 32, 20, 0, 2);
    RECORD("Q5_0", q5_0, 32, 22, 0, -1);
    RECORD("Q5_1", q5_1, 32, 24, 0, 2);
    RECORD("Q8_0", q8_0, 32, 34, 0, -1);
    RECORD("Q4_K", q4_K, 256, 144, 0, 2);
    RECORD("Q5_K", q5_K, 256, 176, 0, 2);
    RECORD("Q6_K", q6_K, 256, 210, 208, -1);
    RECORD("MXFP4", mxfp4, 32, 17, -1, -1);
    return 0;
}
