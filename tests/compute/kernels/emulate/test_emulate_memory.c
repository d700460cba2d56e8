/* SPDX-License-Identifier: Apache-2.0
 * Protects the checks of plain accesses: a sound kernel passes under every seed, and each kind of
 * wrong access is found by its own check, with the name of what was touched; additions of several
 * threads need no order among themselves.
 */
#include "test_case.h"

#include "faults.h"

#define BLOCKS 3u
#define COUNT (BLOCKS * WRAPPERS_THREADS)

struct arrays {
    uint32_t *in, *out;
};

static void launch(void *context, uint32_t fault) {
    struct arrays *arrays = context;
    wrappers_memory(NULL, arrays->in, arrays->out, BLOCKS, fault);
}

static void launch_add(void *context, uint32_t fault) {
    struct arrays *arrays = context;
    wrappers_add(NULL, arrays->in, arrays->out, fault);
}

static int open_arrays(void **state) {
    static struct arrays arrays;
    arrays.in = device_new(COUNT * sizeof(uint32_t), "in");
    arrays.out = device_new(COUNT * sizeof(uint32_t), "out");
    for (uint32_t i = 0; i < COUNT; i++)
        arrays.in[i] = 3 * i;
    *state = &arrays;
    return 0;
}

static int close_arrays(void **state) {
    struct arrays *arrays = *state;
    device_free(arrays->in);
    device_free(arrays->out);
    return 0;
}

TEST(a_sound_kernel_passes) {
    struct arrays *arrays = *cmocka_state;
    faults_check_sound(launch, arrays);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(arrays->out[i], 3 * (i / 128 * 128 + 127 - i % 128) + 1);
}

TEST(wrong_addresses_are_found) {
    faults_check_found(launch, *cmocka_state, MEMORY_READS_BEYOND, EMULATE_BOUNDS, false,
                       "reads in+1536 of 1536 bytes");
    faults_check_found(launch, *cmocka_state, MEMORY_WRITES_BEYOND, EMULATE_BOUNDS, false,
                       "writes out+1536 of 1536 bytes");
    faults_check_found(launch, *cmocka_state, MEMORY_WRITES_AN_ARGUMENT, EMULATE_BOUNDS, false,
                       "writes");
    faults_check_found(launch, *cmocka_state, MEMORY_BEYOND_SHARED, EMULATE_BOUNDS, false,
                       "shared+0x200");
    faults_check_found(launch, *cmocka_state, MEMORY_NOT_ALIGNED, EMULATE_ALIGNMENT, false,
                       "shared+0x2");
}

TEST(races_and_unset_values_are_found) {
    faults_check_found(launch, *cmocka_state, MEMORY_NEVER_WRITTEN, EMULATE_UNSET, false,
                       "shared+0x1c");
    faults_check_found(launch, *cmocka_state, MEMORY_TWO_WRITE, EMULATE_RACE, false, "shared+0x28");
    faults_check_found(launch, *cmocka_state, MEMORY_OVERWRITTEN_TOO_EARLY, EMULATE_RACE, false,
                       "shared+");
    faults_check_found(launch, *cmocka_state, MEMORY_TWO_SHARE_GLOBAL, EMULATE_RACE, false,
                       " out+");
    faults_check_found(launch, *cmocka_state, MEMORY_BLOCKS_WRITE, EMULATE_RACE, false, "out+0");
    faults_check_found(launch, *cmocka_state, MEMORY_BLOCKS_READ, EMULATE_RACE, false, "out+0");
}

/* Which of two checks comes first, the seed says. */
TEST(reading_too_early_is_found) {
    static const uint32_t faults[] = {MEMORY_READ_TOO_EARLY, MEMORY_SHUFFLE_ORDERS_NOTHING,
                                      ADD_BEFORE_THE_WRITE};
    for (uint32_t i = 0; i < 3; i++)
        for (uint64_t seed = 0; seed < 20; seed++) {
            struct emulate_report report = {0};
            emulate_seed(seed);
            emulate_collect(&report);
            (i < 2 ? launch : launch_add)(*cmocka_state, faults[i]);
            emulate_collect(NULL);
            assert_true(report.made);
            assert_true(report.check == EMULATE_RACE || report.check == EMULATE_UNSET);
        }
}

/* ---- additions ---- */

TEST(additions_are_all_there) {
    struct arrays *arrays = *cmocka_state;
    faults_check_sound(launch_add, arrays);
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t sum = 0;
        for (uint32_t k = i; k < WRAPPERS_THREADS; k += 4)
            sum += arrays->in[k];
        assert_int_equal(arrays->out[i], sum);
    }
    for (uint32_t i = 0; i < WRAPPERS_THREADS; i++)
        assert_int_equal(arrays->out[4 + i], 1);
}

TEST(additions_are_ordered_with_plain_accesses_alone) {
    faults_check_found(launch_add, *cmocka_state, ADD_TO_UNSET, EMULATE_UNSET, false,
                       "adds to shared+");
    faults_check_found(launch_add, *cmocka_state, ADD_BEHIND_THE_READ, EMULATE_RACE, false,
                       "shared+0x0");
    faults_check_found(launch_add, *cmocka_state, ADD_READ_TOO_EARLY, EMULATE_RACE, false,
                       "shared+");
    faults_check_found(launch_add, *cmocka_state, ADD_OVERWRITTEN, EMULATE_RACE, false,
                       "shared+0x0");
    faults_check_found(launch_add, *cmocka_state, ADD_BEYOND, EMULATE_BOUNDS, false, "shared+0x14");
}

TEST(memory_that_was_dropped_is_not_the_kernels) {
    struct arrays *arrays = *cmocka_state;
    emulate_memory_drop(arrays->in);
    faults_check_found(launch, arrays, MEMORY_SOUND, EMULATE_BOUNDS, false, "reads");
    emulate_memory_add(arrays->in, COUNT * sizeof(uint32_t), "again");
    faults_check_found(launch, arrays, MEMORY_READS_BEYOND, EMULATE_BOUNDS, false, "again+1536");
}

TEST_GROUP(open_arrays, close_arrays)
