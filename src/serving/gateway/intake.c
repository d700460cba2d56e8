/* SPDX-License-Identifier: Apache-2.0
 * Functions return STATUS_OK, STATUS_FULL (nothing has changed, call again) or STATUS_INVALID
 * (*error is set). Only the entry points at the end reply to the client with the error.
 */
#include "serving/gateway/intake.h"

#include "base/check.h"
#include "base/format.h"
#include "serving/gateway/admission.h"
#include "serving/gateway/api/api_reader.h"
#include "serving/gateway/api/api_tokens.h"
#include "serving/gateway/chat_prompt.h"
#include "serving/gateway/constraint_ask.h"
#include "serving/gateway/dispatch.h"
#include "serving/gateway/fim.h"
#include "serving/gateway/reply.h"
#include "serving/gateway/stream_writer.h"
#include "serving/gateway/usage_record.h"

#define SEED_STRIDE UINT64_C(0x9E3779B97F4A7C15) /* odd, so that no two of 2^64 prompts share one */

static enum status refuse(struct api_error *error, uint32_t http_status, const char *param,
                          const char *code, const char *message) {
    api_error_set(error, http_status, param, code, "%s", message);
    if (http_status == 429 || http_status == 503) error->retry_after_seconds = 1;
    return STATUS_INVALID;
}

static enum status intake_refuse_memory(struct api_error *error) {
    api_error_no_memory(error);
    return STATUS_INVALID;
}

static enum status intake_refuse_size(struct api_error *error) {
    return refuse(error, 413, NULL, "request_too_large",
                  "The prompt is too large for this server. Send a shorter one.");
}

/* ---- checks, then the queue ---- */

struct prompt_name { /* the name of a prompt in errors, with its index if there are several */
    char param[32], prefix[32];
};

static struct prompt_name name_prompt(const struct request *head) {
    const struct request *leader = head->leader;
    const char *field = head->asked.answer.dialect->prompt_field;
    struct prompt_name name = {0};
    format_text(name.param, sizeof name.param, "%s", field);
    if (leader->prompt_count == 1) return name;
    uint32_t place = head->index / (leader->choice_count / leader->prompt_count);
    format_text(name.param, sizeof name.param, "%s[%u]", field, place);
    format_text(name.prefix, sizeof name.prefix, "'%s[%u]': ", field, place);
    return name;
}

static enum status refuse_length(const struct gateway *gateway, const struct request *head,
                                 bool at_least, uint64_t prompt_count, struct api_error *error) {
    const struct dialect *dialect = head->asked.answer.dialect;
    uint64_t most = fleet_tokens_max(&gateway->fleet);
    struct prompt_name name = name_prompt(head);
    struct api_length length = {.prompt_tokens = prompt_count,
                                .tokens_max = most,
                                .at_least = at_least,
                                .by_memory = most < gateway->fleet.largest.context_tokens,
                                .param = name.param,
                                .prefix = name.prefix};
    if (dialect->explain_length)
        dialect->explain_length(error, &length);
    else
        api_error_length(error, &length);
    return STATUS_INVALID;
}

/* Limits the requested length of the answer to the context that the prompt leaves. Refuses a
 * request that can never run, so that no unit gets it. */
static enum status limit_length(const struct gateway *gateway, struct request *head,
                                struct api_error *error) {
    struct request_asked *asked = &head->asked;
    uint64_t most = fleet_room_tokens(gateway->fleet.largest), wanted = asked->new_tokens_max;
    uint64_t prompt_count = asked->prompt_tokens;
    if (prompt_count == 0) {
        struct prompt_name name = name_prompt(head);
        api_error_set(error, 400, name.param, "invalid_value", "%sThe prompt has no tokens.",
                      name.prefix);
        return STATUS_INVALID;
    }
    if (prompt_count + 1 > most) return refuse_length(gateway, head, false, prompt_count, error);
    uint64_t left = most - prompt_count, usual = gateway->options.new_tokens_default;
    if (!wanted) wanted = usual;
    if (!wanted || wanted > left) wanted = left;
    asked->new_tokens_max = (uint32_t)wanted;
    if (asked->sampling.min_tokens <= wanted) return STATUS_OK;
    api_error_set(error, 422, "min_tokens", "out_of_range",
                  "'min_tokens' is %u, more than the %llu tokens that the answer may have.",
                  asked->sampling.min_tokens, (unsigned long long)wanted);
    return STATUS_INVALID;
}

/* Refuses a prompt if the text of its log probabilities would not fit into an answer. This is an
 * estimate, because they are not computed yet. A stream sends them piece by piece. */
static enum status fit_echo(const struct gateway *gateway, const struct request *head,
                            struct api_error *error) {
    const struct request_asked *asked = &head->asked;
    if (asked->stream || !(asked->sampling.flags & SAMPLING_SCORES)) return STATUS_OK;
    size_t bytes =
        api_tokens_echo_bytes(gateway->options.tokenizer, asked->prompt, asked->prompt_tokens,
                              1 + asked->sampling.top_logprobs, reply_text_bytes_max(gateway, 1));
    if (stream_writer_has_room(gateway, head, bytes)) return STATUS_OK;
    struct prompt_name name = name_prompt(head);
    api_error_echo_size(error, name.param, name.prefix);
    return STATUS_INVALID;
}

