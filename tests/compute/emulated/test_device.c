/* SPDX-License-Identifier: Apache-2.0
 * Protects the stand-in for a GPU: work that is ordered comes out right under every seed, and each
 * kind of misuse that a GPU would answer with wrong numbers now and then is found, each planted
 * here: a missing event, a host that reads or writes too early, memory that is released, too small,
 * of the wrong side or left behind.
 */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test_case.h"

#include "base/check.h"
#include "compute/device/device.h"
#include "compute/emulated/device_emulated.h"

#define SEEDS 40
#define COUNT 64

struct reports {
    uint32_t count;
    char last[512];
};

static void note(void *context, const char *text) {
    struct reports *reports = context;
    reports->count++;
    snprintf(reports->last, sizeof reports->last, "%s", text);
}

static struct device *open_device(uint64_t seed, struct reports *reports) {
    struct device *device;
    struct error error;
    struct device_emulation emulation = {
        .seed = seed, .memory_bytes = 64 << 20, .report = note, .context = reports};
    *reports = (struct reports){0};
    if (device_emulated_open(&emulation, &device, &error)) fail_msg("%s", error.text);
    return device;
}

static uint32_t *take(struct device *device, bool pinned, const char *what) {
    void *memory;
    struct error error;
    enum status status =
        pinned ? device_allocate_pinned(device, COUNT * sizeof(uint32_t), what, &memory, &error)
               : device_allocate(device, COUNT * sizeof(uint32_t), what, &memory, &error);
    if (status) fail_msg("%s", error.text);
    return memory;
}

static struct device_stream *new_stream(struct device *device) {
    struct device_stream *stream;
    struct error error;
    if (device_open_stream(device, &stream, &error)) fail_msg("%s", error.text);
    return stream;
}

static struct device_event *new_event(struct device *device) {
    struct device_event *event;
    struct error error;
    if (device_open_event(device, &event, &error)) fail_msg("%s", error.text);
    return event;
}

static void finish(struct device *device, struct device_stream *stream) {
    struct error error;
    if (device_synchronize_stream(device, stream, &error)) fail_msg("%s", error.text);
}

struct addition {
    uint32_t *to;
    const uint32_t *from;
    uint32_t count, number;
};

static void run_addition(const void *arguments, void *native) {
    const struct addition *addition = arguments;
    for (uint32_t i = 0; i < addition->count; i++)
        addition->to[i] = addition->from[i] + addition->number;
}

static const struct device_kernel addition_kernel = {"addition", 2, run_addition};

static void add(struct device *device, struct device_stream *stream, uint32_t *to,
                const uint32_t *from, uint32_t number) {
    struct addition addition = {to, from, COUNT, number};
    device_launch(device, stream, &addition_kernel, &addition, sizeof addition);
}

static const size_t bytes = COUNT * sizeof(uint32_t);

/* host -> a -> (stream 0) b -> (stream 1) c -> host; without `ordered` no event lies between the
 * streams. Returns whether what comes back is right. */
static bool run_two_streams(uint64_t seed, bool ordered, struct reports *reports) {
    struct device *device = open_device(seed, reports);
    uint32_t *in = take(device, true, "in"), *out = take(device, true, "out");
    uint32_t *a = take(device, false, "a"), *b = take(device, false, "b"),
             *c = take(device, false, "c");
    struct device_stream *first = new_stream(device), *second = new_stream(device);
    struct device_event *event = new_event(device);
    for (uint32_t i = 0; i < COUNT; i++)
        in[i] = i;
    device_copy(device, first, a, in, bytes, DEVICE_FROM_HOST);
    add(device, first, b, a, 10);
    if (ordered) {
        device_record(device, event, first);
        device_stream_wait_event(device, second, event);
    }
    add(device, second, c, b, 100);
    device_copy(device, second, out, c, bytes, DEVICE_TO_HOST);
    finish(device, second);
    bool right = true;
    for (uint32_t i = 0; i < COUNT; i++)
        right &= out[i] == i + 110;
    finish(device, first);
    void *all[] = {in, out, a, b, c};
    for (size_t i = 0; i < ARRAY_COUNT(all); i++)
        device_release(device, all[i]);
    device_close_event(device, event);
    device_close_stream(device, first);
    device_close_stream(device, second);
    device_close(device);
    return right;
}

