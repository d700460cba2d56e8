/* SPDX-License-Identifier: Apache-2.0
 * Each function first makes sure that the outbox has room for everything it may send, and acts only
 * then, because the state of a token stream cannot be rolled back.
 */
#include "serving/gateway/answer.h"

#include "base/check.h"
#include "base/number.h"
#include "contract/step_plan.h"
#include "serving/gateway/admission.h"
#include "serving/gateway/handover.h"
#include "serving/gateway/reply.h"
#include "serving/gateway/stream_writer.h"

/* ---- the prompt's log probabilities ---- */

/* Adds log probabilities of the prompt to a list, after the first prompt token, which has none.
 * Units do not send that one. */
static bool add_scores(const struct request *request, const struct token_logprob *scores,
                       uint32_t count, struct token_list *list, struct arena *arena) {
    const struct request_asked *asked = &request->asked;
    struct token_logprob first[TOKEN_LOGPROBS_MAX] = {{.token = asked->prompt[0]}};
    uint32_t each = 1 + asked->sampling.top_logprobs;
    bool added = true;
    list->is_prompt = true;
    if (list->count == 0 && asked->frame) {
        uint32_t text_end = asked->prompt_tokens - asked->frame->back_count;
        uint32_t at = request->answered.scored_count;
        list->hidden_front = asked->frame->front_count > at ? asked->frame->front_count - at : 0;
        list->hidden_back = text_end > at ? text_end - at : 0;
    } else if (list->count == 0) {
        list->hidden_back = UINT32_MAX;
    }
    if (request->answered.scored_count == 0) {
        list->has_first = true;
        added = token_list_add(list, arena, first, each);
    }
    for (uint32_t i = 0; i < count && added; i++)
        added = token_list_add(list, arena, scores + (size_t)i * each, each);
    return added;
}

/* Makes a list of the scores in scratch memory. */
static struct token_list list_scores(struct gateway *gateway, const struct request *request,
                                     const struct token_logprob *scores, uint32_t count) {
    struct token_list list = {.text_offset = request->answered.tokens.text_offset};
    arena_clear(&gateway->scratch);
    bool added = add_scores(request, scores, count, &list, &gateway->scratch);
    check(added); /* it takes a few KiB */
    return list;
}

static size_t scores_json_bytes(const struct request *request, const struct token_list *list) {
    struct json_writer counter = {0};
    api_tokens_completion_logprobs(&counter, request->asked.answer.tokenizer, list, NULL, 0, 0);
    return counter.count;
}

struct characters {
    const struct tokenizer *tokenizer;
    const struct token_list *list;
    uint32_t count;
};

static void answer_count_characters(void *context, uint32_t index,
                                    const struct token_logprob *entries) {
    struct characters *characters = context;
    characters->count +=
        api_tokens_characters(characters->tokenizer, characters->list, index, entries[0].token);
}

/* Keeps or sends scores of the prompt. STATUS_FULL: nothing has changed. Ends the request if not
 * all of them can be kept, because a client would take a part for the whole. */
static enum status answer_take_scores(struct gateway *gateway, struct request *request,
                                      const struct token_logprob *scores, uint32_t count) {
    struct request_answered *answered = &request->answered;
    struct token_list list = list_scores(gateway, request, scores, count);
    size_t json_bytes = scores_json_bytes(request, &list), room = REQUEST_CANCEL_BYTES;
    size_t said =
        stream_writer_frame_bytes(request) + stream_writer_start_bytes_max(request) + json_bytes;
    bool stream = request->asked.stream;
    bool fits = stream ? room + said <= gateway->outbox.capacity
                       : stream_writer_has_room(gateway, request, json_bytes);
    if (stream && fits) room += said;
    if (!gateway_can_put(gateway, room)) return STATUS_FULL;
    bool added =
        !fits || stream || add_scores(request, scores, count, &answered->echoed, &request->arena);
    if (!fits || !added) {
        request_cancel(gateway, request, fits ? CAUSE_NO_MEMORY : CAUSE_ECHO_TOO_LONG);
        return STATUS_OK;
    }
    if (stream) {
        stream_writer_start(gateway, request);
        stream_writer_say_echo(gateway, request, &list);
    }
    struct characters characters = {gateway->options.tokenizer, &list, 0};
    token_list_visit(&list, 0, list.count, answer_count_characters, &characters);
    answered->tokens.text_offset += characters.count;
    answered->tokens_json_bytes += stream ? 0 : json_bytes;
    answered->scored_count += list.count;
    return STATUS_OK;
}