/* The special tokens before and after this prompt. */
static struct prompt_frame frame_of(const struct request *head) {
    return head->asked.frame ? *head->asked.frame : (struct prompt_frame){0};
}

/* Refuses a text that is too long for any unit, before it is tokenized. */
static enum status fit_text(const struct gateway *gateway, const struct request *head,
                            size_t tokens_min, struct api_error *error) {
    struct prompt_frame frame = frame_of(head);
    uint64_t prompt_min = (uint64_t)tokens_min + frame.front_count + frame.back_count;
    if (prompt_min + 1 <= fleet_tokens_max(&gateway->fleet)) return STATUS_OK;
    return refuse_length(gateway, head, true, prompt_min, error);
}

/* Checks that stop tokens and biases are in the model's vocabulary. */
static enum status check_vocab(const struct gateway *gateway, const struct request *leader,
                               struct api_error *error) {
    const struct request_asked *asked = &leader->asked;
    uint32_t vocab = gateway->fleet.model.vocab_count, wrong = 0;
    const char *param = NULL;
    for (uint32_t i = asked->model_stops_count; i < asked->stop_token_count; i++)
        if (asked->stop_tokens[i] >= vocab) param = "stop_token_ids", wrong = asked->stop_tokens[i];
    for (uint32_t i = 0; i < asked->bias_count; i++)
        if (asked->biases[i].token >= vocab) param = "logit_bias", wrong = asked->biases[i].token;
    if (!param) return STATUS_OK;
    api_error_set(error, 422, param, "out_of_range",
                  "'%s' contains token %u; the largest id of this model is %u.", param, wrong,
                  vocab - 1);
    return STATUS_INVALID;
}

/* Checks that a prompt's token ids are in the vocabulary, and that none stands for an image. */
static enum status check_prompt(const struct gateway *gateway, const struct request *head,
                                struct api_error *error) {
    const struct request_asked *asked = &head->asked;
    uint32_t vocab = gateway->fleet.model.vocab_count;
    for (uint32_t i = 0; i < asked->prompt_tokens; i++) {
        const bool image = asked->prompt[i] && asked->prompt[i] == gateway->options.image_token;
        if (asked->prompt[i] < vocab && !image) continue;
        struct prompt_name name = name_prompt(head);
        if (image)
            api_error_set(error, 400, name.param, "unsupported_parameter",
                          "%sToken %u of the prompt is %u, which stands for an image (the model's "
                          "image_token_id); this server computes text only.",
                          name.prefix, i - frame_of(head).front_count, asked->prompt[i]);
        else
            api_error_set(error, 422, name.param, "out_of_range",
                          "%sToken %u of the prompt is %u; the largest id of this model is %u.",
                          name.prefix, i - frame_of(head).front_count, asked->prompt[i], vocab - 1);
        return STATUS_INVALID;
    }
    return STATUS_OK;
}

/* Gives the prompt of each first choice to its other choices. False: out of memory. */
static bool intake_share(struct request *leader) {
    for (uint32_t i = 1; i < leader->choice_count; i++) {
        struct request *choice = leader->choices[i];
        const struct request *head = choice->head;
        choice->times = leader->times;
        if (choice == head) continue;
        choice->asked = head->asked;
        choice->asked.sampling.choice = choice->index - head->index;
        choice->answered.words = head->answered.words;
        choice->answered.tokens = head->answered.tokens;
        if (!answer_text_copy(&choice->answered.text, &choice->arena, &head->answered.text))
            return false;
    }
    return true;
}

/* Removes a request that has not begun from the request rate of its account. */
static void uncount(struct gateway *gateway, struct request *leader) {
    if (!leader->asked.is_counted) return;
    leader->asked.is_counted = false;
    accounts_uncount(&gateway->accounts, leader->asked.account, leader->asked.key);
}

/* Refuses a request that exceeds a rate of its account or key. */
static enum status refuse_rate(struct api_error *error, enum account_verdict verdict,
                               uint32_t retry_after_seconds) {
    static const struct {
        enum usage_limit limit;
        const char *text;
    } rates[] = {
        [ACCOUNT_TOO_MANY] = {USAGE_LIMIT_REQUESTS,
                              "This account has reached its limit of concurrent requests."},
        [ACCOUNT_TOO_FAST] = {USAGE_LIMIT_REQUESTS_PER_MINUTE,
                              "This account has reached its limit of requests per minute."},
        [ACCOUNT_TOO_MUCH] =
            {USAGE_LIMIT_TOKENS_PER_MINUTE,
             "The request would exceed this account's limit of tokens per minute."},
    };
    api_error_set(error, 429, NULL, "rate_limit_exceeded", "%s Try again in %u s.",
                  rates[verdict].text, retry_after_seconds);
    error->limit = rates[verdict].limit;
    error->retry_after_seconds = retry_after_seconds;
    return STATUS_INVALID;
}

/* Refuses a request because its balance or budget is used up. */
static enum status refuse_unpaid(struct api_error *error, enum usage_limit limit) {
    api_error_set(error, 402, NULL, "invalid_request_error", "Insufficient Balance");
    error->limit = limit;
    return STATUS_INVALID;
}

