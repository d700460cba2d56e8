/* SPDX-License-Identifier: Apache-2.0
 * Accounts at the gateway: who has no key gets 401, in every path; the tenant that a unit is told
 * is the account's, whatever the client sends; a ledger for each; new accounts take effect at once
 * and leave what is under way alone.
 */

#include "askers.h"
#include "base/sha256.h"
#include "hands.h"
#include "serving/gateway/accounts.h"
#include "test_case.h"

static const struct asker usual[] = {
    {.name = "acme", .key = "key-a", .salt = 1},
    {.name = "busy", .key = "key-b", .salt = 2, .requests_max = 2},
    {.name = "cousin", .key = "key-c", .salt = 1},
    {.name = "root", .key = "key-r", .salt = 3, .is_operator = true}};

static struct world *open_with_accounts(void) {
    return open_with(1, (struct gateway_options){.accounts = make_accounts(usual, 4)});
}

static uint32_t status_of(struct world *world, enum http_method method, const char *path,
                          const char *authorization) {
    const char *body = method == HTTP_POST ? "{}" : "";
    world->authorization = authorization;
    uint32_t client = world_request(world, method, path, body, strlen(body));
    world_settle(world);
    assert_true(world->clients[client].ended);
    if (world->clients[client].http_status == 401)
        assert_refused(world, client, 401, "invalid_api_key");
    if (world->clients[client].http_status == 403) assert_refused(world, client, 403, "forbidden");
    return world->clients[client].http_status;
}

TEST(a_key_is_needed) {
    static const char *const wrong[] = {
        NULL,    "Bearer ",     "Bearer key-", "Bearer key-ab",      "Basic key-a",
        "key-a", "Bearerkey-a", "Bearer    ",  "Bearer key-a key-a", "Bearer\tkey-a"};
    struct world *world = open_with_accounts();
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(status_of(world, HTTP_POST, COMPLETIONS, wrong[i]), 401);
        assert_int_equal(status_of(world, HTTP_GET, "/v1/models", wrong[i]), 401);
        assert_int_equal(status_of(world, HTTP_GET, "/metrics", wrong[i]), 401);
        assert_int_equal(status_of(world, HTTP_GET, "/debug/fleet", wrong[i]), 401);
        assert_int_equal(status_of(world, HTTP_POST, "/debug/fleet/drain", wrong[i]), 401);
        assert_int_equal(status_of(world, HTTP_GET, "/health", wrong[i]), 200);
    }
    assert_int_equal(status_of(world, HTTP_GET, "/v1/models", "Bearer key-a"), 200);
    assert_int_equal(status_of(world, HTTP_GET, "/v1/models", "bEARER key-b"), 200);
    assert_int_equal(status_of(world, HTTP_GET, "/v1/models", "Bearer   key-a"), 200);
    assert_int_equal(status_of(world, HTTP_GET, "/v1/models", "bearer  key-a  "), 200);
    assert_int_equal(status_of(world, HTTP_POST, COMPLETIONS, "Bearer key-a"), 400); /* its body */
    assert_int_equal(status_of(world, HTTP_GET, "/metrics", "Bearer key-a"), 403);
    assert_int_equal(status_of(world, HTTP_POST, "/debug/fleet/drain", "Bearer key-a"), 403);
    assert_int_equal(status_of(world, HTTP_GET, "/metrics", "Bearer key-r"), 200);
    assert_int_equal(status_of(world, HTTP_GET, "/debug/fleet", "Bearer key-r"), 200);
    close_empty(world);
}

static enum admission admission(const struct world *world, enum http_listener listener,
                                enum http_method method, const char *path, const char *key) {
    size_t path_bytes = strlen(path), key_bytes = key ? strlen(key) : 0;
    struct record_client_request *head =
        make(RECORD_CLIENT_REQUEST,
             &(struct record_client_request){.method = method,
                                             .path_bytes = (uint32_t)path_bytes,
                                             .authorization_bytes = (uint32_t)key_bytes,
                                             .listener = listener});
    memcpy(client_request_path(head), path, path_bytes);
    if (key) memcpy(client_request_authorization(head), key, key_bytes);
    return gateway_admit(world->gateway, head);
}

