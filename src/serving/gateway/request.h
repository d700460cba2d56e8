/* SPDX-License-Identifier: Apache-2.0
 * A request's life in the gateway. serving/gateway/request.c alone changes a request's state, the
 * units that have it, the list that it stands in and the counts that follow; everybody else asks
 * for a transition.
 *
 *   state       what it means                                           what may follow
 *   ----------  ------------------------------------------------------  -----------------------------
 *   FREE        nobody's slot                                           READING
 *   READING     its body is read, within one call                       TOKENIZING, UNSETTLED,
 *                                                                       WAITING, FREE
 *   TOKENIZING  a text of its client's waits for the tokenizer, or is   UNSETTLED, WAITING, FREE
 *               there; or its constraint is judged, or waits for that
 *   UNSETTLED   no unit has ever come, so nothing can be judged         WAITING, FREE
 *   WAITING     for a unit                                              ANSWERING, RESERVING, ENDING
 *   ANSWERING   one unit computes its prompt and makes the answer       WAITING, CANCELLED, ENDING,
 *                                                                       DONE
 *   RESERVING   two units share it: the one that is to make the answer  PREFILLING and as ANSWERING
 *               was asked for pages, the other was told nothing yet
 *   PREFILLING  the other computes the prompt                           CONTINUED and as ANSWERING
 *   CONTINUED   the first token was passed on to the answer's unit; the ANSWERED and as ANSWERING
 *               prompt's unit may still have to say FINISHED
 *   ANSWERED    the answer's unit has said FINISHED, or is lost after   ENDING, DONE
 *               a CANCEL, the prompt's unit has not said it, and its
 *               work belongs to the account
 *   CANCELLED   its units were told CANCEL, and will say FINISHED       ANSWERED, ENDING, DONE
 *   ENDING      no unit has it; the next step ends it                   DONE
 *   DONE        it has ended; other answers to its client have not      SETTLING, FREE
 *   SETTLING    all have, and the last bytes of the answer wait until   FREE
 *               their entry is written down
 *
 * UNSETTLED, WAITING, ENDING and SETTLING have a list each, which gateway_step serves.
 *
 * Each of the answers that a client asks for, n to each of its prompts, is a request of its own,
 * with its own slot, id and text, led by the first: the leader has the connection and lists them
 * all, prompt by prompt. The first of each prompt (its head) has the prompt, which the others share.
 * Until they wait for a unit all are in one state: they go on together, when every prompt has its
 * tokens. They are claimed and released together, when their units' last FINISHED has come, even if
 * the client has gone or a stop string has ended them: only then is the account complete. All memory
 * of a request is its arena, cleared at the end. What it takes to go on at another unit is kept: the
 * prompt, and the tokens of the answer.
 */
#ifndef SERVING_GATEWAY_REQUEST_H
#define SERVING_GATEWAY_REQUEST_H

#include "base/due_heap.h"
#include "base/map.h"
#include "contract/record_ledger.h"
#include "serving/gateway/api/api_tokens.h"
#include "serving/gateway/api/dialect.h"
#include "serving/gateway/fleet.h"
#include "serving/gateway/metrics.h"
#include "serving/gateway/receipt.h"
#include "serving/gateway/texts.h"

struct gateway;

enum request_state {
    REQUEST_FREE,
    REQUEST_READING,
    REQUEST_TOKENIZING,
    REQUEST_UNSETTLED,
    REQUEST_WAITING,
    REQUEST_ANSWERING,
    REQUEST_RESERVING,
    REQUEST_PREFILLING,
    REQUEST_CONTINUED,
    REQUEST_ANSWERED,
    REQUEST_CANCELLED,
    REQUEST_ENDING,
    REQUEST_DONE,
    REQUEST_SETTLING,
    REQUEST_STATE_COUNT
};

enum request_cause { /* why the gateway ends it, or has it ended by CANCEL */
                     CAUSE_NONE,
                     CAUSE_STOP_STRING,
                     CAUSE_ONE_CALL, /* one call has been made, and no more are wanted */
                     CAUSE_CLIENT_GONE,
                     CAUSE_TOO_LONG,      /* the answer outgrew its memory */
                     CAUSE_ECHO_TOO_LONG, /* what is told of its prompt would outgrow it */
                     CAUSE_NO_MEMORY,     /* there is no room to keep what is told of its prompt */
                     CAUSE_OTHER_FAILED,  /* another choice has no answer, so there is none */
                     CAUSE_NO_UNIT,       /* none could take it for too long */
                     CAUSE_NUMERICS_GONE, /* none that computes as it began, likewise */
                     CAUSE_QUEUED_LONG,   /* it has waited too long to begin */
                     CAUSE_DRAINING       /* the server ends */
};

