/* SPDX-License-Identifier: Apache-2.0
 * Who may ask for what: every endpoint, on every listener, with every kind of key or with none.
 * What is expected follows from the table of endpoints alone. And what a request is nobody else's:
 * its connection is all that names it, and a key that is taken away lets it end.
 */

#include "askers.h"
#include "base/check.h"
#include "hands.h"
#include "serving/gateway/endpoint.h"
#include "test_case.h"

static const struct asker askers[] = {
    {.name = "one", .key = "key-one", .salt = 1},
    {.name = "other", .key = "key-other", .salt = 2},
    {.name = "operator", .key = "key-operator", .salt = 3, .is_operator = true},
    {.name = "former", .key = "key-former", .salt = 4},
};

enum kind { NO_KEY, WRONG_KEY, REVOKED_KEY, A_KEY, OTHERS_KEY, OPERATORS_KEY, KINDS };

static const char *const keys[KINDS] = {
    [NO_KEY] = NULL,
    [WRONG_KEY] = "Bearer key-wrong",
    [REVOKED_KEY] = "Bearer key-former",
    [A_KEY] = "Bearer key-one",
    [OTHERS_KEY] = "Bearer key-other",
    [OPERATORS_KEY] = "Bearer key-operator",
};

static struct world *open_with_askers(void) {
    return open_with(
        1, (struct gateway_options){.accounts = make_accounts(askers, ARRAY_COUNT(askers))});
}

/* All but the last. */
static void revoke_last(struct world *world) {
    world_report_gateway(world, make_accounts(askers, ARRAY_COUNT(askers) - 1));
    world_settle(world);
}

/* 0: neither 401, 403 nor 404: what it answers is its own affair. */
static uint32_t expected(const struct endpoint *endpoint, enum http_listener listener,
                         enum kind kind) {
    if (!(endpoint->listeners >> listener & 1)) return 404;
    if (endpoint->askers == ASKERS_ALL) return 0;
    if (kind < A_KEY) return 401;
    return endpoint->askers == ASKERS_OPERATORS && kind != OPERATORS_KEY ? 403 : 0;
}

static void assert_expected(struct world *world, const struct endpoint *endpoint,
                            const char *prefix, enum http_listener listener, enum kind kind) {
    char path[128];
    snprintf(path, sizeof path, "%s%.*s", prefix, (int)endpoint->path.count, endpoint->path.data);
    bool is_operators = !strncmp(path, "/metrics", 8) || !strncmp(path, "/debug", 6);
    world->swapped = is_operators != (listener == HTTP_ADMIN);
    world->authorization = keys[kind];
    /* The body is one that no endpoint takes: nothing is begun. */
    uint32_t client = world_request(world, endpoint->method, path, "[", 1);
    world_settle(world);
    uint32_t reported = world->clients[client].http_status;
    uint32_t wanted = expected(endpoint, listener, kind);
    bool is_refused = reported == 401 || reported == 403 || reported == 404;
    assert_true(world->clients[client].ended);
    if (wanted ? reported != wanted : is_refused)
        fail_msg("%s, listener %d, key %d: %u, not %u", path, (int)listener, (int)kind, reported,
                 wanted);
}

TEST(every_endpoint_asks_for_its_key) {
    static const char *const prefixes[] = {"", "/v1", "/beta"};
    const struct endpoint *endpoint;
    for (uint32_t prefix = 0; prefix < ARRAY_COUNT(prefixes); prefix++) {
        struct world *world = open_with_askers();
        revoke_last(world);
        for (uint32_t i = 0; (endpoint = endpoint_at(i)); i++) {
            for (uint32_t kind = 0; kind < KINDS; kind++) {
                assert_expected(world, endpoint, prefixes[prefix], HTTP_PUBLIC, kind);
                assert_expected(world, endpoint, prefixes[prefix], HTTP_ADMIN, kind);
            }
        }
        assert_int_equal(world->submits, 0);
        assert_int_equal(world->drains, 0);
        close_empty(world);
    }
}

/* The table itself: a new endpoint that is open to all, or whose listener is another one's, is
 * written down here. */
TEST(health_and_life_alone_are_everybody_s) {
    const struct endpoint *endpoint;
    for (uint32_t i = 0; (endpoint = endpoint_at(i)); i++) {
        bool is_public = endpoint->listeners == ENDPOINT_PUBLIC;
        bool is_open = endpoint->number == ENDPOINT_HEALTH || endpoint->number == ENDPOINT_LIVE;
        enum endpoint_askers askers_of_it = is_open     ? ASKERS_ALL
                                            : is_public ? ASKERS_WITH_KEY
                                                        : ASKERS_OPERATORS;
        assert_int_equal(endpoint->askers, askers_of_it);
    }
}