/* The head decides whether anything is kept of the body. */
TEST(a_body_is_wanted_of_whom_has_a_key) {
    const char *good = "Bearer key-a", *operators = "Bearer key-r", *bad = "Bearer no";
    struct world *world = open_with_accounts();
    assert_int_equal(admission(world, HTTP_PUBLIC, HTTP_POST, COMPLETIONS, good), ADMISSION_KNOWN);
    assert_int_equal(admission(world, HTTP_PUBLIC, HTTP_POST, COMPLETIONS, bad), ADMISSION_NO_BODY);
    assert_int_equal(admission(world, HTTP_PUBLIC, HTTP_POST, COMPLETIONS, NULL),
                     ADMISSION_NO_BODY);
    assert_int_equal(admission(world, HTTP_ADMIN, HTTP_POST, COMPLETIONS, good), ADMISSION_NO_BODY);
    assert_int_equal(admission(world, HTTP_PUBLIC, HTTP_POST, "/v1/x", good), ADMISSION_NO_BODY);
    assert_int_equal(admission(world, HTTP_PUBLIC, HTTP_GET, "/v1/models", good),
                     ADMISSION_NO_BODY);
    assert_int_equal(admission(world, HTTP_PUBLIC, HTTP_POST, "/health", NULL), ADMISSION_NO_BODY);
    assert_int_equal(admission(world, HTTP_ADMIN, HTTP_POST, "/debug/fleet/drain", good),
                     ADMISSION_NO_BODY);
    assert_int_equal(admission(world, HTTP_ADMIN, HTTP_POST, "/debug/fleet/drain", operators),
                     ADMISSION_KNOWN);
    assert_int_equal(admission(world, HTTP_PUBLIC, HTTP_POST, "/debug/fleet/drain", operators),
                     ADMISSION_NO_BODY);
    world->body_left = true; /* its key came with a SIGHUP, between its head and now */
    world->authorization = good;
    uint32_t client = world_post(world, COMPLETIONS, "");
    world_settle(world);
    assert_refused(world, client, 401, "invalid_api_key");
    close_empty(world);
    world = open_with(1, (struct gateway_options){0});
    assert_int_equal(admission(world, HTTP_PUBLIC, HTTP_POST, COMPLETIONS, bad), ADMISSION_KEYLESS);
    close_empty(world);
}

TEST(without_accounts_keys_are_not_looked_at) {
    struct world *world = open_with(1, (struct gateway_options){0});
    static const struct tenant_salt nobody;
    assert_int_equal(status_of(world, HTTP_GET, "/metrics", "Bearer what"), 200);
    ask(world, "");
    assert_memory_equal(&world->last_submit->tenant, &nobody, sizeof nobody);
    report_finished(world, 1, world->last_submit->request, FINISH_FAILED, 0);
    world->now_ns += 100 * SECOND;
    world_settle(world);
    while (gateway_request_count(world->gateway)) {
        report_finished(world, 1, world->last_submit->request, FINISH_REFUSED_TOO_LARGE, 0);
        world->now_ns += 100 * SECOND;
        world_settle(world);
    }
    close_empty(world);
}

/* Asks with that key and has it answered; the tenant that the unit was told. */
static struct tenant_salt answer(struct world *world, const char *authorization, const char *more) {
    world->authorization = authorization;
    uint32_t client = ask(world, more), unit = world->last_unit.value;
    struct request_id id = world->last_submit->request;
    report_tokens(world, unit, id, 0, ids, 6);
    report_finished(world, unit, id, FINISH_LENGTH, 6);
    assert_int_equal(world->clients[client].http_status, 200);
    return world->last_submit->tenant;
}

static bool same(struct tenant_salt a, struct tenant_salt b) {
    return memcmp(&a, &b, sizeof a) == 0;
}

