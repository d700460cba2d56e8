/* SPDX-License-Identifier: Apache-2.0
 * Long prompts at the gateway: what cannot fit is refused before anybody tokenizes it, and while
 * the tokenizer is busy with one text, everything that does not need it goes on; shorter texts pass
 * longer ones, an account has no more of the tokenizer than another, and what waits has a bound.
 */

#include "base/format.h"
#include "base/sha256.h"
#include "hands.h"
#include "test_case.h"

enum { CONTEXT = 2048, INLINE = 1000 };

static struct world *open_world(struct gateway_options gateway) {
    gateway.inline_text_bytes = INLINE;
    gateway.requests_max = 64;
    gateway.body_bytes_max = 1 << 20;
    struct world_options options = {.gateway = gateway, .unit = {.requests_max = 64}};
    return world_open(&options);
}

/* A prompt of so many tokens and 16 times as many bytes. */
static uint32_t post_words(struct world *world, uint32_t words, const char *more) {
    static char body[1 << 20];
    size_t count =
        (size_t)format_text(body, sizeof body, "{\"max_tokens\":1%s,\"prompt\":\"", more);
    for (uint32_t i = 0; i < words; i++)
        count += (size_t)format_text(body + count, sizeof body - count, " instrumentality");
    format_text(body + count, sizeof body - count, "\"}");
    uint32_t client = world_post(world, COMPLETIONS, body);
    world_deliver_all(world);
    return client;
}

/* The tokenizer's text is done; whose it was. */
static uint32_t tokenize_one(struct world *world) {
    assert_true(world_tokenize(world));
    world_deliver_all(world);
    return (uint32_t)world->last_tokenized.high - 0x1000;
}

static void assert_says(struct world *world, uint32_t client, uint32_t status, const char *code,
                        const char *words) {
    assert_refused(world, client, status, code);
    if (!strstr(world->clients[client].data, words)) fail_msg("%s", world->clients[client].data);
}

TEST(what_cannot_fit_is_not_tokenized) {
    struct world *world = open_world((struct gateway_options){0});
    uint32_t client = post_words(world, 6000, "");
    assert_null(world->to_tokenize);
    assert_says(world, client, 400, "context_length_exceeded",
                "maximum context length is 2048 tokens. However, the request has at least ");
    /* Tokens that the answer wants count as well. */
    uint32_t most = post_words(world, 1000, ",\"n\":1");
    assert_int_equal(tokenize_one(world), most);
    client =
        post_words(world, 1000, ",\"max_tokens\":1500"); /* the last one of a name counts not */
    assert_int_equal(world->clients[client].http_status, 400);
    assert_null(world->to_tokenize);
    /* What only the tokenizer can see, it says, as soon as it is sure of it. */
    client = post_words(world, 2500, "");
    assert_true(world->to_tokenize || world->clients[client].ended);
    world_settle(world);
    assert_says(world, client, 400, "context_length_exceeded", "at least ");
    world_close(world);
}

/* Before any unit has come nobody knows the context: the bound is that of all models. */
TEST(nobody_knows_the_context_before_a_unit_comes) {
    struct world_options options = {.no_unit = true, .gateway = {.inline_text_bytes = INLINE}};
    struct world *world = world_open(&options);
    uint32_t client = post_words(world, 3000, "");
    assert_non_null(world->to_tokenize);
    world_settle(world);
    assert_false(world->clients[client].ended);
    say_hello(world, 1, "test.v1");
    assert_says(world, client, 400, "context_length_exceeded", "the request has 3001 tokens");
    world_close(world);
}

TEST(all_else_goes_on) {
    struct world *world = open_world((struct gateway_options){0});
    uint32_t stream =
        world_post(world, COMPLETIONS,
                   "{\"prompt\":[5,6],\"stream\":true,\"max_tokens\":50,\"ignore_eos\":true}");
    world_deliver_all(world);
    assert_int_equal(world->submits, 1);
    for (uint32_t i = 0; i < 5; i++)
        post_words(world, 1000, "");
    assert_int_equal(world->submits, 1);
    assert_true(gateway_request_count(world->gateway) == 6);

    uint32_t health = world_get(world, "/health");
    world_deliver_all(world);
    assert_int_equal(world->clients[health].http_status, 200);

    uint32_t short_one = world_post(world, COMPLETIONS, "{\"prompt\":\"hi\",\"max_tokens\":1}");
    world_deliver_all(world);
    assert_int_equal(world->last_submit->request.high, 0x1000 + short_one);

    size_t received = 0;
    for (uint32_t step = 0; step < 40; step++) { /* the tokenizer does not answer all the time */
        while (world_deliver_to_unit(world)) {
        }
        world_step(world);
        world_carry(world);
        world_compute(world, false);
        world_deliver_all(world);
        if (step == 30) received = world->clients[stream].count;
    }
    assert_true(received > 0 && world->clients[stream].count > received);
    assert_int_equal(world->clients[short_one].http_status, 200);
    assert_false(world->clients[stream].ended);

    world_hang_up(world, stream);
    world_deliver_all(world);
    assert_int_equal(world->cancels, 1);
    world_settle(world);
    assert_int_equal(gateway_request_count(world->gateway), 0);
    world_close(world);
}

