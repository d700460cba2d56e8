/* SPDX-License-Identifier: Apache-2.0 */
#include "faults.h"

#include <string.h>

#define SEEDS 20

static struct emulate_report run(faults_launch *launch, void *context, uint32_t fault,
                                 uint64_t seed) {
    struct emulate_report report = {0};
    emulate_seed(seed);
    emulate_collect(&report);
    launch(context, fault);
    emulate_collect(NULL);
    return report;
}

void faults_check_sound(faults_launch *launch, void *context) {
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct emulate_report report = run(launch, context, 0, seed);
        device_check(&report);
    }
}

void faults_check_found(faults_launch *launch, void *context, uint32_t fault,
                        enum emulate_check check, bool rare, const char *text) {
    uint32_t found = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct emulate_report report = run(launch, context, fault, seed);
        if (!report.made) continue;
        if (report.check != check || !strstr(report.text, text))
            fail_msg("fault %u: expected %s with '%s', found %s", fault, emulate_check_name(check),
                     text, report.text);
        found++;
    }
    if (rare ? !found : found < SEEDS)
        fail_msg("fault %u: %s in %u of %u seeds", fault, emulate_check_name(check), found, SEEDS);
}