/* ---- a request, by who needs what of it ---- */

struct request_work { /* that a request is predicted to be for units (serving/policy/share_turns) */
    uint64_t tokens;
    uint64_t turn; /* weighed for its account */
};

struct request_binding {     /* to the unit that does one part of its work */
    uint32_t unit;           /* in the fleet's table; FLEET_NONE: none */
    uint8_t role;            /* enum unit_role: what the unit does for the request */
    bool told;               /* it has had a SUBMIT; else it has only promised pages */
    bool ended;              /* it has said FINISHED */
    uint32_t known_tokens;   /* of the answer, made elsewhere, when it got it */
    uint64_t promised_pages; /* until the first tokens come from there */
    struct unit_books books; /* what it has said that it did for it */
};

struct request_life {                      /* changed by serving/gateway/request.c alone */
    uint8_t state;                         /* enum request_state */
    struct request_binding at[PART_COUNT]; /* the units that have it */
    struct request *before, *behind;       /* in its state's list */
    uint64_t arrival;                      /* its place among all that have waited */
    uint64_t turn; /* virtual time at which its account is to have it done */
    int64_t waits_since_ns;
    uint64_t work_tokens; /* of request_work, its part */
    /* Leader, of the fleet's table: all its choices are computed with these, from when the first of
     * them is bound until none is bound and none has begun. FLEET_NONE: any will do. */
    uint32_t numerics;
    bool is_begun; /* units have it, and it has no token yet */
};

struct request_asked { /* by the client; the same for all but the prompt and its length, `sampling`
                        * and new_tokens_max, which are the same for the choices of a prompt
                        * (`sampling` but for `choice`) */
    /* First what every token looks at. */
    struct sampling sampling;
    uint32_t prompt_tokens;
    uint32_t new_tokens_max; /* 0: the default */
    bool stream, wants_receipt;
    bool one_call;    /* the answer ends with its first call */
    bool prompt_only; /* only the prompt is asked about: the token that units choose is kept back */
    bool tokens_only; /* its tokens are the answer: no unit is asked */
    struct api_answer answer; /* what the answer says of itself; its id is the leader's */
    enum endpoint_number endpoint;
    uint32_t model;       /* of the gateway's names: the one that was asked for */
    struct bytes name;    /* its client's for it, in the leader's arena; may be empty */
    struct bytes warning; /* for its client, one line, in the leader's arena; empty: none */
    enum token_stream_mode mode;
    const uint32_t *prompt; /* [prompt_tokens] in the head's arena; NULL: not tokenized yet */
    const struct prompt_frame *frame; /* goes around the prompt's tokens; NULL: none */
    uint32_t stop_token_count;
    uint32_t model_stops_count; /* so many stop tokens, at the start, are the model's */
    uint32_t stop_tokens[2 * LIMIT_STOP_TOKENS];
    const struct token_bias *biases; /* [bias_count] in the leader's arena */
    uint32_t bias_count;
    const struct stop_strings *stops; /* in the leader's arena; NULL: none */
    struct bytes constraint;      /* in the leader's arena (SUBMIT); empty: the answer is free */
    const char *constraint_field; /* that asked for it, a literal */
    uint32_t account, key;        /* ACCOUNT_NONE */
    uint64_t rate_tokens; /* leader: held of its account's rate until it is charged or released */
    int64_t set_aside; /* leader: nanos of its account's balance, until it is charged or released */
    bool is_counted;   /* leader: so is the request */
    struct tenant_salt tenant;
};

struct request_placing {               /* how a unit is found for it */
    uint8_t losses, retries, refusals; /* since its last token */
    uint8_t choice_reason; /* 1 + enum units_reason, of the last choice of a unit; 0: none yet */
    uint32_t avoided_unit; /* the unit that failed it last; FLEET_NONE */
    int64_t retry_ns;      /* it may be tried there again */
    const uint64_t *prefix_keys; /* head: [prefix_key_count] of its leading blocks, in arena */
    uint32_t prefix_key_count;
};

