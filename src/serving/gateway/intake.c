/* SPDX-License-Identifier: Apache-2.0
 * The steps here answer STATUS_OK, STATUS_FULL (undone, to be tried again) or STATUS_INVALID (the
 * api_error says why); only the two doors at the end turn the latter into a reply.
 */
#include "serving/gateway/intake.h"

#include "base/check.h"
#include "serving/gateway/dispatch.h"
#include "serving/gateway/reply.h"

static enum status refuse(struct api_error *error, uint32_t http_status, const char *param,
                          const char *code, const char *message) {
    api_error_set(error, http_status, param, code, "%s", message);
    if (http_status == 429 || http_status == 503) error->retry_after_seconds = 1;
    return STATUS_INVALID;
}

static enum status refuse_memory(struct api_error *error) {
    api_error_no_memory(error);
    return STATUS_INVALID;
}

static enum status refuse_size(struct api_error *error) {
    return refuse(error, 413, NULL, "request_too_large",
                  "The prompt is too large for this server. Send a shorter one.");
}

/* ---- into the queue ---- */

/* `about`: "" or "at least ", of the prompt's tokens. */
static enum status refuse_length(const struct gateway *gateway, const struct request *request,
                                 const char *about, uint64_t prompt_count,
                                 struct api_error *error) {
    const struct request_asked *asked = &request->asked;
    uint64_t most = fleet_tokens_max(&gateway->fleet), wanted = asked->new_tokens_max;
    uint64_t least = wanted ? wanted : 1, total = prompt_count + least;
    const char *what = most < gateway->fleet.largest.context_tokens
                           ? "This server's KV memory holds"
                           : "This model's context has";
    api_error_set(error, 400, asked->answer.dialect->prompt_field, "context_length_exceeded",
                  "%s at most %llu tokens. The request has %s%llu tokens: %s%llu in the prompt and "
                  "%llu for the answer. Shorten the prompt or ask for fewer tokens.",
                  what, (unsigned long long)most, about, (unsigned long long)total, about,
                  (unsigned long long)prompt_count, (unsigned long long)least);
    return STATUS_INVALID;
}

/* Settles the length of the answer, or refuses: nothing that can never run reaches the unit. */
static enum status fit(const struct gateway *gateway, struct request *request,
                       uint64_t prompt_count, struct api_error *error) {
    struct request_asked *asked = &request->asked;
    uint64_t most = fleet_room_tokens(gateway->fleet.largest), wanted = asked->new_tokens_max;
    uint64_t least = wanted ? wanted : 1, total = prompt_count + least;
    if (prompt_count == 0)
        return refuse(error, 400, "prompt", "invalid_value", "The prompt has no tokens.");
    if (total <= most) {
        uint64_t left = most - prompt_count, usual = gateway->options.new_tokens_default;
        if (!wanted) wanted = usual && usual < left ? usual : left;
        asked->new_tokens_max = (uint32_t)wanted;
        if (asked->sampling.min_tokens <= wanted) return STATUS_OK;
        api_error_set(error, 422, "min_tokens", "out_of_range",
                      "'min_tokens' is %u, more than the %llu tokens that the answer may have.",
                      asked->sampling.min_tokens, (unsigned long long)wanted);
        return STATUS_INVALID;
    }
    return refuse_length(gateway, request, "", prompt_count, error);
}

/* A text that can never run is refused before anybody tokenizes it. */
static enum status fit_text(const struct gateway *gateway, const struct request *request,
                            size_t tokens_min, struct api_error *error) {
    const struct request_asked *asked = &request->asked;
    uint64_t prompt_min = tokens_min + (asked->has_bos ? 1 : 0);
    uint64_t least = asked->new_tokens_max ? asked->new_tokens_max : 1;
    if (prompt_min + least <= fleet_tokens_max(&gateway->fleet)) return STATUS_OK;
    return refuse_length(gateway, request, "at least ", prompt_min, error);
}