TEST(a_shorter_text_passes_longer_ones) {
    struct world *world = open_world((struct gateway_options){.tokenize_queue_bytes = 4 << 20});
    uint32_t longs[12];
    for (uint32_t i = 0; i < 12; i++)
        longs[i] = post_words(world, 1900, "");
    uint32_t small = post_words(world, 100, "");
    assert_int_equal(tokenize_one(world), longs[0]); /* it was in work already */
    assert_int_equal(tokenize_one(world), small);
    for (uint32_t i = 1; i < 12; i++)
        assert_int_equal(tokenize_one(world), longs[i]); /* among equals who came first */
    assert_false(world_tokenize(world));
    world_settle(world);
    for (uint32_t i = 0; i < 12; i++)
        assert_int_equal(world->clients[longs[i]].http_status, 200);
    world_close(world);
}

TEST(who_leaves_makes_room) {
    struct world *world = open_world((struct gateway_options){.tokenize_queue_bytes = 4 << 20});
    uint32_t in_work = post_words(world, 1900, ""), gone = post_words(world, 1800, ""),
             stays = post_words(world, 1900, "");
    world_hang_up(world, gone);
    world_hang_up(world, in_work); /* its text is still being tokenized */
    world_deliver_all(world);
    assert_int_equal(gateway_request_count(world->gateway), 1);
    uint32_t submits = world->submits;
    assert_true(world_tokenize(world));
    world_deliver_all(world);
    assert_int_equal(world->submits, submits); /* nobody wants it any more */
    assert_int_equal(tokenize_one(world), stays);
    assert_null(world->to_tokenize);
    world_settle(world);
    world_close(world);
}

TEST(what_waits_has_a_bound) {
    struct world *world = open_world((struct gateway_options){.tokenize_queue_bytes = 1 << 20});
    uint32_t clients[40], waiting = 0;
    for (uint32_t i = 0; i < 40; i++)
        clients[i] = post_words(world, 1900, "");
    for (uint32_t i = 0; i < 40; i++) {
        if (world->clients[clients[i]].ended)
            assert_says(world, clients[i], 503, "tokenizer_busy", "Try again later");
        else
            waiting++;
        if (world->clients[clients[i]].ended)
            assert_true(world->clients[clients[i]].retry_after_seconds > 0);
    }
    assert_true(waiting > 20 && waiting < 1 + (1 << 20) / 30400); /* some room stays for others */
    uint32_t small = post_words(world, 100, "");
    assert_false(world->clients[small].ended);
    world_settle(world);
    assert_int_equal(world->clients[small].http_status, 200);
    assert_int_equal(world->clients[post_words(world, 1900, "")].ended, false); /* room again */
    world_settle(world);
    assert_int_equal(gateway_request_count(world->gateway), 0);
    world_close(world);
}

static const struct record_accounts *two_accounts(void) {
    static _Alignas(8) char memory[4096];
    struct outbox box = {.memory = memory, .capacity = sizeof memory};
    struct record_accounts *record = machine_outbox_put(
        &box, RECORD_ACCOUNTS, &(struct record_accounts){.account_count = 2, .key_count = 2});
    record->account_count = record->key_count = 2;
    struct account *accounts = accounts_named(record);
    struct account_key *keys = accounts_keys(record);
    for (uint32_t i = 0; i < 2; i++) {
        strcpy(accounts[i].name, i ? "few" : "many");
        accounts[i].weight = ACCOUNT_WEIGHT;
        sha256_digest(i ? "key-f" : "key-m", 5, keys[i].sha256);
        keys[i].account = i;
    }
    return record;
}

TEST(accounts_share_alike) {
    struct world *world = open_world(
        (struct gateway_options){.tokenize_queue_bytes = 8 << 20, .accounts = two_accounts()});
    uint32_t many[12], few[3];
    world->authorization = "Bearer key-m";
    for (uint32_t i = 0; i < 12; i++)
        many[i] = post_words(world, 1000, "");
    world->authorization = "Bearer key-f";
    for (uint32_t i = 0; i < 3; i++)
        few[i] = post_words(world, 1000, "");
    assert_int_equal(tokenize_one(world), many[0]);
    uint32_t of_few = 0;
    for (uint32_t i = 0; i < 6; i++) { /* turn by turn */
        uint32_t who = tokenize_one(world);
        of_few += who == few[0] || who == few[1] || who == few[2];
    }
    assert_int_equal(of_few, 3);
    world_settle(world);
    assert_int_equal(gateway_request_count(world->gateway), 0);
    world_close(world);
}
