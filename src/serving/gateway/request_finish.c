/* SPDX-License-Identifier: Apache-2.0
 * Only `end` leads from a state with units, or from FINISHING, to DONE. If the outbox is full it is
 * called again, so everything up to that point is repeatable.
 *
 * The last choice to end puts the request's ledger entry, followed by the records that close the
 * answer. If there is a ledger, these records wait in COMMITTING until it commits the entry.
 */
#include "serving/gateway/request_finish.h"

#include "base/check.h"
#include "serving/gateway/dialects/openai_words.h"
#include "serving/gateway/reply.h"
#include "serving/gateway/resume.h"
#include "serving/gateway/stream_writer.h"
#include "serving/gateway/usage_record.h"

/* ---- the report to the client ---- */

/* How the choice ended according to its unit; NONE: there is no answer. */
static enum api_finish finish_by_reason(const struct request *request) {
    const struct request_answered *answered = &request->answered;
    switch ((enum finish_reason)request->unreported.reason) {
    case FINISH_STOP_TOKEN: /* a request for no tokens is complete */
        if (request->asked.prompt_only) return API_FINISH_LENGTH;
        return answered->calls.count ? API_FINISH_CALLS : API_FINISH_STOP;
    case FINISH_LENGTH:
        return API_FINISH_LENGTH;
    case FINISH_REFUSED_QUEUE:
    case FINISH_REFUSED_TOO_LARGE:
    case FINISH_REFUSED_DRAINING:
        return API_FINISH_NONE;
    case FINISH_CANCELLED:
    case FINISH_FAILED:
    case FINISH_HANDED_OVER: /* no unit was asked to hand over */
    case FINISH_REASON_COUNT:
        break;
    }
    return answered->output_tokens ? API_FINISH_CUT : API_FINISH_NONE;
}

/* How the choice ended; NONE: there is no answer. */
static enum api_finish finish_of(const struct request *request) {
    /* The unit may have ended it for another reason before CANCEL reached it. */
    switch ((enum request_cause)request->unreported.cause) {
    case CAUSE_STOP_STRING:
        return API_FINISH_STOP_STRING;
    case CAUSE_ONE_CALL:
        return API_FINISH_CALLS;
    case CAUSE_TOO_LONG:
    case CAUSE_QUEUED_LONG:
        return API_FINISH_CUT;
    case CAUSE_ECHO_TOO_LONG:
    case CAUSE_NO_MEMORY:
    case CAUSE_NO_UNIT:
    case CAUSE_NUMERICS_GONE:
    case CAUSE_DRAINING:
        return API_FINISH_NONE;
    case CAUSE_NONE:
    case CAUSE_CLIENT_GONE:
    case CAUSE_OTHER_FAILED:
        break;
    }
    return finish_by_reason(request);
}

/* The stop string that ended the choice; empty: none did. */
static struct bytes stop_of(const struct request *request) {
    const struct token_stream *words = &request->answered.words;
    if (request->unreported.cause != CAUSE_STOP_STRING) return BYTES_LITERAL("");
    const struct stop_string *stop = &words->stops->strings[words->stopped_by];
    return (struct bytes){stop->text, stop->bytes};
}

static void explain_reason(enum finish_reason reason, struct api_error *error) {
    switch (reason) {
    case FINISH_REFUSED_QUEUE:
        api_error_set(error, 429, NULL, "queue_full",
                      "The queue of the model is full. Try again later.");
        error->limit = USAGE_LIMIT_QUEUE;
        break;
    case FINISH_REFUSED_TOO_LARGE:
        api_error_set(error, 400, NULL, "context_length_exceeded",
                      "The prompt is too long: it exceeds the context window of the model, or the "
                      "memory of its units. Shorten it.");
        return;
    case FINISH_REFUSED_DRAINING:
        api_error_draining(error);
        return;
    default:
        api_error_set(error, 503, NULL, "engine_failed",
                      "The model could not compute an answer. Try again.");
    }
    error->retry_after_seconds = 1;
}