/* Before a body is read, its head is judged in the same way. */
TEST(no_body_is_read_of_whom_it_is_not_for) {
    const struct endpoint *endpoint;
    struct world *world = open_with_askers();
    revoke_last(world);
    for (uint32_t i = 0; (endpoint = endpoint_at(i)); i++)
        for (uint32_t kind = 0; kind < KINDS; kind++)
            for (uint32_t listener = 0; listener < 2; listener++) {
                size_t key_bytes = keys[kind] ? strlen(keys[kind]) : 0;
                struct record_client_request fixed = {.method = endpoint->method,
                                                      .path_bytes = (uint32_t)endpoint->path.count,
                                                      .authorization_bytes = (uint32_t)key_bytes,
                                                      .listener = listener};
                struct record_client_request *head = make(RECORD_CLIENT_REQUEST, &fixed);
                memcpy(client_request_path(head), endpoint->path.data, endpoint->path.count);
                if (key_bytes) memcpy(client_request_authorization(head), keys[kind], key_bytes);
                bool wanted = endpoint->method == HTTP_POST &&
                              !expected(endpoint, (enum http_listener)listener, (enum kind)kind);
                assert_int_equal(gateway_admit(world->gateway, head),
                                 wanted ? ADMISSION_KNOWN : ADMISSION_NO_BODY);
            }
    close_empty(world);
}

TEST(a_key_that_is_taken_away_lets_its_answer_end) {
    struct world *world = open_with_askers();
    world->authorization = keys[REVOKED_KEY];
    uint32_t client = ask(world, ",\"stream\":true");
    struct request_id id = world->last_submit->request;
    report_tokens(world, 1, id, 0, ids, 2);
    revoke_last(world);
    report_tokens(world, 1, id, 2, ids + 2, 4);
    report_finished(world, 1, id, FINISH_LENGTH, 6);
    assert_true(world->clients[client].ended);
    assert_int_equal(world->clients[client].http_status, 200);
    assert_non_null(strstr(world->clients[client].data, "[DONE]"));
    assert_refused(world, ask(world, ""), 401, "invalid_api_key");
    assert_int_equal(world->submits, 1);
    close_empty(world);
}

/* There is no path at which a request of somebody's could be named, so none is found: neither with
 * its id, nor with another's key. */
TEST(nobody_reaches_another_s_request) {
    static const char *const paths[] = {"/v1/responses/%s", "/v1/responses/%s/cancel",
                                        "/v1/chat/completions/%s", "/v1/messages/%s"};
    struct world *world = open_with_askers();
    world->authorization = keys[A_KEY];
    uint32_t client = ask(world, ",\"stream\":true");
    struct request_id id = world->last_submit->request;
    report_tokens(world, 1, id, 0, ids, 1);
    for (uint32_t kind = 0; kind < KINDS; kind++)
        for (uint32_t i = 0; i < 2 * ARRAY_COUNT(paths); i++) {
            char name[64], path[128];
            snprintf(name, sizeof name, "resp_%016llx%016llx", (unsigned long long)id.high,
                     (unsigned long long)id.low);
            snprintf(path, sizeof path, paths[i / 2], name);
            world->authorization = keys[kind];
            uint32_t intruder =
                world_request(world, i % 2 ? HTTP_POST : HTTP_GET, path, "{}", i % 2 ? 2 : 0);
            world_settle(world);
            assert_int_equal(world->clients[intruder].http_status, 404);
        }
    assert_int_equal(world->cancels, 0);
    report_tokens(world, 1, id, 1, ids + 1, 5);
    report_finished(world, 1, id, FINISH_LENGTH, 6);
    assert_non_null(strstr(world->clients[client].data, "[DONE]"));
    close_empty(world);
}

/* What is told of accounts is told to their own: of balances, and to operators of counters. No
 * answer has a key or its digest. */
TEST(an_account_is_reported_of_itself_alone) {
    static const char *const reported[] = {"/user/balance", "/v1/models", "/version",
                                           "/openapi.json", "/health"};
    struct world *world = open_with_askers();
    for (uint32_t i = 0; i < ARRAY_COUNT(reported); i++) {
        world->authorization = keys[A_KEY];
        uint32_t client = world_get(world, reported[i]);
        world_settle(world);
        assert_null(strstr(world->clients[client].data, "operator\":"));
        assert_null(strstr(world->clients[client].data, "former"));
        assert_null(strstr(world->clients[client].data, "key-"));
    }
    world->authorization = keys[OPERATORS_KEY];
    uint32_t client = world_get(world, "/metrics");
    world_settle(world);
    assert_non_null(strstr(world->clients[client].data, "account=\"former\""));
    assert_null(strstr(world->clients[client].data, "key-"));
    close_empty(world);
}
