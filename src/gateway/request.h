/* SPDX-License-Identifier: Apache-2.0
 * The gateway's inside: its tables, and one request's life in them.
 *
 *   FREE -> TOKENIZING (long text, at the host) -> SUBMITTED -> (a stop string: ENDING) -> FREE
 *
 * A request stays until the unit's FINISHED has come, even when its client has gone or a stop
 * string has ended it: only then is its account complete. All its memory is its arena, cleared at
 * the end.
 */
#ifndef GATEWAY_REQUEST_H
#define GATEWAY_REQUEST_H

#include "base/map.h"
#include "contract/machine.h"
#include "gateway/api_response.h"
#include "gateway/gateway.h"
#include "gateway/metrics.h"

enum request_state { REQUEST_FREE, REQUEST_TOKENIZING, REQUEST_SUBMITTED, REQUEST_ENDING };

enum request_ending { /* why the gateway has sent CANCEL */
                      ENDING_NONE,
                      ENDING_STOP_STRING,
                      ENDING_CLIENT_GONE,
                      ENDING_TOO_LONG /* the answer outgrew its memory */
};

struct request {
    uint8_t state;  /* enum request_state */
    uint8_t ending; /* enum request_ending */
    bool stream;
    bool begun;       /* STREAM_BEGIN has gone out */
    bool spoken;      /* ... and the first event (role, echo) */
    bool flushed;     /* token_stream_finish has been called */
    bool client_gone; /* say nothing any more */
    bool ignore_eos;
    bool has_bos; /* bos goes in front of the tokens that the host will send */
    enum token_stream_mode mode;
    struct connection_id connection;
    struct api_answer answer; /* its id is the request's */
    struct sampling sampling;
    uint32_t new_tokens_max; /* 0: the default */
    uint32_t prompt_tokens, output_tokens;
    struct metrics_times times;
    struct token_stream words;
    struct answer_text text;          /* stream: only what is echoed */
    const struct stop_strings *stops; /* in arena; NULL: none */
    struct arena arena;
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
    struct record_unit_hello unit; /* record.kind is RECORD_NONE before it has come */
    struct record_unit_load load;
    int64_t started_ns; /* first event; MACHINE_NEVER before */
    bool draining;
};

/* A free slot for this connection, with an id of its own; NULL when the table is full. */
struct request *request_claim(struct gateway *gateway, const struct record_client_request *record);

/* Forgets the request: tables, memory, keep-alive. */
void request_release(struct gateway *gateway, struct request *request);

/* NULL if there is none (any more). */
struct request *request_find(struct gateway *gateway, struct request_id id);
struct request *request_of_connection(struct gateway *gateway, struct connection_id connection);

/* The connection will hear nothing more: CLIENT_GONE for it finds nobody. */
void request_forget_connection(struct gateway *gateway, struct request *request);

uint32_t request_slot(const struct gateway *gateway, const struct request *request);

static inline enum metrics_endpoint request_endpoint(const struct request *request) {
    return request->answer.endpoint == API_CHAT ? METRICS_CHAT : METRICS_COMPLETIONS;
}

#endif