/* False if no correct unit would send this record for a request that asks for scores. */
static bool are_credible(const struct gateway *gateway, const struct request *request,
                         const struct record_scores *record) {
    const struct request_asked *asked = &request->asked;
    const struct token_logprob *scores = scores_logprobs(record);
    uint32_t reported = request->answered.scored_count ? request->answered.scored_count : 1;
    if (!(asked->sampling.flags & SAMPLING_SCORES) ||
        record->logprobs_each != 1 + asked->sampling.top_logprobs ||
        record->first_position > reported ||
        (uint64_t)record->first_position + record->token_count > asked->prompt_tokens)
        return false;
    for (uint32_t i = 0; i < record->token_count * record->logprobs_each; i++) {
        uint32_t place = record->first_position + i / record->logprobs_each;
        bool own = i % record->logprobs_each == 0;
        if (own && scores[i].token != asked->prompt[place]) return false;
        if (scores[i].token >= gateway->fleet.model.vocab_count) return false;
    }
    return true;
}

enum status answer_scores(struct gateway *gateway, uint32_t unit,
                          const struct record_scores *record) {
    struct request *request = request_find(gateway, record->request);
    if (!request || unit != request_speaker(request)) return STATUS_OK;
    if (!are_credible(gateway, request, record)) return STATUS_INVALID;
    const struct token_logprob *scores = scores_logprobs(record);
    uint32_t reported = request->answered.scored_count ? request->answered.scored_count : 1;
    uint32_t known = reported - record->first_position;
    if (known >= record->token_count) return STATUS_OK; /* repeats */
    return answer_take_scores(gateway, request, scores + (size_t)known * record->logprobs_each,
                              record->token_count - known);
}

enum status answer_progress(struct gateway *gateway, uint32_t unit,
                            const struct record_progress *record, int64_t now_ns) {
    struct request *request = request_find(gateway, record->request);
    if (!request || unit != request_speaker(request)) return STATUS_OK;
    if (record->ready_tokens >= request->asked.prompt_tokens) return STATUS_INVALID;
    request_note_prompt(gateway, request, record, now_ns);
    return STATUS_OK;
}

/* ---- newly chosen tokens ---- */

/* The most bytes of text that these tokens can release. */
static size_t text_bytes_max(const struct gateway *gateway, const struct answer_delta *delta) {
    size_t bytes = TOKEN_STREAM_HELD_MAX;
    if (!gateway->options.tokenizer) return bytes;
    for (uint32_t i = 0; i < delta->token_count; i++)
        bytes += TOKEN_STREAM_GROWTH_MAX *
                 tokenizer_token_bytes(gateway->options.tokenizer, delta->tokens[i]).count;
    return bytes;
}

static bool reports_tokens(const struct request *request) {
    return request->asked.answer.token_ids || request->asked.answer.logprobs;
}

/* Returns the log probabilities of the i-th token. Fills and returns `bare` if none were asked
 * for. */
static const struct token_logprob *entries_of(const struct request *request,
                                              const struct answer_delta *delta, uint32_t i,
                                              struct token_logprob *bare, uint32_t *each_out) {
    bool reported = request->asked.answer.logprobs && delta->each > 0;
    *bare = (struct token_logprob){.token = delta->tokens[i]};
    *each_out = reported ? delta->each : 1;
    return reported ? delta->logprobs + (size_t)i * delta->each : bare;
}

