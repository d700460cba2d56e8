/* SPDX-License-Identifier: Apache-2.0
 * Protects what the gateway puts for a client: a whole record of exactly the bytes it needs, or
 * nothing at all; the status of an error as its API has it; and limits of long answers.
 */
#include "serving/gateway/reply.h"

#include "base/format.h"
#include "hands.h"
#include "test_case.h"

static void write_letters(struct json_writer *writer, const void *context) {
    json_writer_text(writer, context);
}

/* Leaves so many bytes in the outbox, or at least eight less. */
static uint32_t leave(struct gateway *gateway, size_t bytes) {
    return gateway->outbox.used = gateway->outbox.capacity - (uint32_t)bytes;
}

static const struct record *last_record(const struct gateway *gateway, uint32_t mark) {
    const struct record *record = (const void *)(gateway->outbox.memory + mark);
    assert_int_equal(record->bytes, gateway->outbox.used - mark);
    assert_true(record_valid(record, record->bytes));
    return record;
}

TEST(an_answer_is_put_whole_or_not_at_all) {
    struct world *world = open_empty((struct gateway_options){0});
    struct gateway *gateway = world->gateway;
    struct reply_notes notes = {ACCOUNT_NONE, ACCOUNT_NONE, bytes_of("what?"), bytes_of("{}")};
    struct reply reply = {.http_status = 200, .content_type = CONTENT_TEXT, .notes = &notes};
    struct record_respond counts = {
        .body_bytes = 5,
        .header_bytes = sizeof "X-Fathom-Warning: what?\r\nX-Fathom-Receipt: {}\r\n" - 1};
    size_t bytes = record_bytes(RECORD_RESPOND, &counts);
    for (size_t less = 8; less <= bytes; less += 8) {
        uint32_t mark = leave(gateway, bytes - less);
        assert_int_equal(reply_whole(gateway, &reply, write_letters, "hello"), STATUS_FULL);
        assert_int_equal(gateway->outbox.used, mark);
    }
    uint32_t mark = leave(gateway, bytes);
    assert_int_equal(reply_whole(gateway, &reply, write_letters, "hello"), STATUS_OK);
    const struct record_respond *respond = (const void *)last_record(gateway, mark);
    assert_memory_equal(respond_body(respond), "hello", 5);
    assert_memory_equal(respond_headers(respond), "X-Fathom-Warning: what?\r\n", 25);
    machine_outbox_clear(&gateway->outbox);
    close_empty(world);
}

TEST(a_piece_is_put_where_it_stays_and_nothing_makes_no_record) {
    struct world *world = open_empty((struct gateway_options){0});
    struct gateway *gateway = world->gateway;
    struct request request = {.unreported.connection = {7}};
    size_t bytes = record_bytes(RECORD_STREAM_DATA, &(struct record_stream_data){.data_bytes = 5});
    uint32_t mark = leave(gateway, bytes - 8);
    assert_int_equal(reply_data(gateway, &request, write_letters, "hello"), STATUS_FULL);
    assert_int_equal(gateway->outbox.used, mark);
    mark = leave(gateway, bytes);
    assert_int_equal(reply_data(gateway, &request, write_letters, "hello"), STATUS_OK);
    const struct record_stream_data *data = (const void *)last_record(gateway, mark);
    assert_int_equal(data->connection.value, 7);
    assert_memory_equal(stream_data(data), "hello", 5);
    mark = leave(gateway, bytes);
    assert_int_equal(reply_data(gateway, &request, write_letters, ""), STATUS_OK);
    assert_int_equal(gateway->outbox.used, mark);
    machine_outbox_clear(&gateway->outbox);
    close_empty(world);
}

/* Each API has its own status for what a field may not be. */
TEST(an_error_has_the_status_of_its_api) {
    struct api_error error;
    struct request leader = {.asked.endpoint = ENDPOINT_CHAT};
    api_error_set(&error, 422, "n", "out_of_range", "no");
    assert_int_equal(reply_reported_status(&leader, &error), 422);
    leader.asked.endpoint = ENDPOINT_MESSAGES;
    assert_int_equal(reply_reported_status(&leader, &error), 400);
    error.http_status = 503;
    assert_int_equal(reply_reported_status(&leader, &error), 503);
}

/* More choices leave less text for each; a list of tokens that fits no answer is refused. */
TEST(answers_have_a_limit) {
    struct world *world = open_with(1, (struct gateway_options){0});
    struct gateway *gateway = world->gateway;
    size_t one = reply_text_bytes_max(gateway, 1);
    assert_true(one < gateway->outbox.capacity);
    assert_int_equal(reply_text_bytes_max(gateway, LIMIT_CHOICES), one);
    assert_true(reply_text_bytes_max(gateway, LIMIT_CHOICES + 1) < one);
    struct api_error error = {0};
    struct request leader = {.asked.endpoint = ENDPOINT_CHAT};
    leader.asked.answer.dialect = endpoint_dialect(ENDPOINT_CHAT);
    leader.asked.prompt_tokens = (uint32_t)(one / 8 + 1);
    assert_int_equal(reply_tokens(gateway, &leader, 0, &error), STATUS_INVALID);
    assert_int_equal(error.http_status, 413);
    assert_string_equal(error.code, "request_too_large");
    assert_int_equal(gateway->outbox.used, 0);
    close_empty(world);
}
