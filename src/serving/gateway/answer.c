/* SPDX-License-Identifier: Apache-2.0
 * Each function here first makes sure that the outbox can take all it may say, then acts: the state
 * of a token stream cannot be wound back.
 */
#include "serving/gateway/answer.h"

#include "base/check.h"
#include "base/number.h"
#include "contract/record_client.h"
#include "contract/step_plan.h"
#include "serving/gateway/dispatch.h"
#include "serving/gateway/handover.h"
#include "serving/gateway/intake.h"
#include "serving/gateway/reply.h"

/* ---- pieces of text ---- */

struct pieces { /* what a run of tokens says: reasoning, and behind it content */
    char *text;
    size_t room, count, reasoning_count;
};

static void pieces_add(void *context, enum token_stream_part part, struct bytes text) {
    struct pieces *pieces = context;
    check(text.count <= pieces->room - pieces->count);
    memcpy(pieces->text + pieces->count, text.data, text.count);
    pieces->count += text.count;
    if (part == TOKEN_STREAM_REASONING) pieces->reasoning_count = pieces->count;
}

static struct bytes pieces_part(const struct pieces *pieces, enum token_stream_part part) {
    size_t split = pieces->reasoning_count;
    return part == TOKEN_STREAM_REASONING
               ? (struct bytes){pieces->text, split}
               : (struct bytes){pieces->text + split, pieces->count - split};
}

/* Newly chosen tokens of one request, and their log probabilities if the unit tells them. */
struct news {
    const uint32_t *tokens;
    size_t count;
    const struct token_logprob *logprobs; /* [count][each] */
    uint32_t each;
};

/* Bytes of text that these tokens can release at most. */
static size_t text_bytes_max(const struct gateway *gateway, const struct news *news) {
    size_t bytes = TOKEN_STREAM_HELD_MAX;
    if (!gateway->options.tokenizer) return bytes;
    for (size_t i = 0; i < news->count; i++)
        bytes += 3 * tokenizer_token_bytes(gateway->options.tokenizer, news->tokens[i]).count +
                 TOKEN_STREAM_HELD_MAX;
    return bytes;
}

static bool tells_tokens(const struct request *request) {
    return request->answer.token_ids || request->answer.logprobs;
}

/* What is known of the i-th token: `bare` is filled when its log probability was not asked for. */
static const struct token_logprob *entries_of(const struct request *request,
                                              const struct news *news, size_t i,
                                              struct token_logprob *bare, uint32_t *each_out) {
    bool told = request->answer.logprobs && news->each > 0;
    *bare = (struct token_logprob){.token = news->tokens[i]};
    *each_out = told ? news->each : 1;
    return told ? news->logprobs + i * news->each : bare;
}

/* Bytes of JSON that telling these tokens takes at most. */
static size_t tokens_json_bytes_max(const struct request *request, const struct news *news) {
    size_t bytes = request->answer.token_ids ? news->count * API_TOKENS_ID_BYTES_MAX : 0;
    for (size_t i = 0; i < news->count && request->answer.logprobs; i++) {
        struct token_logprob bare;
        uint32_t each;
        const struct token_logprob *entries = entries_of(request, news, i, &bare, &each);
        bytes += api_tokens_bytes_max(request->answer.tokenizer, entries, each);
    }
    return bytes;
}

#define ESCAPED_PER_BYTE 6 /* \u0000 */

/* ---- to a stream ---- */

struct event { /* arguments of the reply_writers below */
    const struct request *request;
    const struct api_piece *piece;
    const char *finish;
    const struct api_usage *usage;
    struct bytes receipt;
    const struct api_error *error;
};

static void write_role(struct json_writer *writer, const void *context) {
    const struct request *request = ((const struct event *)context)->request;
    api_response_role(writer, &request->answer, request->index,
                      request->mode == TOKEN_STREAM_IN_REASONING);
}

static void write_delta(struct json_writer *writer, const void *context) {
    const struct event *event = context;
    api_response_delta(writer, &event->request->answer, event->request->index, event->piece);
}

static void write_finish(struct json_writer *writer, const void *context) {
    const struct event *event = context;
    api_response_finish(writer, &event->request->answer, event->request->index, event->finish);
}

static void write_done(struct json_writer *writer, const void *context) {
    const struct event *event = context;
    api_response_done(writer, &event->request->answer, event->usage, event->receipt);
}

