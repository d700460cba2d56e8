/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/simulator/simulator_storage.h"

#include "small_fleet.h"

/* As above, but the pages hold next to nothing: what was computed comes back from the disk. */
TEST(the_storage_brings_back_what_pages_lost) {
    struct simulator_report reports[3];
    for (uint32_t i = 0; i < 3; i++) {
        struct small_load drawn = small_few(9);
        drawn.gap_ns = 1e9;
        drawn.answer_max = 10;
        drawn.prompt_max = 6000;
        drawn.stored = i == 2 ? 1536 : 0;
        struct simulator_options options = small_one_and_one(&drawn);
        options.kinds[0].page_count = 120;
        options.kinds[0].kv_storage = i > 0;
        options.storage_bytes = 1e12;
        options.host_bytes = 1e9;
        reports[i] = small_live(&options);
    }
    const struct simulator_role_counts *without = &reports[0].roles[UNIT_PREFILL];
    const struct simulator_role_counts *with = &reports[1].roles[UNIT_PREFILL];
    const struct simulator_role_counts *before = &reports[2].roles[UNIT_PREFILL];
    assert_int_equal(without->disk_hits + without->host_hits, 0);
    assert_true(with->disk_hits + with->host_hits > 0);
    assert_true(reports[1].hit_tokens > reports[0].hit_tokens);
    assert_true(reports[2].hit_tokens > reports[1].hit_tokens);
    assert_true(reports[1].storage_read_bytes > 0 && reports[1].storage_written_bytes > 0);
    assert_true(before->disk_hits + before->host_hits > with->disk_hits + with->host_hits);
    assert_int_equal(with->computed_tokens + with->device_hits + with->host_hits + with->disk_hits,
                     with->prompt_tokens);
}