/* Explains why there is no answer. */
static void request_finish_explain(const struct request *request, struct api_error *error) {
    switch ((enum request_cause)request->unreported.cause) {
    case CAUSE_ECHO_TOO_LONG:
        api_error_echo_size(error, "", "");
        return;
    case CAUSE_NO_MEMORY:
        api_error_no_memory(error);
        return;
    case CAUSE_NO_UNIT:
        api_error_no_unit(error);
        return;
    case CAUSE_NUMERICS_GONE:
        api_error_set(error, 503, NULL, "numerics_gone",
                      "No unit that computes as this answer began has been there for too long. "
                      "Ask again.");
        error->retry_after_seconds = 1;
        return;
    case CAUSE_DRAINING:
        api_error_draining(error);
        return;
    default:
        explain_reason((enum finish_reason)request->unreported.reason, error);
    }
}

/* The usage of all choices together, when the last one has ended. Each prompt counts once, with the
 * hits of its first answer. */
static struct api_usage request_finish_usage_of(const struct request *leader) {
    /* Tokens after a stop string, computed before the unit was cancelled, are not the client's. */
    struct api_usage usage = {0};
    for (uint32_t i = 0; i < leader->choice_count; i++) {
        const struct request *choice = leader->choices[i];
        uint32_t prompt_tokens = choice->asked.prompt_tokens;
        struct unit_work work = receipt_total(&choice->answered.receipt, prompt_tokens);
        if (choice->head == choice) {
            usage.prompt_tokens += prompt_tokens;
            usage.prompt_hit_tokens += work.prompt_hit_tokens;
        }
        usage.completion_tokens += request_reported_tokens(choice);
        usage.reasoning_tokens += choice->answered.words.reasoning_tokens;
        usage.drafts_made += work.drafts_made;
        usage.drafts_right += work.drafts_right;
    }
    const struct metrics_times *times = &leader->times;
    usage.prompt_ns = times->has_token ? times->first_token_ns - times->arrived_ns : 0;
    usage.answer_ns = times->has_token ? times->last_token_ns - times->first_token_ns : 0;
    return usage;
}

/* Prompt tokens that a unit obtained, by computing them or from the prefix cache. */
static uint32_t obtained_tokens(const struct unit_work *work) {
    return work->device_tokens + work->host_tokens + work->disk_tokens + work->computed_tokens;
}

/* Adds the charge of a prompt. It is all of the prompt once one of its answers has a token, or if
 * the client was sent that usage. If the client left before, it is the part that the most advanced
 * answer obtained. A client may be sent the usage of a prompt that never ran, but that is not
 * charged. */
static void book_prompt(const struct request *prompt, struct api_usage *usage) {
    const struct request *leader = prompt->leader;
    uint32_t prompt_tokens = prompt->asked.prompt_tokens, tokens = 0, hit_tokens = 0;
    for (uint32_t i = 0; i < leader->choice_count && tokens < prompt_tokens; i++) {
        const struct request *choice = leader->choices[i];
        if (choice->head != prompt) continue;
        struct unit_work work = receipt_total(&choice->answered.receipt, prompt_tokens);
        if (work.queue_ns < 0) continue; /* no unit has begun the prompt */
        uint32_t obtained = obtained_tokens(&work);
        if (choice->times.has_token || !(leader->unreported.gone || leader->unreported.failed)) {
            tokens = prompt_tokens;
            hit_tokens = receipt_total(&prompt->answered.receipt, tokens).prompt_hit_tokens;
        } else if (obtained > tokens) {
            tokens = obtained;
            hit_tokens = obtained - work.computed_tokens;
        }
    }
    usage->prompt_tokens += tokens;
    usage->prompt_hit_tokens += hit_tokens;
}

/* The usage to charge: limited to the work that was done for the prompts. */
static struct api_usage booked_of(const struct request *leader) {
    struct api_usage usage = request_finish_usage_of(leader);
    usage.prompt_tokens = usage.prompt_hit_tokens = 0;
    for (uint32_t i = 0; i < leader->choice_count; i++)
        if (leader->choices[i]->head == leader->choices[i]) book_prompt(leader->choices[i], &usage);
    return usage;
}

/* Writes the receipts of all choices as one line of JSON: an object, or an array for several.
 * Clears the scratch memory and writes there. Empty if none was asked for. */