static void write_failed(struct json_writer *writer, const void *context) {
    api_response_failed(writer, ((const struct event *)context)->error);
}

static void write_keep_alive(struct json_writer *writer, const void *context) {
    (void)context;
    json_writer_text(writer, API_RESPONSE_KEEP_ALIVE);
}

/* Room has been made sure of. */
static void say(struct gateway *gateway, const struct request *request, reply_writer *write,
                const struct event *event) {
    enum status status = reply_data(gateway, request, write, event);
    check(status == STATUS_OK);
}

static void say_piece(struct gateway *gateway, const struct request *request,
                      const struct api_piece *piece) {
    struct event event = {.request = request, .piece = piece};
    bool tokens = piece->tokens && piece->to > piece->from;
    if (piece->text.count || tokens) say(gateway, request, write_delta, &event);
}

/* Reasoning, then content; `tokens` (NULL: not told) are split alike. */
static void say_pieces(struct gateway *gateway, const struct request *request,
                       const struct pieces *pieces, const struct token_list *tokens) {
    uint32_t split = tokens ? tokens->reasoning_count : 0, count = tokens ? tokens->count : 0;
    struct api_piece reasoning = {.part = TOKEN_STREAM_REASONING,
                                  .text = pieces_part(pieces, TOKEN_STREAM_REASONING),
                                  .tokens = tokens,
                                  .to = split};
    struct api_piece content = {.part = TOKEN_STREAM_CONTENT,
                                .text = pieces_part(pieces, TOKEN_STREAM_CONTENT),
                                .tokens = tokens,
                                .from = split,
                                .to = count};
    say_piece(gateway, request, &reasoning);
    say_piece(gateway, request, &content);
}

/* STREAM_BEGIN, and the choice's first event: the role, or the prompt that is to be echoed. */
static void start_stream(struct gateway *gateway, struct request *request) {
    struct request *leader = request->leader;
    struct event event = {.request = request};
    if (!leader->begun) {
        enum status status = reply_begin(gateway, leader);
        check(status == STATUS_OK);
    }
    gateway->wake_ns[request_slot(gateway, leader)] = MACHINE_NEVER;
    if (request->spoken) return;
    request->spoken = true;
    if (request->answer.endpoint == API_CHAT) say(gateway, request, write_role, &event);
    if (request->text.count == 0) return;
    arena_clear(&gateway->scratch);
    struct json_writer writer = {.out = arena_take(&gateway->scratch, request->text.count),
                                 .room = request->text.count};
    check(writer.out); /* bounded when the request came */
    answer_text_write(&request->text, 0, request->text.count, false, &writer);
    struct api_piece echo = {.part = TOKEN_STREAM_CONTENT, .text = {writer.out, writer.count}};
    say_piece(gateway, request, &echo);
}

static size_t start_bytes_max(const struct request *request) {
    return request->spoken ? 0 : REPLY_FRAME_BYTES + request->text.escaped_count;
}

/* ---- to a whole answer ---- */

/* False when so many more bytes of JSON would be more than may be said. */
static bool has_room(const struct gateway *gateway, const struct request *request, size_t more) {
    size_t bytes = request->text.escaped_count + request->tokens_json_bytes + more;
    return bytes <= reply_text_bytes_max(gateway) / request->leader->choice_count;
}

/* False when the answer has outgrown what may be said. */
static bool gather(struct gateway *gateway, struct request *request, struct bytes text) {
    return has_room(gateway, request, json_writer_escaped_count(text)) &&
           answer_text_add(&request->text, &request->arena, text);
}

static bool gather_pieces(struct gateway *gateway, struct request *request,
                          const struct pieces *pieces) {
    struct bytes reasoning = pieces_part(pieces, TOKEN_STREAM_REASONING);
    bool fits = gather(gateway, request, reasoning);
    if (reasoning.count) request->text.reasoning_count = request->text.count;
    return fits && gather(gateway, request, pieces_part(pieces, TOKEN_STREAM_CONTENT));
}

/* ---- tokens ---- */

static bool is_under_way(const struct request *request) {
    return request->state == REQUEST_WAITING || request->state == REQUEST_SUBMITTED;
}

/* Room has been made sure of. */
static void cancel(struct gateway *gateway, struct request *request, enum request_ending ending) {
    request->ending = (uint8_t)ending;
    gateway->wake_ns[request_slot(gateway, request)] = MACHINE_NEVER;
    if (request->state == REQUEST_WAITING) {
        dispatch_end(gateway, request, FINISH_CANCELLED);
        return;
    }
    handover_cancel(gateway, request);
    request->state = REQUEST_ENDING;
}

