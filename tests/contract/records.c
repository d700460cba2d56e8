/* SPDX-License-Identifier: Apache-2.0 */
#include "records.h"

_Alignas(8) char records_memory[4096];
static struct outbox outbox = {.memory = records_memory, .capacity = sizeof records_memory};

void *records_make(enum record_kind kind, const void *fixed) {
    machine_outbox_clear(&outbox);
    void *record = machine_outbox_put(&outbox, kind, fixed);
    check(record);
    return record;
}

void *good_client_request(void) {
    struct record_client_request *r = records_make(
        RECORD_CLIENT_REQUEST, &(struct record_client_request){
                                   .path_bytes = 3, .authorization_bytes = 9, .body_bytes = 5});
    r->method = HTTP_POST;
    return r;
}

void *good_accounts(void) {
    struct record_accounts *r = records_make(
        RECORD_ACCOUNTS, &(struct record_accounts){.account_count = 1, .key_count = 2});
    struct account *account = accounts_named(r);
    r->account_count = 1;
    r->key_count = 2;
    strcpy(account->name, "acme");
    account->weight = ACCOUNT_WEIGHT;
    account->is_operator = 1;
    accounts_keys(r)[1].budget = ACCOUNT_BUDGET_ANY;
    return r;
}

void *good_settled(void) {
    struct record_committed *r = records_make(RECORD_COMMITTED, NULL);
    r->sequence = 7;
    return r;
}

void *good_entry(void) {
    struct record_usage *r = records_make(
        RECORD_USAGE, &(struct record_usage){.path_bytes = 3, .end_bytes = 4, .stay_count = 1});
    r->request = (struct request_id){.high = 5, .low = 6};
    r->sequence = 7;
    r->http_status = 200;
    strcpy(r->account, "acme");
    memcpy(entry_end(r), "stop", 4);
    return r;
}

void *good_unit_totals(void) {
    struct record_unit_totals *r = records_make(RECORD_UNIT_TOTALS, NULL);
    r->rank_count = 2;
    return r;
}

void *good_respond(void) {
    struct record_respond *r =
        records_make(RECORD_RESPOND, &(struct record_respond){.body_bytes = 2, .header_bytes = 8});
    r->http_status = 200;
    r->body_bytes = 2;
    r->header_bytes = 8;
    memcpy(respond_headers(r), "X-Y: z\r\n", 8);
    return r;
}

void *good_stream_data(void) {
    struct record_stream_data *r =
        records_make(RECORD_STREAM_DATA, &(struct record_stream_data){.data_bytes = 7});
    r->data_bytes = 7;
    return r;
}

void *good_tokenize(void) {
    static const struct text_span plain[2] = {{0, 1}, {1, 4}};
    struct record_tokenize *r =
        records_make(RECORD_TOKENIZE, &(struct record_tokenize){.text_bytes = 4, .plain_count = 2});
    r->text_bytes = 4;
    r->plain_count = 2;
    memcpy(tokenize_plain(r), plain, sizeof plain);
    return r;
}

void *good_tokenized(void) {
    struct record_tokenized *r =
        records_make(RECORD_TOKENIZED, &(struct record_tokenized){.token_count = 3});
    r->token_count = 3;
    return r;
}

void *good_constrain(void) {
    struct record_constrain *r =
        records_make(RECORD_CONSTRAIN, &(struct record_constrain){.text_bytes = 5});
    r->text_bytes = 5;
    return r;
}

void *good_constrained(void) {
    struct record_constrained *r =
        records_make(RECORD_CONSTRAINED, &(struct record_constrained){.message_bytes = 3});
    r->verdict = CONSTRAINT_UNSUPPORTED;
    r->message_bytes = 3;
    return r;
}

void *good_submit(void) {
    struct record_submit *r = records_make(
        RECORD_SUBMIT,
        &(struct record_submit){
            .prompt_count = 5, .stop_token_count = 1, .bias_count = 2, .name_bytes = 4});
    memcpy(submit_name(r), "mine", 4);
    r->sampling = (struct sampling){.temperature = 0.6f, .top_p = 0.95f};
    r->prompt_count = 3;
    r->resumed_count = 2;
    r->new_tokens_max = 3;
    return r;
}

void *good_cancel(void) {
    return records_make(RECORD_CANCEL, NULL);
}

void *good_hello(void) {
    struct record_unit_hello *r =
        records_make(RECORD_UNIT_HELLO, &(struct record_unit_hello){.rank_count = 2});
    r->rank_count = 2;
    r->role = UNIT_DECODE;
    r->vocab_count = r->context_tokens_max = r->page_count = r->requests_max = 9;
    r->page_tokens = KV_BLOCK_TOKENS;
    hello_ranks(r)[0] = (struct unit_rank){.page_count = 4, .requests_max = 9};
    hello_ranks(r)[1] = (struct unit_rank){.page_count = 5, .pid = 1234};
    return r;
}