static struct bytes receipts_of(struct gateway *gateway, const struct request *leader) {
    if (!leader->asked.wants_receipt) return BYTES_LITERAL("");
    size_t room = leader->choice_count * RECEIPT_BYTES_MAX;
    arena_clear(&gateway->scratch);
    struct json_writer writer = {.out = arena_take(&gateway->scratch, room), .room = room};
    check(writer.out);
    if (leader->choice_count > 1) json_writer_text(&writer, "[");
    for (uint32_t i = 0; i < leader->choice_count; i++) {
        const struct request *choice = leader->choices[i];
        struct receipt receipt = request_receipt(gateway, choice);
        struct receipt_head head = {.request = choice->id,
                                    .index = i,
                                    .finish = openai_words_finish(finish_of(choice)),
                                    .prompt_tokens = choice->asked.prompt_tokens,
                                    .output_tokens = request_reported_tokens(choice),
                                    .times = &choice->times,
                                    .left_out = choice->asked.left_out,
                                    .differs_at = choice->asked.differs_at,
                                    .differs_role = choice->asked.differs_role};
        if (i > 0) json_writer_text(&writer, ",");
        receipt_write(&writer, &receipt, &head);
    }
    if (leader->choice_count > 1) json_writer_text(&writer, "]");
    check(json_writer_fits(&writer));
    return (struct bytes){writer.out, writer.count};
}

/* ---- the records that close the answer, when the last choice ends ---- */

struct closing { /* context of the writers below */
    const struct request *leader;
    struct api_usage usage;
    struct bytes receipt;
};

static void request_finish_write_whole(struct json_writer *writer, const void *context) {
    const struct closing *closing = context;
    const struct request *leader = closing->leader;
    struct api_choice choices[LIMIT_ANSWERS];
    for (uint32_t i = 0; i < leader->choice_count; i++) {
        const struct request *choice = leader->choices[i];
        choices[i] = stream_writer_choice(choice, finish_of(choice), stop_of(choice));
    }
    const struct api_answer *answer = &leader->asked.answer;
    answer->dialect->write_whole(writer, answer, choices, leader->choice_count, &closing->usage);
}

static void request_finish_write_done(struct json_writer *writer, const void *context) {
    const struct closing *closing = context;
    const struct request *leader = closing->leader;
    const struct api_answer *answer = &leader->asked.answer;
    struct api_choice whole = stream_writer_choice(leader, finish_of(leader), stop_of(leader));
    struct dialect_place place = leader->unreported.place;
    struct api_event event = {.kind = API_EVENT_DONE,
                              .usage = closing->usage,
                              .receipt = closing->receipt,
                              .finish = whole.finish,
                              .stop = whole.stop,
                              .whole = answer->dialect->repeats ? &whole : NULL};
    answer->dialect->write_event(writer, answer, &place, &event);
}

static enum status request_finish_report_all(struct gateway *gateway, struct request *leader) {
    struct closing closing = {leader, request_finish_usage_of(leader),
                              receipts_of(gateway, leader)};
    if (leader->asked.stream) {
        enum status status = reply_data(gateway, leader, request_finish_write_done, &closing);
        check(status == STATUS_OK); /* end_bytes_max */
        return reply_end(gateway, leader);
    }
    return reply_answer(gateway, leader, closing.receipt, request_finish_write_whole, &closing);
}

static enum status report_failed(struct gateway *gateway, const struct request *leader) {
    struct api_error error = {0};
    request_finish_explain(leader->unreported.failed, &error);
    return reply_no_answer(gateway, leader, &error);
}

static enum status report_closing(struct gateway *gateway, struct request *leader) {
    if (leader->unreported.gone) return STATUS_OK;
    return leader->unreported.failed ? report_failed(gateway, leader)
                                     : request_finish_report_all(gateway, leader);
}

/* ---- the ledger entry ---- */

/* True if the end of the answer must wait until the ledger has committed the entry. */
static bool waits_for_ledger(const struct gateway *gateway, const struct request *leader) {
    return gateway->options.settles && !leader->unreported.failed && !leader->unreported.gone;
}

/* Answers are charged. Failures of the service are not. A request that fails because of its own
 * content is charged for all work of units, including its other choices. Otherwise one prompt that
 * can never be answered would make the others free. */
static bool is_charged(const struct api_error *error, const struct api_usage *booked) {
    bool by_itself = error->http_status < 500 && error->http_status != 429;
    return by_itself && booked->prompt_tokens + booked->completion_tokens > 0;
}

static struct usage_fate fate_of(const struct request *leader) {
    struct api_error error = {0};
    struct api_usage booked = booked_of(leader);
    if (leader->unreported.failed) {
        request_finish_explain(leader->unreported.failed, &error);
        bool charged = is_charged(&error, &booked);
        return (struct usage_fate){.http_status = reply_reported_status(leader, &error),
                                   .is_charged = charged,
                                   .end = error.code,
                                   .usage = charged ? booked : (struct api_usage){0},
                                   .limit = error.limit};
    }
    const char *end =
        leader->unreported.gone ? "client_gone" : openai_words_finish(finish_of(leader));
    return (struct usage_fate){.http_status = leader->unreported.gone ? 499 : 200,
                               .is_charged = true,
                               .end = end,
                               .usage = booked};
}

