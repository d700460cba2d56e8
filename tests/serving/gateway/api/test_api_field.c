/* SPDX-License-Identifier: Apache-2.0
 * Protects the table of fields: no dialect has two rows of one name, each row can be read or
 * refused, and what the five APIs have is in it.
 */
#include "serving/gateway/api/api_field.h"

#include "base/check.h"
#include "serving/gateway/dialects/chat_dialect.h"
#include "serving/gateway/dialects/completion_dialect.h"
#include "test_case.h"

TEST(no_dialect_has_two_rows_of_one_name) {
    const struct api_field *one, *other;
    for (size_t i = 0; (one = api_field_at(i)); i++)
        for (size_t j = i + 1; (other = api_field_at(j)); j++)
            if (!strcmp(one->name, other->name) && (one->dialects & other->dialects))
                fail_msg("%s", one->name);
}

TEST(each_row_can_be_followed) {
    const struct api_field *field;
    for (size_t i = 0; (field = api_field_at(i)); i++) {
        assert_true(field->dialects != 0 && field->dialects < 1u << DIALECT_COUNT);
        assert_non_null(field->words);
        if (field->use == API_FIELD_READ && !field->read && field->kind == API_KIND_ANY)
            fail_msg("%s", field->name);
        if (field->use != API_FIELD_REFUSED && (field->fine || field->only))
            fail_msg("%s", field->name);
    }
}

TEST(a_row_is_found_for_its_dialect_alone) {
    const struct api_field *field = api_field_find(&chat_dialect, BYTES_LITERAL("messages"));
    assert_string_equal(field->name, "messages");
    assert_null(api_field_find(&completion_dialect, BYTES_LITERAL("messages")));
    assert_null(api_field_find(&chat_dialect, BYTES_LITERAL("message")));
}

/* As their documentation and sources list them. */
static const char *const names[] = {
    /* OpenAI, chats */
    "audio",
    "frequency_penalty",
    "function_call",
    "functions",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "messages",
    "metadata",
    "modalities",
    "model",
    "n",
    "parallel_tool_calls",
    "prediction",
    "presence_penalty",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning_effort",
    "response_format",
    "safety_identifier",
    "seed",
    "service_tier",
    "stop",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "user",
    "verbosity",
    "web_search_options",
    /* DeepSeek */
    "thinking",
    "user_id",
    /* vLLM */
    "use_beam_search",
    "top_k",
    "min_p",
    "repetition_penalty",
    "length_penalty",
    "stop_token_ids",
    "include_stop_str_in_output",
    "ignore_eos",
    "min_tokens",
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "truncate_prompt_tokens",
    "prompt_logprobs",
    "allowed_token_ids",
    "bad_words",
    "echo",
    "add_generation_prompt",
    "continue_final_message",
    "add_special_tokens",
    "documents",
    "chat_template",
    "chat_template_kwargs",
    "structured_outputs",
    "priority",
    "request_id",
    "cache_salt",
    "return_tokens_as_token_ids",
    "return_token_ids",
    "kv_transfer_params",
    "vllm_xargs",
    "include_reasoning",
    "thinking_token_budget",
    "logits_processors",
    "guided_json",
    /* SGLang */
    "regex",
    "ebnf",
    "stop_regex",
    "no_stop_trim",
    "lora_path",
    "session_params",
    "separate_reasoning",
    "stream_reasoning",
    "custom_logit_processor",
    "custom_params",
    "input_ids",
    "rid",
    "extra_key",
    "return_hidden_states",
    "bootstrap_host",
    "data_parallel_rank",
    /* llama.cpp */
    "n_predict",
    "n_probs",
    "typical_p",
    "top_n_sigma",
    "xtc_probability",
    "dynatemp_range",
    "repeat_penalty",
    "repeat_last_n",
    "dry_multiplier",
    "mirostat",
    "grammar",
    "json_schema",
    "samplers",
    "cache_prompt",
    "id_slot",
    "return_progress",
    "timings_per_token",
    "reasoning_format",
    "parse_tool_calls",
    "lora",
    "t_max_predict_ms",
    "n_keep",
};

TEST(what_other_apis_have_has_a_row) {
    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        if (!api_field_find(&chat_dialect, bytes_of(names[i]))) fail_msg("%s", names[i]);
    static const char *const plain[] = {"best_of", "echo", "logprobs", "prompt", "suffix", "user"};
    for (size_t i = 0; i < ARRAY_COUNT(plain); i++)
        if (!api_field_find(&completion_dialect, bytes_of(plain[i]))) fail_msg("%s", plain[i]);
}
