/* SPDX-License-Identifier: Apache-2.0
 * The state machine of a request in the gateway. Only serving/gateway/request.c changes a request's
 * state, its units, its list, and the counts that depend on them. All other files call the
 * transitions below.
 *
 *   state       meaning                                               may be followed by
 *   ----------  ----------------------------------------------------  -----------------------------
 *   FREE        an unused slot                                        READING
 *   READING     its body is read, within one call                     TOKENIZING, UNCHECKED,
 *                                                                     WAITING, FREE
 *   TOKENIZING  a text of its client waits for the tokenizer or is    UNCHECKED, WAITING, FREE
 *               tokenized, or its constraint waits or is checked
 *   UNCHECKED   no unit has joined yet, so no limit can be checked    WAITING, FREE
 *   WAITING     waits for a unit                                      ANSWERING, RESERVING,
 *                                                                     FINISHING
 *   ANSWERING   one unit computes the prompt and makes the answer     WAITING, CANCELLED,
 *                                                                     FINISHING, DONE
 *   RESERVING   two units share it: the decode unit was asked for     PREFILLING and as ANSWERING
 *               pages, the prefill unit has received nothing yet
 *   PREFILLING  the prefill unit computes the prompt                  CONTINUED and as ANSWERING
 *   CONTINUED   the first token was forwarded to the decode unit; the ANSWERED and as ANSWERING
 *               prefill unit may not have sent FINISHED yet
 *   ANSWERED    the decode unit has sent FINISHED, or is lost after a FINISHING, DONE
 *               CANCEL; the prefill unit has not sent it, and its
 *               work belongs to the account
 *   CANCELLED   its units were sent CANCEL and will send FINISHED     ANSWERED, FINISHING, DONE
 *   FINISHING   no unit has it; the next step ends it                 DONE
 *   DONE        it has ended; other answers to its client have not    COMMITTING, FREE
 *   COMMITTING  all have ended; the last bytes of the answer wait     FREE
 *               until the ledger has written the usage record
 *
 * UNCHECKED, WAITING, FINISHING and COMMITTING each have a list, which gateway_step serves.
 *
 * Each choice that a client asks for, n for each of its prompts, is a request with its own slot, id
 * and text. The first one is the leader, which has the connection and lists all of them, prompt by
 * prompt. The first request of each prompt is its head, which has the prompt; the others share it.
 * Until they wait for a unit, all choices are in the same state and advance together, once every
 * prompt is tokenized. They are claimed and released together. They are released after the last
 * FINISHED of their units, even if the client has left or a stop string has ended them, because
 * only then is the account of their work complete. All memory of a request is in its arena, which
 * is cleared at the end. The request keeps what another unit needs to continue it: the prompt, and
 * the tokens of the answer.
 */
#pragma once

#include "base/due_heap.h"
#include "base/map.h"
#include "contract/record_ledger.h"
#include "serving/gateway/api/api_tokens.h"
#include "serving/gateway/api/dialect.h"
#include "serving/gateway/fleet.h"
#include "serving/gateway/metrics.h"
#include "serving/gateway/receipt.h"
#include "serving/gateway/tokenize_queue.h"

struct gateway;

enum request_state {
    REQUEST_FREE,
    REQUEST_READING,
    REQUEST_TOKENIZING,
    REQUEST_UNCHECKED,
    REQUEST_WAITING,
    REQUEST_ANSWERING,
    REQUEST_RESERVING,
    REQUEST_PREFILLING,
    REQUEST_CONTINUED,
    REQUEST_ANSWERED,
    REQUEST_CANCELLED,
    REQUEST_FINISHING,
    REQUEST_DONE,
    REQUEST_COMMITTING,
    REQUEST_STATE_COUNT
};

enum request_cause { /* why the gateway ends a request, or cancels it at its units */
                     CAUSE_NONE,
                     CAUSE_STOP_STRING,
                     CAUSE_ONE_CALL, /* the one tool call that is allowed was made */
                     CAUSE_CLIENT_GONE,
                     CAUSE_TOO_LONG,      /* the answer outgrew its memory */
                     CAUSE_ECHO_TOO_LONG, /* the log probabilities of its prompt would outgrow it */
                     CAUSE_NO_MEMORY,     /* no memory for the log probabilities of its prompt */
                     CAUSE_OTHER_FAILED,  /* another choice failed, so there is no answer */
                     CAUSE_NO_UNIT,       /* no unit could take it for too long */
                     CAUSE_NUMERICS_GONE, /* no unit with its numerics for too long */
                     CAUSE_QUEUED_LONG,   /* it has waited too long to start */
                     CAUSE_DRAINING       /* the server shuts down */
};