TEST(the_account_makes_the_tenant) {
    struct world *world = open_with_accounts();
    struct tenant_salt acme = answer(world, "Bearer key-a", "");
    struct tenant_salt narrow = answer(world, "Bearer key-a", ",\"cache_salt\":\"x\"");
    assert_true(same(acme, world->last_submit->account)); /* its turns stay the account's */
    assert_int_equal(acme.bytes[0], 1);
    assert_true(same(acme, answer(world, "Bearer key-a", ",\"user\":\"busy\"")));
    assert_true(same(acme, answer(world, "Bearer key-c", ""))); /* of one group */
    assert_false(same(acme, answer(world, "Bearer key-b", "")));
    assert_false(same(acme, narrow));
    assert_true(same(narrow, answer(world, "Bearer key-a", ",\"cache_salt\":\"x\"")));
    assert_false(same(narrow, answer(world, "Bearer key-a", ",\"cache_salt\":\"y\"")));
    assert_false(same(narrow, answer(world, "Bearer key-b", ",\"cache_salt\":\"x\"")));
    uint32_t client = ask(world, ",\"cache_salt\":7");
    assert_refused(world, client, 400, "invalid_type");
    close_empty(world);
}

/* What a tenant left in the caches is found for its lifetime at most, and not for all at the same
 * moment: a fleet would compute every prompt anew. */
TEST(a_tenant_changes_with_each_lifetime) {
    struct tenant_salt acme = {{1}}, busy = {{2}}, forever = accounts_tenant_now(acme, 5, 0);
    enum { LIFE = 1000, FROM = 1795000000 };
    uint32_t changes[2] = {0}, together = 0;
    assert_memory_equal(&forever, &acme, sizeof acme);
    for (int64_t at = FROM + 1; at <= FROM + 10 * LIFE; at++) {
        bool one =
            !same(accounts_tenant_now(acme, at, LIFE), accounts_tenant_now(acme, at - 1, LIFE));
        bool two =
            !same(accounts_tenant_now(busy, at, LIFE), accounts_tenant_now(busy, at - 1, LIFE));
        changes[0] += one;
        changes[1] += two;
        together += one && two;
        assert_false(
            same(accounts_tenant_now(acme, at, LIFE), accounts_tenant_now(acme, at - LIFE, LIFE)));
        assert_false(
            same(accounts_tenant_now(acme, at, LIFE), accounts_tenant_now(busy, at, LIFE)));
    }
    assert_int_equal(changes[0], 10);
    assert_int_equal(changes[1], 10);
    assert_int_equal(together, 0);
}

/* Wherever it goes on, a request stays its tenant's. */
TEST(a_request_keeps_its_tenant) {
    struct world *world = open_with_accounts();
    join(world, 2);
    world->authorization = "Bearer key-b";
    ask(world, "");
    uint32_t unit = world->last_unit.value;
    lose(world, unit);
    assert_int_equal(world->last_unit.value, 3 - unit);
    assert_int_equal(world->last_submit->tenant.bytes[0], 2);
    assert_int_equal(world->last_submit->account.bytes[0], 2);
    report_tokens(world, 3 - unit, world->last_submit->request, 0, ids, 6);
    report_finished(world, 3 - unit, world->last_submit->request, FINISH_LENGTH, 6);
    close_empty(world);
}

static void assert_reported(struct world *world, const char *line) {
    world->authorization = "Bearer key-r";
    uint32_t client = world_get(world, "/metrics");
    world_settle(world);
    if (!strstr(world->clients[client].data, line)) fail_msg("no %s", line);
}

TEST(each_has_a_ledger) {
    struct world *world = open_with_accounts();
    answer(world, "Bearer key-a", "");
    answer(world, "Bearer key-a", "");
    answer(world, "Bearer key-b", "");
    assert_reported(world, "fathom_account_requests_total{account=\"acme\"} 2\n");
    assert_reported(world, "fathom_account_prompt_cache_miss_tokens_total{account=\"acme\"} 6\n");
    assert_reported(world, "fathom_account_prompt_cache_hit_tokens_total{account=\"acme\"} 0\n");
    assert_reported(world, "fathom_account_output_tokens_total{account=\"acme\"} 12\n");
    assert_reported(world, "fathom_account_output_tokens_total{account=\"busy\"} 6\n");
    assert_reported(world, "fathom_account_output_tokens_total{account=\"root\"} 0\n");
    close_empty(world);
}

