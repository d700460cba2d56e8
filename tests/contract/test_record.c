/* SPDX-License-Identifier: Apache-2.0
 * record_valid stands between bytes from outside and code that trusts them. For each kind: a good
 * one is accepted; every cut, every longer or shorter claim and every broken field is refused.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/random.h"
#include "contract/machine.h"
#include "contract/record_client.h"
#include "contract/record_kv.h"
#include "contract/record_unit.h"
#include "contract/step_plan.h"

static _Alignas(8) char memory[4096];
static struct outbox outbox = {.memory = memory, .capacity = sizeof memory};

static void *make(enum record_kind kind, const void *fixed) {
    outbox_clear(&outbox);
    void *record = outbox_put(&outbox, kind, fixed);
    check(record);
    return record;
}

static void *good_client_request(void) {
    struct record_client_request *r = make(
        RECORD_CLIENT_REQUEST, &(struct record_client_request){
                                   .path_bytes = 3, .authorization_bytes = 9, .body_bytes = 5});
    r->method = HTTP_POST;
    return r;
}

static void *good_accounts(void) {
    struct record_accounts *r =
        make(RECORD_ACCOUNTS, &(struct record_accounts){.account_count = 1, .key_count = 2});
    struct account *account = accounts_named(r);
    r->account_count = 1;
    r->key_count = 2;
    strcpy(account->name, "acme");
    account->is_operator = 1;
    return r;
}

static void *good_respond(void) {
    struct record_respond *r =
        make(RECORD_RESPOND, &(struct record_respond){.body_bytes = 2, .receipt_bytes = 3});
    r->http_status = 200;
    r->body_bytes = 2;
    r->receipt_bytes = 3;
    memcpy(respond_receipt(r), "{ }", 3);
    return r;
}

static void *good_stream_data(void) {
    struct record_stream_data *r =
        make(RECORD_STREAM_DATA, &(struct record_stream_data){.data_bytes = 7});
    r->data_bytes = 7;
    return r;
}

static void *good_tokenize(void) {
    static const struct text_span plain[2] = {{0, 1}, {1, 4}};
    struct record_tokenize *r =
        make(RECORD_TOKENIZE, &(struct record_tokenize){.text_bytes = 4, .plain_count = 2});
    r->text_bytes = 4;
    r->plain_count = 2;
    memcpy(tokenize_plain(r), plain, sizeof plain);
    return r;
}

static void *good_tokenized(void) {
    struct record_tokenized *r =
        make(RECORD_TOKENIZED, &(struct record_tokenized){.token_count = 3});
    r->token_count = 3;
    return r;
}

static void *good_submit(void) {
    struct record_submit *r =
        make(RECORD_SUBMIT,
             &(struct record_submit){.prompt_count = 5, .stop_token_count = 1, .bias_count = 2});
    r->sampling = (struct sampling){.temperature = 0.6f, .top_p = 0.95f};
    r->prompt_count = 3;
    r->resumed_count = 2;
    r->new_tokens_max = 3;
    return r;
}

static void *good_cancel(void) {
    return make(RECORD_CANCEL, NULL);
}

static void *good_hello(void) {
    struct record_unit_hello *r =
        make(RECORD_UNIT_HELLO, &(struct record_unit_hello){.rank_count = 2});
    r->rank_count = 2;
    r->role = UNIT_DECODE;
    r->vocab_count = r->context_tokens_max = r->page_count = r->requests_max = 9;
    r->page_tokens = KV_BLOCK_TOKENS;
    hello_ranks(r)[0] = (struct unit_rank){.page_count = 4, .requests_max = 9};
    hello_ranks(r)[1] = (struct unit_rank){.page_count = 5, .pid = 1234};
    return r;
}

static void *good_tokens(void) {
    struct record_tokens *r =
        make(RECORD_TOKENS, &(struct record_tokens){.token_count = 2, .logprobs_each = 3});
    r->token_count = 2;
    r->logprobs_each = 3;
    return r;
}

static void *good_scores(void) {
    struct record_scores *r =
        make(RECORD_SCORES,
             &(struct record_scores){.token_count = SCORES_TOKENS_MAX, .logprobs_each = 3});
    r->first_position = 1;
    r->token_count = SCORES_TOKENS_MAX;
    return r;
}

static void *good_finished(void) {
    return make(RECORD_FINISHED, NULL);
}

static void *good_plan(void) {
    struct step_plan *plan = make(RECORD_RUN_STEP, &(struct step_plan){.row_count = 2,
                                                                       .token_count = 71,
                                                                       .page_count = 3,
                                                                       .history_count = 5,
                                                                       .bias_count = 2});
    plan->history_count = 5;
    plan->bias_count = 2;
    plan->row_count = 2;
    plan->token_count = 71;
    plan->page_count = 3;
    struct step_row *rows = step_plan_rows(plan);
    rows[0] = (struct step_row){.token_count = 70,
                                .page_count = 2,
                                .logits_count = 1,
                                .sample = 1,
                                .scored_count = 69,
                                .next_token = STEP_NO_TOKEN,
                                .sampling.flags = SAMPLING_LOGPROBS};
    rows[1] = (struct step_row){.form = TOKEN_GENERATED,
                                .first_position = 9,
                                .token_count = 1,
                                .token_index = 70,
                                .page_index = 2,
                                .page_count = 1,
                                .history_index = 1,
                                .history_count = 4,
                                .history_prompt_count = 3,
                                .bias_index = 1,
                                .bias_count = 1};
    return plan;
}

static void *good_result(void) {
    struct step_result *r =
        make(RECORD_STEP_DONE, &(struct step_result){.row_count = 2, .logprob_count = 3});
    r->row_count = 2;
    r->logprob_count = 3;
    step_result_rows(r)[0] = (struct step_result_row){
        .token_count = 0, .logprobs_each = 1, .score_index = 0, .scored_count = 1};
    step_result_rows(r)[1] = (struct step_result_row){
        .token_count = 1, .tokens = {7}, .logprob_index = 1, .logprobs_each = 2};
    return r;
}

static void *good_gone(void) {
    return make(RECORD_CLIENT_GONE, NULL);
}
static void *good_drain(void) {
    return make(RECORD_DRAIN, NULL);
}
static void *good_role(void) {
    struct record_role *r = make(RECORD_ROLE, NULL);
    r->role = UNIT_DECODE;
    return r;
}
static void *good_begin(void) {
    return make(RECORD_STREAM_BEGIN, NULL);
}
static void *good_end(void) {
    return make(RECORD_STREAM_END, NULL);
}
static void *good_load(void) {
    struct record_unit_load *r =
        make(RECORD_UNIT_LOAD, &(struct record_unit_load){.rank_count = 2});
    r->rank_count = 2;
    return r;
}
static void *good_joined(void) {
    return make(RECORD_UNIT_JOINED, NULL);
}
static void *good_lost(void) {
    return make(RECORD_UNIT_LOST, NULL);
}

static void *good_continue(void) {
    struct record_continue *r = make(RECORD_CONTINUE, &(struct record_continue){.token_count = 1});
    r->token_count = 1;
    return r;
}
static void *good_reserved(void) {
    return make(RECORD_RESERVED, NULL);
}
static void *good_drain_of_rank(void) {
    struct record_drain *r = good_drain();
    r->one_rank = r->back = 1;
    r->rank = 3;
    return r;
}
static void *good_experts(void) {
    struct record_experts *r = make(RECORD_EXPERTS, NULL);
    r->ranks = 4;
    r->layer_count = 2;
    r->layer_balance[1] = 1000000;
    return r;
}
static void *good_expect(void) {
    struct record_kv_expect *r =
        make(RECORD_KV_EXPECT, &(struct record_kv_expect){.page_count = 2});
    r->first_block = 1;
    r->page_count = 2;
    r->token_count = 2 * KV_BLOCK_TOKENS + 1;
    return r;
}
static void *good_push(void) {
    struct record_kv_push *r = make(RECORD_KV_PUSH, &(struct record_kv_push){.page_count = 1});
    r->page_count = 1;
    r->token_count = KV_BLOCK_TOKENS;
    r->last = 1;
    strcpy(r->route.address, "host:1");
    return r;
}
static void *good_kv_cancel(void) {
    return make(RECORD_KV_CANCEL, NULL);
}
static void *good_kv_done(void) {
    return make(RECORD_KV_DONE, NULL);
}

static void *good_find(void) {
    struct record_kv_find *r = make(RECORD_KV_FIND, &(struct record_kv_find){.key_count = 2});
    r->key_count = 2;
    return r;
}
static void *good_found(void) {
    struct record_kv_found *r = make(RECORD_KV_FOUND, NULL);
    r->blocks = r->host_blocks = 2;
    return r;
}
static void *good_kv_load(void) {
    struct record_kv_load *r = make(RECORD_KV_LOAD, &(struct record_kv_load){.block_count = 3});
    r->block_count = 3;
    r->in_step = 1;
    return r;
}
static void *good_kv_park(void) {
    return make(RECORD_KV_PARK, NULL);
}
static void *good_kv_loaded(void) {
    struct record_kv_loaded *r = make(RECORD_KV_LOADED, NULL);
    r->end.blocks = r->end.host_blocks = 1;
    return r;
}
static void *good_keep(void) {
    struct record_kv_keep *r = make(RECORD_KV_KEEP, &(struct record_kv_keep){.block_count = 3});
    r->block_count = 3;
    return r;
}
static void *good_kept(void) {
    return make(RECORD_KV_KEPT, NULL);
}
static void *good_kv_hello(void) {
    struct record_kv_hello *r = make(RECORD_KV_HELLO, NULL);
    strcpy(r->address, "host:1");
    return r;
}

/* The record made last, carried. */
static void *carry(enum record_kind kind, const struct record *inner) {
    static _Alignas(8) char copy[sizeof memory];
    uint32_t bytes = inner->bytes;
    memcpy(copy, inner, bytes);
    outbox_clear(&outbox);
    struct record_carried *carried =
        outbox_put(&outbox, kind, &(struct record_carried){.unit = {7}, .inner_bytes = bytes});
    memcpy(carried_inner(carried), copy, bytes);
    return memory;
}