TEST(work_that_is_ordered_is_right_under_every_seed) {
    struct reports reports;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        assert_true(run_two_streams(seed, true, &reports));
        assert_int_equal(reports.count, 0);
    }
}

TEST(a_missing_event_shows_under_some_seed) {
    struct reports reports;
    uint32_t wrong = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        wrong += !run_two_streams(seed, false, &reports);
    print_message("# a missing event: %u of %d seeds\n", wrong, SEEDS);
    assert_in_range(wrong, SEEDS / 4, SEEDS);
}

struct fixture { /* one stream and a buffer on each side */
    struct device *device;
    struct device_stream *stream;
    uint32_t *near, *far;
};

static void fixture_close(struct fixture *fixture) {
    finish(fixture->device, fixture->stream);
    device_release(fixture->device, fixture->near);
    device_release(fixture->device, fixture->far);
    device_close_stream(fixture->device, fixture->stream);
    device_close(fixture->device);
}

static struct reports found;

static void note_found(void *context, const char *text) {
    note(&found, text);
}

/* A device whose reports stand in `found`, and what it needs. */
static struct fixture fixture_open(uint64_t seed) {
    struct fixture fixture;
    struct error error;
    struct device_emulation emulation = {
        .seed = seed, .memory_bytes = 1 << 20, .report = note_found};
    found = (struct reports){0};
    if (device_emulated_open(&emulation, &fixture.device, &error)) fail_msg("%s", error.text);
    fixture.stream = new_stream(fixture.device);
    fixture.near = take(fixture.device, true, "the near buffer");
    fixture.far = take(fixture.device, false, "the far buffer");
    memset(fixture.near, 0, bytes);
    return fixture;
}

static void expect_found(const char *part) {
    if (!strstr(found.last, part)) fail_msg("expected '%s', found '%s'", part, found.last);
}

TEST(the_host_that_reads_too_early_finds_no_values) {
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct fixture fixture = fixture_open(seed);
        uint32_t early = 0;
        device_copy(fixture.device, fixture.stream, fixture.far, fixture.near, bytes,
                    DEVICE_FROM_HOST);
        finish(fixture.device, fixture.stream);
        device_copy(fixture.device, fixture.stream, fixture.near, fixture.far, bytes,
                    DEVICE_TO_HOST);
        for (uint32_t i = 0; i < COUNT; i++)
            early += fixture.near[i] == 0;
        finish(fixture.device, fixture.stream);
        assert_true(early == 0 || early == COUNT); /* it may have been quick */
        assert_int_equal(fixture.near[0], 0);
        fixture_close(&fixture);
    }
}

TEST(the_host_that_writes_too_early_is_found) {
    uint32_t times = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct fixture fixture = fixture_open(seed);
        device_copy(fixture.device, fixture.stream, fixture.far, fixture.near, bytes,
                    DEVICE_FROM_HOST);
        fixture.near[5] = 7;
        finish(fixture.device, fixture.stream);
        times += strstr(found.last, "changed before it was read") != NULL;
        fixture_close(&fixture);
    }
    assert_in_range(times, SEEDS / 2, SEEDS);
}

TEST(memory_that_is_released_while_work_is_in_line_is_found) {
    struct fixture fixture = fixture_open(1);
    uint32_t *more = take(fixture.device, false, "more");
    for (uint32_t i = 0; i < 8; i++) /* whatever runs at once, some of it is left */
        add(fixture.device, fixture.stream, fixture.far, more, 1);
    device_release(fixture.device, more);
    expect_found("release of more while work is in line");
    finish(fixture.device, fixture.stream);
    expect_found("pointer 1 of kernel addition: more was released");
    fixture_close(&fixture);
}