static enum status refuse_tokens(struct api_error *error, uint64_t tokens) {
    api_error_set(error, 422, NULL, "out_of_range",
                  "The request has %llu tokens, more than this account's limit per minute.",
                  (unsigned long long)tokens);
    error->limit = USAGE_LIMIT_TOKENS_PER_MINUTE;
    return STATUS_INVALID;
}

/* Charges the prompts' tokens to the account's rate limit and reserves the maximum cost. */
static enum status hold_tokens(struct gateway *gateway, struct request *leader,
                               struct api_error *error) {
    struct accounts *accounts = &gateway->accounts;
    struct request_asked *asked = &leader->asked;
    uint64_t prompt_tokens = 0, answer_tokens = 0;
    uint32_t retry_after_seconds;
    for (uint32_t i = 0; i < leader->prompt_count; i++)
        prompt_tokens += request_head(leader, i)->asked.prompt_tokens;
    for (uint32_t i = 0; i < leader->choice_count; i++)
        answer_tokens += leader->choices[i]->asked.new_tokens_max;
    int64_t amount = accounts_amount_most(accounts, gateway->models.names[asked->model].name,
                                          prompt_tokens, answer_tokens);
    enum account_verdict verdict = accounts_hold_tokens(
        accounts, asked->account, asked->key, prompt_tokens, amount, &retry_after_seconds);
    if (verdict == ACCOUNT_MAY) {
        asked->rate_tokens = prompt_tokens;
        asked->set_aside = amount;
        return STATUS_OK;
    }
    uncount(gateway, leader);
    if (verdict == ACCOUNT_NEVER) return refuse_tokens(error, prompt_tokens);
    if (verdict == ACCOUNT_UNPAID)
        return refuse_unpaid(error, accounts_lack(accounts, asked->account, asked->key));
    return refuse_rate(error, verdict, retry_after_seconds);
}

/* Checks the request against the units' limits and its account's, then queues it for a unit. */
static enum status enqueue(struct gateway *gateway, struct request *leader, int64_t now_ns,
                           struct api_error *error) {
    enum status status = check_vocab(gateway, leader, error);
    for (uint32_t i = 0; i < leader->prompt_count && !status; i++) {
        struct request *head = request_head(leader, i);
        head->asked.answer.fingerprint = /* provisional, until a unit has the request */
            bytes_of(gateway->fingerprints[gateway->fleet.main_numerics]);
        status = check_prompt(gateway, head, error);
        if (!status) status = limit_length(gateway, head, error);
        if (!status) status = fit_echo(gateway, head, error);
    }
    if (status) return status;
    for (uint32_t i = 0; i < leader->prompt_count; i++)
        metrics_count_prompt(&gateway->metrics, request_head(leader, i)->asked.prompt_tokens,
                             leader->choice_count / leader->prompt_count);
    if (!intake_share(leader)) return intake_refuse_memory(error);
    struct request_work work = dispatch_work(gateway, leader);
    status = admission_check(gateway, leader, work, error);
    if (status) uncount(gateway, leader);
    if (!status) status = hold_tokens(gateway, leader, error);
    if (status) return status;
    request_wait(gateway, leader, work, now_ns);
    return STATUS_OK;
}

/* Copies a prompt into the request, because a later retry may send it again. */
static enum status keep_prompt(struct gateway *gateway, struct request *head, const uint32_t *ids,
                               size_t count, struct api_error *error) {
    struct request_asked *asked = &head->asked;
    struct prompt_frame frame = frame_of(head);
    uint32_t front = frame.front_count, back = frame.back_count;
    uint32_t prompt_count = front + (uint32_t)count + back;
    struct record_submit counts = {.prompt_count = prompt_count,
                                   .stop_token_count = asked->stop_token_count,
                                   .bias_count = asked->bias_count,
                                   .constraint_bytes = (uint32_t)asked->constraint.count,
                                   .name_bytes = (uint32_t)asked->name.count};
    if (machine_envelope_bytes(RECORD_SUBMIT, &counts) > gateway->outbox.capacity)
        return intake_refuse_size(error);
    uint32_t *prompt = arena_take(&head->arena, (prompt_count + (size_t)1) * sizeof *prompt);
    if (!prompt) return intake_refuse_memory(error);
    memcpy(prompt, frame.front, front * sizeof *prompt);
    if (count) memcpy(prompt + front, ids, count * sizeof *ids);
    memcpy(prompt + front + count, frame.back, back * sizeof *prompt);
    asked->prompt = prompt;
    asked->prompt_tokens = prompt_count;
    return STATUS_OK;
}

/* Advances the request as far as possible. No choice is queued until every prompt is tokenized and
 * the constraint is checked. A request to tokenize ends here. */
static enum status intake_advance(struct gateway *gateway, struct request *leader, int64_t now_ns,
                                  struct api_error *error) {
    bool whole = !leader->constraint_pending;
    for (uint32_t i = 0; i < leader->prompt_count; i++)
        whole &= request_head(leader, i)->asked.prompt != NULL;
    if (whole && leader->asked.tokens_only) return reply_tokens(gateway, leader, now_ns, error);
    if (whole && fleet_knows_model(&gateway->fleet)) return enqueue(gateway, leader, now_ns, error);
    if (whole)
        request_mark_unchecked(gateway, leader, now_ns);
    else if (leader->life.state == REQUEST_READING)
        request_tokenize(gateway, leader);
    return STATUS_OK;
}

