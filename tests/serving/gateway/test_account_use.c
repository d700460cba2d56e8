/* SPDX-License-Identifier: Apache-2.0
 * Limits at the gateway: so many requests and tokens a minute, of an account and of a key, and what
 * others at the same ledger used of them; models that an account does not have; balances that end.
 * Who is told to come again later gets in then.
 */
#include "serving/gateway/account_use.h"

#include "askers.h"
#include "hands.h"
#include "test_case.h"

#define DOLLAR ((int64_t)1000000000)

static struct world *open_for(const struct asker *askers, uint32_t count) {
    return open_with(1, (struct gateway_options){.accounts = make_accounts(askers, count)});
}

static void notify_accounts(struct world *world, struct record_accounts *record) {
    world_report_gateway(world, record);
    world_settle(world);
}

static uint32_t asks_as(struct world *world, const char *authorization) {
    world->authorization = authorization;
    return ask(world, "");
}

/* The last one asked gets its six tokens. */
static void answer_last(struct world *world) {
    struct request_id id = world->last_submit->request;
    report_tokens(world, 1, id, 0, ids, 6);
    report_finished(world, 1, id, FINISH_LENGTH, 6);
}

static uint32_t answered(struct world *world, const char *authorization) {
    uint32_t client = asks_as(world, authorization);
    answer_last(world);
    assert_int_equal(world->clients[client].http_status, 200);
    return client;
}

static void assert_header(const struct world *world, uint32_t client, const char *line) {
    if (!strstr(world->clients[client].headers, line))
        fail_msg("no '%s' in '%s'", line, world->clients[client].headers);
}

/* ---- requests ---- */

TEST(so_many_requests_a_minute) {
    const struct asker one = {
        .name = "a", .key = "k", .salt = 1, .limits = {.requests_per_minute = 2}};
    struct world *world = open_for(&one, 1);
    assert_header(world, answered(world, "Bearer k"),
                  "X-RateLimit-Limit-Requests: 2\r\nX-RateLimit-Remaining-Requests: 1\r\n"
                  "X-RateLimit-Reset-Requests: 30s\r\n");
    world->now_ns += SECOND / 2;
    answered(world, "Bearer k");
    uint32_t refused = asks_as(world, "Bearer k");
    assert_refused(world, refused, 429, "rate_limit_exceeded");
    assert_int_equal(world->clients[refused].retry_after_seconds, 30); /* 29.5, and whole */
    assert_header(world, refused, "Remaining-Requests: 0\r\nX-RateLimit-Reset-Requests: 59.5s\r\n");
    world->now_ns += 29 * SECOND;
    assert_refused(world, asks_as(world, "Bearer k"), 429, "rate_limit_exceeded");
    world->now_ns += 1 * SECOND;
    answered(world, "Bearer k");
    close_empty(world);
}

TEST(a_key_has_limits_of_its_own) {
    const struct asker one = {.name = "a",
                              .key = "k",
                              .salt = 1,
                              .limits = {.requests_per_minute = 10, .tokens_per_minute = 1000},
                              .key_limits = {.requests_max = 1, .requests_per_minute = 2}};
    struct world *world = open_for(&one, 1);
    uint32_t client = asks_as(world, "Bearer k");
    assert_refused(world, asks_as(world, "Bearer k"), 429, "rate_limit_exceeded"); /* under way */
    answer_last(world);
    assert_header(world, client, "X-RateLimit-Limit-Requests: 2\r\nX-RateLimit-Limit-Tokens: 1000");
    answered(world, "Bearer k");
    client = asks_as(world, "Bearer k");
    assert_refused(world, client, 429, "rate_limit_exceeded");
    assert_int_equal(world->clients[client].retry_after_seconds, 30);
    close_empty(world);
}

