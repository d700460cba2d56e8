/* SPDX-License-Identifier: Apache-2.0
 * usage: make_gguf DIRECTORY FILE [type=Q8_0] [down=Q6_K] [parts=3] [rounded] [whole] [mtp]
 * Converts a checkpoint for the tests of programs (gguf_of.h).
 */
#include "gguf_of.h"

#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    struct gguf_of plan = {.directory = argv[1], .path = argv[2]};
    for (int i = 3; i < argc; i++) {
        if (!strncmp(argv[i], "type=", 5)) plan.type = argv[i] + 5;
        if (!strncmp(argv[i], "down=", 5)) plan.down_type = argv[i] + 5;
        if (!strncmp(argv[i], "parts=", 6)) plan.parts = (uint32_t)strtoul(argv[i] + 6, NULL, 10);
        plan.rounded |= !strcmp(argv[i], "rounded");
        plan.whole_kv_b |= !strcmp(argv[i], "whole");
        plan.mtp |= !strcmp(argv[i], "mtp");
    }
    gguf_of_write(&plan);
    return 0;
}
