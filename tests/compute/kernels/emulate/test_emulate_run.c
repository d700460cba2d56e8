/* SPDX-License-Identifier: Apache-2.0
 * Protects launches: a seed decides a schedule and nothing else does; streams take launches with
 * copies of their arguments; a report without a taker ends the process. And numbers: the wrappers'
 * are those of their twins.
 */
#include "test_case.h"

#include "faults.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/number.h"
#include "compute/kernels/kernels.h"

#include "../levels.h"

#define COUNT (2 * WRAPPERS_THREADS)

static uint32_t *in, *out;

static int open_arrays(void **state) {
    in = device_new(COUNT * sizeof *in, "in");
    out = device_new(COUNT * sizeof *out, "out");
    memset(in, 0, COUNT * sizeof *in);
    return 0;
}

static int close_arrays(void **state) {
    device_free(in);
    device_free(out);
    return 0;
}

/* What a race is told of: which thread was drawn. */
static void run_race(uint64_t seed, struct emulate_report *report) {
    memset(report, 0, sizeof *report);
    emulate_seed(seed);
    emulate_collect(report);
    wrappers_memory(NULL, in, out, 2, MEMORY_READ_TOO_EARLY);
    emulate_collect(NULL);
    assert_true(report->made);
}

TEST(a_seed_decides_the_schedule) {
    struct emulate_report first, again;
    uint32_t differ = 0;
    for (uint64_t seed = 0; seed < 10; seed++) {
        run_race(seed, &first);
        run_race(seed, &again);
        assert_string_equal(first.text, again.text);
        run_race(seed + 1, &again);
        differ += strcmp(first.text, again.text) != 0;
    }
    assert_true(differ > 5);
}

static void (*put_run)(void *);
static void *put_job, *put_stream;

static void put(void *stream, void (*run)(void *), void *job) {
    put_stream = stream;
    put_run = run;
    put_job = job;
}

TEST(streams_take_launches) {
    int stream;
    emulate_streams(put);
    memset(out, 0xFF, COUNT * sizeof *out);
    wrappers_memory(&stream, in, out, 2, 0);
    emulate_streams(NULL);
    assert_ptr_equal(put_stream, &stream);
    assert_int_equal(out[3], 0xFFFFFFFFu);
    put_run(put_job);
    free(put_job);
    assert_int_equal(out[3], 1);
}

TEST(a_report_without_a_taker_ends_the_process) {
    pid_t child = fork();
    if (child == 0) {
        close(STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        wrappers_memory(NULL, in, out, 2, MEMORY_READS_BEYOND);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

TEST(numbers_are_those_of_the_twins) {
    enum { NUMBERS = 3000 };
    uint64_t random = 5;
    float *x = device_new(NUMBERS * sizeof *x, "x");
    uint32_t *results = device_new(NUMBERS * WRAPPERS_NUMBERS * sizeof *results, "results");
    for (uint32_t kind = 0; kind < NUMBERS_COUNT; kind++)
        levels_fill(&random, kind, x + kind * NUMBERS / NUMBERS_COUNT, NUMBERS / NUMBERS_COUNT);
    wrappers_numbers(NULL, x, results, NUMBERS);
    for (uint32_t i = 0; i < NUMBERS; i++) {
        const uint32_t *found = results + i * WRAPPERS_NUMBERS;
        if (x[i] >= 0) assert_int_equal(found[0], float_bits(sqrtf(x[i])));
        assert_int_equal(found[1], float_bits(1 / x[i]));
        assert_int_equal(found[2], float_bits(kernels_exp(x[i])));
        assert_int_equal(found[3], bf16_from_float(x[i]));
        assert_int_equal(found[4], (uint32_t)bf16_from_float(-x[i]) << 16 | bf16_from_float(x[i]));
        assert_int_equal(found[5], (uint32_t)e4m3_from_float(-x[i]) << 8 | e4m3_from_float(x[i]));
        assert_int_equal(found[6], float_bits(fmaf(x[i], x[i], 1)));
        assert_int_equal(found[7], float_bits(exp2f(x[i])));
    }
    device_free(x);
    device_free(results);
}

TEST_GROUP(open_arrays, close_arrays)
