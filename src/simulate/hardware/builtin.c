/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/hardware/builtin.h"

#include "base/check.h"

#define FILE_IN_BINARY(symbol) extern const char symbol##_start[], symbol##_end[]

FILE_IN_BINARY(twin_h800);
FILE_IN_BINARY(twin_h100);
FILE_IN_BINARY(twin_h200);
FILE_IN_BINARY(twin_deepseek_v3);
FILE_IN_BINARY(twin_tiny_r1);
FILE_IN_BINARY(twin_deepseek_2025_02);
FILE_IN_BINARY(twin_small);
FILE_IN_BINARY(twin_one_node);
FILE_IN_BINARY(twin_ep144);
FILE_IN_BINARY(twin_deepseek_day);

static const struct {
    enum builtin_kind kind;
    const char *name, *start, *end;
} files[] = {
    {BUILTIN_HARDWARE, "h800", twin_h800_start, twin_h800_end},
    {BUILTIN_HARDWARE, "h100", twin_h100_start, twin_h100_end},
    {BUILTIN_HARDWARE, "h200", twin_h200_start, twin_h200_end},
    {BUILTIN_MODEL, "deepseek-v3", twin_deepseek_v3_start, twin_deepseek_v3_end},
    {BUILTIN_MODEL, "tiny-r1", twin_tiny_r1_start, twin_tiny_r1_end},
    {BUILTIN_PRICES, "deepseek-2025-02", twin_deepseek_2025_02_start, twin_deepseek_2025_02_end},
    {BUILTIN_SCENARIO, "small", twin_small_start, twin_small_end},
    {BUILTIN_SCENARIO, "one-node", twin_one_node_start, twin_one_node_end},
    {BUILTIN_SCENARIO, "ep144", twin_ep144_start, twin_ep144_end},
    {BUILTIN_SCENARIO, "deepseek-day", twin_deepseek_day_start, twin_deepseek_day_end},
};

struct bytes builtin_text(enum builtin_kind kind, struct bytes name) {
    for (size_t i = 0; i < ARRAY_COUNT(files); i++)
        if (files[i].kind == kind && bytes_equal(name, bytes_of(files[i].name)))
            return (struct bytes){files[i].start, (size_t)(files[i].end - files[i].start)};
    return (struct bytes){NULL, 0};
}

const char *builtin_name(enum builtin_kind kind, uint32_t index) {
    for (size_t i = 0; i < ARRAY_COUNT(files); i++)
        if (files[i].kind == kind && index-- == 0) return files[i].name;
    return NULL;
}