void *good_tokens(void) {
    struct record_tokens *r = records_make(
        RECORD_TOKENS,
        &(struct record_tokens){.token_count = 2, .logprobs_each = 3, .work_count = 1});
    r->token_count = 2;
    r->logprobs_each = 3;
    r->work_count = 1;
    return r;
}

void *good_progress(void) {
    struct record_progress *r = records_make(RECORD_PROGRESS, NULL);
    r->ready_tokens = 9;
    r->cached_tokens = 4;
    return r;
}

void *good_scores(void) {
    struct record_scores *r =
        records_make(RECORD_SCORES,
                     &(struct record_scores){.token_count = SCORES_TOKENS_MAX, .logprobs_each = 3});
    r->first_position = 1;
    r->token_count = SCORES_TOKENS_MAX;
    return r;
}

void *good_finished(void) {
    return records_make(RECORD_FINISHED, NULL);
}

void *good_plan(void) {
    struct step_plan *plan =
        records_make(RECORD_RUN_STEP, &(struct step_plan){.row_count = 2,
                                                          .token_count = 71,
                                                          .page_count = 3,
                                                          .history_count = 5,
                                                          .bias_count = 2,
                                                          .constraint_count = 1,
                                                          .constraint_token_count = 3,
                                                          .constraint_bytes = 4});
    plan->history_count = 5;
    plan->bias_count = 2;
    plan->row_count = 2;
    plan->token_count = 71;
    plan->page_count = 3;
    plan->constraint_count = 1;
    plan->constraint_token_count = 3;
    plan->constraint_bytes = 4;
    *step_plan_constraints(plan) = (struct step_constraint){
        .text_bytes = 4, .answer_count = 2, .stop_index = 2, .stop_count = 1};
    struct step_row *rows = step_plan_rows(plan);
    rows[0] = (struct step_row){.token_count = 70,
                                .page_count = 2,
                                .logits_count = 1,
                                .sample = 1,
                                .fresh = 1,
                                .constrained = 1,
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

void *good_result(void) {
    struct step_result *r =
        records_make(RECORD_STEP_DONE, &(struct step_result){.row_count = 2, .logprob_count = 3});
    r->row_count = 2;
    r->logprob_count = 3;
    step_result_rows(r)[0] = (struct step_result_row){
        .token_count = 0, .logprobs_each = 1, .score_index = 0, .scored_count = 1};
    step_result_rows(r)[1] = (struct step_result_row){
        .token_count = 1, .tokens = {7}, .logprob_index = 1, .logprobs_each = 2};
    return r;
}

void *good_gone(void) {
    return records_make(RECORD_CLIENT_GONE, NULL);
}
void *good_drain(void) {
    return records_make(RECORD_DRAIN, NULL);
}
void *good_role(void) {
    struct record_role *r = records_make(RECORD_ROLE, NULL);
    r->role = UNIT_DECODE;
    return r;
}
void *good_begin(void) {
    struct record_stream_begin *r =
        records_make(RECORD_STREAM_BEGIN, &(struct record_stream_begin){.header_bytes = 8});
    r->header_bytes = 8;
    memcpy(stream_headers(r), "X-Y: z\r\n", 8);
    return r;
}
void *good_end(void) {
    return records_make(RECORD_STREAM_END, NULL);
}
void *good_load(void) {
    struct record_unit_load *r =
        records_make(RECORD_UNIT_LOAD, &(struct record_unit_load){.rank_count = 2});
    r->rank_count = 2;
    return r;
}
void *good_joined(void) {
    return records_make(RECORD_UNIT_JOINED, NULL);
}
void *good_lost(void) {
    return records_make(RECORD_UNIT_LOST, NULL);
}

void *good_continue(void) {
    struct record_continue *r =
        records_make(RECORD_CONTINUE, &(struct record_continue){.token_count = 1});
    r->token_count = 1;
    return r;
}
void *good_reserved(void) {
    return records_make(RECORD_RESERVED, NULL);
}
void *good_drain_of_rank(void) {
    struct record_drain *r = good_drain();
    r->one_rank = r->back = 1;
    r->rank = 3;
    return r;
}
void *good_experts(void) {
    struct record_experts *r = records_make(RECORD_EXPERTS, NULL);
    r->ranks = 4;
    r->layer_count = 2;
    r->layer_balance[1] = 1000000;
    return r;
}
void *good_expect(void) {
    struct record_kv_expect *r =
        records_make(RECORD_KV_EXPECT, &(struct record_kv_expect){.page_count = 2});
    r->first_block = 1;
    r->page_count = 2;
    r->token_count = 2 * KV_BLOCK_TOKENS + 1;
    return r;
}
void *good_push(void) {
    struct record_kv_push *r =
        records_make(RECORD_KV_PUSH, &(struct record_kv_push){.page_count = 1});
    r->page_count = 1;
    r->token_count = KV_BLOCK_TOKENS;
    r->last = 1;
    strcpy(r->route.address, "host:1");
    return r;
}
void *good_kv_cancel(void) {
    return records_make(RECORD_KV_CANCEL, NULL);
}
void *good_kv_done(void) {
    return records_make(RECORD_KV_DONE, NULL);
}

void *good_find(void) {
    struct record_kv_find *r =
        records_make(RECORD_KV_FIND, &(struct record_kv_find){.key_count = 2});
    r->key_count = 2;
    return r;
}
void *good_found(void) {
    struct record_kv_found *r = records_make(RECORD_KV_FOUND, NULL);
    r->blocks = r->host_blocks = 2;
    return r;
}
void *good_kv_load(void) {
    struct record_kv_load *r =
        records_make(RECORD_KV_LOAD, &(struct record_kv_load){.block_count = 3});
    r->block_count = 3;
    r->in_step = 1;
    return r;
}
void *good_kv_park(void) {
    return records_make(RECORD_KV_PARK, NULL);
}
void *good_kv_loaded(void) {
    struct record_kv_loaded *r = records_make(RECORD_KV_LOADED, NULL);
    r->end.blocks = r->end.host_blocks = 1;
    return r;
}
void *good_keep(void) {
    struct record_kv_put *r =
        records_make(RECORD_KV_PUT, &(struct record_kv_put){.block_count = 3});
    r->block_count = 3;
    return r;
}
void *good_kept(void) {
    return records_make(RECORD_KV_STORED, NULL);
}
void *good_kv_hello(void) {
    struct record_kv_hello *r = records_make(RECORD_KV_HELLO, NULL);
    strcpy(r->address, "host:1");
    return r;
}

void *good_fleet_load(void) {
    return records_make(RECORD_FLEET_LOAD, NULL);
}
void *good_fleet_unit(void) {
    const struct record_fleet_unit fixed = {
        .number = 3, .role = UNIT_DECODE, .observed_state = FLEET_UNIT_SERVING, .requests = 7};
    return records_make(RECORD_FLEET_UNIT, &fixed);
}
void *good_fleet_command(void) {
    const struct record_fleet_command fixed = {
        .kind = FLEET_COMMAND_PIN, .role = UNIT_PREFILL, .count = 2};
    return records_make(RECORD_FLEET_COMMAND, &fixed);
}
void *good_fleet_action(void) {
    const struct record_fleet_action fixed = {
        .act = FLEET_ACT_START, .number = 4, .role = UNIT_PREFILL};
    return records_make(RECORD_FLEET_ACTION, &fixed);
}

void *good_fleet_gateway(void) {
    const struct record_fleet_gateway fixed = {.gateway = 1, .responds = 1, .unit_count = 1};
    struct record_fleet_gateway *r = records_make(RECORD_FLEET_GATEWAY, &fixed);
    fleet_gateway_units(r)[0] = (struct fleet_gateway_unit){
        .number = 3, .connection = 7, .role = UNIT_BOTH, .observed_state = FLEET_UNIT_SERVING};
    return r;
}
void *good_fleet_jobs(void) {
    const struct record_fleet_jobs fixed = {.responds = 1, .job_count = 1};
    struct record_fleet_jobs *r = records_make(RECORD_FLEET_JOBS, &fixed);
    fleet_jobs(r)[0] = (struct launcher_job){.number = 3, .role = UNIT_DECODE, .name = "pid 4711"};
    return r;
}

/* The record made last, carried. */
void *records_carry(enum record_kind kind, const struct record *inner) {
    static _Alignas(8) char copy[sizeof records_memory];
    uint32_t bytes = inner->bytes;
    memcpy(copy, inner, bytes);
    machine_outbox_clear(&outbox);
    struct record_envelope *envelope = machine_outbox_put(
        &outbox, kind, &(struct record_envelope){.unit = {7}, .inner_bytes = bytes});
    memcpy(envelope_inner(envelope), copy, bytes);
    return records_memory;
}

void *good_from_unit(void) {
    return records_carry(RECORD_FROM_UNIT, good_tokens());
}
void *good_to_unit(void) {
    return records_carry(RECORD_TO_UNIT, good_submit());
}

void *(*const good_records[])(void) = {
    good_accounts,   good_settled,       good_entry,        good_unit_totals,   good_client_request,
    good_respond,    good_stream_data,   good_tokenize,     good_tokenized,     good_submit,
    good_cancel,     good_hello,         good_tokens,       good_scores,        good_finished,
    good_plan,       good_result,        good_gone,         good_drain,         good_begin,
    good_end,        good_load,          good_joined,       good_lost,          good_from_unit,
    good_to_unit,    good_continue,      good_reserved,     good_experts,       good_expect,
    good_push,       good_kv_cancel,     good_kv_done,      good_find,          good_found,
    good_kv_load,    good_kv_loaded,     good_keep,         good_kept,          good_kv_park,
    good_kv_hello,   good_role,          good_constrain,    good_constrained,   good_fleet_load,
    good_fleet_unit, good_fleet_command, good_fleet_action, good_fleet_gateway, good_fleet_jobs,
    good_progress,
};
const size_t good_records_count = ARRAY_COUNT(good_records);

void assert_invalid(const void *record) {
    assert_false(record_valid(record, ((const struct record *)record)->bytes));
}