/* Who has begun is charged; who is let go, or leaves while it waits, is not. */
TEST(a_prompt_that_waits_in_vain_costs_nothing) {
    struct world *world = open_with(
        1, (struct gateway_options){.accounts = make_accounts(usual, 4), .queue_ns = SECOND});
    world->authorization = "Bearer key-a";
    uint32_t begun = ask(world, "");
    struct request_id id = world->last_submit->request;
    report_tokens(world, 1, id, 0, ids, 1);
    report_load(world, 1, 100, 1); /* no more, please */
    uint32_t waits = ask(world, ""), leaves = ask(world, "");
    assert_int_equal(world->submits, 1);
    world_hang_up(world, leaves);
    world->now_ns = SECOND;
    world_settle(world);
    assert_non_null(strstr(world->clients[waits].data, "insufficient_system_resource"));
    assert_non_null(strstr(world->clients[waits].data, "\"prompt_tokens\":3,"));
    report_tokens(world, 1, id, 1, ids + 1, 5);
    report_finished(world, 1, id, FINISH_LENGTH, 6);
    assert_ids(world, begun, ids, 6);
    assert_reported(world, "fathom_account_requests_total{account=\"acme\"} 3\n");
    assert_reported(world, "fathom_account_prompt_cache_miss_tokens_total{account=\"acme\"} 3\n");
    assert_reported(world, "fathom_account_output_tokens_total{account=\"acme\"} 6\n");
    assert_reported(world, "\nfathom_prompt_cache_miss_tokens_total 3\n");
    close_empty(world);
}

static void say_it_never_ran(struct world *world, struct request_id id) {
    struct record_finished *finished = make_finished(id, FINISH_CANCELLED, 0);
    finished->work.queue_ns = -1;
    report(world, 1, finished);
}

/* A prompt is paid for, once, if one of its answers has run. */
TEST(a_prompt_that_never_ran_costs_nothing) {
    struct world *world = open_with_accounts();
    world->authorization = "Bearer key-a";
    for (uint32_t runs = 0; runs < 2; runs++) {
        uint32_t client = ask(world, ",\"n\":2");
        struct request_id second = world->last_submit->request, first = second;
        first.low--;
        if (runs) report_tokens(world, 1, second, 0, ids, 6);
        if (runs) report_finished(world, 1, second, FINISH_LENGTH, 6);
        world_hang_up(world, client);
        world_settle(world);
        say_it_never_ran(world, first);
        if (!runs) say_it_never_ran(world, second);
        const char *reported = runs ? "miss_tokens_total{account=\"acme\"} 3\n"
                                    : "miss_tokens_total{account=\"acme\"} 0\n";
        assert_reported(world, reported);
        assert_reported(world, runs ? "\nfathom_prompt_cache_miss_tokens_total 3\n"
                                    : "\nfathom_prompt_cache_miss_tokens_total 0\n");
        world->authorization = "Bearer key-a";
    }
    close_empty(world);
}

#define LIMIT "X-RateLimit-Limit-Requests: 2\r\nX-RateLimit-Remaining-Requests: "