static void *good_from_unit(void) {
    return carry(RECORD_FROM_UNIT, good_tokens());
}
static void *good_to_unit(void) {
    return carry(RECORD_TO_UNIT, good_submit());
}

static void *(*const good[])(void) = {
    good_accounts,  good_client_request, good_respond,  good_stream_data, good_tokenize,
    good_tokenized, good_submit,         good_cancel,   good_hello,       good_tokens,
    good_scores,    good_finished,       good_plan,     good_result,      good_gone,
    good_drain,     good_begin,          good_end,      good_load,        good_joined,
    good_lost,      good_from_unit,      good_to_unit,  good_continue,    good_reserved,
    good_experts,   good_expect,         good_push,     good_kv_cancel,   good_kv_done,
    good_find,      good_found,          good_kv_load,  good_kv_loaded,   good_keep,
    good_kept,      good_kv_park,        good_kv_hello, good_role,
};

/* There is a good example of every kind, so that no kind goes untested. */
static void every_kind_has_a_valid_form(void **state) {
    (void)state;
    assert_int_equal(ARRAY_COUNT(good), RECORD_KIND_COUNT - 1);
    bool seen[RECORD_KIND_COUNT] = {false};
    for (size_t i = 0; i < ARRAY_COUNT(good); i++) {
        struct record *record = good[i]();
        assert_true(record_valid(record, record->bytes));
        seen[record->kind] = true;
    }
    for (int kind = 1; kind < RECORD_KIND_COUNT; kind++)
        assert_true(seen[kind]);
}