static struct pieces open_pieces(struct gateway *gateway, size_t room) {
    arena_clear(&gateway->scratch);
    struct pieces pieces = {.text = arena_take(&gateway->scratch, room), .room = room};
    check(pieces.text); /* the outbox, which is smaller, has room for it six times */
    return pieces;
}

/* The i-th new token joins a list, with what is to be told of it; false when memory is out. */
static bool add_token(const struct request *request, const struct news *news, size_t i,
                      struct token_list *list, struct arena *arena) {
    struct token_logprob bare;
    uint32_t each;
    const struct token_logprob *entries = entries_of(request, news, i, &bare, &each);
    return token_list_add(list, arena, entries, each);
}

/* Adds token i to the tokens of the answer, which must be known should the request have to go on at
 * another unit. A request whose memory is out goes on without: it can do so only where it is. */
static bool keep_token(struct request *request, const struct news *news, size_t i) {
    bool whole = request->tokens.count == request->output_tokens;
    request->last_token = news->tokens[i];
    request->output_tokens++;
    if (!whole) return false;
    if (!request->stream) return add_token(request, news, i, &request->tokens, &request->arena);
    struct token_logprob bare = {.token = news->tokens[i]};
    return token_list_add(&request->tokens, &request->arena, &bare, 1);
}

static void take_streamed(struct gateway *gateway, struct request *request,
                          const struct news *news) {
    struct pieces pieces = open_pieces(gateway, text_bytes_max(gateway, news));
    struct token_list list = {.text_offset = request->tokens.text_offset};
    uint32_t reasoning = request->words.reasoning_tokens;
    bool stopped = false;
    for (size_t i = 0; i < news->count && !stopped; i++) {
        if (gateway->options.tokenizer)
            stopped = token_stream_push(&request->words, news->tokens[i], pieces_add, &pieces);
        bool told = !tells_tokens(request) || add_token(request, news, i, &list, &gateway->scratch);
        check(told); /* the outbox, which is smaller, has room for their names */
        request->tokens.text_offset +=
            api_tokens_characters(gateway->options.tokenizer, &list, (uint32_t)i, news->tokens[i]);
        (void)keep_token(request, news, i);
    }
    list.reasoning_count = min_u32(request->words.reasoning_tokens - reasoning, list.count);
    say_pieces(gateway, request, &pieces, tells_tokens(request) ? &list : NULL);
    if (stopped) cancel(gateway, request, ENDING_STOP_STRING);
}

static void take_whole(struct gateway *gateway, struct request *request, const struct news *news) {
    struct pieces pieces = open_pieces(gateway, text_bytes_max(gateway, news));
    bool stopped = false, fits = true;
    size_t json_bytes = tokens_json_bytes_max(request, news);
    if (!has_room(gateway, request, json_bytes)) {
        cancel(gateway, request, ENDING_TOO_LONG);
        return;
    }
    request->tokens_json_bytes += json_bytes;
    for (size_t i = 0; i < news->count && !stopped; i++) {
        if (gateway->options.tokenizer)
            stopped = token_stream_push(&request->words, news->tokens[i], pieces_add, &pieces);
        fits &= keep_token(request, news, i) || !tells_tokens(request);
    }
    request->tokens.reasoning_count =
        min_u32(request->words.reasoning_tokens, request->tokens.count);
    fits = gather_pieces(gateway, request, &pieces) && fits;
    if (stopped || !fits) cancel(gateway, request, fits ? ENDING_STOP_STRING : ENDING_TOO_LONG);
}

static void take_untold(struct request *request, const struct news *news) {
    request->output_tokens += (uint32_t)news->count;
    request->last_token = news->tokens[news->count - 1];
}

/* False if no unit that runs this request as it was asked for would say so. */
static bool is_credible(const struct gateway *gateway, const struct request *request,
                        const struct record_tokens *record) {
    const struct sampling *sampling = &request->sampling;
    uint32_t each = sampling->flags & SAMPLING_LOGPROBS ? 1 + sampling->top_logprobs : 0;
    const uint32_t *tokens = tokens_chosen(record);
    if (!receipt_is_credible(&record->work, request->prompt_tokens)) return false;
    if (request_scores(request) && request->prompt_tokens > 1) return false; /* these come first */
    if (record->first_output_position > request->output_tokens || record->logprobs_each != each ||
        (uint64_t)record->first_output_position + record->token_count > request->new_tokens_max)
        return false;
    for (uint32_t i = 0; i < record->token_count; i++)
        if (tokens[i] >= gateway->fleet.model.vocab_count) return false;
    return true;
}