TEST(copies_out_of_bounds_are_found) {
    struct fixture fixture = fixture_open(1);
    device_copy(fixture.device, fixture.stream, fixture.far + 1, fixture.near, bytes,
                DEVICE_FROM_HOST);
    expect_found("target of a copy: 256 bytes reach beyond the end of the far buffer");
    device_copy_rows(fixture.device, fixture.stream,
                     &(struct device_copy){.to = fixture.near,
                                           .from = fixture.far,
                                           .to_pitch = 100,
                                           .from_pitch = 128,
                                           .row_bytes = 100,
                                           .row_count = 3,
                                           .direction = DEVICE_TO_HOST});
    expect_found("reach beyond the end of the near buffer");
    fixture_close(&fixture);
}

TEST(memory_of_the_wrong_side_is_found) {
    struct fixture fixture = fixture_open(1);
    uint32_t plain[COUNT] = {0};
    device_copy(fixture.device, fixture.stream, fixture.far, plain, bytes, DEVICE_FROM_HOST);
    expect_found("source of a copy: expected page-locked memory");
    add(fixture.device, fixture.stream, fixture.near, fixture.far, 1);
    finish(fixture.device, fixture.stream);
    expect_found("pointer 0 of kernel addition: expected device memory");
    fixture_close(&fixture);
}

TEST(the_host_cannot_touch_device_memory) {
    struct fixture fixture = fixture_open(1);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGSEGV, SIG_DFL);
        fixture.far[0] = 1;
        _exit(0);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGSEGV);
    fixture_close(&fixture);
}

struct overrun {
    char *memory;
};

static void run_overrun(const void *arguments, void *native) {
    ((const struct overrun *)arguments)->memory[bytes] = 0;
}

TEST(a_kernel_that_writes_beyond_the_end_is_found) {
    static const struct device_kernel kernel = {"overrun", 1, run_overrun};
    struct fixture fixture = fixture_open(1);
    struct overrun overrun = {(char *)fixture.far};
    device_launch(fixture.device, fixture.stream, &kernel, &overrun, sizeof overrun);
    fixture_close(&fixture);
    expect_found("the far buffer was written to beyond its end");
}

TEST(what_is_left_behind_is_found) {
    struct fixture fixture = fixture_open(1);
    struct error error;
    void *memory;
    struct device_event *event = new_event(fixture.device);
    assert_int_equal(device_allocate(fixture.device, 16, "a leak", &memory, &error), STATUS_OK);
    fixture_close(&fixture);
    expect_found("1 events were not closed");
    assert_int_equal(found.count, 2);
    free(event);
}

TEST(a_capture_that_is_not_joined_is_found) {
    struct fixture fixture = fixture_open(1);
    struct error error;
    struct device_graph *graph;
    struct device_stream *other = new_stream(fixture.device);
    struct device_event *event = new_event(fixture.device);
    device_begin_capture(fixture.device, fixture.stream);
    device_record(fixture.device, event, fixture.stream);
    device_stream_wait_event(fixture.device, other, event);
    add(fixture.device, other, fixture.far, fixture.far, 1);
    assert_int_equal(device_end_capture(fixture.device, fixture.stream, &graph, &error), STATUS_OK);
    expect_found("a capture ends before a stream that joined it was followed");
    device_close_graph(fixture.device, graph);
    device_close_stream(fixture.device, other);
    device_close_event(fixture.device, event);
    fixture_close(&fixture);
}