/* The last of the leader's choices ends: puts its entry, and the records that close the answer,
 * unless they have to wait. STATUS_FULL: neither. */
static enum status close_answer(struct gateway *gateway, struct request *leader,
                                const struct usage_fate *fate, int64_t now_ns) {
    struct usage_mark mark = usage_record_mark(gateway);
    enum status status = usage_record_put(gateway, leader, fate, now_ns);
    if (!status && !waits_for_ledger(gateway, leader)) status = report_closing(gateway, leader);
    if (status) usage_record_take_back(gateway, mark);
    return status;
}

/* ---- the end of a choice ---- */

static bool others_are_done(const struct request *request) {
    const struct request *leader = request->leader;
    for (uint32_t i = 0; i < leader->choice_count; i++)
        if (leader->choices[i] != request && leader->choices[i]->life.state != REQUEST_DONE)
            return false;
    return true;
}

/* The most outbox bytes of the end of a choice with the remaining text `rest`, except a whole
 * answer. */
static size_t end_bytes_max(const struct request *request, const struct answer_delta *rest) {
    size_t choices = request->leader->choice_count;
    size_t bytes = choices * REQUEST_CANCEL_BYTES + USAGE_BYTES_MAX;
    if (request->asked.stream) /* FINISH, DONE (usage and receipts) or FAILED; STREAM_END */
        bytes += stream_writer_start_bytes_max(request) + stream_writer_bytes_max(request, rest) +
                 4 * stream_writer_frame_bytes(request) + stream_writer_reported_bytes(request) +
                 choices * RECEIPT_BYTES_MAX;
    return bytes;
}

/* Cancels the choices in progress, except one (NULL: all). */
static void cancel_choices(struct gateway *gateway, struct request *leader,
                           const struct request *but, enum request_cause cause) {
    for (uint32_t i = 0; i < leader->choice_count; i++)
        if (leader->choices[i] != but && request_is_under_way(leader->choices[i]))
            request_cancel(gateway, leader->choices[i], cause);
}

static enum status request_finish_report_end(struct gateway *gateway, struct request *request) {
    struct request *leader = request->leader;
    struct token_stream before = request->answered.words;
    struct answer_delta rest;
    stream_writer_flush(gateway, request, &rest);
    if (!gateway_can_put(gateway, end_bytes_max(request, &rest))) {
        request->answered.words = before;
        return STATUS_FULL;
    }
    request->answered.flushed = true;
    if (!finish_of(request) &&
        !leader->unreported.failed) { /* then the other choices have no answer, either */
        leader->unreported.failed = request;
        cancel_choices(gateway, leader, request, CAUSE_OTHER_FAILED);
    }
    if (leader->unreported.failed) return STATUS_OK;
    if (request->asked.stream) stream_writer_start(gateway, request);
    if (!stream_writer_report(gateway, request, &rest)) request->unreported.cause = CAUSE_TOO_LONG;
    bool last = others_are_done(request);
    if (request->asked.stream && !(last && waits_for_ledger(gateway, leader)))
        stream_writer_say_finish(gateway, request, finish_of(request), stop_of(request));
    leader->unreported.unfinished = request;
    return STATUS_OK;
}

/* Learns the lengths of answers, which turns and predicted waits depend on. */
static void learn_lengths(struct gateway *gateway, const struct request *leader) {
    bool wanted = gateway->accounts.asked_for || gateway->options.ttft_limit_ns;
    if (!wanted || leader->asked.prompt_only) return;
    for (uint32_t i = 0; i < leader->choice_count && !leader->unreported.gone; i++)
        predict_length_learn(&gateway->lengths, leader->choices[i]->answered.output_tokens);
}

/* Replaces the tokens reserved in the account's rate by those used, and the reserved money by the
 * cost. */
static void request_finish_charge(struct gateway *gateway, struct request *leader,
                                  const struct api_usage *usage) {
    struct request_asked *asked = &leader->asked;
    accounts_release(&gateway->accounts, asked->account, asked->key, 0, asked->rate_tokens,
                     asked->set_aside);
    asked->rate_tokens = 0;
    asked->set_aside = 0;
    accounts_charge(&gateway->accounts, asked->account, asked->key,
                    gateway->models.names[asked->model].name, usage, gateway->entries.said);
}