static void cut_or_stretched_records_are_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(good); i++) {
        struct record *record = good[i]();
        uint32_t bytes = record->bytes;
        for (uint32_t cut = 0; cut < bytes; cut++) {
            assert_false(record_valid(record, cut));
            record->bytes = cut; /* a record that lies about itself */
            assert_false(record_valid(record, cut));
            record->bytes = bytes;
        }
        record->bytes = bytes + 8;
        memset(memory + bytes, 0, 8);
        assert_false(record_valid(record, bytes + 8));
        record->bytes = bytes;
        record->version++;
        assert_false(record_valid(record, bytes));
        record->version--;
        record->kind = RECORD_KIND_COUNT;
        assert_false(record_valid(record, bytes));
        record->kind = RECORD_NONE;
        assert_false(record_valid(record, bytes));
    }
}

/* The table's own test: what a count claims must be there. Some of these wrap in 32 bits. */
static void counts_that_claim_too_much_are_refused(void **state) {
    (void)state;
    static const uint32_t claims[] = {UINT32_MAX, 0x80000000, 0x40000001, 4096};
    for (size_t i = 0; i < ARRAY_COUNT(good); i++)
        for (size_t claim = 0; claim < ARRAY_COUNT(claims); claim++) {
            struct record *record = good[i]();
            const struct record_tail_form *tail = record_forms[record->kind].tails;
            for (; tail->element_bytes; tail++) {
                record = good[i]();
                memcpy((char *)record + tail->field, &claims[claim], sizeof claims[claim]);
                assert_false(record_valid(record, record->bytes));
            }
        }
}

/* The rows of the table: each kind has one, under its own name, with a struct that begins as a
 * record and somebody who says it. */