/* Two are captured at the same time, each from its own stream, while a third stream's work runs. */
TEST(streams_are_captured_beside_one_another) {
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct fixture fixture = fixture_open(seed);
        struct error error;
        struct device_graph *graphs[2];
        struct device_stream *streams[] = {fixture.stream, new_stream(fixture.device)};
        struct device_stream *third = new_stream(fixture.device);
        uint32_t *beside = take(fixture.device, false, "beside");
        memset(fixture.near, 0, bytes);
        for (uint32_t i = 0; i < 2; i++)
            device_begin_capture(fixture.device, streams[i]);
        add(fixture.device, streams[0], fixture.far, fixture.far, 1);
        device_copy(fixture.device, third, fixture.far, fixture.near, bytes, DEVICE_FROM_HOST);
        add(fixture.device, streams[1], beside, fixture.far, 10);
        finish(fixture.device, third);
        for (uint32_t i = 0; i < 2; i++)
            assert_int_equal(device_end_capture(fixture.device, streams[i], &graphs[i], &error),
                             STATUS_OK);
        for (uint32_t i = 0; i < 2; i++) {
            device_launch_graph(fixture.device, third, graphs[i]); /* on any stream */
            device_launch_graph(fixture.device, third, graphs[i]);
        }
        device_copy(fixture.device, third, fixture.near, beside, bytes, DEVICE_TO_HOST);
        finish(fixture.device, third);
        assert_int_equal(fixture.near[5], 12);
        for (uint32_t i = 0; i < 2; i++)
            device_close_graph(fixture.device, graphs[i]);
        device_close_stream(fixture.device, streams[1]);
        device_close_stream(fixture.device, third);
        device_release(fixture.device, beside);
        fixture_close(&fixture);
        assert_int_equal(found.count, 0);
    }
}

/* A graph of two streams: far += 1 twice on one, then beside it another buffer; run three times. */
TEST(a_graph_runs_again_with_what_lies_there_now) {
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct fixture fixture = fixture_open(seed);
        struct error error;
        struct device_graph *graph;
        struct device_stream *other = new_stream(fixture.device);
        struct device_event *fork_event = new_event(fixture.device),
                            *join = new_event(fixture.device);
        uint32_t *beside = take(fixture.device, false, "beside");
        device_begin_capture(fixture.device, fixture.stream);
        device_copy(fixture.device, fixture.stream, fixture.far, fixture.near, bytes,
                    DEVICE_FROM_HOST);
        device_record(fixture.device, fork_event, fixture.stream);
        device_stream_wait_event(fixture.device, other, fork_event);
        add(fixture.device, other, beside, fixture.far, 5);
        add(fixture.device, other, beside, beside, 1);
        device_record(fixture.device, join, other);
        device_stream_wait_event(fixture.device, fixture.stream, join);
        add(fixture.device, fixture.stream, fixture.far, beside, 100);
        device_copy(fixture.device, fixture.stream, fixture.near, fixture.far, bytes,
                    DEVICE_TO_HOST);
        assert_int_equal(device_end_capture(fixture.device, fixture.stream, &graph, &error),
                         STATUS_OK);
        memset(fixture.near, 0, bytes);
        for (uint32_t times = 1; times <= 3; times++) {
            device_launch_graph(fixture.device, fixture.stream, graph);
            finish(fixture.device, fixture.stream);
            assert_int_equal(fixture.near[3], 106 * times);
        }
        assert_int_equal(found.count, 0);
        device_close_graph(fixture.device, graph);
        device_close_stream(fixture.device, other);
        device_close_event(fixture.device, fork_event);
        device_close_event(fixture.device, join);
        device_release(fixture.device, beside);
        fixture_close(&fixture);
        assert_int_equal(found.count, 0);
    }
}

TEST(memory_has_an_end) {
    struct fixture fixture = fixture_open(1);
    struct error error;
    void *memory;
    assert_int_equal(device_allocate(fixture.device, 2 << 20, "too much", &memory, &error),
                     STATUS_NO_MEMORY);
    fixture_close(&fixture);
}

