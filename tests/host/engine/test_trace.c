/* SPDX-License-Identifier: Apache-2.0
 * Protects traces: stages and the transfers that they waited for are recorded as they were, and the
 * file has those of all ranks, in microseconds since the first.
 */
#include "host/engine/trace.h"

#include <unistd.h>

#include "base/tree.h"
#include "test_case.h"

TEST(a_stage_and_the_transfer_that_it_waited_for_are_two_events) {
    struct trace *trace = trace_open();
    const struct model_trace *hook = trace_hook(trace);
    struct exchange_transfer transfer = {
        .began_ns = 5, .ended_ns = 9, .waited_ns = 3, .bytes_sent = 10, .bytes_received = 20};
    size_t count, lost;
    hook->begin(hook->context);
    hook->end(hook->context, STAGE_ATTENTION_0, 0, 3, NULL);
    hook->begin(hook->context);
    hook->end(hook->context, STAGE_MLP, 1, 4, &transfer);
    const struct trace_event *events = trace_events(trace, &count, &lost);
    assert_int_equal(count, 3);
    assert_int_equal(lost, 0);
    assert_int_equal(events[0].kind, TRACE_STAGE);
    assert_int_equal(events[0].layer, 3);
    assert_true(events[0].ended_ns >= events[0].began_ns);
    assert_int_equal(events[0].waited_ns, 0);
    assert_int_equal(events[1].stage, STAGE_MLP);
    assert_int_equal(events[1].micro_batch, 1);
    assert_int_equal(events[1].waited_ns, 3);
    assert_int_equal(events[2].kind, TRACE_TRANSFER);
    assert_int_equal(events[2].stage, STAGE_DISPATCH); /* whose transfer it was */
    assert_int_equal(events[2].began_ns, 5);
    assert_int_equal(events[2].ended_ns, 9);
    assert_int_equal(events[2].bytes, 30);
    trace_close(trace);
}

static char content[1 << 16], memory[1 << 20];

static const struct tree *read_file(const char *path) {
    const struct tree *root;
    struct arena arena;
    struct error error;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t bytes = fread(content, 1, sizeof content, file);
    fclose(file);
    arena_over(&arena, memory, sizeof memory);
    if (tree_parse(&arena, (struct bytes){content, bytes}, path, &root, &error))
        fail_msg("%s", error.text);
    return tree_member(root, "traceEvents");
}

/* The first event of this phase (and rank) in the file: when it was, in microseconds. */
static double time_of(const struct tree *events, const char *phase, int64_t rank) {
    for (size_t i = 0; i < tree_count(events); i++) {
        const struct tree *event = tree_at(events, i);
        struct bytes text;
        int64_t pid;
        double us;
        assert_true(tree_get_string(tree_member(event, "ph"), &text));
        assert_true(tree_get_integer(tree_member(event, "pid"), &pid));
        if (!bytes_equal(text, bytes_of(phase)) || pid != rank) continue;
        assert_true(tree_get_number(tree_member(event, "ts"), &us));
        return us;
    }
    fail();
    return 0;
}

TEST(the_file_has_all_ranks_in_microseconds_since_the_first) {
    const struct trace_event first[] = {
        {.began_ns = 7000, .ended_ns = 9000, .layer = 1, .kind = TRACE_STAGE, .stage = STAGE_MLP}};
    const struct trace_event second[] = {
        {.began_ns = 8500,
         .ended_ns = 9500,
         .kind = TRACE_STAGE,
         .stage = STAGE_SHARED,
         .micro_batch = 1},
        {.began_ns = 6000, .ended_ns = 9250, .kind = TRACE_TRANSFER, .stage = STAGE_COMBINE}};
    const struct trace_part parts[] = {{first, 1}, {second, 2}};
    char path[] = "/tmp/fathom_trace_XXXXXX";
    struct error error;
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    assert_int_equal(trace_write(path, parts, 2, &error), STATUS_OK);
    const struct tree *events = read_file(path);
    assert_true(time_of(events, "X", 0) == 1 && time_of(events, "X", 1) == 2.5);
    assert_true(time_of(events, "b", 1) == 0 && time_of(events, "e", 1) == 3.25);
    assert_non_null(strstr(content, "\"SHARED b\"")); /* the stage and its micro-batch */
    unlink(path);
    assert_int_equal(trace_write("/nowhere/trace", parts, 2, &error), STATUS_IO);
    assert_non_null(strstr(error.text, "/nowhere/trace"));
}