/* Whose tokens are the next: those of the unit that computes the prompt are the first ones. */
static bool speaks_for(const struct request *request, uint32_t unit) {
    if (request->prefill == unit) return request->task == TASK_PREFILLING;
    return request->unit == unit &&
           (request->task == TASK_ANSWER || request->task == TASK_CONTINUED);
}

/* Its unit will say so: the last token ended it. */
static bool is_over(const struct request *request) {
    enum finish_reason reason;
    return dispatch_is_whole(request, &reason);
}

/* ---- the prompt's log probabilities ---- */

/* The first token of all goes in front: it has no score, so nobody tells of it. */
static bool add_scores(const struct request *request, const struct token_logprob *scores,
                       uint32_t count, struct token_list *list, struct arena *arena) {
    struct token_logprob first[TOKEN_LOGPROBS_MAX] = {{.token = request->leader->prompt[0]}};
    uint32_t each = 1 + request->sampling.top_logprobs;
    bool added = true;
    list->is_prompt = true;
    list->hides_first = request->leader->has_bos;
    if (request->scored_count == 0) {
        list->has_first = true;
        added = token_list_add(list, arena, first, each);
    }
    for (uint32_t i = 0; i < count && added; i++)
        added = token_list_add(list, arena, scores + (size_t)i * each, each);
    return added;
}

/* In scratch memory. */
static struct token_list list_scores(struct gateway *gateway, const struct request *request,
                                     const struct token_logprob *scores, uint32_t count) {
    struct token_list list = {.text_offset = request->tokens.text_offset};
    arena_clear(&gateway->scratch);
    bool added = add_scores(request, scores, count, &list, &gateway->scratch);
    check(added); /* a few KiB */
    return list;
}

static size_t scores_json_bytes(const struct request *request, const struct token_list *list) {
    struct json_writer counter = {0};
    api_tokens_completion_logprobs(&counter, request->answer.tokenizer, list, NULL, 0, 0);
    return counter.count;
}

struct characters {
    const struct tokenizer *tokenizer;
    const struct token_list *list;
    uint32_t count;
};

static void count_characters(void *context, uint32_t index, const struct token_logprob *entries) {
    struct characters *characters = context;
    characters->count +=
        api_tokens_characters(characters->tokenizer, characters->list, index, entries[0].token);
}

/* STATUS_FULL: nothing is done. A prompt of which not all can be told ends the request: half of it
 * would be taken for the whole. */
static enum status take_scores(struct gateway *gateway, struct request *request,
                               const struct token_logprob *scores, uint32_t count) {
    struct token_list list = list_scores(gateway, request, scores, count);
    size_t json_bytes = scores_json_bytes(request, &list), room = HANDOVER_CANCEL_BYTES;
    size_t said = REPLY_FRAME_BYTES + start_bytes_max(request) + json_bytes;
    bool fits = request->stream ? room + said <= gateway->outbox.capacity
                                : has_room(gateway, request, json_bytes);
    if (request->stream && fits) room += said;
    if (outbox_room(&gateway->outbox) < room) return STATUS_FULL;
    bool added = !fits || request->stream ||
                 add_scores(request, scores, count, &request->echoed, &request->arena);
    if (!fits || !added) {
        cancel(gateway, request, fits ? ENDING_NO_MEMORY : ENDING_ECHO_TOO_LONG);
        return STATUS_OK;
    }
    if (request->stream) {
        start_stream(gateway, request);
        list = list_scores(gateway, request, scores, count); /* that took its memory */
        struct api_piece piece = {.part = TOKEN_STREAM_CONTENT, .echoed = &list};
        struct event event = {.request = request, .piece = &piece};
        say(gateway, request, write_delta, &event);
    }
    struct characters characters = {gateway->options.tokenizer, &list, 0};
    token_list_visit(&list, 0, list.count, count_characters, &characters);
    request->tokens.text_offset += characters.count;
    request->tokens_json_bytes += request->stream ? 0 : json_bytes;
    request->scored_count += list.count;
    return STATUS_OK;
}