/* The most bytes of JSON that these tokens need. */
static size_t tokens_json_bytes_max(const struct request *request,
                                    const struct answer_delta *delta) {
    const struct api_answer *answer = &request->asked.answer;
    size_t bytes = answer->token_ids ? (size_t)delta->token_count * API_TOKENS_ID_BYTES_MAX : 0;
    for (uint32_t i = 0; i < delta->token_count && answer->logprobs; i++) {
        struct token_logprob bare;
        uint32_t each;
        const struct token_logprob *entries = entries_of(request, delta, i, &bare, &each);
        bytes += api_tokens_bytes_max(answer->tokenizer, entries, each);
    }
    return bytes;
}

/* Adds the i-th new token to a list, with its log probabilities if asked for. False: out of
 * memory. */
static bool answer_add_token(const struct request *request, const struct answer_delta *delta,
                             uint32_t i, struct token_list *list, struct arena *arena) {
    struct token_logprob bare;
    uint32_t each;
    const struct token_logprob *entries = entries_of(request, delta, i, &bare, &each);
    return token_list_turn(list, arena, delta->reasons[i]) &&
           token_list_add(list, arena, entries, request->asked.answer.logprobs ? each : 0);
}

/* Keeps token i, because another unit needs the answer's tokens to continue it. A request that is
 * out of memory continues without them, but can no longer move to another unit. */
static bool keep_token(struct request *request, const struct answer_delta *delta, uint32_t i) {
    struct request_answered *answered = &request->answered;
    bool whole = answered->tokens.count == answered->output_tokens;
    answered->last_token = delta->tokens[i];
    answered->output_tokens++;
    if (!whole) return false;
    if (!request->asked.stream || stream_writer_repeats_tokens(request))
        return answer_add_token(request, delta, i, &answered->tokens, &request->arena);
    struct token_logprob bare = {.token = delta->tokens[i]};
    return token_list_turn(&answered->tokens, &request->arena, delta->reasons[i]) &&
           token_list_add(&answered->tokens, &request->arena, &bare, 0);
}

static enum request_cause push_token(const struct gateway *gateway, struct request *request,
                                     uint32_t token, struct answer_delta *delta) {
    if (!gateway->options.tokenizer) return CAUSE_NONE;
    bool stopped = token_stream_push(&request->answered.words, token, stream_writer_add, delta);
    return delta->calls_ended ? CAUSE_ONE_CALL : stopped ? CAUSE_STOP_STRING : CAUSE_NONE;
}

/* Pushes the new tokens through the request's stream, up to the one that ends the answer. */
static void push_tokens(struct gateway *gateway, struct request *request,
                        struct answer_delta *delta) {
    const struct request_answered *answered = &request->answered;
    stream_writer_open(gateway, request, text_bytes_max(gateway, delta), delta);
    delta->reasons = arena_take(&gateway->scratch, delta->token_count * sizeof *delta->reasons);
    check(delta->reasons); /* it is smaller than the room for the tokens' text */
    for (uint32_t i = 0; i < delta->token_count && !delta->ends; i++) {
        uint32_t before = answered->words.reasoning_tokens;
        delta->token_at = answered->output_tokens + i;
        delta->ends = push_token(gateway, request, delta->tokens[i], delta);
        delta->reasons[i] = answered->words.reasoning_tokens > before;
        if (i && delta->reasons[i] != delta->reasons[i - 1]) delta->turn_count++;
        delta->taken++;
    }
}

/* Counts the JSON of tokens that the last events of a stream repeat. If not all tokens can be kept,
 * the last events repeat none. The count is exact, because repeated text may use all of its
 * memory. */
