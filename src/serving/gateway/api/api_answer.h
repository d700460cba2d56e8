/* SPDX-License-Identifier: Apache-2.0
 * Inner answers: what is to be said to a client, whatever dialect says it. A whole answer is a list
 * of choices. A stream is a row of events; those of one choice come in this order, between those of
 * others:
 *
 *   BEGIN    once, before all else of the choice
 *   PIECE    any number: text of one part, or log probabilities alone
 *   FINISH   once
 *
 * and at the end of the answer one DONE, or FAILED at any place, also before any BEGIN.
 */
#ifndef SERVING_GATEWAY_API_API_ANSWER_H
#define SERVING_GATEWAY_API_API_ANSWER_H

#include "contract/ids.h"
#include "serving/gateway/api/answer_calls.h"
#include "serving/gateway/api/answer_text.h"
#include "serving/gateway/api/api_error.h"
#include "serving/gateway/api/token_list.h"
#include "serving/gateway/api/tool_alias.h"
#include "serving/text/token_stream.h"

struct dialect;

/* What every answer to one request says about itself. */
struct api_answer {
    const struct dialect *dialect;
    bool include_usage; /* a stream's chunks carry "usage" (null, but for the last) */
    bool token_ids;     /* wanted, or all there is: without a tokenizer answers are ids */
    bool logprobs;
    bool seals_reasoning; /* reasoning is told once more, in the form in which it may come back */
    struct tool_aliases aliases;
    struct bytes told; /* what it repeats of its request: written by the dialect when it read it */
    const struct tokenizer *tokenizer; /* NULL: none */
    struct request_id id;
    int64_t created; /* unix seconds */
    struct bytes model;
    struct bytes fingerprint;
};

struct api_usage {
    uint32_t prompt_tokens;
    uint32_t prompt_hit_tokens;
    uint32_t completion_tokens;
    uint32_t reasoning_tokens;
    uint32_t drafts_made, drafts_right; /* tokens guessed ahead, and those that were right */
};

enum api_finish {
    API_FINISH_NONE,        /* not yet, or never */
    API_FINISH_STOP,        /* the model ended it, or a stop token */
    API_FINISH_STOP_STRING, /* a stop string */
    API_FINISH_LENGTH,
    API_FINISH_CALLS, /* the model ended it, or as many calls were made as may be */
    API_FINISH_CUT    /* the engine failed, or the answer outgrew its memory */
};

/* One of the answers to a request; its index is its place among them. */
struct api_choice {
    const struct answer_text *text;   /* reasoning and content */
    const struct answer_calls *calls; /* each says at which byte of the text it stands */
    const struct token_list *echoed;  /* of the prompt; NULL unless they are to be told */
    const struct token_list *tokens;  /* empty unless ids or log probabilities are wanted */
    enum api_finish finish;
    struct bytes stop; /* with STOP_STRING: which one */
};

struct api_piece { /* of a choice, in a stream */
    /* REASONING, CONTENT, CALL (the text is its name), ARGUMENTS (of the last call); never CALL_ID:
     * that is told with the CALL */
    enum token_stream_part part;
    struct bytes text;
    uint32_t call;                   /* CALL, ARGUMENTS: its index in the choice */
    struct bytes call_id;            /* CALL: the model's own, or made */
    const struct token_list *echoed; /* NULL: none of the prompt's */
    const struct token_list *tokens; /* NULL: none are told */
    uint32_t from, to;               /* of tokens */
};

enum api_event_kind {
    API_EVENT_BEGIN,
    API_EVENT_PIECE,
    API_EVENT_FINISH,
    API_EVENT_DONE,
    API_EVENT_FAILED
};

struct api_event {
    enum api_event_kind kind;
    uint32_t choice;        /* its index; 0 with DONE and FAILED */
    bool in_reasoning;      /* BEGIN: the prompt has opened the reasoning */
    struct api_piece piece; /* PIECE */
    enum api_finish finish; /* FINISH, DONE (the first choice's) */
    struct bytes stop;      /* as finish: with STOP_STRING, which one */
    const struct api_choice
        *whole; /* PIECE, FINISH, DONE (the first): for a dialect that repeats; else NULL */
    struct api_usage usage;        /* DONE; BEGIN: of the prompt alone */
    struct bytes receipt;          /* DONE: JSON; empty: none */
    const struct api_error *error; /* FAILED */
};

/* What a dialect's printer knows of the events before, of one choice; zeros before the first. */
struct dialect_place {
    uint32_t events; /* told */
    uint32_t blocks; /* opened: content blocks, output items */
    uint32_t open;   /* what the open one is, in the dialect's own numbers; 0: none */
    size_t told; /* tokens of the answer whose log probabilities have been told, or never will */
};

#endif