/* Who is refused is not; who has left is. */
TEST(who_never_began_is_not_counted) {
    const struct asker one = {.name = "a",
                              .key = "k",
                              .salt = 1,
                              .limits = {.requests_per_minute = 1, .tokens_per_minute = 4}};
    struct world *world = open_for(&one, 1);
    world->authorization = "Bearer k";
    uint32_t client = world_post(world, COMPLETIONS, "{\"prompt\":[1,2,3,4,5],\"max_tokens\":6}");
    world_settle(world);
    assert_refused(world, client, 422, "out_of_range"); /* more than a minute's worth */
    asks_as(world, "Bearer k");
    world_hang_up(world, 1);
    world_settle(world);
    assert_refused(world, asks_as(world, "Bearer k"), 429, "rate_limit_exceeded");
    report_finished(world, 1, world->last_submit->request, FINISH_CANCELLED, 0);
    close_empty(world);
}

/* Leaves less room in the gateway's outbox than any answer takes. */
static void fill_outbox(struct world *world) {
    const struct outbox *outbox = world->gateway_machine.outbox;
    static char body[1 << 16];
    for (size_t room; (room = outbox_room(outbox)) > 256;) {
        size_t count = room / 12, used = 11;
        if (count > 16000) count = 16000;
        memcpy(body, "{\"tokens\":[", used);
        for (size_t i = 0; i < count; i++)
            used += (size_t)snprintf(body + used, sizeof body - used, i ? ",11" : "11");
        snprintf(body + used, sizeof body - used, "]}");
        world_post(world, "/detokenize", body);
        assert_true(world_deliver_to_gateway(world));
        assert_int_equal(world->fulls, 0);
    }
}

/* What finds no room for its refusal comes again, and counts once. */
TEST(a_request_that_comes_again_counts_once) {
    static char body[1 << 14];
    const struct asker one = {
        .name = "a", .key = "k", .salt = 1, .limits = {.requests_per_minute = 1}};
    struct world_options options = {.unit = {.context_tokens_max = 512}};
    options.gateway.accounts = make_accounts(&one, 1);
    struct world *world = world_open(&options);
    size_t used = (size_t)snprintf(body, sizeof body, "{\"prompt\":[1");
    for (uint32_t i = 0; i < 2000; i++)
        used += (size_t)snprintf(body + used, sizeof body - used, ",11");
    snprintf(body + used, sizeof body - used, "]}");
    world->authorization = "Bearer k";
    fill_outbox(world);
    uint32_t client = world_post(world, COMPLETIONS, body);
    world_deliver_to_gateway(world);
    assert_int_equal(world->fulls, 1);
    world_settle(world);
    assert_refused(world, client, 400, "context_length_exceeded");
    client = world_post(world, COMPLETIONS, body);
    world_settle(world);
    assert_refused(world, client, 429, "rate_limit_exceeded");
    world_close(world);
}

/* What finds no room for its refusal comes again, and its refusal counts once. */
TEST(a_refusal_that_comes_again_counts_once) {
    const struct asker askers[] = {
        {.name = "a", .key = "k", .salt = 1, .limits = {.requests_per_minute = 1}},
        {.name = "root", .key = "r", .salt = 2, .is_operator = true}};
    struct world_options options = {.unit = {.context_tokens_max = 512}};
    options.gateway.accounts = make_accounts(askers, 2);
    struct world *world = world_open(&options);
    answered(world, "Bearer k");
    fill_outbox(world);
    uint32_t client = world_post(world, COMPLETIONS, "{\"prompt\":[1]}");
    world_deliver_to_gateway(world);
    assert_int_equal(world->fulls, 1);
    world_settle(world);
    assert_refused(world, client, 429, "rate_limit_exceeded");
    world->authorization = "Bearer r";
    client = world_get(world, "/metrics");
    world_settle(world);
    assert_non_null(strstr(world->clients[client].data,
                           "fathom_account_rate_refused_total{account=\"a\"} 1\n"));
    world_close(world);
}

static void assert_limit(const struct world *world, uint32_t client, const char *limit) {
    char expected[64];
    snprintf(expected, sizeof expected, "\"limit\":\"%s\"}}", limit);
    assert_non_null(strstr(world->clients[client].data, expected));
}