/* ---- the parts of a request ---- */

struct request_work { /* predicted work of a request at units (serving/policy/fair_queue) */
    uint64_t tokens;
    uint64_t turn; /* the tokens, weighted for the account's share */
};

struct request_binding {     /* binding to the unit that does one part of the request */
    uint32_t unit;           /* index in the fleet's table; FLEET_NONE: none */
    uint8_t role;            /* enum unit_role: the unit's role for this request */
    bool reported;           /* SUBMIT was sent; otherwise pages are only promised at the unit */
    bool ended;              /* the unit has sent FINISHED */
    uint32_t known_tokens;   /* tokens of the answer that other units made earlier */
    uint64_t promised_pages; /* KV pages promised until its first tokens arrive */
    struct unit_books books; /* work that the unit has reported for the request */
    struct api_progress progress; /* its last PROGRESS; zeros: none, or its first tokens came */
};

struct request_life {                      /* changed only by serving/gateway/request.c */
    uint8_t state;                         /* enum request_state */
    struct request_binding at[PART_COUNT]; /* the units that have the request */
    struct request *before, *behind;       /* neighbours in the list of its state */
    uint64_t arrival;                      /* sequence number in the order of arrival */
    uint64_t turn;                         /* virtual finish time in fair queueing */
    int64_t waits_since_ns;
    uint64_t work_tokens; /* the choice's part of request_work.tokens */
    /* Leader: index in fleet.numerics. All its choices are computed with these numerics, from the
     * time when the first one is bound until none is bound and none has begun. FLEET_NONE: any. */
    uint32_t numerics;
    bool is_begun; /* units have the request, and it has no token yet */
};

struct request_asked { /* what the client asked for. All choices share it, except for the prompt
                        * and its length, `sampling` and new_tokens_max, which choices of one
                        * prompt share (`sampling` except for `choice`) */
    /* Fields that are read for every token come first. */
    struct sampling sampling;
    uint32_t prompt_tokens;
    uint32_t new_tokens_max; /* 0: the default */
    bool stream, wants_receipt;
    bool one_call;            /* the answer ends after its first call */
    bool prompt_only;         /* only the prompt is wanted; sampled tokens are dropped */
    bool tokens_only;         /* the prompt's tokens are the answer; no unit is used */
    struct api_answer answer; /* metadata of the answer; its id is the leader's */
    enum endpoint_number endpoint;
    uint32_t left_out;        /* api_request.left_out, for the receipt */
    uint32_t differs_at;      /* for the receipt: a part of the prompt (prompt_outline_compare) */
    const char *differs_role; /* with a message there: its role, a literal */
    uint32_t model;           /* index of the requested name in gateway.models */
    struct bytes name;        /* the client's name for it, in the leader's arena; may be empty */
    struct bytes warning;     /* one line for the client, in the leader's arena; empty: none */
    enum token_stream_mode mode;
    const uint32_t *prompt; /* [prompt_tokens] in the head's arena; NULL: not tokenized yet */
    const struct prompt_frame *frame; /* tokens around the prompt; NULL: none */
    uint32_t stop_token_count;
    uint32_t model_stops_count; /* the first of stop_tokens, which are the model's own */
    uint32_t stop_tokens[2 * LIMIT_STOP_TOKENS];
    const struct token_bias *biases; /* [bias_count] in the leader's arena */
    uint32_t bias_count;
    const struct stop_strings *stops; /* in the leader's arena; NULL: none */
    struct bytes constraint;      /* as in SUBMIT, in the leader's arena; empty: unconstrained */
    const char *constraint_field; /* the API field that set it, a literal */
    uint32_t account, key;        /* ACCOUNT_NONE */
    uint64_t rate_tokens; /* leader: tokens taken from its account's rate until it is charged or
                           * released */
    int64_t set_aside;    /* leader: nanos reserved from the balance until then, too */
    bool is_counted;      /* leader: it also counts against the account's rate of requests */
    struct tenant_salt tenant;
};

struct request_placing {               /* the state of the search for a unit */
    uint8_t losses, retries, refusals; /* lost units, failures and refusals since its last token */
    uint8_t choice_reason; /* 1 + enum units_reason of the last choice of a unit; 0: none yet */
    uint32_t avoided_unit; /* the unit that failed or refused it last; FLEET_NONE */
    int64_t retry_ns;      /* earliest retry at that unit */
    const uint64_t *prefix_keys; /* head: [prefix_key_count] keys of the prompt's leading blocks,
                                  * in arena */
    uint32_t prefix_key_count;
};