struct request_answered { /* what has come of the answer; from the end of `words` to the receipt's
                           * parts every token looks at it */
    struct token_list echoed; /* not in a stream: the prompt's, [scored_count] */
    struct token_stream words;
    uint32_t output_tokens;
    uint32_t last_token;
    uint32_t scored_count;     /* leading tokens of the prompt whose log probabilities are told */
    bool flushed;              /* token_stream_finish has been called */
    struct answer_text text;   /* in a stream: what is echoed, or all if its dialect repeats it */
    struct answer_calls calls; /* in a stream: without arguments, unless its dialect repeats them */
    struct token_list tokens;  /* all of the answer, unless memory ran out */
    size_t tokens_json_bytes;  /* they need at most so many in the answer; in a stream: where its
                                * last events repeat them, 0: they do not */
    uint64_t made_tokens;      /* by all units, also those that its client is not told */
    struct receipt receipt;
};

struct request_owed { /* what its client was told, and is still to be told */
    struct connection_id connection;
    bool begun;  /* leader: STREAM_BEGIN has gone out */
    bool gone;   /* leader: the client has closed the connection and is told nothing more */
    bool spoken; /* the choice's first event (role, echo) has gone out */
    struct dialect_place place;   /* what its events have told so far */
    const struct request *failed; /* leader: a choice without an answer, so there is none; NULL */
    uint8_t cause;                /* enum request_cause */
    uint8_t reason;               /* enum finish_reason, in ANSWERED, ENDING and DONE */
    uint64_t entry;               /* leader, in SETTLING: its entry's sequence */
    struct request *unfinished; /* leader, in SETTLING: the choice whose end is still to be told */
};

struct request {                      /* what every token looks at stands in one run, nearly */
    struct request_answered answered; /* its end */
    struct request_id id;     /* at the unit; its attempt counts the units that had it before */
    struct request *leader;   /* of its choices; itself, if it is the first */
    struct request *head;     /* the first choice of its prompt; itself, if it is that */
    uint32_t index;           /* among the leader's choices: prompt * n + which of its answers */
    struct request **choices; /* leader: [choice_count], itself first; in its arena, or `alone` */
    struct request *alone;    /* leader: itself, [1] for `choices` */
    uint32_t choice_count;    /* leader: of all prompts */
    uint32_t prompt_count;    /* leader */
    struct request_life life;
    struct metrics_times times;
    struct request_placing placing;
    struct request_asked asked; /* its beginning */
    struct request_owed owed;
    struct waiting_text waiting_text;       /* head */
    struct waiting_text waiting_constraint; /* leader */
    bool constraint_unjudged;               /* leader: it is not known yet whether it can be held */
    struct arena arena;
};

struct request_list {
    struct request *first, *last;
    uint32_t count;
    bool unsorted; /* one that had waited before has come behind others */
};

struct request_line { /* an account's; request_lines.h */
    struct request_list list;
    struct request *next; /* of it, to be looked at; NULL: all have been */
    uint64_t last_turn;   /* of the last one that came; 0: none waits */
    uint64_t tokens;      /* work of those that wait */
    bool is_seen;         /* since the last begin */
    struct request_line *behind_seen, *behind_unsorted;
};

struct request_lines {          /* those that wait for a unit */
    struct request_line *lines; /* [line_count] */
    uint32_t line_count;
    uint32_t count;                       /* of requests */
    struct due_heap turns;                /* of lines, at their next ones' turns */
    struct request_line *seen, *unsorted; /* the first of those that are */
    uint64_t now;                         /* virtual time */
    uint64_t passed; /* from a begin to an end: the smallest turn of those that wait on */
};

struct request_table {                    /* changed by serving/gateway/request.c alone */
    struct request *slots;                /* [requests_max], of them [slots_used] ever used */
    uint32_t slots_used;                  /* the others are untouched memory */
    uint32_t *free_slots;                 /* [counts[REQUEST_FREE]] stack */
    struct due_heap keep_alive;           /* slots of leaders */
    struct due_heap queue_ends;           /* slots of those that wait and have not begun */
    struct due_heap waits_since;          /* slots of those that wait */
    struct map by_id, by_connection;      /* -> slot */
    uint32_t counts[REQUEST_STATE_COUNT]; /* of requests in each state */
    struct request_list unsettled;        /* leaders, first come first */
    struct request_lines waiting;
    struct request_list ending;   /* last come first */
    struct request_list settling; /* leaders, in the order of their entries */
    uint64_t arrivals;
};