static void count_repeated(const struct gateway *gateway, struct request *request,
                           const struct token_list *list, bool kept) {
    struct request_answered *answered = &request->answered;
    struct json_writer counter = {0};
    bool first = answered->output_tokens == list->count;
    if (!first && answered->tokens_json_bytes == 0) return;
    api_tokens_logprobs(&counter, request->asked.answer.tokenizer, list, 0, list->count);
    answered->tokens_json_bytes += counter.count;
    if (!kept || !stream_writer_has_room(gateway, request, 0)) answered->tokens_json_bytes = 0;
}

static void take_streamed(struct gateway *gateway, struct request *request,
                          struct answer_delta *delta) {
    struct request_answered *answered = &request->answered;
    struct token_list *list = &delta->list;
    bool kept = true;
    list->text_offset = answered->tokens.text_offset;
    for (uint32_t i = 0; i < delta->taken; i++) {
        bool reported = !reports_tokens(request) ||
                        answer_add_token(request, delta, i, list, &gateway->scratch);
        check(reported); /* they fit the outbox, which is smaller */
        answered->tokens.text_offset +=
            api_tokens_characters(gateway->options.tokenizer, list, i, delta->tokens[i]);
        kept &= keep_token(request, delta, i);
    }
    if (stream_writer_repeats_tokens(request)) count_repeated(gateway, request, list, kept);
    if (!stream_writer_report(gateway, request, delta)) delta->ends = CAUSE_TOO_LONG;
}

static void take_whole(struct gateway *gateway, struct request *request,
                       struct answer_delta *delta) {
    struct request_answered *answered = &request->answered;
    size_t json_bytes = tokens_json_bytes_max(request, delta);
    bool fits = stream_writer_has_room(gateway, request, json_bytes);
    if (fits) {
        answered->tokens_json_bytes += json_bytes;
        for (uint32_t i = 0; i < delta->taken; i++)
            fits &= keep_token(request, delta, i) || !reports_tokens(request);
        fits = stream_writer_report(gateway, request, delta) && fits;
    }
    if (!fits) delta->ends = CAUSE_TOO_LONG;
}

static void answer_take(struct gateway *gateway, struct request *request,
                        struct answer_delta *delta) {
    if (request->asked.prompt_only) {
        request->answered.output_tokens += delta->token_count;
        request->answered.last_token = delta->tokens[delta->token_count - 1];
    } else if (request->asked.stream) {
        stream_writer_start(gateway, request);
        take_streamed(gateway, request, delta);
    } else {
        take_whole(gateway, request, delta);
    }
    if (delta->ends) request_cancel(gateway, request, delta->ends);
}

/* The most outbox bytes for the new tokens, which have been pushed. */
static size_t take_bytes_max(const struct gateway *gateway, const struct request *request,
                             const struct answer_delta *delta) {
    size_t bytes = gateway->token_bytes;
    if (!request->asked.stream || request->asked.prompt_only) return bytes;
    uint32_t times = stream_writer_repeats_tokens(request) ? 1 + stream_writer_repeats(request) : 1;
    return bytes + stream_writer_start_bytes_max(request) +
           stream_writer_bytes_max(request, delta) + times * tokens_json_bytes_max(request, delta);
}

#define PIECES_WITHOUT_CALLS 4 /* pieces of text that was held back */
#define PIECES_PER_TOKEN 2     /* additional pieces: a tag is one token or several */

/* An upper bound of take_bytes_max before the tokens are pushed. Each piece of text has at least a
 * byte. */
static size_t take_bytes_ever(const struct gateway *gateway, const struct request *request,
                              struct answer_delta *delta) {
    delta->text_count = request->asked.stream ? text_bytes_max(gateway, delta) : 0;
    delta->piece_count = request->answered.words.calls.set
                             ? (uint32_t)delta->text_count
                             : PIECES_WITHOUT_CALLS + PIECES_PER_TOKEN * delta->token_count;
    delta->turn_count = delta->token_count;
    size_t bytes = take_bytes_max(gateway, request, delta);
    delta->text_count = delta->piece_count = delta->turn_count = 0;
    return bytes;
}