TEST(a_refusal_says_which_limit_it_was) {
    const struct asker askers[] = {
        {.name = "a", .key = "a", .salt = 1, .limits = {.requests_per_minute = 1}},
        {.name = "b", .key = "b", .salt = 2, .limits = {.tokens_per_minute = 12}},
        {.name = "c", .key = "c", .salt = 3, .requests_max = 1}};
    struct world *world = open_for(askers, 3);
    answered(world, "Bearer a");
    assert_limit(world, asks_as(world, "Bearer a"), "requests_per_minute");
    answered(world, "Bearer b");
    answered(world, "Bearer b");
    assert_limit(world, asks_as(world, "Bearer b"), "tokens_per_minute");
    asks_as(world, "Bearer c");
    assert_limit(world, asks_as(world, "Bearer c"), "requests");
    answer_last(world);
    close_empty(world);
}

/* ---- tokens ---- */

TEST(so_many_tokens_a_minute) {
    const struct asker one = {
        .name = "a", .key = "k", .salt = 1, .limits = {.tokens_per_minute = 12}};
    struct world *world = open_for(&one, 1);
    uint32_t client = asks_as(world, "Bearer k"); /* 3, and 6 later */
    assert_int_equal(world->submits, 1);
    answer_last(world);
    assert_header(world, client,
                  "X-RateLimit-Limit-Tokens: 12\r\nX-RateLimit-Remaining-Tokens: 9\r\n"
                  "X-RateLimit-Reset-Tokens: 15s\r\n");
    asks_as(world, "Bearer k"); /* 3 are left, and taken at once */
    uint32_t refused = asks_as(world, "Bearer k");
    assert_refused(world, refused, 429, "rate_limit_exceeded");
    assert_int_equal(world->clients[refused].retry_after_seconds, 15);
    answer_last(world); /* 6 more than there were */
    refused = asks_as(world, "Bearer k");
    assert_int_equal(world->clients[refused].retry_after_seconds, 45);
    assert_header(world, refused, "Remaining-Tokens: 0\r\nX-RateLimit-Reset-Tokens: 1m30s\r\n");
    world->now_ns += 45 * SECOND - 1;
    assert_refused(world, asks_as(world, "Bearer k"), 429, "rate_limit_exceeded");
    world->now_ns += 1;
    answered(world, "Bearer k");
    close_empty(world);
}

/* Whose requests come too fast is told when there is room for its tokens, too. */
TEST(both_rates_are_waited_for) {
    const struct asker one = {.name = "a",
                              .key = "k",
                              .salt = 1,
                              .limits = {.requests_per_minute = 60, .tokens_per_minute = 9}};
    struct world *world = open_for(&one, 1);
    answered(world, "Bearer k"); /* all of its tokens */
    for (uint32_t i = 1; i < 60; i++)
        world_post(world, "/tokenize", "{\"prompt\":\"a\"}");
    world_settle(world);
    uint32_t client = asks_as(world, "Bearer k");
    assert_refused(world, client, 429, "rate_limit_exceeded");
    assert_int_equal(world->clients[client].retry_after_seconds, 20); /* 1 for the requests */
    world->now_ns += 20 * SECOND;
    answered(world, "Bearer k");
    close_empty(world);
}

/* While the ledger writes it down, it counts once. */
TEST(an_answer_that_is_settled_late_counts_once) {
    const struct asker one = {
        .name = "a", .key = "k", .salt = 1, .limits = {.tokens_per_minute = 12}};
    struct world *world =
        open_with(1, (struct gateway_options){.accounts = make_accounts(&one, 1), .settles = true});
    world->ledger_sleeps = true;
    uint32_t client = asks_as(world, "Bearer k");
    answer_last(world);
    assert_false(world->clients[client].ended);
    asks_as(world, "Bearer k"); /* 3 of 12 are left */
    assert_int_equal(world->submits, 2);
    world_settle_entries(world, 1);
    world_settle(world);
    assert_header(world, client, "X-RateLimit-Remaining-Tokens: 0\r\n");
    answer_last(world);
    world_settle_entries(world, 2);
    world_settle(world);
    close_empty(world);
}

TEST(tokens_that_were_not_used_come_back) {
    const struct asker one = {
        .name = "a", .key = "k", .salt = 1, .limits = {.tokens_per_minute = 3}};
    struct world *world = open_for(&one, 1);
    asks_as(world, "Bearer k");
    assert_refused(world, asks_as(world, "Bearer k"), 429, "rate_limit_exceeded");
    world_hang_up(world, 0);
    world_settle(world);
    struct record_finished *finished =
        make_finished(world->last_submit->request, FINISH_CANCELLED, 0);
    finished->work.queue_ns = -1; /* it never ran */
    report(world, 1, finished);
    answered(world, "Bearer k");
    close_empty(world);
}