static void every_kind_has_a_form(void **state) {
    (void)state;
    for (int kind = 1; kind < RECORD_KIND_COUNT; kind++) {
        const struct record_form *form = &record_forms[kind];
        assert_non_null(form->name);
        assert_string_equal(record_name((uint16_t)kind), form->name);
        assert_true(form->bytes >= sizeof(struct record) && form->ways != 0);
        for (int other = 1; other < kind; other++)
            assert_string_not_equal(record_forms[other].name, form->name);
        for (const struct record_tail_form *tail = form->tails; tail->element_bytes; tail++)
            assert_true(tail->field >= sizeof(struct record) && tail->field < form->bytes);
    }
    assert_string_equal(record_name(RECORD_SUBMIT), "SUBMIT");
    assert_string_equal(record_name(RECORD_NONE), record_name(RECORD_KIND_COUNT));
    assert_false(record_goes(RECORD_NONE, UINT32_MAX) ||
                 record_goes(RECORD_KIND_COUNT, UINT32_MAX));
}

/* A way's set of kinds is what a wire lets in. */
static void ways_are_sets_of_kinds(void **state) {
    (void)state;
    uint64_t in = record_kinds(WAY_CARRIER_TO_UNIT | WAY_RANK_TO_RANK_0);
    assert_true(in == ((uint64_t)1 << RECORD_KV_DONE | (uint64_t)1 << RECORD_KV_HELLO));
    assert_true(record_goes(RECORD_DRAIN, WAY_GATEWAY_TO_UNIT));
    assert_false(record_goes(RECORD_DRAIN, WAY_UNIT_TO_GATEWAY));
    assert_true(record_kinds(0) == 0);
}

static void assert_invalid(const void *record) {
    assert_false(record_valid(record, ((const struct record *)record)->bytes));
}

static void experts_out_of_range_are_refused(void **state) {
    (void)state;
    struct record_drain *drain = good_drain_of_rank();
    assert_true(record_valid(drain, sizeof *drain));
    drain->rank = LIMIT_RANKS;
    assert_invalid(drain);
    drain = good_drain();
    drain->back = 1; /* of the whole unit */
    assert_true(record_valid(drain, sizeof *drain));
    drain->back = 2;
    assert_invalid(drain);
    struct record_experts *experts = good_experts();
    experts->layer_balance[2] = 1;
    assert_invalid(experts);
    experts = good_experts();
    experts->layer_balance[0] = 1000001;
    assert_invalid(experts);
    experts = good_experts();
    experts->ranks = LIMIT_RANKS + 1;
    assert_invalid(experts);
    experts = good_experts();
    experts->stall_ns_max = -1;
    assert_invalid(experts);
}

static void what_units_say_of_requests_is_in_range(void **state) {
    (void)state;
    struct record_tokens *tokens = good_tokens();
    tokens->token_count = 0;
    assert_invalid(tokens);
    tokens = good_tokens();
    tokens->logprobs_each = 4;
    assert_invalid(tokens);
    struct record_finished *finished = good_finished();
    finished->reason = FINISH_REASON_COUNT;
    assert_invalid(finished);
    tokens = good_tokens();
    tokens->work.drafts_right = 1;
    assert_invalid(tokens);
    finished = good_finished();
    finished->work.queue_ns = -2;
    assert_invalid(finished);
    finished = good_finished();
    finished->work.rank = LIMIT_RANKS;
    assert_invalid(finished);
    finished = good_finished();
    finished->work.transfer_ns = -1;
    assert_invalid(finished);
}

static void plain_spans_lie_in_the_text(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 5; i++) {
        struct record_tokenize *tokenize = good_tokenize();
        struct text_span *plain = tokenize_plain(tokenize);
        if (i == 0) plain[1].end = 5;   /* beyond it */
        if (i == 1) plain[1].start = 0; /* not in order */
        if (i == 2) plain[0].end = 0;   /* empty */
        if (i == 3) plain[1].end = 0;   /* backwards */
        if (i == 4) tokenize->plain_count = UINT32_MAX;
        assert_invalid(tokenize);
    }
}

