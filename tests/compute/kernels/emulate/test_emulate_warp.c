/* SPDX-License-Identifier: Apache-2.0
 * Protects what threads do together: shuffles, votes, the warp's barrier and named ones do what
 * they are defined to, and threads that do not come together are found.
 */
#include "test_case.h"

#include "faults.h"

#define THREADS WRAPPERS_THREADS

struct arrays {
    uint32_t *in, *out;
};

static void launch(void *context, uint32_t fault) {
    struct arrays *arrays = context;
    wrappers_together(NULL, arrays->in, arrays->out, fault);
}

static struct arrays arrays_make(void) {
    struct arrays arrays = {device_new(THREADS * sizeof(uint32_t), "in"),
                            device_new(4 * THREADS * sizeof(uint32_t), "out")};
    for (uint32_t i = 0; i < THREADS; i++)
        arrays.in[i] = i * i % 97;
    return arrays;
}

static void arrays_free(struct arrays *arrays) {
    device_free(arrays->in);
    device_free(arrays->out);
}

TEST(threads_exchange_values_as_defined) {
    struct arrays arrays = arrays_make();
    faults_check_sound(launch, &arrays);
    for (uint32_t i = 0; i < THREADS; i++) {
        uint32_t first = i / 32 * 32, vote = 0, sum = 0, pair = 0;
        for (uint32_t k = 0; k < 32; k++) {
            vote |= arrays.in[first + k] % 2 << k;
            sum += arrays.in[first + k];
            pair += arrays.in[first + k] + arrays.in[(first ^ 32) + k];
        }
        assert_int_equal(arrays.out[i], arrays.in[i ^ 5]);
        assert_int_equal(arrays.out[128 + i], vote);
        assert_int_equal(arrays.out[256 + i], sum);
        assert_int_equal(arrays.out[384 + i], pair);
    }
    arrays_free(&arrays);
}

TEST(threads_that_do_not_come_together_are_found) {
    struct arrays arrays = arrays_make();
    faults_check_found(launch, &arrays, TOGETHER_DIVERGE, EMULATE_DIVERGENCE, false, "a vote");
    faults_check_found(launch, &arrays, TOGETHER_ONE_IS_GONE, EMULATE_DEADLOCK, false,
                       "threads 40-40 wait for nothing: it has ended");
    faults_check_found(launch, &arrays, TOGETHER_COUNTS_DIFFER, EMULATE_BARRIER, false, "96");
    faults_check_found(launch, &arrays, TOGETHER_NO_SUCH_BARRIER, EMULATE_BARRIER, false,
                       "barrier 16");
    faults_check_found(launch, &arrays, TOGETHER_FEWER_REGISTERS, EMULATE_REGISTERS, false, "28");
    arrays_free(&arrays);
}
