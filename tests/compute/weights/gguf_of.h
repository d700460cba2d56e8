/* SPDX-License-Identifier: Apache-2.0
 * Converts a checkpoint's directory to a GGUF file, as llama.cpp's converter does for its
 * architecture deepseek2: its names, kv_b in two parts with the keys transposed, experts stacked,
 * norms, routers and biases in F32.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct gguf_of {
    const char *directory; /* of the checkpoint */
    const char *path;      /* of the file; of a split one NAME-00001-of-0000N.gguf */
    const char *type;      /* of the matrices, such as "Q4_K"; NULL: BF16. A matrix with rows that
                            * are no whole blocks becomes Q8_0, or F32 */
    const char *down_type; /* of the experts' down; NULL: as `type` */
    bool rounded;          /* the matrices are the values of `type`, as F32 */
    bool whole_kv_b;       /* one attn_kv_b, as older files have it */
    bool mtp;              /* with the MTP layers */
    uint32_t parts;        /* files; 0: one */
};

/* Fails the program if it cannot. */
void gguf_of_write(const struct gguf_of *plan);
