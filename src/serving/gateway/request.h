/* SPDX-License-Identifier: Apache-2.0
 * The gateway's inside: its tables, and one request's life in them.
 *
 *   FREE -> TOKENIZING (long text, at the host) -> (UNSETTLED, before any unit has come)
 *        -> WAITING (for a unit) -> SUBMITTED (to one) -> (a stop string: ENDING) -> DONE -> FREE
 *
 * and from SUBMITTED back to WAITING when its unit is lost (serving/gateway/dispatch). SUBMITTED to
 * two, where one computes the prompt for the other (serving/gateway/handover). What it takes to go
 * on elsewhere is kept: the leader's prompt, and the tokens of every answer.
 *
 * Each of the n answers that a client asks for is a request of its own, with its own slot, id and
 * text, led by the first: the leader has the connection and lists them all. They are claimed and
 * released together, when their units' last FINISHED has come, even if the client has gone or a
 * stop string has ended them: only then is the account complete. All memory of a request is its
 * arena, cleared at the end.
 */
#ifndef SERVING_GATEWAY_REQUEST_H
#define SERVING_GATEWAY_REQUEST_H

#include "base/map.h"
#include "contract/machine.h"
#include "contract/record_client.h"
#include "contract/record_unit.h"
#include "serving/cache/prefix_affinity.h"
#include "serving/gateway/accounts.h"
#include "serving/gateway/api/api_response.h"
#include "serving/gateway/fleet.h"
#include "serving/gateway/gateway.h"
#include "serving/gateway/metrics.h"
#include "serving/gateway/receipt.h"
#include "serving/gateway/texts.h"
#include "serving/policy/choose_roles.h"

enum request_state {
    REQUEST_FREE,
    REQUEST_TOKENIZING,
    REQUEST_UNSETTLED,
    REQUEST_WAITING,
    REQUEST_SUBMITTED,
    REQUEST_ENDING,
    REQUEST_DONE
};

enum request_ending { /* why the gateway ends it, or has it ended by CANCEL */
                      ENDING_NONE,
                      ENDING_STOP_STRING,
                      ENDING_CLIENT_GONE,
                      ENDING_TOO_LONG,      /* the answer outgrew its memory */
                      ENDING_ECHO_TOO_LONG, /* so would what is told of its prompt */
                      ENDING_NO_MEMORY,     /* there is no room to keep that */
                      ENDING_OTHER_FAILED,  /* another choice has no answer, so there is none */
                      ENDING_NO_UNIT,       /* none could take it for too long */
                      ENDING_DRAINING       /* the server ends */
};

struct request {
    uint8_t state;  /* enum request_state */
    uint8_t ending; /* enum request_ending */
    bool stream;
    bool begun;       /* leader: STREAM_BEGIN has gone out */
    bool spoken;      /* leader: the first event (role, echo) has gone out */
    bool flushed;     /* token_stream_finish has been called */
    bool client_gone; /* leader: say nothing any more */
    bool no_answer; /* leader: a choice ended without one, for choices[no_answer_choice]->reason */
    bool queued;    /* in the gateway's queue */
    bool must_end;  /* queued to be ended, for `reason` */
    uint8_t reason; /* enum finish_reason, once DONE */
    uint8_t no_answer_choice;
    bool prompt_only; /* only the prompt is asked about: the token that units choose is kept back */
    bool has_bos;     /* bos goes in front of the tokens that the host will send */
    enum token_stream_mode mode;
    struct connection_id connection;
    struct request_id id;  /* at the unit; its attempt counts the units that had it before */
    uint32_t unit;         /* in the fleet's table; FLEET_NONE: no unit has it */
    uint32_t avoided_unit; /* the unit that failed it last; FLEET_NONE */
    int64_t retry_ns;      /* may be tried there again */
    uint8_t losses, retries, refusals; /* since its last token */
    uint8_t task;                      /* enum request_task (serving/gateway/handover.h) */
    bool has_last_word;     /* its unit has ended, the one that computed its prompt has not */
    uint32_t prefill;       /* the unit that computes its prompt for `unit`; FLEET_NONE */
    uint64_t prefill_pages; /* promised there */
    struct record_finished last_word;
    uint64_t promised_pages; /* at its unit */
    uint64_t arrival;
    int64_t waits_since_ns;
    struct request *before, *behind; /* in the queue */
    uint32_t index;                  /* among the leader's choices; 0: the leader */
    struct request *leader;
    struct request *choices[LIMIT_CHOICES]; /* leader: [choice_count], itself first */
    uint32_t choice_count;                  /* leader */
    struct api_answer answer;               /* its id is the leader's */
    struct sampling sampling;
    const uint32_t *prompt;      /* leader: [prompt_tokens] in arena */
    const uint64_t *prefix_keys; /* leader: [prefix_key_count] of its leading blocks, in arena */
    uint32_t prefix_key_count;
    uint8_t choice_reason; /* 1 + enum units_reason, of the last choice of a unit; 0: none yet */
    uint32_t stop_token_count;  /* leader */
    uint32_t model_stops_count; /* leader: of them, at the start, are the model's */
    uint32_t stop_tokens[2 * LIMIT_STOP_TOKENS];
    const struct token_bias *biases; /* leader: [bias_count] in arena */
    uint32_t bias_count;
    uint32_t new_tokens_max; /* 0: the default */
    uint32_t prompt_tokens, output_tokens;
    uint32_t scored_count; /* leading tokens of the prompt whose log probabilities are told */
    uint32_t last_token;   /* of the answer so far */
    struct receipt receipt;
    bool wants_receipt;        /* leader: the client asked for it */
    uint32_t account;          /* leader; ACCOUNT_NONE */
    struct tenant_salt tenant; /* leader */
    struct metrics_times times;
    struct token_stream words;
    struct answer_text text;          /* stream: only what is echoed */
    struct token_list echoed;         /* not stream: the prompt's, [scored_count] */
    struct token_list tokens;         /* all of the answer, unless memory ran out */
    size_t tokens_json_bytes;         /* they need at most so many in the answer */
    const struct stop_strings *stops; /* in arena; NULL: none */
    struct waiting_text waiting_text; /* leader */
    struct arena arena;
};

