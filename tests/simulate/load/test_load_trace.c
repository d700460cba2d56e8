/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/load/load_trace.h"

#include <math.h>

#include "base/check.h"
#include "test_case.h"

static void *memory; /* of the trace that was read last */

static enum status read_text(const char *text, struct load_trace *trace, struct error *error) {
    struct arena arena;
    size_t bytes = load_trace_bytes(bytes_of(text));
    free(memory);
    memory = malloc(bytes);
    arena_over(&arena, memory, bytes);
    return load_trace_read(&arena, bytes_of(text), "trace", trace, error);
}

static int free_memory(void **state) {
    (void)state;
    free(memory);
    memory = NULL;
    return 0;
}

static struct load_trace read_good(const char *text) {
    struct load_trace trace = {0};
    struct error error = {""};
    enum status status = read_text(text, &trace, &error);
    if (status) fail_msg("%s", error.text);
    return trace;
}

static void assert_row(const struct load_trace *trace, size_t index, double arrival,
                       uint32_t prompt, uint32_t output) {
    const struct load_trace_row *row = &trace->rows[index];
    assert_true(fabs(row->arrival - arrival) < 1e-6);
    assert_int_equal(row->prompt_tokens, prompt);
    assert_int_equal(row->output_tokens, output);
}

/* As published, across midnight and the end of a leap year's February. */
TEST(azure_rows_are_read) {
    struct load_trace trace = read_good("TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
                                        "2024-02-28 23:59:59.5000000,374,44\r\n"
                                        "2024-02-29 00:00:00.7500000,396,0\r\n"
                                        "2024-03-01 00:00:00,1,1");
    assert_int_equal(trace.count, 3);
    assert_true(trace.has_arrivals);
    assert_row(&trace, 0, 0, 374, 44);
    assert_row(&trace, 1, 1.25, 396, 1); /* an answer has a token at least */
    assert_row(&trace, 2, 86400.5, 1, 1);
}

TEST(mooncake_rows_are_read) {
    struct load_trace trace = read_good("{\"timestamp\": 3000, \"input_length\": 600, "
                                        "\"output_length\": 5, \"hash_ids\": [0, 14]}\n"
                                        "\n"
                                        "{\"timestamp\": 6500, \"input_length\": 700, "
                                        "\"output_length\": 6, \"hash_ids\": [0, 9]}\n");
    assert_int_equal(trace.count, 2);
    assert_row(&trace, 0, 0, 600, 5);
    assert_row(&trace, 1, 3.5, 700, 6);
    assert_int_equal(trace.block_count, 4);
    assert_int_equal(trace.rows[1].block_count, 2);
    assert_int_equal(trace.blocks[trace.rows[1].block_index], 0);
    assert_int_equal(trace.blocks[trace.rows[1].block_index + 1], 9);
}

TEST(lengths_alone_are_enough) {
    struct load_trace trace =
        read_good("num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n"
                  "3772,54,3826,69.85\n100,10,110,10.0\n");
    assert_int_equal(trace.count, 2);
    assert_false(trace.has_arrivals);
    assert_row(&trace, 1, 0, 100, 10);
}

/* All due at once is no arrival pattern: clients would only be counted late. */
TEST(rows_that_come_at_once_have_no_arrivals) {
    static const char row[] =
        "{\"timestamp\":0,\"input_length\":5,\"output_length\":6,\"hash_ids\":[1]}\n";
    char text[2 * sizeof row];
    snprintf(text, sizeof text, "%s%s", row, row);
    struct load_trace trace = read_good(text);
    assert_int_equal(trace.count, 2);
    assert_false(trace.has_arrivals);
}