/* Ends the request after all choices have ended. `fate` is the one in the entry. */
static void end_all(struct gateway *gateway, struct request *leader, const struct usage_fate *fate,
                    int64_t now_ns) {
    if (fate->is_charged) {
        request_finish_charge(gateway, leader, &fate->usage);
        usage_record_charge(gateway);
    }
    if (!leader->unreported.failed) learn_lengths(gateway, leader);
    if (waits_for_ledger(gateway, leader))
        request_await_commit(gateway, leader, now_ns);
    else
        request_release(gateway, leader);
}

/* Ends a choice: sends the end to the client, unless it has left, and counts it. The last choice to
 * end also ends the request. `output_tokens` is the unit's count. */
static enum status end(struct gateway *gateway, struct request *request, enum finish_reason reason,
                       uint32_t output_tokens, int64_t now_ns) {
    struct request *leader = request->leader;
    struct record_finished ended = {
        .reason = reason,
        .output_tokens = request->asked.prompt_only ? 0 : output_tokens,
        .work = receipt_total(&request->answered.receipt, request->asked.prompt_tokens)};
    request->unreported.reason = (uint8_t)reason;
    request->answered.receipt.ended_ns = now_ns;
    bool last = others_are_done(request);
    enum status status =
        leader->unreported.gone ? STATUS_OK : request_finish_report_end(gateway, request);
    struct usage_fate fate = {0};
    if (!status && last) fate = fate_of(leader); /* while its unit's report is available */
    if (!status && last) status = close_answer(gateway, leader, &fate, now_ns);
    if (status) return status;
    receipt_end(&request->answered.receipt);
    request_done(gateway, request);
    metrics_count_end(&gateway->metrics, &request->times, &ended,
                      request->unreported.cause == CAUSE_STOP_STRING ||
                          request->unreported.cause == CAUSE_ONE_CALL,
                      now_ns);
    if (last) end_all(gateway, leader, &fate, now_ns);
    return STATUS_OK;
}

/* ---- after the ledger's commit ---- */

bool request_finish_wants(const struct gateway *gateway) {
    const struct request *first = gateway->requests.committing.first;
    return first && first->unreported.usage <= gateway->entries.committed;
}

/* Sends the end of a committed answer. For a stream, the last choice's FINISH was held back as
 * well. */
static enum status report_commit(struct gateway *gateway, struct request *leader) {
    struct request *last = leader->unreported.unfinished;
    struct answer_delta nothing = {0};
    if (!leader->asked.stream) return request_finish_report_all(gateway, leader);
    if (!gateway_can_put(gateway, end_bytes_max(last, &nothing))) return STATUS_FULL;
    stream_writer_say_finish(gateway, last, finish_of(last), stop_of(last));
    return request_finish_report_all(gateway, leader);
}

void request_finish_commit(struct gateway *gateway) {
    while (request_finish_wants(gateway)) {
        struct request *leader = gateway->requests.committing.first;
        if (report_commit(gateway, leader)) return; /* full: again later */
        request_release(gateway, leader);
    }
}

bool request_finish_run(struct gateway *gateway, int64_t now_ns) {
    for (struct request *request = gateway->requests.finishing.first, *next; request;
         request = next) {
        next = request->life.behind;
        if (end(gateway, request, (enum finish_reason)request->unreported.reason,
                request->answered.output_tokens, now_ns))
            return false;
    }
    return true;
}

/* ---- a unit's FINISHED ---- */

/* Ends a request that one of its two units has ended before the handover. The other unit is sent
 * CANCEL. */
static enum status end_shared(struct gateway *gateway, struct request *request,
                              const struct record_finished *record, int64_t now_ns) {
    uint32_t mark = gateway->outbox.used;
    request_put_cancel(gateway, request);
    enum status status =
        end(gateway, request, (enum finish_reason)record->reason, record->output_tokens, now_ns);
    if (status) gateway->outbox.used = mark;
    return status;
}

/* False if no correct unit would send this record: its work is inconsistent, it has more tokens
 * than were asked for, or it ends an answer with other tokens than were sent. */
