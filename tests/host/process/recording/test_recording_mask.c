/* SPDX-License-Identifier: Apache-2.0
 * Protects what a recording must not tell: keys, salts and tokens are others, the same ones for the
 * same, and no two for one.
 */
#include "host/process/recording/recording_mask.h"

#include "base/sha256.h"
#include "contract/machine.h"
#include "contract/record_unit.h"
#include "contract/step_plan.h"
#include "test_case.h"

enum { VOCAB = 1000 };

static uint32_t tokens[VOCAB];
static struct recording_mask mask;
static _Alignas(8) char memory[1 << 14];
static struct outbox box = {.memory = memory, .capacity = sizeof memory};

static void open_mask(uint32_t vocab) {
    static const uint8_t key[32] = {1, 2, 3};
    recording_mask_open(&mask, key, tokens, vocab);
    machine_outbox_clear(&box);
}

TEST(each_token_stands_for_one_other) {
    bool seen[VOCAB] = {false};
    uint32_t same = 0;
    open_mask(VOCAB);
    for (uint32_t i = 0; i < VOCAB; i++) {
        assert_true(tokens[i] < VOCAB && !seen[tokens[i]]);
        seen[tokens[i]] = true;
        same += tokens[i] == i;
    }
    assert_true(same < 10);
}

static struct record_submit *make_submit(uint8_t salt) {
    struct record_submit *submit =
        machine_outbox_put(&box, RECORD_SUBMIT,
                           &(struct record_submit){.sampling = {.top_p = 1},
                                                   .prompt_count = 3,
                                                   .new_tokens_max = 1,
                                                   .stop_token_count = 1,
                                                   .constraint_bytes = 2,
                                                   .name_bytes = 4});
    uint32_t prompt[] = {5, 9, 5};
    memcpy(submit_tokens(submit), prompt, sizeof prompt);
    *submit_stop_tokens(submit) = 9;
    memcpy(submit_constraint(submit), "ab", 2);
    memcpy(submit_name(submit), "mine", 4);
    memset(&submit->tenant, salt, sizeof submit->tenant);
    memset(&submit->account, salt, sizeof submit->account);
    return submit;
}

TEST(a_submission_is_another_of_the_same_form) {
    open_mask(VOCAB);
    struct record_submit *one = make_submit(7), *two = make_submit(7), *bare = make_submit(0);
    recording_mask_unit(&mask, &one->record);
    recording_mask_unit(&mask, &two->record);
    recording_mask_unit(&mask, &bare->record);
    assert_true(record_valid(one, one->record.bytes));
    assert_memory_equal(one, two, one->record.bytes);
    assert_int_equal(submit_tokens(one)[0], tokens[5]);
    assert_int_equal(submit_tokens(one)[0], submit_tokens(one)[2]);
    assert_int_equal(submit_tokens(one)[1], *submit_stop_tokens(one));
    assert_memory_not_equal(submit_constraint(one), "ab", 2);
    assert_memory_equal(submit_name(one), "????", 4);
    struct tenant_salt salt, none = {{0}};
    memset(&salt, 7, sizeof salt);
    assert_memory_not_equal(&one->tenant, &salt, sizeof salt);
    assert_memory_not_equal(&one->account, &salt, sizeof salt);
    assert_memory_equal(&bare->tenant, &none, sizeof none); /* nobody's stays nobody's */
}

TEST(with_prompts_a_submission_has_another_salt_alone) {
    open_mask(0);
    struct record_submit *submit = make_submit(7), *before = make_submit(7);
    recording_mask_unit(&mask, &submit->record);
    assert_memory_not_equal(&submit->tenant, &before->tenant, sizeof submit->tenant);
    assert_memory_not_equal(&submit->account, &before->account, sizeof submit->account);
    submit->tenant = before->tenant;
    submit->account = before->account;
    assert_memory_equal(submit, before, submit->record.bytes);
}

TEST(steps_are_of_the_same_tokens_as_what_was_submitted) {
    open_mask(VOCAB);
    struct step_plan *plan = machine_outbox_put(&box, RECORD_RUN_STEP,
                                                &(struct step_plan){.row_count = 2,
                                                                    .token_count = 2,
                                                                    .history_count = 1,
                                                                    .bias_count = 1,
                                                                    .constraint_count = 1});
    const struct tenant_salt salt = {{1, 2, 3}};
    step_plan_constraints(plan)->account = salt;
    step_plan_tokens(plan)[0] = step_plan_tokens(plan)[1] = 5;
    step_plan_history(plan)[0] = 9;
    step_plan_biases(plan)[0].token = 9;
    step_plan_rows(plan)[1] = (struct step_row){.scored_count = 1, .next_token = 5};
    recording_mask_unit(&mask, &plan->record);
    assert_memory_not_equal(&step_plan_constraints(plan)->account, &salt, sizeof salt);
    assert_int_equal(step_plan_tokens(plan)[1], tokens[5]);
    assert_int_equal(step_plan_history(plan)[0], tokens[9]);
    assert_int_equal(step_plan_biases(plan)[0].token, tokens[9]);
    assert_int_equal(step_plan_rows(plan)[0].next_token, 0); /* read only with a scored_count */
    assert_int_equal(step_plan_rows(plan)[1].next_token, tokens[5]);
    struct step_result *result = machine_outbox_put(
        &box, RECORD_STEP_DONE, &(struct step_result){.row_count = 1, .logprob_count = 1});
    step_result_rows(result)->token_count = 1;
    step_result_rows(result)->tokens[0] = 5;
    step_result_logprobs(result)->token = 9;
    recording_mask_unit(&mask, &result->record);
    assert_int_equal(step_result_rows(result)->tokens[0], tokens[5]);
    assert_int_equal(step_result_rows(result)->tokens[1], 0); /* there is none */
    assert_int_equal(step_result_logprobs(result)->token, tokens[9]);
}