/* Pushes the new tokens. Returns false and changes nothing but the delta if the outbox has no room
 * for their text. A stream is large and cannot be rolled back, so it is copied only if that may be
 * necessary. */
static bool speak_if_room(struct gateway *gateway, struct request *request,
                          struct answer_delta *delta) {
    if (request->asked.prompt_only)
        return gateway_can_put(gateway, take_bytes_max(gateway, request, delta));
    bool roomy = gateway_can_put(gateway, take_bytes_ever(gateway, request, delta));
    struct token_stream before;
    if (!roomy) before = request->answered.words;
    push_tokens(gateway, request, delta);
    size_t room = take_bytes_max(gateway, request, delta);
    check(room <= gateway->outbox.capacity);
    if (gateway_can_put(gateway, room)) return true;
    check(!roomy);
    request->answered.words = before;
    return false;
}

/* False if no correct unit would send this record for this request. */
static bool answer_is_credible(const struct gateway *gateway, const struct request *request,
                               enum request_part part, const struct record_tokens *record) {
    const struct request_asked *asked = &request->asked;
    uint32_t each =
        asked->sampling.flags & SAMPLING_LOGPROBS ? 1 + asked->sampling.top_logprobs : 0;
    const uint32_t *tokens = tokens_chosen(record);
    if (record->work_count ? !receipt_is_credible(tokens_work(record), asked->prompt_tokens)
                           : !request->answered.receipt.parts[part].reported)
        return false;
    if (request_scores(request) && asked->prompt_tokens > 1) return false; /* scores come first */
    if (record->first_output_position > request->answered.output_tokens ||
        record->logprobs_each != each ||
        (uint64_t)record->first_output_position + record->token_count > asked->new_tokens_max)
        return false;
    for (uint32_t i = 0; i < record->token_count; i++)
        if (tokens[i] >= gateway->fleet.model.vocab_count) return false;
    return true;
}

enum status answer_tokens(struct gateway *gateway, uint32_t unit,
                          const struct record_tokens *record, int64_t now_ns) {
    struct request *request = request_find(gateway, record->request);
    if (!request || unit != request_speaker(request)) return STATUS_OK;
    bool computes = request->life.state == REQUEST_PREFILLING;
    enum request_part part = computes ? PART_PROMPT : PART_ANSWER;
    if (!answer_is_credible(gateway, request, part, record)) return STATUS_INVALID;
    if (request_scores(request)) { /* a prompt of one token has no scores */
        enum status status = answer_take_scores(gateway, request, NULL, 0);
        if (status || request_speaker(request) == FLEET_NONE) return status;
    }
    uint32_t known = request->answered.output_tokens - record->first_output_position;
    const struct unit_work *work = record->work_count ? tokens_work(record) : NULL;
    if (known >= record->token_count) { /* repeats */
        if (work) receipt_note(&request->answered.receipt, part, work);
        return STATUS_OK;
    }
    struct answer_delta delta = {
        .tokens = tokens_chosen(record) + known,
        .token_count = record->token_count - known,
        .logprobs = tokens_logprobs(record) + (size_t)known * record->logprobs_each,
        .each = record->logprobs_each,
    };
    if (!speak_if_room(gateway, request, &delta)) return STATUS_FULL;
    request_note(gateway, request, part, work, record->first_output_position + record->token_count);
    receipt_choose(&request->answered.receipt, part);
    metrics_count_tokens(&gateway->metrics, &request->times, now_ns);
    admission_note_tokens(gateway, request, now_ns);
    request_progress(gateway, request);
    answer_take(gateway, request, &delta);
    enum finish_reason reason;
    if (request->life.state == REQUEST_PREFILLING && !request_is_whole(request, &reason))
        handover_continue(gateway, request, delta.tokens, delta.token_count);
    return STATUS_OK;
}
