/* SPDX-License-Identifier: Apache-2.0
 * Protects the line before the ranks of a unit: by priority and then by arrival, each submission
 * and its keys as they came; bounded in number and in bytes, all of which come back.
 */
#include "serving/unit/waiting_line.h"

#include "base/random.h"
#include "test_case.h"

enum { RANKS = 2, REQUESTS = 8, PROMPT = 70, KEYS = 1 };

static void *memory;
static struct waiting_line line;

static int open_line(void **state) {
    const struct unit_options options = {.requests_max = REQUESTS / RANKS,
                                         .context_tokens_max = 500};
    size_t bytes = waiting_line_bytes(&options, RANKS);
    struct arena arena;
    memory = malloc(bytes);
    arena_over(&arena, memory, bytes);
    return waiting_line_open(&line, &arena, &options, RANKS) != STATUS_OK;
}

static int close_line(void **state) {
    free(memory);
    return 0;
}

static struct request_id id_of(uint32_t number) {
    return (struct request_id){.low = number};
}

/* All its tokens are its number; its key begins with it. */
static bool add(uint32_t number, int32_t priority) {
    struct {
        struct record_submit submit;
        uint32_t tokens[PROMPT];
    } record = {.submit = {.request = id_of(number), .prompt_count = PROMPT, .priority = priority}};
    struct block_key key = {{(uint8_t)number}};
    uint32_t near[RANKS] = {number, number + 1};
    struct prompt_blocks blocks = {&key, KEYS, near, RANKS};
    record_set_head(&record.submit, RECORD_SUBMIT);
    for (uint32_t i = 0; i < PROMPT; i++)
        record.tokens[i] = number;
    return waiting_line_add(&line, &record.submit, &blocks, 10 + number, 100 + number);
}

static void assert_whole(uint32_t place, uint32_t number) {
    const struct waiting_request *request = waiting_line_at(&line, place);
    const uint32_t *tokens = submit_tokens(request->submit);
    assert_int_equal(request->submit->request.low, number);
    for (uint32_t i = 0; i < PROMPT; i++)
        assert_int_equal(tokens[i], number);
    assert_int_equal(request->blocks.keys[0].bytes[0], number);
    assert_int_equal(request->blocks.near[0] + 1, request->blocks.near[1]);
    assert_int_equal(request->turn, 10 + number);
    assert_int_equal(request->arrived_ns, 100 + number);
    assert_int_equal(waiting_line_find(&line, id_of(number)), place);
}

TEST_AROUND(requests_stand_by_priority_and_then_by_arrival, open_line, close_line) {
    static const int32_t priorities[] = {0, 1, 0, -1, 1, 0};
    static const uint32_t order[] = {1, 4, 0, 2, 5, 3};
    for (uint32_t i = 0; i < 6; i++)
        assert_true(add(i, priorities[i]));
    for (uint32_t place = 0; place < 6; place++)
        assert_whole(place, order[place]);
}

TEST_AROUND(a_full_line_takes_nobody_until_somebody_leaves, open_line, close_line) {
    for (uint32_t i = 0; i < REQUESTS; i++)
        assert_true(add(i, 0));
    assert_false(add(REQUESTS, 5));
    waiting_line_remove(&line, 3);
    assert_true(add(REQUESTS, 0));
    assert_whole(REQUESTS - 1, REQUESTS);
    assert_whole(3, 4);
}

TEST_AROUND(memory_comes_back_whoever_leaves, open_line, close_line) {
    uint32_t number = 0;
    for (uint32_t turn = 0; turn < 5000; turn++) {
        if (random_uniform(1, 0, turn) < 0.5 || line.count == 0) {
            if (line.count < REQUESTS) assert_true(add(number++ % 200, 0));
        } else {
            waiting_line_remove(&line, (uint32_t)(random_uniform(1, 1, turn) * line.count));
        }
    }
    while (line.count)
        waiting_line_remove(&line, 0);
    assert_int_equal(line.pool.free_count, line.pool.chunk_count);
}

/* However small the unit is; an ordinary one, with each of the others. */
TEST_AROUND(the_longest_constraint_finds_a_place, open_line, close_line) {
    for (uint32_t i = 0; i < REQUESTS; i++) {
        uint32_t bytes = i == 3 ? LIMIT_CONSTRAINT_BYTES : 4096;
        struct record_submit fixed = {
            .request = id_of(i), .prompt_count = 500, .constraint_bytes = bytes};
        struct record_submit *submit = calloc(1, record_bytes(RECORD_SUBMIT, &fixed));
        *submit = fixed;
        record_set_head(submit, RECORD_SUBMIT);
        memset(submit_constraint(submit), 'a' + (int)i, bytes);
        assert_true(waiting_line_add(&line, submit, &(struct prompt_blocks){0}, 0, 0));
        free(submit);
    }
    for (uint32_t i = 0; i < REQUESTS; i++) {
        const struct record_submit *submit = waiting_line_at(&line, i)->submit;
        assert_int_equal(submit_constraint(submit)[submit->constraint_bytes - 1], 'a' + (int)i);
    }
}