/* The request as a recording tells it. */
static struct record_client_request *ask(const char *authorization) {
    struct record_client_request *record = machine_outbox_put(
        &box, RECORD_CLIENT_REQUEST,
        &(struct record_client_request){.path_bytes = 2,
                                        .authorization_bytes = (uint32_t)strlen(authorization),
                                        .body_bytes = 4});
    memset(record->peer, 9, sizeof record->peer);
    memcpy(client_request_path(record), "/v", 2);
    memcpy(client_request_authorization(record), authorization, strlen(authorization));
    memcpy(client_request_body(record), "body", 4);
    struct record_client_request *reported = (void *)(box.memory + box.used);
    assert_true(recording_mask_request_bytes(record) <= outbox_room(&box));
    recording_mask_request(&mask, record, reported);
    box.used += reported->record.bytes;
    assert_true(record_valid(reported, reported->record.bytes));
    assert_memory_equal(client_request_body(reported), "body", 4);
    assert_true(record_zeros(reported->peer, sizeof reported->peer));
    assert_memory_equal(client_request_path(reported), "/v", 2);
    return reported;
}

TEST(a_key_in_a_request_is_still_that_of_its_account) {
    open_mask(0);
    struct record_accounts *accounts = machine_outbox_put(
        &box, RECORD_ACCOUNTS, &(struct record_accounts){.account_count = 1, .key_count = 1});
    sha256_digest("sk-one", 6, accounts_keys(accounts)->sha256);
    recording_mask_keys(&mask, accounts);
    const struct record_client_request *reported = ask("bearer sk-one");
    uint8_t sha256[32];
    const char *key = client_request_authorization(reported) + 7;
    assert_memory_equal(client_request_authorization(reported), "Bearer ", 7);
    sha256_digest(key, reported->authorization_bytes - 7, sha256);
    assert_memory_equal(sha256, accounts_keys(accounts)->sha256, sizeof sha256);
    sha256_digest("sk-one", 6, sha256);
    assert_memory_not_equal(sha256, accounts_keys(accounts)->sha256, sizeof sha256);
    const struct record_client_request *blanks = ask("Bearer   sk-one "); /* the same key */
    assert_int_equal(blanks->authorization_bytes, reported->authorization_bytes);
    assert_memory_equal(client_request_authorization(blanks) + 7, key, 64);
    const struct record_client_request *other = ask("Bearer sk-two");
    assert_memory_not_equal(client_request_authorization(other) + 7, key, 64);
}

/* What a ledger is told of keys, and of nothing else that is secret. */
TEST(an_entry_names_the_key_that_its_account_has_in_the_recording) {
    uint8_t sha256[32];
    open_mask(0);
    struct record_accounts *accounts = machine_outbox_put(
        &box, RECORD_ACCOUNTS, &(struct record_accounts){.account_count = 1, .key_count = 1});
    accounts_named(accounts)->balance = 77;
    accounts_named(accounts)->weight = 1;
    strcpy(accounts_named(accounts)->name, "acme");
    accounts_keys(accounts)->budget = 88;
    sha256_digest("sk-one", 6, sha256);
    memcpy(accounts_keys(accounts)->sha256, sha256, sizeof sha256);
    recording_mask_keys(&mask, accounts);
    assert_true(accounts_named(accounts)->balance == 77 && accounts_keys(accounts)->budget == 88);
    assert_string_equal(accounts_named(accounts)->name, "acme");
    struct record_usage *entry = machine_outbox_put(
        &box, RECORD_USAGE,
        &(struct record_usage){.account = "acme", .sequence = 1, .http_status = 200});
    struct record_usage before = *entry;
    memset(entry->peer, 9, sizeof entry->peer);
    memcpy(entry->key, sha256, sizeof entry->key);
    recording_mask_put(&mask, &entry->record);
    assert_memory_equal(entry->key, accounts_keys(accounts)->sha256, sizeof entry->key);
    assert_memory_not_equal(entry->key, sha256, sizeof entry->key);
    memset(entry->key, 0, sizeof entry->key);
    assert_memory_equal(entry, &before, sizeof before);
    recording_mask_put(&mask, &entry->record); /* of a request without a key */
    assert_memory_equal(entry, &before, sizeof before);
}

TEST(a_header_without_a_key_reports_only_that_it_was_there) {
    open_mask(0);
    assert_int_equal(ask("")->authorization_bytes, 0);
    assert_int_equal(ask("Basic secret")->authorization_bytes, 1);
    assert_int_equal(ask("Bearer ")->authorization_bytes, 1);
}