struct request_answered {     /* the answer so far; from the end of `words` to the receipt's
                               * parts, read for every token */
    struct token_list echoed; /* not in a stream: the prompt's tokens, [scored_count] */
    struct token_stream words;
    uint32_t output_tokens;
    uint32_t last_token;
    uint32_t scored_count;     /* leading prompt tokens with received log probabilities */
    bool flushed;              /* token_stream_finish has been called */
    struct answer_text text;   /* in a stream: the echo, or all if the dialect repeats it */
    struct answer_calls calls; /* in a stream: without arguments, unless the dialect repeats them */
    struct token_list tokens;  /* all tokens of the answer, unless memory ran out */
    size_t tokens_json_bytes;  /* upper bound of the tokens' JSON in the answer; 0 in a stream,
                                * unless its last events repeat them */
    uint64_t made_tokens;      /* tokens made by all units, reported to the client or not */
    struct receipt receipt;
};

struct request_unreported { /* the state of the response to the client */
    struct connection_id connection;
    bool begun;                   /* leader: STREAM_BEGIN was sent */
    bool gone;                    /* leader: the client has left; nothing more is sent */
    bool spoken;                  /* the choice's first event (role, echo) was sent */
    struct dialect_place place;   /* the state of its event printer */
    const struct request *failed; /* leader: the choice that failed the whole request; NULL */
    uint8_t cause;                /* enum request_cause */
    uint8_t reason;               /* enum finish_reason, in ANSWERED, FINISHING and DONE */
    uint64_t usage;               /* leader, in COMMITTING: sequence number of its ledger entry */
    struct request *unfinished;   /* leader, in COMMITTING: the choice with its end not sent yet */
};

struct request {                      /* fields read for every token are nearly contiguous */
    struct request_answered answered; /* its end is read for every token */
    struct request_id id;             /* its attempt counts the units that had it before */
    struct request *leader;           /* the first of its choices, or itself */
    struct request *head;             /* the first choice of its prompt, or itself */
    uint32_t index;           /* index in the leader's choices: prompt * n + number of the answer */
    struct request **choices; /* leader: [choice_count], itself first; in its arena, or `alone` */
    struct request *alone;    /* leader: itself, [1] for `choices` */
    uint32_t choice_count;    /* leader: of all prompts */
    uint32_t prompt_count;    /* leader */
    struct request_life life;
    struct metrics_times times;
    struct request_placing placing;
    struct request_asked asked; /* its beginning is read for every token */
    struct request_unreported unreported;
    struct waiting_text waiting_text;       /* head */
    struct waiting_text waiting_constraint; /* leader */
    bool constraint_pending;                /* leader: the constraint is not checked yet */
    struct arena arena;
};

struct request_list {
    struct request *first, *last;
    uint32_t count;
    bool unsorted; /* a request that had waited before was added behind later ones */
};

struct request_line { /* the queue of one account; request_lines.h */
    struct request_list list;
    struct request *next; /* the next request to be considered; NULL: none */
    uint64_t last_turn;   /* turn of the last request that arrived; 0: none waits */
    uint64_t tokens;      /* predicted work of the waiting requests */
    bool is_seen;         /* considered since the last request_lines_begin */
    struct request_line *behind_seen, *behind_unsorted;
};

struct request_lines {          /* the requests that wait for a unit */
    struct request_line *lines; /* [line_count] */
    uint32_t line_count;
    uint32_t count;                       /* requests in all lines */
    struct due_heap turns;                /* lines, by the turns of their next requests */
    struct request_line *seen, *unsorted; /* heads of the lists of such lines */
    uint64_t now;                         /* virtual time */
    uint64_t passed; /* from begin to end: the smallest turn among those that keep waiting */
};

struct request_table {                    /* changed only by serving/gateway/request.c */
    struct request *slots;                /* [requests_max]; the first slots_used have been used */
    uint32_t slots_used;                  /* memory of the other slots is untouched */
    uint32_t *free_slots;                 /* stack of [counts[REQUEST_FREE]] free slots */
    struct due_heap keep_alive;           /* leaders' slots, by the time of the next keep-alive */
    struct due_heap queue_ends;           /* slots of requests that wait to begin, by deadline */
    struct due_heap waits_since;          /* slots of waiting requests, by start of the wait */
    struct map by_id, by_connection;      /* -> slot */
    uint32_t counts[REQUEST_STATE_COUNT]; /* requests in each state */
    struct request_list unchecked;        /* leaders, in the order of arrival */
    struct request_lines waiting;
    struct request_list finishing;  /* last in, first out */
    struct request_list committing; /* leaders, in the order of their ledger entries */
    uint64_t arrivals;
};