TEST(an_account_may_have_so_many) {
    struct world *world = open_with_accounts();
    world->authorization = "Bearer key-b";
    assert_refused(world, ask(world, ",\"n\":3"), 422, "out_of_range"); /* it never may */
    uint32_t first = ask(world, "");
    struct request_id id = world->last_submit->request;
    uint32_t refused = ask(world, ",\"n\":2");
    assert_refused(world, refused, 429, "rate_limit_exceeded");
    assert_string_equal(world->clients[refused].headers, LIMIT "1\r\n"); /* of two */
    answer(world, "Bearer key-a", ""); /* others are not concerned */
    answer(world, "Bearer key-b", "");
    report_tokens(world, 1, id, 0, ids, 6);
    report_finished(world, 1, id, FINISH_LENGTH, 6);
    assert_int_equal(world->clients[first].http_status, 200);
    assert_string_equal(world->clients[first].headers, LIMIT "1\r\n"); /* it still counts */
    world->authorization = "Bearer key-a";                             /* has no limit */
    assert_string_equal(world->clients[ask(world, ",\"n\":0")].headers, "");
    assert_reported(world, "fathom_account_refused_total{account=\"busy\"} 2\n");
    close_empty(world);
}

TEST(new_accounts_take_effect_at_once) {
    static const struct asker newer[] = {
        {.name = "root", .key = "key-r2", .salt = 3, .is_operator = true},
        {.name = "dora", .key = "key-d", .salt = 9}};
    struct world *world = open_with_accounts();
    answer(world, "Bearer key-a", "");
    uint32_t client = ask(world, ",\"stream\":true");
    struct request_id id = world->last_submit->request;
    world_report_gateway(world, make_accounts(newer, 2));
    world_settle(world);
    assert_int_equal(status_of(world, HTTP_GET, "/v1/models", "Bearer key-a"), 401);
    assert_int_equal(status_of(world, HTTP_GET, "/v1/models", "Bearer key-r"), 401);
    assert_int_equal(answer(world, "Bearer key-d", "").bytes[0], 9);
    report_tokens(world, 1, id, 0, ids, 6); /* who is under way is answered, and counted */
    report_finished(world, 1, id, FINISH_LENGTH, 6);
    assert_int_equal(world->clients[client].http_status, 200);
    world_report_gateway(world, make_accounts(usual, 4));
    world_settle(world);
    assert_reported(world, "fathom_account_requests_total{account=\"acme\"} 2\n");
    assert_reported(world, "fathom_account_requests_total{account=\"dora\"} 1\n");
    close_empty(world);
}

/* The table has room for all that can be named, whoever was before. */
TEST(any_number_of_changes) {
    struct world *world = open_with_accounts();
    for (uint32_t i = 0; i < 3 * LIMIT_ACCOUNTS; i++) {
        char name[32], key[32], authorization[48];
        snprintf(name, sizeof name, "n%u", i);
        snprintf(key, sizeof key, "k%u", i);
        snprintf(authorization, sizeof authorization, "Bearer k%u", i);
        world_report_gateway(
            world, make_accounts(&(struct asker){.name = name, .key = key, .salt = 1}, 1));
        world_settle(world);
        if (i % 500 == 0)
            assert_int_equal(status_of(world, HTTP_GET, "/v1/models", authorization), 200);
    }
    close_empty(world);
}

/* ---- what is charged ---- */

#define NANO_A_TOKEN PICOS_PER_NANO

static struct accounts open_accounts(void **memory_out) {
    struct accounts accounts = {0};
    struct arena arena;
    size_t bytes = accounts_bytes(1);
    *memory_out = malloc(bytes);
    arena_over(&arena, *memory_out, bytes);
    assert_int_equal(accounts_open(&accounts, &arena, 1), STATUS_OK);
    return accounts;
}

static void report_balance(struct accounts *accounts, int64_t balance, uint64_t committed) {
    struct asker one = {.name = "a", .key = "k", .is_prepaid = true, .balance = balance};
    struct record_accounts *record = make_accounts(&one, 1);
    record->prices.others.output = NANO_A_TOKEN;
    record->committed = committed;
    strcpy(record->currency, "USD");
    accounts_take(accounts, record);
}

static void charge(struct accounts *accounts, uint32_t nanos, uint64_t sequence) {
    uint32_t key, account = accounts_find(accounts, BYTES_LITERAL("Bearer k"), &key);
    accounts_charge(accounts, account, key, BYTES_LITERAL("m"),
                    &(struct api_usage){.completion_tokens = nanos}, sequence);
}