static bool request_finish_is_credible(const struct request *request, uint32_t unit,
                                       const struct record_finished *record) {
    bool is_end = record->reason == FINISH_STOP_TOKEN || record->reason == FINISH_LENGTH;
    if (!receipt_is_credible(&record->work, request->asked.prompt_tokens)) return false;
    if (record->output_tokens > request->asked.new_tokens_max) return false;
    if (!is_end || unit != request_speaker(request)) return true;
    bool has_token = record->output_tokens > 0 || record->reason != FINISH_STOP_TOKEN;
    return has_token && record->output_tokens == request->answered.output_tokens;
}

enum status request_finish_finished(struct gateway *gateway, uint32_t unit,
                                    const struct record_finished *record, int64_t now_ns) {
    struct request *request = request_find(gateway, record->request);
    enum finish_reason reason = (enum finish_reason)record->reason;
    if (!request || !request_is_at(request, unit)) return STATUS_OK;
    if (!request_finish_is_credible(request, unit, record)) return STATUS_INVALID;
    if (!gateway_can_put(gateway, REQUEST_CANCEL_BYTES)) return STATUS_FULL;
    bool computes = request->life.at[PART_PROMPT].unit == unit;
    enum request_state state = (enum request_state)request->life.state;
    request_note(gateway, request, computes ? PART_PROMPT : PART_ANSWER, &record->work,
                 record->output_tokens);
    request_note_end(request, computes ? PART_PROMPT : PART_ANSWER);
    if (state == REQUEST_ANSWERED) {     /* the account of its work is complete */
        if (!computes) return STATUS_OK; /* the decode unit has sent it before */
        return end(gateway, request, (enum finish_reason)request->unreported.reason,
                   request->answered.output_tokens, now_ns);
    }
    if (computes && (state == REQUEST_CONTINUED || state == REQUEST_CANCELLED)) {
        /* The decode unit continues, or also sends FINISHED. No other unit computes the prompt. */
        receipt_choose(&request->answered.receipt, PART_PROMPT);
        request_unbind_prompt(gateway, request);
        return STATUS_OK;
    }
    if (resume_after(gateway, request, unit, reason, now_ns)) return STATUS_OK;
    bool is_computed = request_is_shared(request) && !request_asks_for_pages(request);
    if (is_computed && (state == REQUEST_CONTINUED || state == REQUEST_CANCELLED)) {
        request_answer(gateway, request, reason);
        return STATUS_OK;
    }
    if (state == REQUEST_RESERVING || state == REQUEST_PREFILLING)
        return end_shared(gateway, request, record, now_ns);
    return end(gateway, request, reason, record->output_tokens, now_ns);
}

/* ---- other ends of requests ---- */

/* True if a request can be released at once: it is not queued for a unit yet, or only its end is
 * still to be sent. */
static bool may_go_at_once(const struct request *leader) {
    enum request_state state = (enum request_state)leader->life.state;
    return state == REQUEST_TOKENIZING || state == REQUEST_UNCHECKED || state == REQUEST_COMMITTING;
}

enum status request_finish_client_gone(struct gateway *gateway,
                                       const struct record_client_gone *record, int64_t now_ns) {
    struct request *leader = request_of_connection(gateway, record->connection);
    struct usage_fate fate = {.http_status = 499, .end = "client_gone"};
    if (!leader) return STATUS_OK; /* it has been answered already */
    if (!gateway_can_put(gateway, leader->choice_count * REQUEST_CANCEL_BYTES + USAGE_BYTES_MAX))
        return STATUS_FULL;
    gateway->metrics.cancelled++;
    if (!leader->unreported.begun)
        metrics_count_answer(&gateway->metrics, request_endpoint(leader), 499);
    if (may_go_at_once(leader)) {
        bool has_entry = leader->life.state == REQUEST_COMMITTING;
        enum status status =
            has_entry ? STATUS_OK : usage_record_put(gateway, leader, &fate, now_ns);
        check(status == STATUS_OK);
        request_release(gateway, leader);
        return STATUS_OK;
    }
    request_forget_connection(gateway, leader);
    cancel_choices(gateway, leader, NULL, CAUSE_CLIENT_GONE);
    return STATUS_OK;
}

enum status request_finish_shut_down(struct gateway *gateway, struct request *leader) {
    if (!gateway_can_put(gateway, leader->choice_count * REQUEST_CANCEL_BYTES)) return STATUS_FULL;
    cancel_choices(gateway, leader, NULL, CAUSE_DRAINING);
    return STATUS_OK;
}
