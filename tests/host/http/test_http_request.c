/* SPDX-License-Identifier: Apache-2.0
 * Protects the client that a request counts for: a key that the gateway knows, however it is sent
 * and from wherever, or else the network; a key that is not known buys no share of its own.
 */
#include "host/http/http_request.h"

#include "test_case.h"

static const uint8_t here[16] = {[10] = 0xff, 0xff, 192, 0, 2, 1};
static const uint8_t there[16] = {[10] = 0xff, 0xff, 192, 0, 2, 2};

static struct http_head bearer(const char *text) {
    return (struct http_head){.authorization = bytes_of(text)};
}

TEST(a_known_key_is_one_client_everywhere) {
    struct http_head one = bearer("Bearer key-1"), same = bearer("bearer  key-1");
    struct http_head bare = {.api_key = bytes_of("key-1")}, other = bearer("Bearer key-2");
    uint64_t client = http_request_client(&one, here, true);
    assert_true(client != 0);
    assert_true(client == http_request_client(&one, there, true));
    assert_true(client == http_request_client(&same, here, true));
    assert_true(client == http_request_client(&bare, here, true));
    assert_true(client != http_request_client(&other, here, true));
}

TEST(without_a_known_key_the_network_is_the_client) {
    struct http_head one = bearer("Bearer guess-1"), other = bearer("Bearer guess-2"), none = {0};
    uint64_t client = http_request_client(&none, here, false);
    assert_true(client != 0);
    assert_true(client == http_request_client(&one, here, false));
    assert_true(client == http_request_client(&other, here, false));
    assert_true(client == http_request_client(&none, here, true));
    assert_true(client != http_request_client(&none, there, false));
}

TEST(the_record_has_what_was_read) {
    struct http_head head = {.verb = HTTP_VERB_POST,
                             .path = bytes_of("/v1/x"),
                             .api_key = bytes_of("key-1"),
                             .wants_receipt = true};
    struct request_name name;
    request_name_draw(&name);
    struct http_request request = {.head = &head,
                                   .connection = {77},
                                   .name = &name,
                                   .body = bytes_of("{}"),
                                   .peer = here,
                                   .listener = HTTP_ADMIN};
    struct record_client_request *record = http_request_make(&request);
    assert_non_null(record);
    assert_int_equal(record->connection.value, 77);
    assert_int_equal(record->method, HTTP_POST);
    assert_int_equal(record->listener, HTTP_ADMIN);
    assert_true(record->wants_receipt && !record->body_left);
    assert_int_equal(record->path_bytes, 5);
    assert_memory_equal(client_request_path(record), "/v1/x", 5);
    assert_int_equal(record->authorization_bytes, 12);
    assert_memory_equal(client_request_authorization(record), "Bearer key-1", 12);
    assert_int_equal(record->body_bytes, 2);
    assert_memory_equal(client_request_body(record), "{}", 2);
    assert_int_equal(record->name_bytes, strlen(name.text));
    assert_memory_equal(client_request_name(record), name.text, record->name_bytes);
    assert_memory_equal(record->peer, here, 16);
    free(record);
}