/* False if no unit that was asked for them would say so. */
static bool are_credible(const struct gateway *gateway, const struct request *request,
                         const struct record_scores *record) {
    const struct token_logprob *scores = scores_logprobs(record);
    uint32_t told = request->scored_count ? request->scored_count : 1;
    if (!(request->sampling.flags & SAMPLING_SCORES) ||
        record->logprobs_each != 1 + request->sampling.top_logprobs ||
        record->first_position > told ||
        (uint64_t)record->first_position + record->token_count > request->prompt_tokens)
        return false;
    for (uint32_t i = 0; i < record->token_count * record->logprobs_each; i++) {
        uint32_t place = record->first_position + i / record->logprobs_each;
        bool own = i % record->logprobs_each == 0;
        if (own && scores[i].token != request->leader->prompt[place]) return false;
        if (scores[i].token >= gateway->fleet.model.vocab_count) return false;
    }
    return true;
}

enum status answer_scores(struct gateway *gateway, uint32_t unit,
                          const struct record_scores *record) {
    struct request *request = request_find(gateway, record->request);
    if (!request || !speaks_for(request, unit) || request->state != REQUEST_SUBMITTED)
        return STATUS_OK;
    if (!are_credible(gateway, request, record)) return STATUS_INVALID;
    const struct token_logprob *scores = scores_logprobs(record);
    uint32_t told = request->scored_count ? request->scored_count : 1;
    uint32_t known = told - record->first_position;
    if (known >= record->token_count) return STATUS_OK; /* repeats */
    return take_scores(gateway, request, scores + (size_t)known * record->logprobs_each,
                       record->token_count - known);
}

/* ---- newly chosen tokens ---- */

enum status answer_tokens(struct gateway *gateway, uint32_t unit,
                          const struct record_tokens *record, int64_t now_ns) {
    struct request *request = request_find(gateway, record->request);
    if (!request || !speaks_for(request, unit) || request->state != REQUEST_SUBMITTED)
        return STATUS_OK;
    if (!is_credible(gateway, request, record)) return STATUS_INVALID;
    if (request_scores(request)) { /* a prompt of one token: none has a score */
        enum status status = take_scores(gateway, request, NULL, 0);
        if (status || request->state != REQUEST_SUBMITTED) return status;
    }
    uint32_t known = request->output_tokens - record->first_output_position;
    if (known >= record->token_count) return STATUS_OK; /* repeats */
    struct news news = {
        .tokens = tokens_chosen(record) + known,
        .count = record->token_count - known,
        .logprobs = tokens_logprobs(record) + (size_t)known * record->logprobs_each,
        .each = record->logprobs_each,
    };
    size_t said =
        ESCAPED_PER_BYTE * text_bytes_max(gateway, &news) + tokens_json_bytes_max(request, &news);
    size_t room = HANDOVER_CANCEL_BYTES + HANDOVER_CONTINUE_BYTES;
    if (request->stream) room += REPLY_FRAME_BYTES + start_bytes_max(request) + said;
    check(room <= gateway->outbox.capacity);
    if (outbox_room(&gateway->outbox) < room) return STATUS_FULL;
    enum receipt_part part = request->prefill == unit ? RECEIPT_PROMPT : RECEIPT_ANSWER;
    receipt_note(&request->receipt, part, &record->work);
    receipt_settle(&request->receipt, part);
    metrics_count_tokens(&gateway->metrics, &request->times, now_ns);
    dispatch_progress(gateway, request, unit);
    if (request->prompt_only) {
        take_untold(request, &news);
    } else if (request->stream) {
        start_stream(gateway, request);
        take_streamed(gateway, request, &news);
    } else {
        take_whole(gateway, request, &news);
    }
    if (request->prefill == unit && request->state == REQUEST_SUBMITTED && !is_over(request))
        handover_continue(gateway, request, news.tokens, (uint32_t)news.count);
    return STATUS_OK;
}

/* ---- the end ---- */

#define FINISH_CUT "insufficient_system_resource"