static void scores_are_of_tokens_that_are_there(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 6; i++) {
        struct record_scores *scores = good_scores();
        struct token_logprob *logprobs = scores_logprobs(scores);
        if (i == 0) scores->first_position = 0; /* it has none */
        if (i == 1) scores->token_count = 0;
        if (i == 2) scores->logprobs_each = 0;
        if (i == 3) scores->logprobs_each = 2;
        if (i == 4) scores->reserved = 1;
        if (i == 5) logprobs[7].logprob = 1;
        assert_invalid(scores);
    }
    struct record_scores *many =
        make(RECORD_SCORES,
             &(struct record_scores){.token_count = SCORES_TOKENS_MAX + 1, .logprobs_each = 1});
    many->first_position = many->logprobs_each = 1;
    many->token_count = SCORES_TOKENS_MAX + 1;
    assert_invalid(many);
    for (uint32_t i = 0; i < 4; i++) {
        struct step_plan *plan = good_plan();
        struct step_row *rows = step_plan_rows(plan);
        if (i == 0) rows[0].scored_count = 70; /* as many as it has, and none is known behind */
        if (i == 1) rows[0].scored_count = 71, rows[0].next_token = 5;
        if (i == 2) rows[0].sampling.flags = 0;
        if (i == 3) rows[1].scored_count = 2, rows[1].next_token = 5;
        assert_invalid(plan);
    }
    struct step_plan *plan = good_plan();
    step_plan_rows(plan)[0].scored_count = 70;
    step_plan_rows(plan)[0].next_token = 5;
    assert_true(record_valid(plan, plan->record.bytes));
    for (uint32_t i = 0; i < 3; i++) {
        struct step_result *result = good_result();
        struct step_result_row *row = step_result_rows(result);
        if (i == 0) row->scored_count = 4; /* more than there are */
        if (i == 1) row->score_index = 3;
        if (i == 2) row->lost = 1;
        assert_invalid(result);
    }
}

static void accounts_are_whole(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 6; i++) {
        struct record_accounts *accounts = good_accounts();
        struct account *account = accounts_named(accounts);
        struct account_key *keys = accounts_keys(accounts);
        if (i == 0) account->is_operator = 2;
        if (i == 1) account->name[0] = '"'; /* it becomes a label of metrics */
        if (i == 2) account->name[0] = 0;
        if (i == 3) memset(account->name, 'x', sizeof account->name);
        if (i == 4) keys[1].account = 1;
        if (i == 5) keys[0].reserved = 1;
        assert_invalid(accounts);
    }
}

static void fields_out_of_range_are_refused(void **state) {
    (void)state;
    struct record_client_request *request = good_client_request();
    request->method = HTTP_METHOD_COUNT;
    assert_invalid(request);
    request = good_client_request();
    request->body_bytes = UINT32_MAX;
    assert_invalid(request);
    request = good_client_request();
    ((char *)request)[sizeof *request + 3] = 'x'; /* padding behind the path */
    assert_invalid(request);
    request = good_client_request();
    request->wants_receipt = 2;
    assert_invalid(request);
    request = good_client_request();
    request->listener = HTTP_LISTENER_COUNT;
    assert_invalid(request);
    request = good_client_request();
    request->body_left = 2;
    assert_invalid(request);
    struct record_respond *respond = good_respond();
    respond_receipt(respond)[1] = '\n'; /* a header has one line */
    assert_invalid(respond);
    respond = good_respond();
    respond->http_status = 0;
    assert_invalid(respond);
    respond = good_respond();
    respond->content_type = CONTENT_TYPE_COUNT;
    assert_invalid(respond);
    respond = good_respond();
    respond->allow = 1u << HTTP_OTHER;
    assert_invalid(respond);
    struct record_tokenized *tokenized = good_tokenized();
    tokenized->token_count = 0x40000001; /* times 4 it would wrap to 4 in 32 bits */
    assert_invalid(tokenized);
    tokenized = good_tokenized();
    tokenized->too_many = 9; /* and yet there are tokens */
    assert_invalid(tokenized);
    struct record_tokenize *tokenize = good_tokenize();
    tokenize->reserved = 1;
    assert_invalid(tokenize);
    struct record_submit *submit = good_submit();
    submit->sampling.temperature = -1;
    assert_invalid(submit);
    submit = good_submit();
    memset(&submit->sampling.top_p, 0xFF, sizeof submit->sampling.top_p); /* NaN */
    assert_invalid(submit);
    submit = good_submit();
    submit->new_tokens_max = 0;
    assert_invalid(submit);
    submit = good_submit();
    submit->request.reserved = 1;
    assert_invalid(submit);
    submit = good_submit();
    submit->bias_count = LIMIT_LOGIT_BIASES + 1;
    assert_invalid(submit);
    struct record_unit_hello *hello = good_hello();
    memset(hello->numerics_id, 'x', sizeof hello->numerics_id); /* no terminator */
    assert_invalid(hello);
    hello = good_hello();
    hello->page_tokens = 32;
    assert_invalid(hello);
}