/* ---- tables ---- */

/* Arena bytes that suffice for request_open_all. */
size_t request_table_bytes(uint32_t requests_max);

/* Opens the table with all slots free. The gateway's options, pool and queues of texts must be set
 * up. */
enum status request_open_all(struct gateway *gateway, struct arena *arena) MUST_USE;

/* Find a request by id, or the leader by connection. NULL: there is none (any more). */
struct request *request_find(struct gateway *gateway, struct request_id id);
struct request *request_of_connection(struct gateway *gateway, struct connection_id connection);

/* Prefetch the memory of requests that will soon get tokens or end. All are fetched at once,
 * because single cache misses would add up. First call request_prefetch_places, which fetches the
 * entries of the id map, then request_prefetch. They change nothing. */
void request_prefetch_places(const struct gateway *gateway, const struct request_id *ids,
                             uint32_t count);
void request_prefetch(const struct gateway *gateway, const struct request_id *ids, uint32_t count);

/* Sets the time of the leader's next keep-alive; MACHINE_NEVER: none. */
void request_keep_alive(struct gateway *gateway, const struct request *leader, int64_t at_ns);

/* Detaches the connection: nothing more is sent to it, and a CLIENT_GONE for it finds no
 * request. */
void request_forget_connection(struct gateway *gateway, struct request *leader);

/* check()s the consistency of states, lists, counts and the fleet's books. Slow. */
void request_audit(const struct gateway *gateway);

/* ---- transitions; to make one from any other state is a bug ---- */

/* FREE -> READING: takes a slot and an id for each choice, answers_each for each prompt. Returns
 * the leader, or NULL if the table or the memory is full. */
struct request *request_claim(struct gateway *gateway, const struct record_client_request *record,
                              uint32_t prompt_count, uint32_t answers_each);

/* READING -> TOKENIZING for all choices. */
void request_tokenize(struct gateway *gateway, struct request *leader);

/* READING, TOKENIZING -> UNCHECKED for all choices. */
void request_mark_unchecked(struct gateway *gateway, struct request *leader, int64_t now_ns);

/* READING, TOKENIZING, UNCHECKED -> WAITING for all choices. `work` is the work of all together. */
void request_wait(struct gateway *gateway, struct request *leader, struct request_work work,
                  int64_t now_ns);

/* WAITING -> ANSWERING: reserves `pages` in the unit's books. The caller puts the SUBMIT. */
void request_bind(struct gateway *gateway, struct request *request, uint32_t unit, uint64_t pages);

/* WAITING -> RESERVING: `unit` is the decode unit, `prompt_unit` the prefill unit. */
void request_reserve(struct gateway *gateway, struct request *request, uint32_t unit,
                     uint64_t pages, uint32_t prompt_unit, uint64_t prompt_pages);

/* RESERVING -> PREFILLING: SUBMIT is sent to the prefill unit. */
void request_prefill(struct gateway *gateway, struct request *request);

/* PREFILLING -> CONTINUED: the first token is sent to the decode unit. */
void request_continue(struct gateway *gateway, struct request *request);

/* Call when tokens have arrived from request_speaker. The unit now holds the promised pages, and
 * earlier failures no longer count. The state stays. */
void request_progress(struct gateway *gateway, struct request *request);

/* The unit that computes the prompt has reported its progress. The state stays. */
void request_note_prompt(struct gateway *gateway, struct request *request,
                         const struct record_progress *record, int64_t now_ns);

/* The unit of the part will send no more records about it. The state stays. */
void request_note_end(struct request *request, enum request_part part);

/* The unit of the part has reported its work so far (NULL: unchanged) and that the answer has
 * `output_tokens` tokens. The state stays. */
void request_note(struct gateway *gateway, struct request *request, enum request_part part,
                  const struct unit_work *work, uint32_t output_tokens);

/* CONTINUED or CANCELLED: the prefill unit no longer has the request. The state stays. */
void request_unbind_prompt(struct gateway *gateway, struct request *request);

/* CONTINUED, CANCELLED -> ANSWERED: the decode unit has sent FINISHED, but not the prefill unit. */
void request_answer(struct gateway *gateway, struct request *request, enum finish_reason reason);