/* Texts are counted when they are tokenized, however long that takes. */
TEST(a_refusal_after_the_tokenizer_is_one_like_any) {
    const struct asker one = {.name = "a",
                              .key = "k",
                              .salt = 1,
                              .limits = {.requests_per_minute = 1, .tokens_per_minute = 40}};
    struct world_options options = {.no_unit = true};
    options.gateway.accounts = make_accounts(&one, 1);
    options.gateway.inline_text_bytes = 8;
    struct world *world = world_open(&options);
    join(world, 1);
    world->authorization = "Bearer k";
    uint32_t client = world_post(
        world, COMPLETIONS,
        "{\"prompt\":\"one two three four five six seven eight nine ten eleven twelve thirteen "
        "fourteen fifteen sixteen seventeen eighteen nineteen twenty twenty-one twenty-two\"}");
    world_settle(world);
    assert_refused(world, client, 422, "out_of_range");
    client = world_post(world, COMPLETIONS, "{\"prompt\":\"one two three\",\"max_tokens\":6}");
    world_settle(world);
    assert_false(world->clients[client].ended);
    struct request_id id = world->last_submit->request;
    struct record_finished *finished = make_finished(id, FINISH_LENGTH, 0);
    finished->work.prompt_miss_tokens = world->last_submit->prompt_count;
    report(world, 1, finished);
    assert_int_equal(world->clients[client].http_status, 200);
    world_close(world);
}

/* ---- others at the same ledger ---- */

TEST(what_others_began_is_taken_off) {
    struct asker one = {.name = "a",
                        .key = "k",
                        .salt = 1,
                        .limits = {.requests_per_minute = 4, .tokens_per_minute = 100},
                        .others_requests = 1000,
                        .others_tokens = 5000};
    struct world *world = open_for(&one, 1);
    assert_header(world, answered(world, "Bearer k"), "Remaining-Requests: 3\r\n");
    one.others_requests += 2;
    one.others_tokens += 50;
    notify_accounts(world, make_accounts(&one, 1));
    notify_accounts(world, make_accounts(&one, 1)); /* once */
    uint32_t client = answered(world, "Bearer k");
    assert_header(world, client, "Remaining-Requests: 0\r\nX-RateLimit-Remaining-Tokens: 38\r\n");
    assert_refused(world, asks_as(world, "Bearer k"), 429, "rate_limit_exceeded");
    close_empty(world);
}

/* ---- models ---- */

TEST(a_model_may_be_denied) {
    const struct asker askers[] = {
        {.name = "a", .key = "k", .salt = 1, .limits = {.models_denied = 1}},
        {.name = "b", .key = "l", .salt = 2, .key_limits = {.models_denied = 2}}};
    struct world *world = open_for(askers, 2);
    world->authorization = "Bearer k";
    uint32_t client = asks_as(world, "Bearer k");
    assert_refused(world, client, 404, "model_not_found");
    assert_refused(world, ask(world, ",\"model\":\"tiny-r1\""), 404, "model_not_found");
    client = world_post(world, "/detokenize", "{\"tokens\":[]}");
    world_settle(world);
    assert_refused(world, client, 404, "model_not_found");
    client = world_get(world, "/v1/models/tiny-r1");
    world_settle(world);
    assert_refused(world, client, 404, "model_not_found");
    client = world_get(world, "/v1/models");
    world_settle(world);
    assert_null(strstr(world->clients[client].data, "tiny-r1"));
    answered(world, "Bearer l"); /* its key lacks another */
    close_empty(world);
}

/* ---- money ---- */

/* A dollar for each token of the answer. */
static struct record_accounts *priced(const struct asker *asker, uint64_t committed) {
    struct record_accounts *record = make_accounts(asker, 1);
    strcpy(record->currency, "USD");
    record->prices.others.output = (uint64_t)DOLLAR * PICOS_PER_NANO;
    record->committed = committed;
    return record;
}