/* Prompt, stop tokens and biases must be tokens of this model. */
static enum status check_vocab(const struct gateway *gateway, const struct request *request,
                               struct api_error *error) {
    const struct request_asked *asked = &request->asked;
    uint32_t vocab = gateway->fleet.model.vocab_count, wrong = 0;
    const char *param = NULL;
    for (uint32_t i = asked->model_stops_count; i < asked->stop_token_count; i++)
        if (asked->stop_tokens[i] >= vocab) param = "stop_token_ids", wrong = asked->stop_tokens[i];
    for (uint32_t i = 0; i < asked->bias_count; i++)
        if (asked->biases[i].token >= vocab) param = "logit_bias", wrong = asked->biases[i].token;
    if (param) {
        api_error_set(error, 422, param, "out_of_range",
                      "'%s' names token %u; the model's ids end at %u.", param, wrong, vocab - 1);
        return STATUS_INVALID;
    }
    for (uint32_t i = 0; i < asked->prompt_tokens; i++)
        if (asked->prompt[i] >= vocab) {
            uint32_t place = i - (asked->has_bos ? 1 : 0);
            api_error_set(error, 422, "prompt", "out_of_range",
                          "Token %u of the prompt is %u; the model's ids end at %u.", place,
                          asked->prompt[i], vocab - 1);
            return STATUS_INVALID;
        }
    return STATUS_OK;
}

/* Choices beyond the first are what the leader is. */
static bool share(struct request *leader) {
    for (uint32_t i = 1; i < leader->choice_count; i++) {
        struct request *choice = leader->choices[i];
        choice->asked = leader->asked;
        choice->asked.sampling.choice = i;
        choice->times = leader->times;
        choice->answered.words = leader->answered.words;
        choice->answered.tokens = leader->answered.tokens;
        if (!answer_text_copy(&choice->answered.text, &choice->arena, &leader->answered.text))
            return false;
    }
    return true;
}

/* What the request asks for is judged by what the units are; then it waits for one. */
static enum status settle(struct gateway *gateway, struct request *leader, int64_t now_ns,
                          struct api_error *error) {
    enum status status = check_vocab(gateway, leader, error);
    if (!status) status = fit(gateway, leader, leader->asked.prompt_tokens, error);
    if (status) return status;
    leader->asked.answer.fingerprint = bytes_of(gateway->fingerprint);
    if (!share(leader)) return refuse_memory(error);
    request_wait(gateway, leader, now_ns);
    return STATUS_OK;
}

/* Keeps the prompt, which may have to be sent more than once. */
static enum status submit(struct gateway *gateway, struct request *request, const uint32_t *ids,
                          size_t count, int64_t now_ns, struct api_error *error) {
    struct request_asked *asked = &request->asked;
    uint32_t bos_count = asked->has_bos ? 1 : 0, prompt_count = (uint32_t)count + bos_count;
    struct record_submit counts = {.prompt_count = prompt_count,
                                   .stop_token_count = asked->stop_token_count,
                                   .bias_count = asked->bias_count};
    if (carried_bytes(RECORD_SUBMIT, &counts) > gateway->outbox.capacity) return refuse_size(error);
    uint32_t *prompt = arena_take(&request->arena, (prompt_count + (size_t)1) * sizeof *prompt);
    if (!prompt) return refuse_memory(error);
    if (bos_count) prompt[0] = gateway->options.bos_token;
    if (count) memcpy(prompt + bos_count, ids, count * sizeof *ids);
    asked->prompt = prompt;
    asked->prompt_tokens = prompt_count;
    if (fleet_knows_model(&gateway->fleet)) return settle(gateway, request, now_ns, error);
    request_unsettle(gateway, request, now_ns);
    return STATUS_OK;
}

/* ---- text -> tokens ---- */

static enum status refuse_busy(struct api_error *error) {
    return refuse(error, 503, NULL, "tokenizer_busy",
                  "Too many long prompts wait to be tokenized. Try again later.");
}