/* Each message names the line and the trouble. */
TEST(bad_files_are_refused) {
    static const char head[] = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
    static const struct {
        const char *body, *where, *what;
        bool headless;
    } cases[] = {
        {"", "trace", "no requests", false},
        {"", "trace", "no requests", true},
        {"\x28\xb5\x2f\xfd\x04 compressed\n", "line 1", "expected JSON Lines", true},
        {"a,b,c\n1,2,3\n", "line 1", "ContextTokens", true},
        {"2023-11-16 18:15:46,374\n", "line 2", "too few columns", false},
        {"yesterday,1,2\n", "line 2", "time", false},
        {"2023-13-16 18:15:46,1,2\n", "line 2", "time", false},
        {"2023-11-16 18:15:46,x,2\n", "line 2", "no number", false},
        {"2023-11-16 18:15:46,-5,2\n", "line 2", "no number", false},
        {"2023-11-16 18:15:46,0,2\n", "line 2", "1..1048576", false},
        {"2023-11-16 18:15:46,1,9999999\n", "line 2", "0..1048576", false},
        {"2023-11-16 18:15:46,nan,2\n", "line 2", "no number", false},
        {"5,1,2\n4,1,2\n", "line 3", "sort", false},
        {"{\"timestamp\":1,\"input_length\":1}\n", "line 1", "output_length", true},
        {"{\"timestamp\":1,\n", "line 1", "row", true},
        {"{\"input_length\":1,\"output_length\":1}\n"
         "{\"timestamp\":1,\"input_length\":1,\"output_length\":1}\n",
         "line 2", "timestamp", true},
        {"{\"input_length\":1,\"output_length\":1,\"hash_ids\":[\"a\"]}\n", "line 1", "hash", true},
        {"{\"timestamp\":-1,\"input_length\":1,\"output_length\":1}\n", "line 1", "milliseconds",
         true},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char text[512];
        size_t at = cases[i].headless ? 0 : sizeof head - 1;
        memcpy(text, head, at);
        strcpy(text + at, cases[i].body);
        struct load_trace trace = {0};
        struct error error = {""};
        assert_int_equal(read_text(text, &trace, &error), STATUS_INVALID);
        if (!strstr(error.text, cases[i].where) || !strstr(error.text, cases[i].what) ||
            strchr(error.text, '\n'))
            fail_msg("case %zu: %s", i, error.text);
        assert_null(trace.rows);
    }
}

/* Conversations stay whole, whatever block all prompts begin with; about one in N is left, and the
 * time begins with the first of them. */
TEST(a_sample_keeps_conversations) {
    enum { TALKS = 200, TURNS = 3, ONE_IN = 4 };
    static char text[TALKS * TURNS * 128];
    size_t at = 0;
    for (int i = 0; i < TALKS * TURNS; i++)
        at += (size_t)snprintf(text + at, sizeof text - at,
                               "{\"timestamp\":%d,\"input_length\":1500,\"output_length\":1,"
                               "\"hash_ids\":[0,%d,%d]}\n",
                               1000 * i, 1 + i % TALKS, 1000 + i);
    struct load_trace trace = read_good(text);
    load_trace_sample(&trace, 1, 7);
    assert_int_equal(trace.count, TALKS * TURNS);
    load_trace_sample(&trace, ONE_IN, 7);
    assert_int_equal(trace.count % TURNS, 0);
    size_t talks = trace.count / TURNS;
    assert_in_range(talks, TALKS / ONE_IN / 2, TALKS / ONE_IN * 2);
    assert_true(trace.rows[0].arrival == 0);
    for (size_t i = 0; i < trace.count; i++) {
        const struct load_trace_row *row = &trace.rows[i], *first = &trace.rows[i % talks];
        assert_int_equal(trace.blocks[row->block_index + 1], trace.blocks[first->block_index + 1]);
        assert_true(row->arrival == first->arrival + (double)(i / talks * TALKS));
    }
}

/* What prompts share they share at the new length, too: whole blocks become whole smaller
 * blocks. */
TEST(scaled_lengths_keep_their_blocks) {
    assert_int_equal(load_trace_scale(2 * LOAD_TRACE_BLOCK_TOKENS, 32), 64);
    assert_int_equal(load_trace_scale(1, 32), 1);
    assert_int_equal(load_trace_scale(600, 512), 600);
    assert_int_equal(load_trace_scale(LOAD_TRACE_TOKENS_MAX, 1024), LOAD_TRACE_TOKENS_MAX);
}

TEST_GROUP(NULL, free_memory)