static struct world *open_priced(const struct asker *asker) {
    return open_with(1, (struct gateway_options){.accounts = priced(asker, 0)});
}

static void assert_balance(struct world *world, const char *is_available, const char *balance) {
    char expected[256];
    snprintf(
        expected, sizeof expected,
        "{\"is_available\":%s,\"balance_infos\":[{\"currency\":\"USD\",\"total_balance\":\"%s\","
        "\"granted_balance\":\"0.00\",\"topped_up_balance\":\"%s\"}]}",
        is_available, balance, balance);
    uint32_t client = world_get(world, "/user/balance");
    world_settle(world);
    assert_int_equal(world->clients[client].http_status, 200);
    assert_string_equal(world->clients[client].data, expected);
}

/* Four billion of the currency may be owed beyond what is told, and eight in all: sums of amounts
 * stay whole numbers of 64 bits. */
TEST(an_account_owes_no_more_than_can_be_counted) {
    struct asker one = {.name = "a", .key = "k", .salt = 1, .balance = -2 * LEDGER_AMOUNT_MAX + 1};
    struct world *world = open_priced(&one);
    world->authorization = "Bearer k";
    answered(world, "Bearer k");
    assert_refused(world, asks_as(world, "Bearer k"), 402, "invalid_request_error");
    one.balance = INT64_MIN; /* as no gateway leaves it */
    notify_accounts(world, priced(&one, UINT64_MAX));
    assert_refused(world, asks_as(world, "Bearer k"), 402, "invalid_request_error");
    assert_balance(world, "false", "-9223372036.86");
    one.balance = INT64_MAX;
    notify_accounts(world, priced(&one, UINT64_MAX));
    answered(world, "Bearer k");
    close_empty(world);
}

TEST(a_prepaid_balance_ends) {
    struct asker one = {
        .name = "a", .key = "k", .salt = 1, .is_prepaid = true, .balance = 10 * DOLLAR};
    struct world *world = open_priced(&one);
    world->authorization = "Bearer k";
    assert_balance(world, "true", "10.00");
    answered(world, "Bearer k");
    assert_balance(world, "true", "4.00");
    answered(world, "Bearer k"); /* begun with something left, it is finished */
    assert_balance(world, "false", "-2.00");
    uint32_t client = asks_as(world, "Bearer k");
    assert_refused(world, client, 402, "invalid_request_error");
    assert_non_null(strstr(world->clients[client].data,
                           "{\"error\":{\"message\":\"Insufficient Balance\","
                           "\"type\":\"unknown_error\",\"param\":null,"));
    client = world_post(world, "/tokenize", "{\"prompt\":\"a\"}"); /* costs nothing */
    world_settle(world);
    assert_int_not_equal(world->clients[client].http_status, 402);
    one.balance = 1; /* topped up, with both answers taken off */
    notify_accounts(world, priced(&one, UINT64_MAX));
    assert_balance(world, "true", "0.00");
    answered(world, "Bearer k");
    close_empty(world);
}

/* What an answer may come to at most is set aside while it is under way: whoever has little left
 * begins no more than one answer beyond that. */
TEST(answers_under_way_are_paid_from_what_is_left) {
    const struct asker one = {
        .name = "a", .key = "k", .salt = 1, .is_prepaid = true, .balance = 13 * DOLLAR};
    struct world *world = open_priced(&one);
    world->authorization = "Bearer k";
    struct request_id ids_of[3];
    uint32_t clients[3];
    for (int i = 0; i < 3;
         i++) { /* six dollars each at most: the third has one left to begin with */
        clients[i] = asks_as(world, "Bearer k");
        ids_of[i] = world->last_submit->request;
    }
    assert_balance(world, "false", "13.00");
    uint32_t client = asks_as(world, "Bearer k");
    assert_refused(world, client, 402, "invalid_request_error");
    assert_limit(world, client, "balance");
    report_tokens(world, 1, ids_of[0], 0, ids,
                  2); /* the first one ends early, and the rest is free */
    report_finished(world, 1, ids_of[0], FINISH_STOP_TOKEN, 2);
    assert_balance(world, "false", "11.00");
    world_hang_up(world, clients[1]); /* it had nothing yet */
    world_settle(world);
    report_finished(world, 1, ids_of[1], FINISH_CANCELLED, 0);
    assert_balance(world, "true", "11.00");
    answered(world, "Bearer k");
    report_tokens(world, 1, ids_of[2], 0, ids, 6);
    report_finished(world, 1, ids_of[2], FINISH_LENGTH, 6);
    assert_balance(world, "false", "-1.00"); /* less than one answer below */
    close_empty(world);
}

