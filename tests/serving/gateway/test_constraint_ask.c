/* SPDX-License-Identifier: Apache-2.0
 * A constraint on its way: it holds behind the thinking alone; nothing is computed before the host
 * has said that it can be held, and what it refuses is refused by the field's name; then it travels
 * with each SUBMIT: of all choices and prompts, to both units that share a request, and to another
 * one when the first is lost. Stop strings do not cut what it binds.
 */

#include "base/format.h"
#include "base/sha256.h"
#include "base/tree.h"
#include "hands.h"
#include "test_case.h"

#define OBJECT "\"response_format\":{\"type\":\"json_object\"}"
#define FORM "\"form\":{\"schema\":{\"type\":\"object\"}}"
#define CHATS "/v1/chat/completions"

/* Unit 1 by hand. */
static struct world *open_world(struct gateway_options gateway) {
    struct world_options options = {.no_unit = true, .gateway = gateway};
    struct world *world = world_open(&options);
    say_hello(world, 1, "test.v1");
    return world;
}

static uint32_t complete(struct world *world, const char *prompt, const char *more) {
    char body[1024];
    format_text(body, sizeof body, "{\"prompt\":%s,\"max_tokens\":6%s%s}", prompt,
                more[0] ? "," : "", more);
    uint32_t client = world_post(world, COMPLETIONS, body);
    world_deliver_all(world);
    return client;
}

static uint32_t chat(struct world *world, const char *more) {
    char body[1024];
    format_text(body, sizeof body,
                "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"max_tokens\":6%s%s}",
                more[0] ? "," : "", more);
    uint32_t client = world_post(world, CHATS, body);
    world_deliver_all(world);
    return client;
}

static void assert_submitted(const struct world *world, const char *constraint) {
    const struct record_submit *submit = world->last_submit;
    assert_non_null(submit);
    if (submit->constraint_bytes != strlen(constraint) ||
        memcmp(submit_constraint(submit), constraint, strlen(constraint)) != 0)
        fail_msg("%.*s", (int)submit->constraint_bytes, submit_constraint(submit));
}

/* All of it, by unit 1. */
static void answer_request(struct world *world, struct request_id id, uint32_t prompt_count) {
    struct record_finished *finished = make_finished(id, FINISH_LENGTH, 6);
    struct record_finished last = *finished;
    last.work.prompt_miss_tokens = prompt_count;
    struct record_tokens *tokens =
        make(RECORD_TOKENS, &(struct record_tokens){.token_count = 6, .work_count = 1});
    tokens->request = id;
    tokens->token_count = 6;
    tokens_work(tokens)->prompt_miss_tokens = prompt_count;
    memcpy(tokens_chosen(tokens), ids, sizeof ids);
    report(world, 1, tokens);
    report(world, 1, &last);
}

static void answer(struct world *world) {
    answer_request(world, world->last_submit->request, world->last_submit->prompt_count);
}

static void assert_refused_for(struct world *world, uint32_t client, uint32_t status,
                               const char *code, const char *param, const char *words) {
    struct bytes got = {0};
    assert_refused(world, client, status, code);
    const struct tree *error = tree_member(read_body(world, client), "error");
    if (param) assert_true(tree_get_string(tree_member(error, "param"), &got));
    if (param && !bytes_equal(got, bytes_of(param))) fail_msg("%.*s", (int)got.count, got.data);
    assert_true(tree_get_string(tree_member(error, "message"), &got));
    if (!strstr(world->clients[client].data, words)) fail_msg("%s", world->clients[client].data);
}

