/* SPDX-License-Identifier: Apache-2.0
 * The table of records, one row for each kind: name, fixed struct, senders and receivers, check of
 * its fields, and tails.
 */
#include "contract/record_client.h"
#include "contract/record_fleet.h"
#include "contract/record_kv.h"
#include "contract/record_ledger.h"
#include "contract/record_unit.h"
#include "contract/step_plan.h"

/* The row of a tail: the type of its elements, and the fields of struct `of` that count them. */
#define BYTES(of, field)                                                                           \
    { 1, COUNT_FIELD, offsetof(struct of, field), 0 }
#define EACH(of, field, type)                                                                      \
    { sizeof(type), COUNT_FIELD, offsetof(struct of, field), 0 }
#define EACH_AND_ONE(of, field, type)                                                              \
    { sizeof(type), COUNT_FIELD_AND_ONE, offsetof(struct of, field), 0 }
#define SUM(of, field, other, type)                                                                \
    { sizeof(type), COUNT_SUM, offsetof(struct of, field), offsetof(struct of, other) }
#define PRODUCT(of, field, other, type)                                                            \
    { sizeof(type), COUNT_PRODUCT, offsetof(struct of, field), offsetof(struct of, other) }

#define FORM(kind, of, ways, fields_valid, ...)                                                    \
    [RECORD_##kind] = {#kind, ways, sizeof(struct of), fields_valid, {__VA_ARGS__}}

/* clang-format off */
const struct record_form record_forms[RECORD_KIND_COUNT] = {
    FORM(CLIENT_REQUEST, record_client_request, WAY_CLIENT_TO_GATEWAY, record_client_request_valid,
         BYTES(record_client_request, path_bytes),
         BYTES(record_client_request, authorization_bytes),
         BYTES(record_client_request, body_bytes),
         BYTES(record_client_request, name_bytes)),
    FORM(CLIENT_GONE, record_client_gone, WAY_CLIENT_TO_GATEWAY, NULL, {0}),
    FORM(TOKENIZED, record_tokenized, WAY_CLIENT_TO_GATEWAY, record_client_tokenized_valid,
         EACH(record_tokenized, token_count, uint32_t)),
    FORM(CONSTRAINED, record_constrained, WAY_CLIENT_TO_GATEWAY, record_client_constrained_valid,
         BYTES(record_constrained, message_bytes)),
    FORM(ACCOUNTS, record_accounts, WAY_LEDGER_TO_GATEWAY, record_ledger_accounts_valid,
         EACH(record_accounts, account_count, struct account),
         EACH(record_accounts, key_count, struct account_key)),
    FORM(COMMITTED, record_committed, WAY_LEDGER_TO_GATEWAY, record_ledger_committed_valid, {0}),
    FORM(USAGE, record_usage, WAY_GATEWAY_TO_LEDGER, record_ledger_usage_valid,
         BYTES(record_usage, path_bytes),
         BYTES(record_usage, name_bytes),
         BYTES(record_usage, model_bytes),
         BYTES(record_usage, end_bytes),
         EACH(record_usage, stay_count, struct usage_stay)),
    FORM(UNIT_TOTALS, record_unit_totals, WAY_GATEWAY_TO_LEDGER,
         record_ledger_unit_totals_valid, {0}),
    FORM(DRAIN, record_drain, WAY_CLIENT_TO_GATEWAY | WAY_GATEWAY_TO_UNIT | WAY_UNIT_TO_ENGINE,
         record_unit_drain_valid, {0}),
    FORM(RESPOND, record_respond, WAY_GATEWAY_TO_CLIENT, record_client_respond_valid,
         BYTES(record_respond, body_bytes),
         BYTES(record_respond, header_bytes)),
    FORM(STREAM_BEGIN, record_stream_begin, WAY_GATEWAY_TO_CLIENT, record_client_stream_begin_valid,
         BYTES(record_stream_begin, header_bytes)),
    FORM(STREAM_DATA, record_stream_data, WAY_GATEWAY_TO_CLIENT, record_client_stream_data_valid,
         BYTES(record_stream_data, data_bytes)),
    FORM(STREAM_END, record_stream_end, WAY_GATEWAY_TO_CLIENT, NULL, {0}),
    FORM(TOKENIZE, record_tokenize, WAY_GATEWAY_TO_CLIENT, record_client_tokenize_valid,
         BYTES(record_tokenize, text_bytes),
         EACH(record_tokenize, plain_count, struct text_span)),
    FORM(CONSTRAIN, record_constrain, WAY_GATEWAY_TO_CLIENT, record_client_constrain_valid,
         BYTES(record_constrain, text_bytes)),
    FORM(UNIT_JOINED, record_unit_link, WAY_HOST_TO_GATEWAY, record_unit_link_valid, {0}),
    FORM(UNIT_LOST, record_unit_link, WAY_HOST_TO_GATEWAY, record_unit_link_valid, {0}),
    FORM(FROM_UNIT, record_envelope, WAY_HOST_TO_GATEWAY, record_unit_envelope_valid,
         BYTES(record_envelope, inner_bytes)),
    FORM(TO_UNIT, record_envelope, WAY_GATEWAY_TO_HOST, record_unit_envelope_valid,
         BYTES(record_envelope, inner_bytes)),
    FORM(SUBMIT, record_submit, WAY_GATEWAY_TO_UNIT, record_unit_submit_valid,
         SUM(record_submit, prompt_count, resumed_count, uint32_t),
         EACH(record_submit, stop_token_count, uint32_t),
         EACH(record_submit, bias_count, struct token_bias),
         BYTES(record_submit, constraint_bytes),
         BYTES(record_submit, name_bytes)),
    FORM(CANCEL, record_cancel, WAY_GATEWAY_TO_UNIT, record_request_valid, {0}),
    FORM(CONTINUE, record_continue, WAY_GATEWAY_TO_UNIT, record_unit_continue_valid,
         EACH(record_continue, token_count, uint32_t)),
    FORM(ROLE, record_role, WAY_GATEWAY_TO_UNIT | WAY_UNIT_TO_ENGINE, record_unit_role_valid, {0}),
    FORM(UNIT_HELLO, record_unit_hello, WAY_UNIT_TO_GATEWAY, record_unit_hello_valid,
         EACH(record_unit_hello, rank_count, struct unit_rank)),
    FORM(TOKENS, record_tokens, WAY_UNIT_TO_GATEWAY, record_unit_tokens_valid,
         EACH(record_tokens, token_count, uint32_t),
         PRODUCT(record_tokens, token_count, logprobs_each, struct token_logprob),
         EACH(record_tokens, work_count, struct unit_work)),
    FORM(FINISHED, record_finished, WAY_UNIT_TO_GATEWAY, record_unit_finished_valid, {0}),
    FORM(UNIT_LOAD, record_unit_load, WAY_UNIT_TO_GATEWAY, record_unit_load_valid,
         EACH(record_unit_load, rank_count, struct unit_rank_load)),
    FORM(RESERVED, record_reserved, WAY_UNIT_TO_GATEWAY, record_unit_reserved_valid, {0}),
    FORM(PROGRESS, record_progress, WAY_UNIT_TO_GATEWAY, record_unit_progress_valid, {0}),
    FORM(SCORES, record_scores, WAY_UNIT_TO_GATEWAY, record_unit_scores_valid,
         PRODUCT(record_scores, token_count, logprobs_each, struct token_logprob)),
    FORM(EXPERTS, record_experts, WAY_ENGINE_TO_UNIT | WAY_UNIT_TO_GATEWAY,
         record_unit_experts_valid, {0}),
    FORM(RUN_STEP, step_plan, WAY_UNIT_TO_ENGINE, step_plan_valid,
         EACH(step_plan, row_count, struct step_row),
         EACH(step_plan, token_count, uint32_t),
         EACH(step_plan, page_count, struct page_id),
         EACH(step_plan, history_count, uint32_t),
         EACH(step_plan, bias_count, struct token_bias),
         EACH(step_plan, constraint_count, struct step_constraint),
         EACH(step_plan, constraint_token_count, uint32_t),
         BYTES(step_plan, constraint_bytes)),
    FORM(STEP_DONE, step_result, WAY_ENGINE_TO_UNIT, step_plan_result_valid,
         EACH(step_result, row_count, struct step_result_row),
         EACH(step_result, logprob_count, struct token_logprob),
         EACH(step_result, ready_count, uint32_t)),
    FORM(KV_EXPECT, record_kv_expect, WAY_UNIT_TO_CARRIER, record_kv_expect_valid,
         EACH(record_kv_expect, page_count, struct page_id)),
    FORM(KV_PUSH, record_kv_push, WAY_UNIT_TO_CARRIER, record_kv_push_valid,
         EACH(record_kv_push, page_count, struct page_id)),
    FORM(KV_CANCEL, record_kv_cancel, WAY_UNIT_TO_CARRIER, record_kv_cancel_valid, {0}),
    FORM(KV_DONE, record_kv_done, WAY_CARRIER_TO_UNIT, record_kv_done_valid, {0}),
    FORM(KV_FIND, record_kv_find, WAY_UNIT_TO_STORAGE, record_kv_find_valid,
         EACH(record_kv_find, key_count, struct block_key)),
    FORM(KV_FOUND, record_kv_found, WAY_STORAGE_TO_UNIT, record_kv_found_valid, {0}),
    FORM(KV_LOAD, record_kv_load, WAY_UNIT_TO_STORAGE, record_kv_load_valid,
         EACH(record_kv_load, block_count, struct block_key),
         EACH(record_kv_load, block_count, struct page_id)),
    FORM(KV_LOADED, record_kv_loaded, WAY_STORAGE_TO_UNIT, record_kv_loaded_valid, {0}),
    FORM(KV_PARK, record_kv_park, WAY_UNIT_TO_STORAGE, record_kv_park_valid, {0}),
    FORM(KV_PUT, record_kv_put, WAY_UNIT_TO_STORAGE, record_kv_put_valid,
         EACH_AND_ONE(record_kv_put, block_count, struct block_key),
         EACH(record_kv_put, block_count, struct page_id)),
    FORM(KV_STORED, record_kv_stored, WAY_STORAGE_TO_UNIT, record_kv_stored_valid, {0}),
    FORM(KV_HELLO, record_kv_hello, WAY_RANK_TO_RANK_0 | WAY_CARRIER_TO_UNIT | WAY_STORAGE_TO_UNIT,
         record_kv_hello_valid, {0}),
    FORM(FLEET_LOAD, record_fleet_load, WAY_HOST_TO_MANAGER, NULL, {0}),
    FORM(FLEET_GATEWAY, record_fleet_gateway, WAY_HOST_TO_MANAGER, record_fleet_gateway_valid,
         EACH(record_fleet_gateway, unit_count, struct fleet_gateway_unit)),
    FORM(FLEET_JOBS, record_fleet_jobs, WAY_HOST_TO_MANAGER, record_fleet_jobs_valid,
         EACH(record_fleet_jobs, job_count, struct launcher_job)),
    FORM(FLEET_UNIT, record_fleet_unit, WAY_HOST_TO_MANAGER | WAY_MANAGER_TO_HOST,
         record_fleet_unit_valid, {0}),
    FORM(FLEET_COMMAND, record_fleet_command, WAY_HOST_TO_MANAGER, record_fleet_command_valid, {0}),
    FORM(FLEET_ACTION, record_fleet_action, WAY_MANAGER_TO_HOST, record_fleet_action_valid, {0}),
};
/* clang-format on */
