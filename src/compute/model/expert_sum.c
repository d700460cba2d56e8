/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/model/expert_sum.h"

#include <string.h>

#include "base/check.h"
#include "base/limits.h"

static const char *const names[EXPERT_SUM_COUNT] = {
    [EXPERT_SUM_EXPERTS] = "experts",
    [EXPERT_SUM_GROUPS] = "groups",
};

enum status expert_sum_named(const char *name, enum expert_sum *out, struct error *error) {
    for (int i = 0; i < EXPERT_SUM_COUNT; i++)
        if (!strcmp(name, names[i])) {
            *out = (enum expert_sum)i;
            return STATUS_OK;
        }
    return error_set(error, STATUS_INVALID,
                     "unknown sum of experts '%s': expected experts or groups", name);
}

void expert_sum_add(const struct kernels *kernels, enum row_mla_mode form, float *y,
                    const char *const *rows, const float *weights, uint32_t count, uint32_t n,
                    float *room) {
    const uint16_t *bf16[LIMIT_TOP_K_EXPERTS];
    check(count <= LIMIT_TOP_K_EXPERTS && form <= ROW_BF16);
    if (form == ROW_BF16) {
        for (uint32_t k = 0; k < count; k++)
            bf16[k] = (const uint16_t *)(const void *)rows[k];
        kernels->add_sum_bf16(y, bf16, weights, count, n);
        return;
    }
    memset(room, 0, n * sizeof *room);
    for (uint32_t k = 0; k < count; k++)
        kernels->add_scaled(room, (const float *)(const void *)rows[k], weights[k], n);
    kernels->add_scaled(y, room, 1, n);
}