TEST(thinking_is_free) {
    static const struct {
        const char *template, *constraint;
    } cases[] = {
        {"{{ messages[0]['content'] }}<think>\n", "{\"behind\":\"</think>\"," FORM "}"},
        {"{{ messages[0]['content'] }}<think>\n</think>", "{" FORM "}"},
        {"{{ messages[0]['content'] }}", "{" FORM "}"},
        {"{% if messages|length > 9 %}</think>{% endif %}{{ messages[0]['content'] }}",
         "{\"opens\":\"<think>\",\"behind\":\"</think>\"," FORM "}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world *world = open_world((struct gateway_options){0});
        world_use_template(world, cases[i].template);
        uint32_t client = chat(world, OBJECT);
        world_settle(world);
        assert_string_equal(world->last_constraint, cases[i].constraint);
        assert_submitted(world, cases[i].constraint);
        answer(world);
        assert_int_equal(world->clients[client].http_status, 200);
        close_empty(world);
    }
}

TEST(nothing_is_computed_before_the_verdict) {
    struct world *world = open_world((struct gateway_options){0});
    uint32_t late = complete(world, "[5,6,7]", OBJECT);
    assert_non_null(world->to_constrain);
    assert_int_equal(world->submits, 0);
    uint32_t free_one = complete(world, "[5,6,7]", "");
    assert_int_equal(world->submits, 1); /* others do not wait for it */
    assert_int_equal(world->last_submit->constraint_bytes, 0);
    answer(world);
    assert_int_equal(world->submits, 2);
    assert_submitted(world, "{" FORM "}");
    answer(world);
    assert_true(world->clients[late].ended && world->clients[free_one].ended);
    close_empty(world);
}

/* Both are asked for at once, and either may come first. */
TEST(it_waits_for_its_tokens_and_its_verdict) {
    for (uint32_t tokens_first = 0; tokens_first < 2; tokens_first++) {
        struct world *world = open_world((struct gateway_options){.inline_text_bytes = 4});
        uint32_t client = complete(world, "\"a long prompt\"", OBJECT);
        assert_true(world->to_tokenize && world->to_constrain);
        assert_true(tokens_first ? world_tokenize(world) : world_constrain(world));
        world_deliver_all(world);
        assert_int_equal(world->submits, 0);
        assert_true(tokens_first ? world_constrain(world) : world_tokenize(world));
        world_deliver_all(world);
        assert_int_equal(world->submits, 1);
        assert_submitted(world, "{" FORM "}");
        answer(world);
        assert_int_equal(world->clients[client].http_status, 200);
        close_empty(world);
    }
}

TEST(what_cannot_be_held_is_refused) {
    static const struct {
        enum constraint_verdict verdict;
        uint32_t status;
        const char *code, *param, *words;
    } cases[] = {
        {CONSTRAINT_INVALID, 400, "invalid_schema", "response_format",
         "'response_format': #/not: no"},
        {CONSTRAINT_UNSUPPORTED, 400, "unsupported_schema", "response_format", "#/not: no"},
        {CONSTRAINT_TOO_LARGE, 400, "schema_too_large", "response_format", "#/not: no"},
        {CONSTRAINT_NO_MEMORY, 503, "out_of_memory", NULL, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world *world = open_world((struct gateway_options){0});
        world->constraint_fault = "#/not: no";
        world->constraint_verdict = cases[i].verdict;
        uint32_t client = complete(world, "[5,6,7]", OBJECT ",\"n\":3");
        world_settle(world);
        assert_refused_for(world, client, cases[i].status, cases[i].code, cases[i].param,
                           cases[i].words);
        if (cases[i].status == 503) assert_true(world->clients[client].retry_after_seconds > 0);
        assert_int_equal(world->submits, 0);
        world->constraint_fault = NULL; /* the thread is free for the next one */
        client = complete(world, "[5,6,7]", OBJECT);
        world_settle(world);
        answer(world);
        assert_int_equal(world->clients[client].http_status, 200);
        close_empty(world);
    }
}

TEST(what_ends_an_answer_elsewhere_does_not_go_with_it) {
    struct world *world = open_world((struct gateway_options){0});
    uint32_t client = complete(world, "[5]", OBJECT ",\"stop_token_ids\":[7]");
    assert_refused_for(world, client, 400, "unsupported_parameter", "stop_token_ids",
                       "'response_format' and 'stop_token_ids'");
    client = complete(world, "[5]", OBJECT ",\"ignore_eos\":true");
    assert_refused_for(world, client, 400, "unsupported_parameter", "ignore_eos",
                       "'response_format' and 'ignore_eos'");
    assert_null(world->to_constrain);
    close_empty(world);
    world = open_with(1, (struct gateway_options){0}); /* without a tokenizer */
    client = complete(world, "[5]", OBJECT);
    assert_refused_for(world, client, 400, "unsupported_parameter", "response_format",
                       "no tokenizer");
    close_empty(world);
}

/* Where no answer is made there is nothing to bind. */
TEST(a_prompt_alone_needs_no_verdict) {
    struct world *world = open_world((struct gateway_options){0});
    uint32_t client =
        world_post(world, COMPLETIONS,
                   "{\"prompt\":[5,6],\"max_tokens\":0,\"echo\":true,\"logprobs\":1," OBJECT "}");
    world_deliver_all(world);
    assert_null(world->to_constrain);
    assert_int_equal(world->last_submit->constraint_bytes, 0);
    world_hang_up(world, client);
    world_settle(world);
    report_finished(world, 1, world->last_submit->request, FINISH_CANCELLED, 0);
    close_empty(world);
}

TEST(who_has_gone_is_not_waited_for) {
    struct world *world = open_world((struct gateway_options){0});
    uint32_t first = complete(world, "[5]", OBJECT), second = complete(world, "[6]", OBJECT),
             third = complete(world, "[7]", OBJECT);
    world_hang_up(world, first); /* in work */
    world_hang_up(world, second);
    world_deliver_all(world);
    assert_int_equal(gateway_request_count(world->gateway), 1);
    world_settle(world);
    assert_int_equal(world->constraints, 2); /* nobody compiles for the second */
    assert_int_equal(world->submits, 1);
    answer(world);
    assert_int_equal(world->clients[third].http_status, 200);
    close_empty(world);
}

TEST(all_choices_of_all_prompts_have_it) {
    struct world *world = open_world((struct gateway_options){0});
    uint32_t client = complete(world, "[[5,6],[7]]", OBJECT ",\"n\":2,\"stream\":true");
    assert_true(world_constrain(world)); /* one verdict for all */
    assert_false(world_constrain(world));
    struct request_id reported[4];
    uint32_t count = 0, prompts[4];
    while (world_deliver_to_gateway(world)) {
    }
    world_step(world);
    struct outbox *outbox = world->gateway_machine.outbox;
    for (const struct record *record = NULL; (record = machine_outbox_next(outbox, record));) {
        if (record->kind != RECORD_TO_UNIT) continue;
        const struct record_submit *submit =
            (const void *)envelope_inner((const struct record_envelope *)record);
        assert_int_equal(submit->constraint_bytes, strlen("{" FORM "}"));
        assert_memory_equal(submit_constraint(submit), "{" FORM "}", submit->constraint_bytes);
        prompts[count] = submit->prompt_count;
        reported[count++] = submit->request;
    }
    assert_int_equal(count, 4);
    for (uint32_t i = 0; i < count; i++)
        answer_request(world, reported[i], prompts[i]);
    assert_true(world->clients[client].ended);
    close_empty(world);
}

TEST(another_unit_goes_on_with_it) {
    struct world *world = open_world((struct gateway_options){0});
    join(world, 2);
    uint32_t client = complete(world, "[5,6,7]", OBJECT ",\"return_token_ids\":true");
    world_settle(world);
    uint32_t first = world->last_unit.value;
    report_tokens(world, first, world->last_submit->request, 0, ids, 2);
    lose(world, first);
    assert_int_equal(world->last_submit->request.attempt, 1);
    assert_int_equal(world->last_submit->resumed_count, 2);
    assert_submitted(world, "{" FORM "}");
    assert_int_equal(world->constraints, 1); /* it was judged before */
    report_tokens(world, world->last_unit.value, world->last_submit->request, 2, ids + 2, 4);
    report_finished(world, world->last_unit.value, world->last_submit->request, FINISH_LENGTH, 6);
    assert_ids(world, client, ids, 6);
    close_empty(world);
}

TEST(both_units_that_share_it_have_it) {
    struct world *world = world_open(&(struct world_options){.no_unit = true});
    lose(world, 1);
    join_as(world, 2, UNIT_PREFILL);
    join_as(world, 3, UNIT_DECODE);
    uint32_t client = complete(world, "[5,6,7]", OBJECT);
    world_settle(world);
    assert_int_equal(world->last_submit->task, SUBMIT_RESERVE);
    assert_submitted(world, "{" FORM "}");
    struct request_id id = world->last_submit->request;
    struct record_reserved *reserved = make(RECORD_RESERVED, NULL);
    reserved->request = id;
    report(world, 3, reserved);
    assert_int_equal(world->last_submit->task, SUBMIT_PREFILL);
    assert_submitted(world, "{" FORM "}");
    world_hang_up(world, client);
    world_settle(world);
    report_finished(world, 2, id, FINISH_CANCELLED, 0);
    report_finished(world, 3, id, FINISH_CANCELLED, 0);
    close_empty(world);
}

TEST(a_large_one_is_refused_by_its_size) {
    struct world *world =
        open_world((struct gateway_options){.body_bytes_max = 1 << 21, .outbox_bytes = 4 << 20});
    size_t room = LIMIT_CONSTRAINT_BYTES + 1000;
    char *body = malloc(room);
    size_t count = (size_t)format_text(
        body, room, "{\"prompt\":[5],\"max_tokens\":6,\"guided_json\":{\"description\":\"");
    memset(body + count, 'x', room - count);
    memcpy(body + room - 4, "\"}}", 4);
    uint32_t client = world_request(world, HTTP_POST, COMPLETIONS, body, room - 1);
    world_deliver_all(world);
    assert_refused_for(world, client, 413, "request_too_large", "guided_json", "524288");
    free(body);
    close_empty(world);
}

/* "many" and "few", by the keys key-m and key-f. */
static struct world *open_two_accounts(void) {
    static _Alignas(8) char memory[4096];
    struct outbox box = {.memory = memory, .capacity = sizeof memory};
    struct record_accounts *record = machine_outbox_put(
        &box, RECORD_ACCOUNTS, &(struct record_accounts){.account_count = 2, .key_count = 2});
    for (uint32_t i = 0; i < 2; i++) {
        strcpy(accounts_named(record)[i].name, i ? "few" : "many");
        accounts_named(record)[i].weight = ACCOUNT_WEIGHT;
        sha256_digest(i ? "key-f" : "key-m", 5, accounts_keys(record)[i].sha256);
        accounts_keys(record)[i].account = i;
    }
    return open_world((struct gateway_options){.accounts = record});
}

/* One at a time is judged; of accounts each has its turn. */
TEST(an_account_delays_its_own_alone) {
    struct world *world = open_two_accounts();
    uint32_t many[6];
    world->authorization = "Bearer key-m";
    for (uint32_t i = 0; i < 6; i++)
        many[i] = complete(world, "[5]", OBJECT);
    world->authorization = "Bearer key-f"; /* a longer constraint is no later turn */
    uint32_t few = complete(world, "[6]", "\"guided_choice\":[\"a\",\"b\",\"c\",\"d\",\"e\"]");
    assert_true(world_constrain(world));
    world_deliver_all(world);
    assert_int_equal(world->last_submit->request.high, 0x1000 + many[0]);
    assert_true(world_constrain(world));
    world_deliver_all(world);
    if (world->last_submit->request.high != 0x1000 + few) { /* its turn is a tie at the latest */
        assert_true(world_constrain(world));
        world_deliver_all(world);
    }
    assert_int_equal(world->last_submit->request.high, 0x1000 + few);
    for (uint32_t i = 0; i < 6; i++)
        world_hang_up(world, many[i]);
    world_hang_up(world, few);
    world_settle(world);
    world_close(world);
}

/* Several short ones of one account wait for the long one in work, and for no other. Their lengths
 * say nothing about their times. */
TEST(accounts_share_the_thread_by_time) {
    struct world *world = open_two_accounts();
    uint32_t many[4], few[4];
    world->authorization = "Bearer key-m";
    for (uint32_t i = 0; i < 4; i++)
        many[i] = complete(world, "[5]", OBJECT);
    world->authorization = "Bearer key-f";
    for (uint32_t i = 0; i < 4; i++)
        few[i] = complete(world, "[6]", "\"guided_choice\":[\"a\",\"b\",\"c\",\"d\",\"e\"]");
    for (uint32_t i = 0; i < 8; i++) {
        bool is_few = i >= 1 && i <= 4;
        uint32_t next = is_few ? few[i - 1] : many[i ? i - 4 : 0];
        world->constraint_ns = is_few ? 1000000 : 1000000000;
        assert_true(world_constrain(world));
        world_deliver_all(world);
        assert_int_equal(world->last_submit->request.high, 0x1000 + next);
    }
    for (uint32_t i = 0; i < 4; i++) {
        world_hang_up(world, many[i]);
        world_hang_up(world, few[i]);
    }
    world_settle(world);
    world_close(world);
}

/* The constraint reaches to the answer's end: a cut would break it. */
TEST(stop_strings_do_not_cut_what_is_bound) {
    for (uint32_t bound = 0; bound < 2; bound++) {
        struct world *world = open_world((struct gateway_options){0});
        struct bytes text = tokenizer_token_bytes(world->tokenizer, ids[2]);
        char more[256];
        format_text(more, sizeof more, "\"stop\":\"%.*s\"%s", (int)text.count, text.data,
                    bound ? "," OBJECT : "");
        uint32_t client = complete(world, "[5,6,7]", more);
        world_settle(world);
        struct request_id id = world->last_submit->request;
        report_tokens(world, 1, id, 0, ids, 6);
        assert_int_equal(world->cancels, !bound);
        report_finished(world, 1, id, bound ? FINISH_LENGTH : FINISH_CANCELLED, 6);
        assert_int_equal(!strstr(world->clients[client].data, "\"finish_reason\":\"stop\""), bound);
        close_empty(world);
    }
}

TEST(a_server_that_ends_does_not_wait_for_verdicts) {
    struct world *world = open_world((struct gateway_options){.drain_ns = SECOND});
    uint32_t client = complete(world, "[5]", OBJECT);
    world_drain(world);
    world_deliver_all(world);
    assert_false(world->clients[client].ended);
    world->now_ns += 2 * SECOND;
    world_deliver_all(world);
    assert_refused(world, client, 503, "draining");
    world_settle(world); /* the verdict finds nobody */
    close_empty(world);
}