/* Two devices of one process, as of two. */
TEST(shared_memory_is_one_devices_and_anothers) {
    struct reports reports, others;
    struct device *device = open_device(5, &reports), *other = open_device(6, &others);
    struct device_stream *stream = new_stream(device), *there = new_stream(other);
    struct device_handle handle;
    struct error error;
    void *memory, *mapped;
    const size_t size = COUNT * sizeof(uint32_t);
    uint32_t *read_back = take(other, true, "what was found");
    assert_int_equal(device_allocate_kind(device, size, "shared", DEVICE_SHARED, &memory, &error),
                     STATUS_OK);
    assert_int_equal(device_share(device, memory, &handle, &error), STATUS_OK);
    assert_int_equal(device_map(other, &handle, "mapped", &mapped, &error), STATUS_OK);
    device_fill(device, stream, memory, 7, size);
    assert_int_equal(device_synchronize_stream(device, stream, &error), STATUS_OK);
    device_copy(other, there, read_back, mapped, size, DEVICE_TO_HOST);
    device_fill(other, there, mapped, 9, size);
    assert_int_equal(device_synchronize_stream(other, there, &error), STATUS_OK);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(read_back[i], 0x07070707);
    assert_int_equal(others.count, 0);
    device_copy(other, there, read_back, (char *)mapped + size, 4, DEVICE_TO_HOST);
    assert_int_equal(others.count, 1); /* beyond its end */
    device_release(other, mapped);
    assert_int_equal(others.count, 2);
    assert_non_null(strstr(others.last, "another device's"));
    device_fill(other, there, mapped, 9, size);
    device_unmap(other, mapped);
    assert_non_null(strstr(others.last, "while work is in line"));
    device_release(device, memory);
    assert_int_equal(reports.count, 0);
    void *plain = take(device, false, "plain");
    assert_int_not_equal(device_share(device, plain, &handle, &error), STATUS_OK);
    assert_int_equal(reports.count, 1);
    others.count = 0;
    assert_int_equal(device_synchronize_stream(other, there, &error), STATUS_OK);
    assert_int_equal(others.count, 1); /* what was unmapped is filled */
    device_release(other, read_back);
    device_release(device, plain);
    device_close_stream(device, stream);
    device_close_stream(other, there);
    device_close(device);
    device_close(other);
}

TEST(memory_of_a_process_that_has_ended_cannot_be_mapped) {
    struct reports reports;
    struct device *device = open_device(7, &reports);
    struct device_handle handle = {{(uint64_t)getpid(), 4321, 4096, 16, 0}}; /* no such file */
    struct error error;
    void *mapped;
    assert_int_equal(device_map(device, &handle, "rows", &mapped, &error), STATUS_IO);
    assert_non_null(strstr(error.text, "rows cannot be mapped"));
    device_close(device);
}

TEST(timed_events_say_how_long_work_took_and_others_are_refused) {
    struct reports reports;
    struct device *device = open_device(3, &reports);
    struct device_stream *stream = new_stream(device);
    struct device_event *timed[2], *plain;
    struct error error;
    uint32_t *memory = take(device, false, "memory");
    for (int i = 0; i < 2; i++)
        assert_int_equal(device_open_timed_event(device, &timed[i], &error), STATUS_OK);
    assert_int_equal(device_open_event(device, &plain, &error), STATUS_OK);
    device_record(device, timed[0], stream);
    device_fill(device, stream, memory, 1, COUNT);
    device_record(device, plain, stream);
    device_record(device, timed[1], stream);
    assert_int_equal(device_synchronize_event(device, timed[1], &error), STATUS_OK);
    assert_true(device_elapsed_seconds(device, timed[0], timed[1]) > 0);
    assert_int_equal(reports.count, 0);
    device_elapsed_seconds(device, timed[0], plain);
    assert_int_equal(reports.count, 1);
    assert_non_null(strstr(reports.last, "notes no time"));
    device_record(device, timed[1], stream);
    device_elapsed_seconds(device, timed[0], timed[1]);
    assert_int_equal(reports.count, 2);
    assert_non_null(strstr(reports.last, "before it has passed"));
    assert_int_equal(device_synchronize_stream(device, stream, &error), STATUS_OK);
    for (int i = 0; i < 2; i++)
        device_close_event(device, timed[i]);
    device_close_event(device, plain);
    device_close_stream(device, stream);
    device_release(device, memory);
    device_close(device);
}