static void results_are_checked(void **state) {
    (void)state;
    struct step_result *result = good_result();
    result->failed = 2;
    assert_invalid(result);
    result = good_result();
    result->awaited_ns = -1;
    assert_invalid(result);
    result = good_result();
    step_result_rows(result)[0].reserved = 1;
    assert_invalid(result);
    result = good_result();
    step_result_rows(result)[0].load_end.blocks = 1; /* of a load that has not ended */
    assert_invalid(result);
    step_result_rows(result)[0].load_ended = 1;
    assert_true(record_valid(result, result->record.bytes));
    step_result_rows(result)[0].load_end.host_blocks = 2;
    assert_invalid(result);
    result = good_result();
    step_result_rows(result)[1].logprob_index = 2; /* one too far */
    assert_invalid(result);
    result = good_result();
    step_result_rows(result)[1].token_count = 2; /* the second would be a draft's */
    assert_invalid(result);
    result = good_result();
    step_result_rows(result)[1].draft_count = LIMIT_DRAFTS + 1;
    assert_invalid(result);
    result = good_result();
    step_result_rows(result)[0].tokens[0] = 5; /* of none */
    assert_invalid(result);
    result = good_result();
    step_result_logprobs(result)[2].logprob = 0.5f;
    assert_invalid(result);
}

/* Whoever routes KV records looks for the rank at one place. */
static void kv_records_name_their_rank(void **state) {
    (void)state;
    int count = 0;
    for (size_t i = 0; i < ARRAY_COUNT(good); i++) {
        struct record_kv *record = good[i]();
        if (!record_is_kv(&record->record)) continue;
        count++;
        record->rank = LIMIT_RANKS - 1;
        assert_true(record_valid(record, record->record.bytes));
        assert_int_equal(record_kv_rank(&record->record), LIMIT_RANKS - 1);
        record->rank = LIMIT_RANKS;
        assert_invalid(record);
        record->rank = 0;
        record->request.reserved = 1;
        assert_invalid(record);
    }
    assert_int_equal(count, RECORD_KV_HELLO - RECORD_KV_EXPECT + 1);
}

/* What is asked of a KV storage, and told by it. */
static void storage_is_checked(void **state) {
    (void)state;
    struct record_kv_found *found = good_found();
    found->host_blocks = 3;
    assert_invalid(found);
    struct record_kv_load *load = good_kv_load();
    load->slot = LIMIT_UNIT_REQUESTS;
    assert_invalid(load);
    load = good_kv_load();
    load->in_step = 2;
    assert_invalid(load);
    struct record_kv_loaded *loaded = good_kv_loaded();
    loaded->end.ns = -1;
    assert_invalid(loaded);
    loaded = good_kv_loaded();
    loaded->end.host_blocks = 2;
    assert_invalid(loaded);
    struct record_kv_park *park = good_kv_park();
    park->slot = LIMIT_UNIT_REQUESTS;
    assert_invalid(park);
    struct record_kv_keep *keep = good_keep();
    keep->block_count = 2;
    assert_invalid(keep);
    struct record_kv_kept *kept = good_kept();
    kept->writable = 2;
    assert_invalid(kept);
    struct record_unit_load *report = good_load();
    report->kv_storage = KV_STORAGE_COUNT;
    assert_invalid(report);
    report = good_load();
    load_ranks(report)[0].kv_storage = KV_STORAGE_COUNT;
    assert_invalid(report);
}

/* What travels between units says where its blocks lie, and asks for nothing impossible. */
/* A rank is drained or dead, and who is dead does not come back. */
static void a_dead_rank_is_one_rank(void **state) {
    (void)state;
    struct record_drain *drain = good_drain_of_rank();
    drain->back = 0;
    drain->dead = 1;
    assert_true(record_valid(drain, drain->record.bytes));
    drain->back = 1;
    assert_invalid(drain);
    drain->back = drain->one_rank = drain->rank = 0;
    assert_invalid(drain);
}

