/* SPDX-License-Identifier: Apache-2.0
 * load <- load * M / (M + n) + count for a report of n choices. For small n that is exp(-n / M), in
 * integers.
 */
#include "host/engine/expert_load.h"

#include <string.h>

#include "base/check.h"

#define CHOICES_MAX (UINT64_C(1) << 26)

size_t expert_load_bytes(uint32_t layers, uint32_t experts) {
    return (size_t)layers * (experts + 1) * sizeof(uint64_t);
}

void expert_load_open(struct expert_load *load, uint32_t layers, uint32_t experts,
                      uint64_t memory_choices, void *memory) {
    check(memory_choices >= 1 && memory_choices <= CHOICES_MAX);
    *load = (struct expert_load){.layers = layers,
                                 .experts = experts,
                                 .memory_choices = memory_choices,
                                 .loads = memory,
                                 .choices = (uint64_t *)memory + (size_t)layers * experts};
    memset(memory, 0, expert_load_bytes(layers, experts));
}

void expert_load_add(struct expert_load *load, uint32_t layer, const uint32_t *counts) {
    uint64_t *loads = load->loads + (size_t)layer * load->experts, sum = 0;
    check(layer < load->layers);
    for (uint32_t e = 0; e < load->experts; e++)
        sum += counts[e];
    check(sum < CHOICES_MAX);
    if (!sum) return;
    load->choices[layer] += sum;
    for (uint32_t e = 0; e < load->experts; e++) /* below (M + n) * UNIT before, so within 2^62 */
        loads[e] = loads[e] * load->memory_choices / (load->memory_choices + sum) +
                   (uint64_t)counts[e] * EXPERT_LOAD_UNIT;
}

void expert_load_restart(struct expert_load *load) {
    memset(load->choices, 0, load->layers * sizeof *load->choices);
}