/* ---- text -> tokens ---- */

static enum status intake_refuse_busy(struct api_error *error) {
    return refuse(error, 503, NULL, "tokenizer_busy",
                  "Too many long prompts are waiting to be tokenized. Try again later.");
}

static enum status refuse_text(const struct request *head, struct api_error *error) {
    struct prompt_name name = name_prompt(head);
    api_error_set(error, 400, name.param, "invalid_value", "%sThe prompt could not be tokenized.",
                  name.prefix);
    return STATUS_INVALID;
}

/* Sends a text to the host's tokenizer, because it is too long to be tokenized in this call. */
static enum status send_to_tokenize(struct gateway *gateway, struct request *head,
                                    struct bytes text, struct plain_text plain,
                                    struct api_error *error) {
    size_t tokens_min = tokenizer_count_min(gateway->options.tokenizer, text);
    enum status status = fit_text(gateway, head, tokens_min, error);
    struct tokenize_request ask = {head->id, request_client(head), text, plain,
                                   (uint32_t)fleet_tokens_max(&gateway->fleet)};
    if (!status) status = tokenize_queue_take(&gateway->tokenize_queue, &head->waiting_text, &ask);
    if (status == STATUS_TOO_LARGE) return intake_refuse_size(error);
    return status == STATUS_NO_MEMORY ? intake_refuse_busy(error) : status;
}

/* `here`: the text is short enough to be tokenized in this call, along with those before it. */
static enum status intake_take_text(struct gateway *gateway, struct request *head,
                                    struct bytes text, struct plain_text plain, bool here,
                                    struct api_error *error) {
    if (!here) return send_to_tokenize(gateway, head, text, plain, error);
    uint32_t *ids = arena_take(&gateway->scratch, (text.count + 1) * sizeof *ids);
    size_t count;
    if (!ids) return intake_refuse_memory(error);
    if (tokenizer_encode(gateway->options.tokenizer, gateway->tokenizer_scratch, text, plain, ids,
                         text.count + 1, &count))
        return refuse_text(head, error);
    return keep_prompt(gateway, head, ids, count, error);
}

/* ---- chats ---- */

/* Builds the set of tools whose calls the parser of the answer accepts. *out is NULL if there are
 * none. */
static enum status intake_open_tools(const struct gateway *gateway, struct request *request,
                                     const struct api_request *parsed, const struct tool_set **out,
                                     struct api_error *error) {
    struct error reason;
    *out = NULL;
    if (!parsed->tools) return STATUS_OK;
    enum status status = tool_format_set_open(
        &request->arena, gateway->options.chat_template->calls, parsed->tools, out, &reason);
    return status ? intake_refuse_memory(error) : STATUS_OK;
}

static enum status refuse_rendering(struct api_error *error, const struct error *reason) {
    api_error_set(error, 413, "messages", "request_too_large",
                  "The conversation is too long for this model's chat template: %s (at most %d "
                  "steps). Send fewer messages and tools, or start the server with a template that "
                  "reads each of them only a few times (--chat-template).",
                  reason->text, LIMIT_TEMPLATE_STEPS);
    return STATUS_INVALID;
}

static enum status intake_render(struct gateway *gateway, const struct request *request,
                                 const struct api_request *parsed, struct chat_rendering *out,
                                 struct api_error *error) {
    struct error reason = {0};
    enum status status =
        chat_prompt_render(gateway->options.chat_template, parsed, request->asked.answer.created,
                           &gateway->scratch, out, &reason);
    if (status == STATUS_NO_MEMORY) return intake_refuse_memory(error);
    if (status == STATUS_TOO_LARGE) return refuse_rendering(error, &reason);
    return status ? refuse(error, 400, "messages", "invalid_value", reason.text) : STATUS_OK;
}

/* The role of a message, as a static string. */
static const char *role_of(const struct tree *message) {
    static const char *const roles[] = {"system", "developer", "user", "assistant", "tool"};
    const struct tree *role = tree_member(message, "role");
    for (size_t i = 0; i < ARRAY_COUNT(roles); i++)
        if (api_reader_is(role, roles[i])) return roles[i];
    return "message";
}

/* Compares the chat with earlier ones, for the receipt. */
static void intake_outline(struct gateway *gateway, struct request *request,
                           const struct api_request *parsed) {
    struct request_asked *asked = &request->asked;
    struct prompt_outline outline;
    if (!asked->wants_receipt || !prompt_outline_of(&gateway->scratch, asked->tenant, parsed->tools,
                                                    parsed->messages, &outline))
        return;
    asked->differs_at = prompt_outline_compare(&gateway->outlines, &outline);
    if (asked->differs_at > 1)
        asked->differs_role = role_of(tree_at(parsed->messages, asked->differs_at - 2));
}