/* Too long to be tokenized here and now: the host does it. */
static enum status send_to_tokenize(struct gateway *gateway, struct request *request,
                                    struct bytes text, struct plain_text plain,
                                    struct api_error *error) {
    size_t tokens_min = tokenizer_count_min(gateway->options.tokenizer, text);
    enum status status = fit_text(gateway, request, tokens_min, error);
    struct texts_ask ask = {request->id, request->asked.account, text, plain,
                            (uint32_t)fleet_tokens_max(&gateway->fleet)};
    if (!status) status = texts_take(&gateway->texts, &request->waiting_text, &ask);
    if (!status) request_tokenize(gateway, request);
    if (status == STATUS_TOO_LARGE) return refuse_size(error);
    return status == STATUS_NO_MEMORY ? refuse_busy(error) : status;
}

static enum status take_text(struct gateway *gateway, struct request *request, struct bytes text,
                             struct plain_text plain, int64_t now_ns, struct api_error *error) {
    if (text.count > gateway->options.inline_text_bytes)
        return send_to_tokenize(gateway, request, text, plain, error);
    uint32_t *ids = arena_take(&gateway->scratch, (text.count + 1) * sizeof *ids);
    size_t count;
    if (!ids) return refuse_memory(error);
    if (tokenizer_encode(gateway->options.tokenizer, gateway->tokenizer_scratch, text, plain, ids,
                         text.count + 1, &count))
        return refuse(error, 400, NULL, "invalid_value", "The prompt could not be tokenized.");
    return submit(gateway, request, ids, count, now_ns, error);
}

/* ---- chats ---- */

/* Joins the parts' texts without anything between, as the templates do. */
static bool join_parts(struct arena *arena, const struct tree *parts, struct bytes *out) {
    struct bytes text;
    size_t total = 0, used = 0;
    for (size_t i = 0; i < tree_count(parts); i++)
        total += tree_get_string(tree_member(tree_at(parts, i), "text"), &text) ? text.count : 0;
    char *joined = arena_take(arena, total + 1);
    if (!joined) return false;
    for (size_t i = 0; i < tree_count(parts); i++) {
        if (!tree_get_string(tree_member(tree_at(parts, i), "text"), &text) || !text.count)
            continue;
        memcpy(joined + used, text.data, text.count);
        used += text.count;
    }
    *out = (struct bytes){joined, total};
    return true;
}

static bool convert_calls(struct arena *arena, const struct tree *calls, struct chat_message *out) {
    size_t count = tree_count(calls);
    struct chat_tool_call *converted = arena_take_zeroed(arena, (count + 1) * sizeof *converted);
    if (!converted) return false;
    for (size_t i = 0; i < count; i++) {
        const struct tree *call = tree_at(calls, i), *function = tree_member(call, "function");
        converted[i].type = BYTES_LITERAL("function");
        (void)tree_get_string(tree_member(call, "type"), &converted[i].type);
        (void)tree_get_string(tree_member(function, "name"), &converted[i].name);
        (void)tree_get_string(tree_member(function, "arguments"), &converted[i].arguments);
    }
    out->tool_calls = converted;
    out->tool_call_count = count;
    return true;
}

/* A checked message, for the template. */
static bool convert_message(struct arena *arena, const struct tree *message,
                            struct chat_message *out) {
    struct bytes role = {"", 0};
    const struct tree *content = tree_member(message, "content");
    (void)tree_get_string(tree_member(message, "role"), &role);
    if (bytes_equal(role, BYTES_LITERAL("developer"))) role = BYTES_LITERAL("system");
    check(chat_role_from_text(role, &out->role));
    out->has_content = content && !tree_is_null(content);
    if (out->has_content && !tree_get_string(content, &out->content) &&
        !join_parts(arena, content, &out->content))
        return false;
    if (!convert_calls(arena, tree_member(message, "tool_calls"), out)) return false;
    if (out->tool_call_count > 0 && out->content.count == 0) /* clients send "" for null */
        out->has_content = false;
    return true;
}

static struct chat_message *convert_messages(struct arena *arena, const struct tree *messages) {
    size_t count = tree_count(messages);
    struct chat_message *converted = arena_take_zeroed(arena, count * sizeof *converted);
    for (size_t i = 0; i < count && converted; i++)
        if (!convert_message(arena, tree_at(messages, i), &converted[i])) return NULL;
    return converted;
}