struct request_queue { /* of those that wait for a unit, first come first */
    struct request *first, *last;
    uint32_t count;
    bool wanted;       /* something has changed since it was walked */
    int64_t retry_ns;  /* when the first of those that were failed may be tried again */
    int64_t served_ns; /* when a unit was last seen that takes requests */
};

struct gateway {
    struct gateway_options options;
    struct bytes model_name, version;
    char fingerprint[96];
    struct outbox outbox;
    struct pool pool;
    struct map by_id, by_connection; /* -> slot */
    struct request *requests;        /* [requests_max] */
    int64_t *wake_ns;                /* [requests_max] next keep-alive; MACHINE_NEVER: none */
    uint32_t *free_slots;            /* [requests_max - held_count] stack */
    uint32_t held_count;
    struct arena scratch; /* of one call */
    struct tokenizer_scratch *tokenizer_scratch;
    struct metrics metrics;
    struct accounts accounts;
    struct fleet fleet;
    struct choose_roles roles;
    uint64_t role_changes_total;     /* by policy, not by order */
    struct prefix_affinity affinity; /* which unit has which prompts' beginnings */
    struct request_queue queue;
    struct texts texts;
    uint64_t
        unit_choices[UNITS_REASON_COUNT]; /* a request that waits counts once for each reason */
    uint64_t arrivals, resumed_total, handed_over_total;
    int64_t started_ns; /* first event; MACHINE_NEVER before */
    bool draining;
    int64_t drain_ends_ns; /* what is left then is ended; MACHINE_NEVER */
};

/* Free slots for a connection's choices, each with an id of its own; the leader, or NULL when the
 * table is too full. */
struct request *request_claim(struct gateway *gateway, const struct record_client_request *record,
                              uint32_t choice_count);

/* Forgets the leader and all its choices: tables, memory, keep-alive. */
void request_release(struct gateway *gateway, struct request *leader);

/* NULL if there is none (any more); of a connection, the leader. */
struct request *request_find(struct gateway *gateway, struct request_id id);
struct request *request_of_connection(struct gateway *gateway, struct connection_id connection);

/* The connection gets nothing more: CLIENT_GONE for it finds nobody. */
void request_forget_connection(struct gateway *gateway, struct request *leader);

uint32_t request_slot(const struct gateway *gateway, const struct request *request);

static inline enum metrics_endpoint request_endpoint(const struct request *request) {
    return request->answer.endpoint == API_CHAT ? METRICS_CHAT : METRICS_COMPLETIONS;
}

/* Log probabilities of its prompt are still missing. */
static inline bool request_scores(const struct request *request) {
    return (request->sampling.flags & SAMPLING_SCORES) &&
           request->scored_count < request->prompt_tokens;
}

/* Tokens that the client is told of. */
static inline uint32_t request_told_tokens(const struct request *request) {
    return request->prompt_only ? 0 : request->output_tokens;
}

#endif
