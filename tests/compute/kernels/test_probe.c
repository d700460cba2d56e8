/* SPDX-License-Identifier: Apache-2.0
 * Protects the probes of a machine's limits: they do as many operations as they say, and read every
 * byte once, however many streams they read it in.
 */
#include "test_case.h"

#include "compute/kernels/probe.h"

#include "levels.h"

TEST(work_grows_with_the_rounds) {
    for (int kind = 0; kind < PROBE_KIND_COUNT; kind++) {
        double once = probe_multiply((enum probe_kind)kind, 10);
        assert_true(once >= 0 && probe_multiply((enum probe_kind)kind, 30) == 3 * once);
    }
    assert_true(probe_multiply(PROBE_FMA, 1) > 0); /* at every level */
}

TEST(every_word_is_read_once) {
    enum { WORDS = 4096 };
    static _Alignas(64) uint64_t words[WORDS + 512];
    uint64_t draws = 1, sum = 0;
    for (uint32_t i = 0; i < WORDS; i++) {
        words[i] = (uint64_t)levels_random(&draws) << 32 | levels_random(&draws);
        sum ^= words[i];
    }
    for (uint32_t streams = 1; streams <= 4; streams += 3)
        assert_true(probe_read(words, WORDS * sizeof *words, streams) == sum);
}