static enum status take_chat(struct gateway *gateway, struct request *request,
                             const struct api_request *parsed, struct api_error *error) {
    const struct chat_template *chat_template = gateway->options.chat_template;
    struct chat_rendering rendering;
    const struct tool_set *tools;
    if (!gateway->options.tokenizer || !chat_template || !chat_template->present)
        return refuse(
            error, 400, NULL, "no_chat_template",
            "This checkpoint has no tokenizer or no chat template, so it cannot chat. Use "
            "/v1/completions.");
    enum status status = intake_render(gateway, request, parsed, &rendering, error);
    if (!status) status = intake_open_tools(gateway, request, parsed, &tools, error);
    if (status) return status;
    intake_outline(gateway, request, parsed);
    request->asked.mode = rendering.stream;
    token_stream_open(&request->answered.words, gateway->options.tokenizer, request->asked.stops,
                      request->asked.mode, tools);
    status = constraint_ask_take(gateway, request, parsed, error);
    if (status) return status;
    struct plain_text plain = {rendering.contents,
                               gateway->options.content_specials ? 0 : rendering.content_count};
    return intake_take_text(gateway, request, rendering.text, plain,
                            rendering.text.count <= gateway->options.inline_text_bytes, error);
}

/* ---- plain prompts ---- */

/* Stores the text of the prompt, which is echoed before the answer. */
static enum status echo_prompt(struct gateway *gateway, struct request *head,
                               const struct api_prompt *prompt, struct api_error *error) {
    struct bytes text = prompt->text;
    uint32_t choices = head->leader->choice_count;
    size_t most = reply_text_bytes_max(gateway, choices) / 2;
    if (!head->asked.stream) most /= choices; /* one response contains all choices */
    /* with log probabilities, the token ids are echoed instead of the text */
    if (!gateway->options.tokenizer && head->asked.answer.logprobs) return STATUS_OK;
    if (!gateway->options.tokenizer)
        return refuse(error, 400, "echo", "unsupported_parameter",
                      "This checkpoint has no tokenizer, so it cannot echo.");
    if (prompt->tokens) {
        size_t count = 0;
        enum status status = tokenizer_decode(gateway->options.tokenizer, prompt->tokens,
                                              prompt->token_count, false, NULL, 0, &count);
        char *out = arena_take(&gateway->scratch, count + 1);
        if (!out) return intake_refuse_memory(error);
        if (status == STATUS_FULL)
            status = tokenizer_decode(gateway->options.tokenizer, prompt->tokens,
                                      prompt->token_count, false, out, count, &count);
        check(status == STATUS_OK);
        text = (struct bytes){out, count};
    }
    if (!answer_text_add(&head->answered.text, &head->arena, text))
        return intake_refuse_memory(error);
    if (head->answered.text.escaped_count > most) return intake_refuse_size(error);
    return STATUS_OK;
}

/* Lays out the text of a prompt to be tokenized. */
static enum status intake_lay_out(struct gateway *gateway, struct bytes prompt, struct bytes suffix,
                                  struct fim *out, struct api_error *error) {
    /* Added tokens are recognized here, as Hugging Face's tokenizers do by default. */
    *out = (struct fim){prompt, plain_text_nowhere};
    if (suffix.count == 0) return STATUS_OK;
    enum status status =
        fim_write(gateway->options.tokenizer, prompt, suffix, &gateway->scratch, out);
    if (status == STATUS_UNSUPPORTED)
        return refuse(error, 400, "suffix", "unsupported_parameter",
                      "'suffix': this model has no tokens for filling in a middle.");
    return status ? intake_refuse_memory(error) : STATUS_OK;
}

/* *here_bytes: bytes of texts tokenized in this call, including this one if it is short enough. */
static enum status take_prompt(struct gateway *gateway, struct request *head,
                               const struct api_prompt *prompt, const struct api_request *parsed,
                               size_t *here_bytes, struct api_error *error) {
    const struct gateway_options *options = &gateway->options;
    enum status status = STATUS_OK;
    struct fim laid_out;
    head->answered.words = head->leader->answered.words;
    if (parsed->echo) status = echo_prompt(gateway, head, prompt, error);
    if (status) return status;
    if (prompt->tokens)
        return keep_prompt(gateway, head, prompt->tokens, prompt->token_count, error);
    if (!options->tokenizer)
        return refuse(
            error, 400, "prompt", "no_tokenizer",
            "This checkpoint has no tokenizer: send the prompt as an array of token ids.");
    head->asked.frame = parsed->special_tokens ? &options->frame : NULL;
    status = intake_lay_out(gateway, prompt->text, parsed->suffix, &laid_out, error);
    if (status) return status;
    bool here = *here_bytes + laid_out.text.count <= options->inline_text_bytes;
    if (here) *here_bytes += laid_out.text.count;
    return intake_take_text(gateway, head, laid_out.text, laid_out.plain, here, error);
}

/* Treats each prompt as if it were sent alone. If the client set no seed, each prompt gets its
 * own. */
static enum status take_prompts(struct gateway *gateway, struct request *leader,
                                const struct api_request *parsed, struct api_error *error) {
    size_t here_bytes = 0;
    if (gateway->options.tokenizer)
        token_stream_open(&leader->answered.words, gateway->options.tokenizer, leader->asked.stops,
                          leader->asked.mode, NULL);
    enum status status = constraint_ask_take(gateway, leader, parsed, error);
    for (uint32_t i = 1; i < leader->prompt_count; i++) {
        struct request_asked *asked = &request_head(leader, i)->asked;
        *asked = leader->asked;
        if (!parsed->has_seed) asked->sampling.seed += i * SEED_STRIDE;
    }
    for (uint32_t i = 0; i < leader->prompt_count && !status; i++)
        status = take_prompt(gateway, request_head(leader, i), &parsed->prompts[i], parsed,
                             &here_bytes, error);
    return status;
}