/* The finish reason to tell; NULL: there is no answer to speak of, *error says why. */
static const char *finish_of(const struct request *request, enum finish_reason reason,
                             struct api_error *error) {
    /* The unit may have ended it for a reason of its own before our CANCEL reached it. */
    if (request->ending == ENDING_STOP_STRING) return "stop";
    if (request->ending == ENDING_TOO_LONG) return FINISH_CUT;
    if (request->ending == ENDING_ECHO_TOO_LONG) {
        api_error_set(
            error, 413, NULL, "request_too_large",
            "The log probabilities of this prompt are more than one answer may hold. Send "
            "a shorter one, ask for fewer, or stream them.");
        return NULL;
    }
    if (request->ending == ENDING_NO_MEMORY) {
        api_error_no_memory(error);
        return NULL;
    }
    if (request->ending == ENDING_NO_UNIT) {
        api_error_no_unit(error);
        return NULL;
    }
    if (request->ending == ENDING_DRAINING) {
        api_error_draining(error);
        return NULL;
    }
    switch (reason) {
    case FINISH_STOP_TOKEN:
        return request->prompt_only ? "length" : "stop"; /* who asked for none has all of them */
    case FINISH_LENGTH:
        return "length";
    case FINISH_REFUSED_QUEUE:
        api_error_set(error, 429, NULL, "queue_full",
                      "The queue of the model is full. Try again later.");
        error->retry_after_seconds = 1;
        return NULL;
    case FINISH_REFUSED_TOO_LARGE:
        api_error_set(error, 400, NULL, "context_length_exceeded",
                      "The request is larger than the model's context or memory.");
        return NULL;
    case FINISH_REFUSED_DRAINING:
        api_error_draining(error);
        return NULL;
    case FINISH_CANCELLED:
    case FINISH_FAILED:
    case FINISH_HANDED_OVER: /* nobody was asked to */
    case FINISH_REASON_COUNT:
        break;
    }
    if (request->output_tokens) return FINISH_CUT;
    api_error_set(error, 503, NULL, "engine_failed",
                  "The model could not compute an answer. Try again.");
    error->retry_after_seconds = 1;
    return NULL;
}

const char *answer_finish(const struct request *request) {
    struct api_error none;
    return finish_of(request, (enum finish_reason)request->reason, &none);
}

/* What the token stream still holds back. */
static struct pieces flush(struct gateway *gateway, struct request *request) {
    struct pieces pieces = open_pieces(gateway, 3 * TOKEN_STREAM_HELD_MAX);
    if (gateway->options.tokenizer && !request->flushed)
        token_stream_finish(&request->words, pieces_add, &pieces);
    request->flushed = true;
    return pieces;
}

/* The last words of one choice. */
static void end_choice(struct gateway *gateway, struct request *request, const char *finish) {
    struct event event = {.request = request, .finish = finish};
    start_stream(gateway, request);
    struct pieces pieces = flush(gateway, request);
    say_pieces(gateway, request, &pieces, NULL);
    say(gateway, request, write_finish, &event);
}

/* The usage of all choices together, when the last one has ended. */
static struct api_usage usage_of(const struct request *leader) {
    /* Tokens beyond a stop string, computed before the unit knew of it, are not the client's. */
    struct api_usage usage = {.prompt_tokens = leader->prompt_tokens};
    for (uint32_t i = 0; i < leader->choice_count; i++) {
        const struct request *choice = leader->choices[i];
        struct unit_work work = receipt_total(&choice->receipt, choice->prompt_tokens);
        if (i == 0) usage.prompt_hit_tokens = work.prompt_hit_tokens;
        usage.completion_tokens += request_told_tokens(choice);
        usage.reasoning_tokens += choice->words.reasoning_tokens;
        usage.drafts_made += work.drafts_made;
        usage.drafts_right += work.drafts_right;
    }
    return usage;
}

static void write_whole(struct json_writer *writer, const void *context) {
    const struct event *event = context;
    const struct request *leader = event->request;
    struct api_choice choices[LIMIT_CHOICES];
    for (uint32_t i = 0; i < leader->choice_count; i++) {
        const struct request *choice = leader->choices[i];
        choices[i] = (struct api_choice){
            .text = &choice->text,
            .echoed = choice->scored_count ? &choice->echoed : NULL,
            .tokens = &choice->tokens,
            .finish = answer_finish(choice),
        };
    }
    api_response_whole(writer, &leader->answer, choices, leader->choice_count, event->usage);
}

/* Empty if nobody asked for it. */
static struct bytes receipt_of(struct gateway *gateway, const struct request *leader) {
    if (!leader->wants_receipt) return BYTES_LITERAL("");
    arena_clear(&gateway->scratch);
    return receipt_text(gateway, leader);
}