/* A charge is taken off once: by us until its entry is in the balance that is told, then there. */
TEST(a_charge_is_taken_off_once) {
    void *memory;
    struct accounts accounts = open_accounts(&memory);
    report_balance(&accounts, 100, 0);
    charge(&accounts, 10, 1);
    charge(&accounts, 20, 2);
    assert_int_equal(accounts_balance(&accounts, 0), 70);
    report_balance(&accounts, 90, 1); /* the first is in it */
    assert_int_equal(accounts_balance(&accounts, 0), 70);
    charge(&accounts, 5, 3);
    report_balance(&accounts, 90, 1);
    assert_int_equal(accounts_balance(&accounts, 0), 65);
    report_balance(&accounts, 65, 3);
    assert_int_equal(accounts_balance(&accounts, 0), 65);
    free(memory);
}

/* Entries wait without bound while nothing is told: what cannot be remembered one by one is taken
 * off all the same, until what was told has it all. */
TEST(more_charges_than_can_be_remembered) {
    enum { CHARGES = 20000 };
    void *memory;
    struct accounts accounts = open_accounts(&memory);
    report_balance(&accounts, 1000000, 0);
    for (uint32_t i = 1; i <= CHARGES; i++)
        charge(&accounts, 1, i);
    assert_true(accounts.charges_max < CHARGES);
    assert_int_equal(accounts_balance(&accounts, 0), 1000000 - CHARGES);
    report_balance(&accounts, 1000000 - 7,
                   7); /* too few: rather too little is left than too much */
    assert_true(accounts_balance(&accounts, 0) <= 1000000 - CHARGES);
    report_balance(&accounts, 1000000 - CHARGES + 10, CHARGES - 10);
    assert_int_equal(accounts_balance(&accounts, 0), 1000000 - CHARGES);
    report_balance(&accounts, 1000000 - CHARGES, CHARGES);
    assert_int_equal(accounts_balance(&accounts, 0), 1000000 - CHARGES);
    assert_int_equal(accounts.slots[0].use.unreported, 0);
    free(memory);
}

/* All that may be told, several times a second: nobody's answer waits for that. */
TEST(a_key_is_found_among_all) {
    enum { ROUNDS = 20 };
    static _Alignas(8) char room[LIMIT_ACCOUNTS * sizeof(struct account) +
                                 LIMIT_ACCOUNT_KEYS * sizeof(struct account_key) + 4096];
    struct outbox box = {.memory = room, .capacity = sizeof room};
    struct record_accounts fixed = {.account_count = LIMIT_ACCOUNTS,
                                    .key_count = LIMIT_ACCOUNT_KEYS};
    struct record_accounts *record = machine_outbox_put(&box, RECORD_ACCOUNTS, &fixed);
    char text[64];
    for (uint32_t i = 0; i < LIMIT_ACCOUNTS; i++) {
        accounts_named(record)[i] = (struct account){.weight = ACCOUNT_WEIGHT};
        snprintf(accounts_named(record)[i].name, sizeof text, "n%u", i);
    }
    for (uint32_t i = 0; i < LIMIT_ACCOUNT_KEYS; i++) {
        snprintf(text, sizeof text, "k%u", i);
        accounts_keys(record)[i] = (struct account_key){.account = i % LIMIT_ACCOUNTS};
        sha256_digest(text, strlen(text), accounts_keys(record)[i].sha256);
    }
    void *memory;
    struct accounts accounts = open_accounts(&memory);
    for (uint32_t round = 0; round < ROUNDS; round++)
        accounts_take(&accounts, record);
    for (uint32_t i = 0; i < LIMIT_ACCOUNT_KEYS; i++) {
        uint32_t key;
        snprintf(text, sizeof text, "Bearer k%u", i);
        uint32_t account = accounts_find(&accounts, bytes_of(text), &key);
        snprintf(text, sizeof text, "n%u", i % LIMIT_ACCOUNTS);
        assert_string_equal(accounts.slots[account].is.name, text);
    }
    free(memory);
}