/* Room for the rendering, once it is measured. */
static bool take_rendering(struct gateway *gateway, struct chat_rendering *rendering) {
    rendering->capacity = rendering->count;
    rendering->text = arena_take(&gateway->scratch, rendering->capacity);
    if (gateway->options.content_specials) return rendering->text != NULL;
    rendering->content_capacity = rendering->content_count;
    rendering->contents =
        arena_take(&gateway->scratch, (rendering->content_capacity + 1) * sizeof(struct text_span));
    return rendering->text && rendering->contents;
}

static enum status take_chat(struct gateway *gateway, struct request *request,
                             const struct api_request *parsed, int64_t now_ns,
                             struct api_error *error) {
    const struct chat_template *chat_template = gateway->options.chat_template;
    if (!gateway->options.tokenizer || !chat_template || !chat_template->present)
        return refuse(
            error, 400, NULL, "no_chat_template",
            "This checkpoint has no tokenizer or no chat template, so it cannot chat. Use "
            "/v1/completions.");
    struct chat_rendering rendering = {0};
    struct error reason = {0};
    size_t count = tree_count(parsed->messages);
    struct chat_message *messages = convert_messages(&gateway->scratch, parsed->messages);
    if (!messages) return refuse_memory(error);
    enum status status =
        chat_template_render(chat_template, messages, count, true, &rendering, &reason);
    if (status == STATUS_FULL) {
        if (!take_rendering(gateway, &rendering)) return refuse_memory(error);
        status = chat_template_render(chat_template, messages, count, true, &rendering, &reason);
    }
    if (status) return refuse(error, 400, "messages", "invalid_value", reason.text);
    request->asked.mode = rendering.stream;
    token_stream_open(&request->answered.words, gateway->options.tokenizer, request->asked.stops,
                      request->asked.mode);
    struct plain_text plain = {rendering.contents,
                               rendering.contents ? rendering.content_count : 0};
    return take_text(gateway, request,
                     (struct bytes){rendering.text ? rendering.text : "", rendering.count}, plain,
                     now_ns, error);
}

/* ---- plain prompts ---- */

/* The prompt in front of the answer. */
static enum status echo_prompt(struct gateway *gateway, struct request *request,
                               const struct api_request *parsed, struct api_error *error) {
    struct bytes text = parsed->prompt_text;
    if (!gateway->options.tokenizer && request->asked.answer.logprobs)
        return STATUS_OK; /* its ids */
    if (!gateway->options.tokenizer)
        return refuse(error, 400, "echo", "unsupported_parameter",
                      "This checkpoint has no tokenizer, so it cannot echo.");
    if (parsed->prompt_is_tokens) {
        size_t count = 0;
        enum status status = tokenizer_decode(gateway->options.tokenizer, parsed->prompt_tokens,
                                              parsed->prompt_token_count, false, NULL, 0, &count);
        char *out = arena_take(&gateway->scratch, count + 1);
        if (!out) return refuse_memory(error);
        if (status == STATUS_FULL)
            status = tokenizer_decode(gateway->options.tokenizer, parsed->prompt_tokens,
                                      parsed->prompt_token_count, false, out, count, &count);
        check(status == STATUS_OK);
        text = (struct bytes){out, count};
    }
    if (!answer_text_add(&request->answered.text, &request->arena, text))
        return refuse_memory(error);
    if (request->answered.text.escaped_count > reply_text_bytes_max(gateway) / 2)
        return refuse_size(error);
    return STATUS_OK;
}

static enum status take_prompt(struct gateway *gateway, struct request *request,
                               const struct api_request *parsed, int64_t now_ns,
                               struct api_error *error) {
    const struct gateway_options *options = &gateway->options;
    if (options->tokenizer)
        token_stream_open(&request->answered.words, options->tokenizer, request->asked.stops,
                          request->asked.mode);
    if (parsed->echo) {
        enum status status = echo_prompt(gateway, request, parsed, error);
        if (status) return status;
    }
    if (parsed->prompt_is_tokens)
        return submit(gateway, request, parsed->prompt_tokens, parsed->prompt_token_count, now_ns,
                      error);
    if (!options->tokenizer)
        return refuse(
            error, 400, "prompt", "no_tokenizer",
            "This checkpoint has no tokenizer: send the prompt as an array of token ids.");
    request->asked.has_bos = options->prepend_bos;
    /* Added tokens are recognized here, as Hugging Face's tokenizers do by default. */
    return take_text(gateway, request, parsed->prompt_text, plain_text_nowhere, now_ns, error);
}