/* ---- entry points ---- */

/* Fills in the sampling parameters and the stop tokens. */
static enum status fill_sampling(const struct gateway *gateway, struct request *request,
                                 const struct api_request *parsed,
                                 const struct record_client_request *record,
                                 struct api_error *error) {
    struct request_asked *asked = &request->asked;
    const struct gateway_options *options = &gateway->options;
    asked->sampling = parsed->sampling;
    asked->sampling.choice = 0;
    if (!parsed->has_seed)
        asked->sampling.seed =
            record->random[0] ^ (record->random[1] << 32 | record->random[1] >> 32);
    if (!parsed->ignore_eos) {
        asked->stop_token_count = options->stop_token_count;
        memcpy(asked->stop_tokens, options->stop_tokens, sizeof options->stop_tokens);
    }
    asked->model_stops_count = asked->stop_token_count;
    for (uint32_t i = 0; i < parsed->stop_token_count; i++)
        asked->stop_tokens[asked->stop_token_count++] = parsed->stop_tokens[i];
    if (parsed->bias_count == 0) return STATUS_OK;
    size_t bytes = parsed->bias_count * sizeof *parsed->biases;
    struct token_bias *biases = arena_take(&request->arena, bytes);
    if (!biases) return intake_refuse_memory(error);
    memcpy(biases, parsed->biases, bytes);
    asked->biases = biases;
    asked->bias_count = parsed->bias_count;
    return STATUS_OK;
}

static enum status fill(struct gateway *gateway, struct request *request,
                        const struct api_request *parsed,
                        const struct record_client_request *record, struct api_error *error) {
    struct request_asked *asked = &request->asked;
    bool echoes = gateway->models.any && parsed->model_asked.count;
    enum status status = fill_sampling(gateway, request, parsed, record, error);
    if (status) return status;
    asked->model = parsed->model;
    asked->left_out = parsed->left_out;
    asked->stream = parsed->stream;
    asked->wants_receipt = parsed->return_receipt || record->wants_receipt;
    if (asked->wants_receipt && !asked->stream && request->choice_count > LIMIT_CHOICES)
        return refuse(error, 422, "return_receipt", "out_of_range",
                      "The receipts of that many answers do not fit in a header. Ask for a stream, "
                      "or for fewer answers.");
    asked->tokens_only = parsed->tokens_only;
    asked->prompt_only = parsed->prompt_only;
    asked->new_tokens_max = parsed->prompt_only ? 1 : parsed->new_tokens_max;
    asked->answer = (struct api_answer){
        .dialect = parsed->dialect,
        .include_usage = parsed->include_usage,
        .token_ids = parsed->return_token_ids || gateway->options.tokenizer == NULL,
        .logprobs = (parsed->sampling.flags & SAMPLING_LOGPROBS) != 0,
        .progress = parsed->return_progress,
        .tokenizer = gateway->options.tokenizer,
        .id = request->id,
        .created = record->unix_time,
        .model = echoes ? arena_copy(&request->arena, parsed->model_asked) : gateway->model_name,
        .seals_reasoning = parsed->seals_reasoning,
        .reported = arena_copy(&request->arena, parsed->reported),
    };
    asked->one_call = parsed->one_call;
    asked->mode = TOKEN_STREAM_PLAIN;
    asked->warning = arena_copy(&request->arena, parsed->warning);
    asked->name = arena_copy(&request->arena,
                             (struct bytes){client_request_name(record), record->name_bytes});
    if (!asked->warning.data || !asked->name.data || !asked->answer.reported.data ||
        !asked->answer.model.data ||
        !tool_alias_copy(&parsed->aliases, &request->arena, &asked->answer.aliases))
        return intake_refuse_memory(error);
    if (!parsed->stops) return STATUS_OK;
    if (!gateway->options.tokenizer)
        return refuse(error, 400, "stop", "unsupported_parameter",
                      "This checkpoint has no tokenizer, so it cannot look for stop strings.");
    struct stop_strings *stops = arena_take(&request->arena, sizeof *stops);
    if (!stops) return intake_refuse_memory(error);
    *stops = *parsed->stops;
    asked->stops = stops;
    return STATUS_OK;
}

bool intake_ready(const struct gateway *gateway, size_t body_bytes, struct api_error *error) {
    if (gateway->draining)
        return refuse(error, 503, NULL, "draining", "The server is shutting down.") == STATUS_OK;
    if (usage_record_is_behind(gateway))
        return refuse(error, 503, NULL, "ledger_behind",
                      "The ledger is too far behind to accept requests. Try again later.") ==
               STATUS_OK;
    return body_bytes <= gateway->options.body_bytes_max ||
           api_error_set(error, 413, NULL, "request_too_large",
                         "The request body has %zu bytes; at most %zu are allowed.", body_bytes,
                         gateway->options.body_bytes_max);
}

static enum status begin(struct gateway *gateway, const struct record_client_request *record,
                         const struct api_request *parsed, struct request *leader, int64_t now_ns,
                         struct api_error *error) {
    enum status status = fill(gateway, leader, parsed, record, error);
    if (!status)
        status = leader->asked.answer.dialect->chats ? take_chat(gateway, leader, parsed, error)
                                                     : take_prompts(gateway, leader, parsed, error);
    return status ? status : intake_advance(gateway, leader, now_ns, error);
}