/* CANCELLED -> ANSWERED: the decode unit is lost; the prefill unit will send FINISHED. */
void request_unbind_answer(struct gateway *gateway, struct request *request);

/* Ends a request in progress. WAITING -> FINISHING. At units, sends them CANCEL; ANSWERING to
 * CONTINUED -> CANCELLED, and ANSWERED stays. Needs REQUEST_CANCEL_BYTES of room in the outbox. */
void request_cancel(struct gateway *gateway, struct request *request, enum request_cause cause);

/* ANSWERING to CONTINUED -> WAITING: its units no longer have it, and another one will continue. */
void request_wait_again(struct gateway *gateway, struct request *request, int64_t now_ns);

/* WAITING to CANCELLED -> FINISHING: no unit has the request now. */
void request_end(struct gateway *gateway, struct request *request, enum finish_reason reason);

/* ANSWERING to FINISHING -> DONE: the end was sent to the client. */
void request_done(struct gateway *gateway, struct request *request);

/* DONE -> COMMITTING for all choices: the ledger entry was sent, and the end is still to be sent to
 * the client. */
void request_await_commit(struct gateway *gateway, struct request *leader, int64_t now_ns);

/* The leader and all its choices -> FREE: removes them from the tables and frees their memory. */
void request_release(struct gateway *gateway, struct request *leader);

/* Outbox bytes that request_cancel and request_put_cancel need: a CANCEL for each of two units. */
#define REQUEST_CANCEL_BYTES (2 * machine_envelope_bytes(RECORD_CANCEL, NULL))

/* The receipt that the request will have once it has left its units. */
struct receipt request_receipt(const struct gateway *gateway, const struct request *request);

/* Puts CANCEL to the units that received the request. */
void request_put_cancel(struct gateway *gateway, const struct request *request);

/* ---- questions ---- */

/* True if its last token ended the answer, even if its unit's FINISHED has not arrived. */
bool request_is_whole(const struct request *request, enum finish_reason *reason_out);

/* The unit that sends the next tokens; FLEET_NONE: none may. */
static inline uint32_t request_speaker(const struct request *request) {
    const struct request_life *life = &request->life;
    if (life->state == REQUEST_PREFILLING) return life->at[PART_PROMPT].unit;
    bool answers = life->state == REQUEST_ANSWERING || life->state == REQUEST_CONTINUED;
    return answers ? life->at[PART_ANSWER].unit : FLEET_NONE;
}

static inline bool request_is_at(const struct request *request, uint32_t unit) {
    return request->life.at[PART_ANSWER].unit == unit || request->life.at[PART_PROMPT].unit == unit;
}

/* True if a prefill unit and a decode unit share it. */
static inline bool request_is_shared(const struct request *request) {
    return request->life.at[PART_PROMPT].unit != FLEET_NONE;
}

/* True if its decode unit was asked for pages and has not answered yet. */
static inline bool request_asks_for_pages(const struct request *request) {
    return request_is_shared(request) && !request->life.at[PART_PROMPT].reported;
}

/* True if it waits for a unit or is at one, and the gateway has not ended it. */
static inline bool request_is_under_way(const struct request *request) {
    return request->life.state >= REQUEST_WAITING && request->life.state <= REQUEST_ANSWERED &&
           request->unreported.cause == CAUSE_NONE;
}

/* The first choice of each prompt. */
static inline struct request *request_head(const struct request *leader, uint32_t prompt) {
    return leader->choices[prompt * (leader->choice_count / leader->prompt_count)];
}

static inline enum endpoint_number request_endpoint(const struct request *request) {
    return request->asked.endpoint;
}

/* The client number for the fair queues of the host's threads: its account or, without one, the
 * whole request with all its prompts. */
static inline uint64_t request_client(const struct request *request) {
    struct request_id id = request->leader->id;
    if (request->asked.account != ACCOUNT_NONE) return request->asked.account;
    return (uint64_t)1 << 63 | (id.high ^ id.low);
}

/* True while log probabilities of its prompt are still missing. */
static inline bool request_scores(const struct request *request) {
    return (request->asked.sampling.flags & SAMPLING_SCORES) &&
           request->answered.scored_count < request->asked.prompt_tokens;
}

/* Count of output tokens that are reported to the client. */
static inline uint32_t request_reported_tokens(const struct request *request) {
    return request->asked.prompt_only ? 0 : request->answered.output_tokens;
}