/* ---- the doors ---- */

/* How tokens are chosen, and at which the answer ends. */
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
    if (!biases) return refuse_memory(error);
    memcpy(biases, parsed->biases, bytes);
    asked->biases = biases;
    asked->bias_count = parsed->bias_count;
    return STATUS_OK;
}

static enum status fill(struct gateway *gateway, struct request *request,
                        const struct api_request *parsed,
                        const struct record_client_request *record, struct api_error *error) {
    struct request_asked *asked = &request->asked;
    enum status status = fill_sampling(gateway, request, parsed, record, error);
    if (status) return status;
    asked->stream = parsed->stream;
    asked->wants_receipt = parsed->return_receipt || record->wants_receipt;
    asked->prompt_only = parsed->prompt_only;
    asked->new_tokens_max = parsed->prompt_only ? 1 : parsed->new_tokens_max;
    asked->answer = (struct api_answer){
        .dialect = endpoint_dialect(asked->endpoint),
        .include_usage = parsed->include_usage,
        .token_ids = parsed->return_token_ids || gateway->options.tokenizer == NULL,
        .logprobs = (parsed->sampling.flags & SAMPLING_LOGPROBS) != 0,
        .tokenizer = gateway->options.tokenizer,
        .id = request->id,
        .created = record->unix_time,
        .model = gateway->model_name,
        .told = arena_copy(&request->arena, parsed->told),
    };
    asked->one_call = parsed->one_call;
    asked->mode = TOKEN_STREAM_PLAIN;
    asked->warning = arena_copy(&request->arena, parsed->warning);
    if (!asked->warning.data || !asked->answer.told.data) return refuse_memory(error);
    if (!parsed->stops) return STATUS_OK;
    if (!gateway->options.tokenizer)
        return refuse(error, 400, "stop", "unsupported_parameter",
                      "This checkpoint has no tokenizer, so it cannot look for stop strings.");
    struct stop_strings *stops = arena_take(&request->arena, sizeof *stops);
    if (!stops) return refuse_memory(error);
    *stops = *parsed->stops;
    asked->stops = stops;
    return STATUS_OK;
}

static enum status ready(const struct gateway *gateway, size_t body_bytes,
                         struct api_error *error) {
    if (gateway->draining)
        return refuse(error, 503, NULL, "draining", "The server is shutting down.");
    if (body_bytes > gateway->options.body_bytes_max) {
        api_error_set(error, 413, NULL, "request_too_large",
                      "The request body has %zu bytes; at most %zu are allowed.", body_bytes,
                      gateway->options.body_bytes_max);
        return STATUS_INVALID;
    }
    return STATUS_OK;
}

static enum status begin(struct gateway *gateway, const struct record_client_request *record,
                         const struct api_request *parsed, struct request *request, int64_t now_ns,
                         struct api_error *error) {
    enum status status = fill(gateway, request, parsed, record, error);
    if (status) return status;
    return request->asked.answer.dialect->chats
               ? take_chat(gateway, request, parsed, now_ns, error)
               : take_prompt(gateway, request, parsed, now_ns, error);
}

/* NULL: *error says why. */
static struct request *claim(struct gateway *gateway, const struct record_client_request *record,
                             uint32_t account, uint32_t choice_count, struct api_error *error) {
    if (!accounts_hold(&gateway->accounts, account, choice_count)) {
        (void)refuse(error, 429, NULL, "rate_limit_exceeded",
                     "This account has as many requests under way as it may. Try again later.");
        return NULL;
    }
    struct request *request = request_claim(gateway, record, choice_count);
    if (request) {
        request->asked.account = account;
        return request;
    }
    accounts_release(&gateway->accounts, account, choice_count);
    (void)refuse(error, 429, NULL, "queue_full",
                 "The server is serving as many requests as it can. Try again later.");
    return NULL;
}