static bool refuse_count(struct api_error *error, uint32_t count, const char *who, uint32_t most) {
    return api_error_set(error, 422, NULL, "out_of_range",
                         "The request asks for %u answers; the limit of %s is %u. Send fewer "
                         "prompts, or a smaller 'n'.",
                         count, who, most);
}

/* A lower bound of the number of prompt tokens. A text has at least one. */
static uint64_t count_tokens_min(const struct api_request *parsed) {
    uint64_t tokens = 0;
    for (uint32_t i = 0; i < parsed->prompt_count; i++)
        tokens += parsed->prompts && parsed->prompts[i].tokens ? parsed->prompts[i].token_count : 1;
    return parsed->tokens_only ? 0 : tokens;
}

/* Counts the request against the limits of its account. False: it exceeds them now, or always. */
static bool intake_hold(struct gateway *gateway, const struct endpoint_call *call, uint32_t count,
                        const struct api_request *parsed, struct api_error *error) {
    struct accounts *accounts = &gateway->accounts;
    uint32_t retry_after_seconds;
    if (count > gateway->options.requests_max)
        return refuse_count(error, count, "this server", gateway->options.requests_max);
    enum account_verdict verdict = accounts_hold(accounts, call->account, call->key, count,
                                                 count_tokens_min(parsed), &retry_after_seconds);
    if (verdict == ACCOUNT_NEVER) {
        refuse_count(error, count, "this account",
                     accounts_most(accounts, call->account, call->key));
        error->limit = USAGE_LIMIT_REQUESTS;
        return false;
    }
    return verdict == ACCOUNT_MAY || refuse_rate(error, verdict, retry_after_seconds) == STATUS_OK;
}

/* Claims slots for all choices. NULL: *error is set. */
static struct request *intake_claim(struct gateway *gateway, const struct endpoint_call *call,
                                    const struct api_request *parsed, struct api_error *error) {
    uint32_t count = parsed->prompt_count * parsed->choice_count;
    if (!intake_hold(gateway, call, count, parsed, error)) return NULL;
    struct request *leader =
        request_claim(gateway, call->record, parsed->prompt_count, parsed->choice_count);
    if (leader) {
        leader->asked.account = call->account;
        leader->asked.key = call->key;
        leader->asked.is_counted = true;
        return leader;
    }
    accounts_uncount(&gateway->accounts, call->account, call->key);
    accounts_release(&gateway->accounts, call->account, call->key, count, 0, 0);
    (void)refuse(error, 429, NULL, "queue_full",
                 "The server is serving as many requests as it can. Try again later.");
    error->limit = USAGE_LIMIT_QUEUE;
    return NULL;
}

/* Checks that the account may use this model and can pay. */
static bool is_allowed(struct gateway *gateway, const struct endpoint_call *call,
                       const struct api_request *parsed, struct api_error *error) {
    struct accounts *accounts = &gateway->accounts;
    uint64_t denied = accounts_models_denied(accounts, call->account, call->key);
    if (!models_allow(&gateway->models, denied, parsed->model, error)) return false;
    enum usage_limit lacks = accounts_lack(accounts, call->account, call->key);
    return parsed->tokens_only || !lacks || refuse_unpaid(error, lacks) == STATUS_OK;
}

/* Sends the client the refusal and counts it. STATUS_FULL: the outbox is full, nothing has changed,
 * and the record will be received again. */
static enum status send_refusal(struct gateway *gateway, const struct endpoint_call *call,
                                const struct api_error *error) {
    struct reply_notes notes = {.account = call->account, .key = call->key};
    enum status status =
        reply_error(gateway, call->record->connection, call->endpoint, &notes, error);
    if (!status) accounts_count_refused(&gateway->accounts, call->account, error->limit);
    return status;
}

enum status intake_take(struct gateway *gateway, const struct endpoint_call *call,
                        const struct api_request *parsed) {
    const struct record_client_request *record = call->record;
    struct api_error error;
    struct request *request = NULL;
    if (is_allowed(gateway, call, parsed, &error))
        request = intake_claim(gateway, call, parsed, &error);
    if (!request) return send_refusal(gateway, call, &error);
    request->asked.endpoint = call->endpoint;
    request->asked.tenant =
        accounts_tenant(&gateway->accounts, call->account, parsed->user_id, parsed->cache_salt);
    request->asked.tenant =
        accounts_tenant_now(request->asked.tenant, record->unix_time, gateway->options.kv_life_s);
    request->times.arrived_ns = call->now_ns;
    request_keep_alive(gateway, request, call->now_ns + gateway->options.keep_alive_ns);
    uint32_t mark = gateway->outbox.used;
    bool tokenizes = gateway->tokenize_queue.busy, constrains = gateway->constraints.busy;
    enum status status = begin(gateway, record, parsed, request, call->now_ns, &error);
    if (!status) return STATUS_OK;
    gateway->outbox.used = mark; /* also discards the request's TOKENIZE and CONSTRAIN */
    if (!tokenizes) tokenize_queue_answered(&gateway->tokenize_queue);
    if (!constrains) tokenize_queue_answered(&gateway->constraints);
    bool is_counted = request->asked.is_counted;
    request_release(gateway, request);
    if (status == STATUS_INVALID) status = send_refusal(gateway, call, &error);
    if (status == STATUS_FULL && is_counted) /* the record will be received again */
        accounts_uncount(&gateway->accounts, call->account, call->key);
    return status;
}