/* ---- tables ---- */

/* Arena bytes that suffice for request_open_all. */
size_t request_table_bytes(uint32_t requests_max);

/* All are free: the gateway begins. Its options, pool and texts are there. */
enum status request_open_all(struct gateway *gateway, struct arena *arena) MUST_USE;

/* NULL if there is none (any more); of a connection, the leader. */
struct request *request_find(struct gateway *gateway, struct request_id id);
struct request *request_of_connection(struct gateway *gateway, struct connection_id connection);

/* Their tokens or their end will come soon: what that touches is fetched from memory meanwhile, of
 * all at once, while a request for itself would wait for one after the other. Before that, where each
 * stands: by the time of the second call that is there. Changes nothing. */
void request_prefetch_places(const struct gateway *gateway, const struct request_id *ids,
                             uint32_t count);
void request_prefetch(const struct gateway *gateway, const struct request_id *ids, uint32_t count);

/* When the leader's client is told that we are still here; MACHINE_NEVER: not any more. */
void request_keep_alive(struct gateway *gateway, const struct request *leader, int64_t at_ns);

/* The connection gets nothing more: CLIENT_GONE for it finds nobody. */
void request_forget_connection(struct gateway *gateway, struct request *leader);

/* check()s that states, lists, counts and the fleet's books agree. Slow. */
void request_audit(const struct gateway *gateway);

/* ---- transitions; to make one from any other state is a bug ---- */

/* FREE -> READING: slots for a connection's choices, so many of each prompt, each with an id of its
 * own. The leader, or NULL when the table or the memory is too full. */
struct request *request_claim(struct gateway *gateway, const struct record_client_request *record,
                              uint32_t prompt_count, uint32_t answers_each);

/* READING -> TOKENIZING, of all choices. */
void request_tokenize(struct gateway *gateway, struct request *leader);

/* READING, TOKENIZING -> UNSETTLED, of all choices. */
void request_unsettle(struct gateway *gateway, struct request *leader, int64_t now_ns);

/* READING, TOKENIZING, UNSETTLED -> WAITING, of all choices, which are so much work together. */
void request_wait(struct gateway *gateway, struct request *leader, struct request_work work,
                  int64_t now_ns);

/* WAITING -> ANSWERING: the unit promises so many pages; its SUBMIT is put by the caller. */
void request_bind(struct gateway *gateway, struct request *request, uint32_t unit, uint64_t pages);

/* WAITING -> RESERVING: `unit` is to make the answer, `prompt_unit` to compute the prompt. */
void request_reserve(struct gateway *gateway, struct request *request, uint32_t unit,
                     uint64_t pages, uint32_t prompt_unit, uint64_t prompt_pages);

/* RESERVING -> PREFILLING: the prompt's unit is told. */
void request_prefill(struct gateway *gateway, struct request *request);

/* PREFILLING -> CONTINUED: the answer's unit is told the first token. */
void request_continue(struct gateway *gateway, struct request *request);

/* Tokens have come from its speaker: what that unit promised it now holds, and what failed before
 * is forgotten. The state stays. */
void request_progress(struct gateway *gateway, struct request *request);

/* The unit that has the part will say no more of it. The state stays. */
void request_note_end(struct request *request, enum request_part part);

/* The unit that has the part has told what it did so far (`work` NULL: the same as before); the whole
 * answer then has so many tokens. The state stays. */
void request_note(struct gateway *gateway, struct request *request, enum request_part part,
                  const struct unit_work *work, uint32_t output_tokens);

/* Of one that is CONTINUED or CANCELLED, the prompt's unit has it no more. The state stays. */
void request_unbind_prompt(struct gateway *gateway, struct request *request);

/* CONTINUED, CANCELLED -> ANSWERED: the answer's unit has said FINISHED, the prompt's has not. */
void request_answer(struct gateway *gateway, struct request *request, enum finish_reason reason);