enum status intake_ask(struct gateway *gateway, const struct endpoint_call *call) {
    const struct record_client_request *record = call->record;
    uint32_t account = call->account;
    int64_t now_ns = call->now_ns;
    struct bytes body = {client_request_body(record), record->body_bytes};
    struct api_defaults defaults = {.sampling = gateway->options.sampling,
                                    .models = gateway->models.names,
                                    .model_count = gateway->models.count,
                                    .tokens_max = fleet_tokens_max(&gateway->fleet)};
    struct api_request parsed;
    struct api_error error;
    arena_clear(&gateway->scratch);
    enum status status = ready(gateway, body.count, &error);
    if (!status && !api_request_parse(&gateway->scratch, endpoint_dialect(call->endpoint), body,
                                      &defaults, &parsed, &error))
        status = STATUS_INVALID;
    if (status) return reply_error(gateway, record->connection, call->endpoint, &error);

    struct request *request = claim(gateway, record, account, parsed.choice_count, &error);
    if (!request) return reply_error(gateway, record->connection, call->endpoint, &error);
    request->asked.endpoint = call->endpoint;
    request->asked.tenant = accounts_tenant(&gateway->accounts, account, parsed.cache_salt);
    request->times.arrived_ns = now_ns;
    status = begin(gateway, record, &parsed, request, now_ns, &error);
    if (status) {
        request_release(gateway, request);
        if (status == STATUS_FULL) return status;
        return reply_error(gateway, record->connection, call->endpoint, &error);
    }
    if (request->asked.stream)
        request_keep_alive(gateway, request, now_ns + gateway->options.keep_alive_ns);
    return STATUS_OK;
}

/* A keep-alive may have gone out: then the stream has begun. */
static enum status refuse_late(struct gateway *gateway, struct request *leader,
                               const struct api_error *error) {
    enum status status = reply_no_answer(gateway, leader, error);
    if (!status) request_release(gateway, leader);
    return status;
}

enum status intake_tokenized(struct gateway *gateway, const struct record_tokenized *record,
                             int64_t now_ns) {
    struct request *request = request_find(gateway, record->request);
    struct api_error error;
    enum status status = STATUS_OK;
    texts_answered(&gateway->texts);
    if (!request || request->life.state != REQUEST_TOKENIZING)
        return STATUS_OK; /* its client has gone */
    if (record->too_many) status = fit_text(gateway, request, record->too_many, &error);
    if (!status && record->too_many) /* a larger unit has come meanwhile */
        status = refuse_busy(&error);
    else if (!status && record->token_count == 0)
        status = refuse(&error, 400, NULL, "invalid_value", "The prompt could not be tokenized.");
    if (!status)
        status =
            submit(gateway, request, tokenized_tokens(record), record->token_count, now_ns, &error);
    return status == STATUS_INVALID ? refuse_late(gateway, request, &error) : status;
}

enum status intake_give_up(struct gateway *gateway, struct request *leader) {
    struct api_error error;
    if (gateway->draining)
        api_error_draining(&error);
    else
        api_error_no_unit(&error);
    return refuse_late(gateway, leader, &error);
}

/* The first unit has come: what was asked can be judged. Or none has for too long. */
static enum status settle_late(struct gateway *gateway, struct request *leader, int64_t now_ns) {
    struct api_error error;
    if (fleet_knows_model(&gateway->fleet)) {
        enum status status = settle(gateway, leader, now_ns, &error);
        return status == STATUS_INVALID ? refuse_late(gateway, leader, &error) : status;
    }
    if (now_ns < dispatch_gives_up_ns(gateway, leader, false)) return STATUS_OK;
    return intake_give_up(gateway, leader);
}

bool intake_run(struct gateway *gateway, int64_t now_ns) {
    for (struct request *leader = gateway->requests.unsettled.first, *next; leader; leader = next) {
        next = leader->life.behind;
        if (settle_late(gateway, leader, now_ns)) return false;
    }
    return true;
}