static void handing_over_is_checked(void **state) {
    (void)state;
    struct record_submit *submit = good_submit();
    submit->task = SUBMIT_TASK_COUNT;
    assert_invalid(submit);
    submit = good_submit();
    submit->route.ticket[0] = 1; /* of nobody */
    assert_invalid(submit);
    submit = good_submit();
    submit->task = SUBMIT_RESERVE; /* an answer that has begun is not reserved for */
    assert_invalid(submit);
    submit->resumed_count = 0;
    submit->task = SUBMIT_PREFILL; /* an answer that leaves must know where to */
    submit->prompt_count = 5;
    assert_invalid(submit);
    strcpy(submit->route.address, "there:1");
    assert_true(record_valid(submit, submit->record.bytes));
    submit->first_block = 1; /* behind the whole prompt */
    assert_invalid(submit);
    submit->first_block = 0;
    submit->route.address[KV_ADDRESS_BYTES - 1] = 'x';
    assert_invalid(submit);
    struct record_kv_expect *expect = good_expect();
    expect->token_count = KV_BLOCK_TOKENS;
    assert_invalid(expect);
    struct record_kv_push *push = good_push();
    push->first_block = UINT32_MAX;
    assert_invalid(push);
    push = good_push();
    push->making_count = 2; /* of one */
    push->step = 5;
    push->last = 0;
    assert_invalid(push);
    push->making_count = 1;
    assert_true(record_valid(&push->record, push->record.bytes));
    push->step = 0; /* by no step */
    assert_invalid(push);
    push->step = 5;
    push->last = 1; /* all are to stand */
    assert_invalid(push);
    struct record_unit_hello *hello = good_hello();
    memset(hello_ranks(hello)[1].kv_address, 'x', KV_ADDRESS_BYTES);
    assert_invalid(hello);
}

static void what_units_cannot_mean_is_refused(void **state) {
    (void)state;
    struct record_submit *submit = good_submit();
    submit->resumed_count = 3; /* all there may be: nothing would be left to choose */
    assert_invalid(submit);
    submit = good_submit();
    submit->resumed_count = UINT32_MAX - 1; /* with the prompt it would wrap */
    submit->new_tokens_max = UINT32_MAX;
    assert_invalid(submit);
    struct record_unit_load *load = good_load();
    load->rank_count = LIMIT_RANKS + 1;
    assert_invalid(load);
    load = good_load();
    load->last_step_ns = -1;
    assert_invalid(load);
    struct record_unit_link *joined = good_joined();
    joined->reserved = 1;
    assert_invalid(joined);
    struct record_unit_hello *hello = good_hello();
    hello->role = UNIT_ROLE_COUNT;
    assert_invalid(hello);
    hello = good_hello();
    hello->rank_count = 0;
    assert_invalid(hello);
    hello = good_hello();
    hello_ranks(hello)[1].page_count++; /* more than the unit claims to have */
    assert_invalid(hello);
}

/* Units and gateways may only say what is theirs to say, and nothing is carried twice. */
static void what_may_not_be_carried_is_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(good); i++)
        for (uint32_t to = 0; to < 2; to++) {
            struct record *inner = good[i](), *record;
            uint16_t kind = inner->kind;
            bool from_unit = kind == RECORD_UNIT_HELLO || kind == RECORD_TOKENS ||
                             kind == RECORD_SCORES || kind == RECORD_FINISHED ||
                             kind == RECORD_UNIT_LOAD || kind == RECORD_RESERVED ||
                             kind == RECORD_EXPERTS;
            bool to_unit = kind == RECORD_SUBMIT || kind == RECORD_CANCEL ||
                           kind == RECORD_CONTINUE || kind == RECORD_DRAIN || kind == RECORD_ROLE;
            record = carry(to ? RECORD_TO_UNIT : RECORD_FROM_UNIT, inner);
            assert_int_equal(record_valid(record, record->bytes), to ? to_unit : from_unit);
        }
    struct record_carried *carried = good_to_unit();
    carried->inner_bytes -= 8;
    assert_invalid(carried);
    carried = good_to_unit();
    ((struct record_submit *)carried_inner(carried))->new_tokens_max = 0;
    assert_invalid(carried);
    carried = good_from_unit();
    carried_inner(carried)->bytes += 8; /* it claims what lies behind */
    assert_invalid(carried);
}

static void wishes_out_of_range_are_refused(void **state) {
    (void)state;
    struct record_submit *submit;
    static const struct sampling bad_samplings[] = {
        {.top_p = 1, .min_p = 1.1f},          {.top_p = 1, .frequency_penalty = 2.1f},
        {.top_p = 1, .presence_penalty = -3}, {.top_p = 1, .repetition_penalty = -1},
        {.top_p = 1, .top_logprobs = 21},     {.top_p = 1, .flags = 2},
        {.top_p = 1, .reserved = 1},          {.top_p = 1, .repetition_penalty = NAN},
    };
    for (size_t i = 0; i < ARRAY_COUNT(bad_samplings); i++) {
        submit = good_submit();
        submit->sampling = bad_samplings[i];
        assert_invalid(submit);
    }
    static const float bad_biases[] = {101, -101, NAN, INFINITY};
    for (size_t i = 0; i < ARRAY_COUNT(bad_biases); i++) {
        submit = good_submit();
        struct token_bias *biases = submit_biases(submit);
        biases[1].bias = -INFINITY; /* a mask is no bad bias */
        assert_true(record_valid(submit, submit->record.bytes));
        biases[1].bias = bad_biases[i];
        assert_invalid(submit);
    }
}