/* CANCELLED -> ANSWERED: the answer's unit has it no more, and the prompt's will say FINISHED. */
void request_unbind_answer(struct gateway *gateway, struct request *request);

/* Ends one that is under way: WAITING -> ENDING; at units, which are told CANCEL, -> CANCELLED; but
 * an ANSWERED one stays. Takes room for REQUEST_CANCEL_BYTES. */
void request_cancel(struct gateway *gateway, struct request *request, enum request_cause cause);

/* ANSWERING to CONTINUED -> WAITING: its units have it no more, and another is to go on. */
void request_wait_again(struct gateway *gateway, struct request *request, int64_t now_ns);

/* WAITING to CANCELLED -> ENDING: no unit has it any more. */
void request_end(struct gateway *gateway, struct request *request, enum finish_reason reason);

/* ANSWERING to ENDING -> DONE: its client has been told. */
void request_done(struct gateway *gateway, struct request *request);

/* DONE -> SETTLING, of all choices: the leader's entry has gone out, and its client is still to be
 * told the end. */
void request_settle(struct gateway *gateway, struct request *leader, int64_t now_ns);

/* The leader and all its choices -> FREE: gone from tables, with their memory. */
void request_release(struct gateway *gateway, struct request *leader);

/* Room that request_cancel and request_put_cancel take: a CANCEL for each of two units. */
#define REQUEST_CANCEL_BYTES (2 * carried_bytes(RECORD_CANCEL, NULL))

/* The receipt as it is when its units have left it. */
struct receipt request_receipt(const struct gateway *gateway, const struct request *request);

/* CANCEL to the units that were told of it. */
void request_put_cancel(struct gateway *gateway, const struct request *request);

/* ---- questions ---- */

/* True if its last token ended the answer, which only its unit's FINISHED tells yet. */
bool request_is_whole(const struct request *request, enum finish_reason *reason_out);

/* The unit that is to say its next tokens; FLEET_NONE: none may. */
static inline uint32_t request_speaker(const struct request *request) {
    const struct request_life *life = &request->life;
    if (life->state == REQUEST_PREFILLING) return life->at[PART_PROMPT].unit;
    bool answers = life->state == REQUEST_ANSWERING || life->state == REQUEST_CONTINUED;
    return answers ? life->at[PART_ANSWER].unit : FLEET_NONE;
}

static inline bool request_is_at(const struct request *request, uint32_t unit) {
    return request->life.at[PART_ANSWER].unit == unit || request->life.at[PART_PROMPT].unit == unit;
}

/* Two units have it. */
static inline bool request_is_shared(const struct request *request) {
    return request->life.at[PART_PROMPT].unit != FLEET_NONE;
}

/* Its answer's unit was asked for pages and has not said yet whether it has them. */
static inline bool request_asks_for_pages(const struct request *request) {
    return request_is_shared(request) && !request->life.at[PART_PROMPT].told;
}

/* It waits for a unit or is at one, and nobody has ended it. */
static inline bool request_is_under_way(const struct request *request) {
    return request->life.state >= REQUEST_WAITING && request->life.state <= REQUEST_ANSWERED &&
           request->owed.cause == CAUSE_NONE;
}

/* The first choice of each prompt. */
static inline struct request *request_head(const struct request *leader, uint32_t prompt) {
    return leader->choices[prompt * (leader->choice_count / leader->prompt_count)];
}

static inline enum endpoint_number request_endpoint(const struct request *request) {
    return request->asked.endpoint;
}

/* Whose turns at the host's threads its texts take: its account's, or without one its own, however
 * many prompts it has. */
static inline uint64_t request_client(const struct request *request) {
    struct request_id id = request->leader->id;
    if (request->asked.account != ACCOUNT_NONE) return request->asked.account;
    return (uint64_t)1 << 63 | (id.high ^ id.low);
}

/* Log probabilities of its prompt are still missing. */
static inline bool request_scores(const struct request *request) {
    return (request->asked.sampling.flags & SAMPLING_SCORES) &&
           request->answered.scored_count < request->asked.prompt_tokens;
}

/* Tokens that the client is told of. */
static inline uint32_t request_told_tokens(const struct request *request) {
    return request->asked.prompt_only ? 0 : request->answered.output_tokens;
}

#endif
