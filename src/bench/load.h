/* SPDX-License-Identifier: Apache-2.0
 * A load generator for OpenAI-style servers. It sends streaming requests, either with a fixed
 * concurrency or at given times, and records the client's view. It has one thread, and one
 * keep-alive connection for each running request.
 *
 * Times are seconds from the measurement's start. A request's times count from its arrival, not
 * from when a connection was free for it. A slow server therefore cannot hide behind a client that
 * waits for it ("coordinated omission").
 */
#pragma once

#include "base/bytes.h"
#include "base/status.h"

#define LOAD_CONCURRENCY_MAX 20000

struct load_request {
    double arrival; /* open load only */
    uint32_t prompt_tokens, output_tokens;
    const uint64_t *blocks; /* ids of its shared blocks (simulate/load/load_trace.h); NULL: none */
    uint32_t block_count, block_tokens; /* of each; the last block may be shorter */
};

enum load_failure {
    LOAD_OK,
    LOAD_NO_CONNECTION,
    LOAD_TIMEOUT,
    LOAD_BROKEN,      /* the answer ended too early or is not in the format of such servers */
    LOAD_REFUSED,     /* HTTP 429 or 503: the server is overloaded */
    LOAD_HTTP_CLIENT, /* any other HTTP status from 400 on … */
    LOAD_HTTP_SERVER, /* … and from 500 on */
    LOAD_IN_STREAM,   /* the server reported an error in the middle */
    LOAD_LEFT,        /* no failure: the client disconnected as planned */
    LOAD_FAILURE_COUNT
};

static inline const char *load_failure_name(enum load_failure failure) {
    static const char *const names[LOAD_FAILURE_COUNT] = {
        [LOAD_OK] = "ok",
        [LOAD_NO_CONNECTION] = "no_connection",
        [LOAD_TIMEOUT] = "timeout",
        [LOAD_BROKEN] = "broken",
        [LOAD_REFUSED] = "refused",
        [LOAD_HTTP_CLIENT] = "http_4xx",
        [LOAD_HTTP_SERVER] = "http_5xx",
        [LOAD_IN_STREAM] = "in_stream",
        [LOAD_LEFT] = "left",
    };
    return names[failure];
}

struct load_result {
    double arrival, sent, first, last, end; /* first, last: of events with tokens */
    uint32_t prompt_tokens, output_tokens;  /* as counted by the server; otherwise events */
    uint32_t cached_tokens;                 /* of the prompt, as reported by the server */
    enum load_failure failure;
};

struct load_options {
    const char *url, *model; /* model NULL: the first that the server lists */
    const char *extra;       /* additional members of the body, JSON without braces; NULL: none */
    bool chat, text_prompts; /* chat: always text */
    bool ignore_eos, open;   /* open: requests are sent at their arrival times */
    uint32_t concurrency;    /* the most at a time */
    uint32_t token_low, token_high; /* prompts draw ids in [low, high) */
    uint32_t leave_percent;         /* of requests that disconnect in the middle of the answer */
    double seconds_max;             /* no request begins later; 0: no limit */
    uint32_t warmup;                /* requests of the first one's shape before the measurement */
    uint32_t stall_ms_max;
    uint64_t seed;
    double temperature;
};

struct load_outcome {
    struct load_result *results; /* [request_count] */
    size_t request_count;        /* begun requests: all, or fewer because of seconds_max */
    double *gaps;                /* [gap_count] seconds from event to event within answers */
    size_t gap_count;
    double seconds; /* from the start to the last answer's end */
    uint32_t running_max;
    char model[256];
    char messages[LOAD_FAILURE_COUNT][160]; /* of the first failure of each kind */
};

/* Fails only if nothing can be measured at all (bad URL, no server, no memory). The caller frees
 * the results. */
enum status load_run(const struct load_options *options, const struct load_request *requests,
                     size_t request_count, struct load_outcome *outcome_out, struct error *error);
void load_outcome_free(struct load_outcome *outcome);