/* The engine reads pages and tokens by these numbers. */
static void rows_outside_their_plan_are_refused(void **state) {
    (void)state;
    static const struct {
        size_t offset;
        uint32_t row, value;
    } cases[] = {
        {offsetof(struct step_row, form), 0, TOKEN_FORM_COUNT},
        {offsetof(struct step_row, token_count), 0, 0},
        {offsetof(struct step_row, token_count), 0, 72},
        {offsetof(struct step_row, token_index), 1, 71},
        {offsetof(struct step_row, token_index), 1, UINT32_MAX},
        {offsetof(struct step_row, page_index), 0, 2},
        {offsetof(struct step_row, page_count), 0, 1}, /* does not cover its positions */
        {offsetof(struct step_row, page_count), 1, UINT32_MAX},
        {offsetof(struct step_row, first_position), 0, UINT32_MAX},
        {offsetof(struct step_row, first_position), 1, 64},
        {offsetof(struct step_row, logits_count), 0, 71},
        {offsetof(struct step_row, logits_count), 0, 0}, /* samples without logits */
        {offsetof(struct step_row, sample), 0, 2},
        {offsetof(struct step_row, history_index), 1, 2},
        {offsetof(struct step_row, history_count), 1, UINT32_MAX},
        {offsetof(struct step_row, history_prompt_count), 1, 5},
        {offsetof(struct step_row, bias_index), 1, 2},
        {offsetof(struct step_row, bias_count), 0, 3},
        {offsetof(struct step_row, draft_count), 0, 1}, /* a row of a prompt */
        {offsetof(struct step_row, draft_count), 1, 1}, /* one that does not sample */
        {offsetof(struct step_row, fresh), 0, 2},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct step_plan *plan = good_plan();
        char *row = (char *)&step_plan_rows(plan)[cases[i].row];
        memcpy(row + cases[i].offset, &cases[i].value, sizeof cases[i].value);
        assert_invalid(plan);
    }
    struct step_plan *plan = good_plan();
    plan->row_count = 0;
    assert_invalid(plan);
}

/* Whatever the bytes, the answer comes without a fault (run under sanitizers). */
static void random_bytes_do_no_harm(void **state) {
    (void)state;
    uint32_t accepted = 0;
    for (uint32_t turn = 0; turn < 20000; turn++) {
        struct record *record = good[turn % ARRAY_COUNT(good)]();
        uint32_t bytes = record->bytes;
        for (uint32_t change = 0; change < 1 + turn % 3; change++) {
            uint32_t at = 8 + (uint32_t)(random_uniform(turn, change, 0) * (bytes - 8));
            if (at < bytes) memory[at] = (char)(uint8_t)(random_uniform(turn, change, 1) * 256);
        }
        accepted += record_valid(record, bytes);
    }
    assert_true(accepted > 0 && accepted < 20000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_has_a_valid_form),
        cmocka_unit_test(cut_or_stretched_records_are_refused),
        cmocka_unit_test(counts_that_claim_too_much_are_refused),
        cmocka_unit_test(every_kind_has_a_form),
        cmocka_unit_test(ways_are_sets_of_kinds),
        cmocka_unit_test(what_units_say_of_requests_is_in_range),
        cmocka_unit_test(plain_spans_lie_in_the_text),
        cmocka_unit_test(scores_are_of_tokens_that_are_there),
        cmocka_unit_test(accounts_are_whole),
        cmocka_unit_test(fields_out_of_range_are_refused),
        cmocka_unit_test(results_are_checked),
        cmocka_unit_test(experts_out_of_range_are_refused),
        cmocka_unit_test(a_dead_rank_is_one_rank),
        cmocka_unit_test(handing_over_is_checked),
        cmocka_unit_test(kv_records_name_their_rank),
        cmocka_unit_test(storage_is_checked),
        cmocka_unit_test(what_units_cannot_mean_is_refused),
        cmocka_unit_test(what_may_not_be_carried_is_refused),
        cmocka_unit_test(wishes_out_of_range_are_refused),
        cmocka_unit_test(rows_outside_their_plan_are_refused),
        cmocka_unit_test(random_bytes_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