enum status intake_ask(struct gateway *gateway, const struct endpoint_call *call) {
    const struct record_client_request *record = call->record;
    struct bytes body = {client_request_body(record), record->body_bytes};
    struct api_defaults defaults = {.sampling = gateway->options.sampling,
                                    .models = gateway->models.names,
                                    .model_count = gateway->models.count,
                                    .any_model = gateway->models.any,
                                    .agent_habits = gateway->options.agent_habits,
                                    .tokens_max = fleet_tokens_max(&gateway->fleet),
                                    .tokenizer = gateway->options.tokenizer};
    chat_prompt_defaults(gateway->options.chat_template, &defaults);
    struct api_request parsed;
    struct api_error error;
    arena_clear(&gateway->scratch);
    if (!intake_ready(gateway, body.count, &error) ||
        !api_request_parse(&gateway->scratch, endpoint_dialect(call->endpoint), body, &defaults,
                           &parsed, &error))
        return send_refusal(gateway, call, &error);
    return intake_take(gateway, call, &parsed);
}

/* Refuses a request after intake_take has returned. A keep-alive may have begun its response. */
static enum status refuse_late(struct gateway *gateway, struct request *leader, int64_t now_ns,
                               const struct api_error *error) {
    struct usage_mark mark = usage_record_mark(gateway);
    struct usage_fate fate = {.http_status = reply_reported_status(leader, error),
                              .end = error->code,
                              .limit = error->limit};
    enum status status = usage_record_put(gateway, leader, &fate, now_ns);
    if (!status) status = reply_no_answer(gateway, leader, error);
    if (status) {
        usage_record_take_back(gateway, mark);
        return status;
    }
    accounts_count_refused(&gateway->accounts, leader->asked.account, error->limit);
    request_release(gateway, leader);
    return STATUS_OK;
}

/* Handles the tokens of a prompt, or the error of its tokenization. */
static enum status intake_take_tokens(struct gateway *gateway, struct request *head,
                                      const struct record_tokenized *record,
                                      struct api_error *error) {
    enum status status = STATUS_OK;
    if (head->asked.prompt) return STATUS_OK; /* stored before the outbox was full */
    if (record->too_many) status = fit_text(gateway, head, record->too_many, error);
    if (status) return status;
    if (record->too_many) return intake_refuse_busy(error); /* a larger unit has joined since */
    if (record->token_count == 0) return refuse_text(head, error);
    return keep_prompt(gateway, head, tokenized_tokens(record), record->token_count, error);
}

enum status intake_tokenized(struct gateway *gateway, const struct record_tokenized *record,
                             int64_t now_ns) {
    struct request *head = request_find(gateway, record->request);
    struct api_error error;
    enum status status = STATUS_OK;
    if (head && head->life.state == REQUEST_TOKENIZING) { /* else its client has gone */
        status = intake_take_tokens(gateway, head, record, &error);
        if (!status) status = intake_advance(gateway, head->leader, now_ns, &error);
        if (status == STATUS_INVALID) status = refuse_late(gateway, head->leader, now_ns, &error);
    }
    if (!status) tokenize_queue_answered(&gateway->tokenize_queue);
    return status;
}

enum status intake_constrained(struct gateway *gateway, const struct record_constrained *record,
                               int64_t now_ns) {
    struct request *leader = request_find(gateway, record->request);
    struct api_error error;
    enum status status = STATUS_OK;
    if (leader && leader->life.state == REQUEST_TOKENIZING) { /* else its client has gone */
        status = constraint_ask_verified(leader, record, &error);
        if (!status) status = intake_advance(gateway, leader, now_ns, &error);
        if (status == STATUS_INVALID) status = refuse_late(gateway, leader, now_ns, &error);
    }
    if (status) return status;
    tokenize_queue_spend(&gateway->constraints, record->took_ns);
    tokenize_queue_answered(&gateway->constraints);
    return STATUS_OK;
}

enum status intake_give_up(struct gateway *gateway, struct request *leader, int64_t now_ns) {
    struct api_error error;
    if (gateway->draining)
        api_error_draining(&error);
    else
        api_error_no_unit(&error);
    return refuse_late(gateway, leader, now_ns, &error);
}

/* Checks and queues a request once a unit has joined. Refuses it if none joins in time. */
static enum status enqueue_late(struct gateway *gateway, struct request *leader, int64_t now_ns) {
    struct api_error error;
    if (fleet_knows_model(&gateway->fleet)) {
        enum status status = enqueue(gateway, leader, now_ns, &error);
        return status == STATUS_INVALID ? refuse_late(gateway, leader, now_ns, &error) : status;
    }
    if (now_ns < dispatch_gives_up_ns(gateway, leader, false)) return STATUS_OK;
    return intake_give_up(gateway, leader, now_ns);
}

bool intake_run(struct gateway *gateway, int64_t now_ns) {
    for (struct request *leader = gateway->requests.unchecked.first, *next; leader; leader = next) {
        next = leader->life.behind;
        if (enqueue_late(gateway, leader, now_ns)) return false;
    }
    return true;
}