static enum status end_whole(struct gateway *gateway, struct request *leader) {
    struct reply reply = {.connection = leader->connection,
                          .endpoint = request_endpoint(leader),
                          .http_status = 200,
                          .content_type = CONTENT_JSON,
                          .receipt = receipt_of(gateway, leader)};
    struct api_usage usage = usage_of(leader);
    struct event event = {.request = leader, .usage = &usage};
    return reply_whole(gateway, &reply, write_whole, &event);
}

/* No choice may be left without an answer: the request has failed as a whole. */
static enum status end_failed(struct gateway *gateway, struct request *leader) {
    struct api_error error = {0};
    struct event event = {.request = leader, .error = &error};
    const struct request *failed = leader->choices[leader->no_answer_choice];
    (void)finish_of(failed, failed->reason, &error);
    if (!leader->begun)
        return reply_error(gateway, leader->connection, request_endpoint(leader), &error);
    if (outbox_room(&gateway->outbox) < REPLY_FRAME_BYTES) return STATUS_FULL;
    say(gateway, leader, write_failed, &event);
    return reply_end(gateway, leader);
}

static enum status end_all(struct gateway *gateway, struct request *leader) {
    if (leader->no_answer) return end_failed(gateway, leader);
    if (!leader->stream) return end_whole(gateway, leader);
    struct api_usage usage = usage_of(leader);
    struct event event = {
        .request = leader, .usage = &usage, .receipt = receipt_of(gateway, leader)};
    say(gateway, leader, write_done, &event); /* end_request has made sure of room */
    return reply_end(gateway, leader);
}

static bool others_done(const struct request *request) {
    const struct request *leader = request->leader;
    for (uint32_t i = 0; i < leader->choice_count; i++)
        if (leader->choices[i] != request && leader->choices[i]->state != REQUEST_DONE)
            return false;
    return true;
}

static void give_up_others(struct gateway *gateway, struct request *request) {
    struct request *leader = request->leader;
    leader->no_answer = true;
    leader->no_answer_choice = (uint8_t)request->index;
    for (uint32_t i = 0; i < leader->choice_count; i++)
        if (leader->choices[i] != request && is_under_way(leader->choices[i]))
            cancel(gateway, leader->choices[i], ENDING_OTHER_FAILED);
}

static size_t end_bytes_max(const struct request *request) {
    size_t bytes = request->leader->choice_count * HANDOVER_CANCEL_BYTES;
    if (request->stream)
        bytes += 2 * REPLY_FRAME_BYTES + start_bytes_max(request) +
                 ESCAPED_PER_BYTE * 3 * TOKEN_STREAM_HELD_MAX +
                 request->leader->choice_count * RECEIPT_BYTES_MAX;
    return bytes;
}

/* One choice has ended; the last one to end ends the request. Nothing that is not undone by being
 * done again comes before the last STATUS_FULL. */
static enum status end_request(struct gateway *gateway, struct request *request,
                               const struct record_finished *record, int64_t now_ns) {
    struct request *leader = request->leader;
    struct api_error error = {0};
    bool last = others_done(request);
    request->reason = (uint8_t)record->reason;
    request->receipt.ended_ns = now_ns;
    if (leader->client_gone) return STATUS_OK;
    if (outbox_room(&gateway->outbox) < end_bytes_max(request)) return STATUS_FULL;
    const char *finish = finish_of(request, record->reason, &error);
    if (!finish && !leader->no_answer) give_up_others(gateway, request);
    if (!leader->no_answer && request->stream) end_choice(gateway, request, finish);
    if (!leader->no_answer && !request->stream) {
        struct pieces pieces = flush(gateway, request);
        if (pieces.count && !gather_pieces(gateway, request, &pieces))
            request->ending = ENDING_TOO_LONG;
    }
    return last ? end_all(gateway, leader) : STATUS_OK;
}

static enum status finish(struct gateway *gateway, struct request *request,
                          const struct record_finished *record, int64_t now_ns) {
    struct record_finished last = *record;
    last.work = receipt_total(&request->receipt, request->prompt_tokens);
    if (request->prompt_only) last.output_tokens = 0;
    enum status status = end_request(gateway, request, &last, now_ns);
    if (status) return status;
    dispatch_part(gateway, request);
    dispatch_remove(gateway, request);
    request->state = REQUEST_DONE;
    metrics_count_end(&gateway->metrics, &request->times, &last,
                      request->ending == ENDING_STOP_STRING, now_ns);
    if (!others_done(request)) return STATUS_OK;
    struct api_usage usage = usage_of(request->leader);
    if (!request->leader->no_answer)
        accounts_charge(&gateway->accounts, request->leader->account, &usage);
    request_release(gateway, request->leader);
    return STATUS_OK;
}