/* A gateway of two names, the second of which costs three dollars a token. */
TEST(what_is_set_aside_is_by_the_name_that_was_asked_for) {
    const struct asker one = {
        .name = "a", .key = "k", .salt = 1, .is_prepaid = true, .balance = 30 * DOLLAR};
    struct record_accounts *reported = priced(&one, 0);
    reported->prices.named_count = 1;
    strcpy(reported->prices.named[0].model, "large");
    reported->prices.named[0].price.output = (uint64_t)3 * DOLLAR * PICOS_PER_NANO;
    struct world *world =
        open_with(1, (struct gateway_options){.accounts = reported, .model_names = "small,large"});
    world->authorization = "Bearer k";
    uint32_t client = ask(world, ",\"model\":\"large\""); /* eighteen at most */
    struct request_id large = world->last_submit->request;
    ask(world, ",\"model\":\"default\"");
    struct request_id first = world->last_submit->request;
    ask(world, ",\"model\":\"small\""); /* six and six more: nothing is left */
    struct request_id last = world->last_submit->request;
    assert_refused(world, ask(world, ""), 402, "invalid_request_error");
    report_tokens(world, 1, large, 0, ids, 2);
    report_finished(world, 1, large, FINISH_STOP_TOKEN, 2);
    assert_balance(world, "true", "24.00");
    const struct record_usage *usage = world->clients[client].usage;
    assert_int_equal(usage->model_bytes, strlen("large"));
    assert_memory_equal(entry_model(usage), "large", usage->model_bytes);
    report_finished(world, 1, first, FINISH_LENGTH, 0);
    report_tokens(world, 1, last, 0, ids, 6);
    report_finished(world, 1, last, FINISH_LENGTH, 6);
    assert_balance(world, "true", "18.00");
    close_empty(world);
}

TEST(a_budget_is_set_aside_as_well) {
    const struct asker one = {
        .name = "a", .key = "k", .salt = 1, .balance = 100 * DOLLAR, .budget = 7 * DOLLAR};
    struct world *world = open_priced(&one);
    asks_as(world, "Bearer k");
    struct request_id first = world->last_submit->request;
    asks_as(world, "Bearer k");
    uint32_t client = asks_as(world, "Bearer k");
    assert_refused(world, client, 402, "invalid_request_error");
    assert_limit(world, client, "budget");
    answer_last(world);
    report_tokens(world, 1, first, 0, ids, 6);
    report_finished(world, 1, first, FINISH_LENGTH, 6);
    close_empty(world);
}

TEST(who_pays_later_is_never_turned_away) {
    const struct asker one = {.name = "a", .key = "k", .salt = 1, .balance = -5 * DOLLAR / 1000};
    struct world *world = open_priced(&one);
    world->authorization = "Bearer k";
    assert_balance(world, "true", "-0.01");
    answered(world, "Bearer k");
    assert_balance(world, "true", "-6.01");
    close_empty(world);
}

TEST(a_key_s_budget_ends) {
    const struct asker one = {
        .name = "a", .key = "k", .salt = 1, .balance = 100 * DOLLAR, .budget = 6 * DOLLAR};
    struct world *world = open_priced(&one);
    answered(world, "Bearer k");
    assert_refused(world, asks_as(world, "Bearer k"), 402, "invalid_request_error");
    assert_balance(world, "false", "94.00");
    close_empty(world);
}

TEST(without_prices_there_is_no_balance) {
    const struct asker one = {.name = "a", .key = "k", .salt = 1, .is_prepaid = true};
    struct world *world = open_for(&one, 1);
    answered(world, "Bearer k");
    uint32_t client = world_get(world, "/user/balance");
    world_settle(world);
    assert_string_equal(world->clients[client].data,
                        "{\"is_available\":true,\"balance_infos\":[]}");
    close_empty(world);
}