/* The unit that computed the prompt has left the request. */
static enum status prompt_finished(struct gateway *gateway, struct request *request,
                                   const struct record_finished *record, int64_t now_ns) {
    if (request->has_last_word) return finish(gateway, request, &request->last_word, now_ns);
    if (request->task == TASK_CONTINUED || request->state == REQUEST_ENDING) {
        handover_part(gateway, request);
        return STATUS_OK;
    }
    if (dispatch_retry(gateway, request, request->prefill, (enum finish_reason)record->reason,
                       now_ns))
        return STATUS_OK;
    if (outbox_room(&gateway->outbox) < end_bytes_max(request) + HANDOVER_CANCEL_BYTES)
        return STATUS_FULL;
    handover_cancel(gateway, request); /* nobody need go on */
    enum status status = finish(gateway, request, record, now_ns);
    check(status == STATUS_OK);
    return status;
}

enum status answer_finished(struct gateway *gateway, uint32_t unit,
                            const struct record_finished *record, int64_t now_ns) {
    struct request *request = request_find(gateway, record->request);
    if (!request || (request->unit != unit && request->prefill != unit)) return STATUS_OK;
    if (!receipt_is_credible(&record->work, request->prompt_tokens)) return STATUS_INVALID;
    if (outbox_room(&gateway->outbox) < HANDOVER_CANCEL_BYTES) return STATUS_FULL;
    receipt_note(&request->receipt, request->unit == unit ? RECEIPT_ANSWER : RECEIPT_PROMPT,
                 &record->work);
    if (request->prefill == unit && request->unit != unit)
        return prompt_finished(gateway, request, record, now_ns);
    if (dispatch_retry(gateway, request, unit, (enum finish_reason)record->reason, now_ns))
        return STATUS_OK;
    if (request->prefill != FLEET_NONE && request->state == REQUEST_SUBMITTED) {
        request->last_word = *record;
        request->has_last_word = true;
        return STATUS_OK;
    }
    return finish(gateway, request, record, now_ns);
}

enum status answer_end(struct gateway *gateway, struct request *request, int64_t now_ns) {
    struct record_finished last = {
        .request = request->id, .reason = request->reason, .output_tokens = request->output_tokens};
    return finish(gateway, request, &last, now_ns);
}

enum status answer_client_gone(struct gateway *gateway, const struct record_client_gone *record) {
    struct request *request = request_of_connection(gateway, record->connection);
    if (!request) return STATUS_OK; /* it has had its answer */
    if (outbox_room(&gateway->outbox) < request->choice_count * HANDOVER_CANCEL_BYTES)
        return STATUS_FULL;
    gateway->metrics.cancelled++;
    if (!request->begun) metrics_count_answer(&gateway->metrics, request_endpoint(request), 499);
    if (request->state == REQUEST_TOKENIZING || request->state == REQUEST_UNSETTLED) {
        request_release(gateway, request);
        return STATUS_OK;
    }
    request_forget_connection(gateway, request);
    for (uint32_t i = 0; i < request->choice_count; i++)
        if (is_under_way(request->choices[i]))
            cancel(gateway, request->choices[i], ENDING_CLIENT_GONE);
    return STATUS_OK;
}

enum status answer_shut_down(struct gateway *gateway, struct request *leader) {
    if (leader->state == REQUEST_TOKENIZING || leader->state == REQUEST_UNSETTLED)
        return intake_give_up(gateway, leader);
    if (outbox_room(&gateway->outbox) < leader->choice_count * HANDOVER_CANCEL_BYTES)
        return STATUS_FULL;
    for (uint32_t i = 0; i < leader->choice_count; i++)
        if (is_under_way(leader->choices[i])) cancel(gateway, leader->choices[i], ENDING_DRAINING);
    return STATUS_OK;
}

enum status answer_keep_alive(struct gateway *gateway, struct request *request) {
    struct event event = {.request = request};
    size_t room = sizeof(struct record_stream_begin) + sizeof(struct record_stream_data) + 64;
    if (outbox_room(&gateway->outbox) < room) return STATUS_FULL;
    if (!request->begun) {
        enum status status = reply_begin(gateway, request);
        check(status == STATUS_OK);
    }
    say(gateway, request, write_keep_alive, &event);
    return STATUS_OK;
}
