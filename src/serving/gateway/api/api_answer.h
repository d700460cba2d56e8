/* SPDX-License-Identifier: Apache-2.0
 * Inner answers: the content of responses, independent of the dialect. A whole answer is a list of
 * choices. A stream is a sequence of events. The events of one choice are in this order,
 * interleaved with those of other choices:
 *
 *   BEGIN    once, before all else of the choice
 *   PIECE    any number: text of one part, or log probabilities alone
 *   FINISH   once
 *
 * The answer ends with one DONE, or with FAILED at any point, even before any BEGIN.
 */
#pragma once

#include "contract/ids.h"
#include "serving/gateway/api/answer_calls.h"
#include "serving/gateway/api/answer_text.h"
#include "serving/gateway/api/api_error.h"
#include "serving/gateway/api/token_list.h"
#include "serving/gateway/api/tool_alias.h"
#include "serving/text/token_stream.h"

struct dialect;

/* Metadata, the same for all choices of a request. */
struct api_answer {
    const struct dialect *dialect;
    bool include_usage; /* a stream's chunks have "usage" (null except in the last) */
    bool token_ids;     /* report token ids: asked for, or there is no tokenizer */
    bool logprobs;
    bool progress;        /* a stream reports the progress of its prompt in chunks */
    bool seals_reasoning; /* reasoning is repeated in the form in which clients may send it back */
    struct tool_aliases aliases;
    struct bytes
        reported; /* JSON of request fields that answers repeat, written by the dialect's reader */
    const struct tokenizer *tokenizer; /* NULL: none */
    struct request_id id;
    int64_t created; /* Unix seconds */
    struct bytes model;
    struct bytes fingerprint;
};

struct api_usage {
    uint32_t prompt_tokens;
    uint32_t prompt_hit_tokens;
    uint32_t completion_tokens;
    uint32_t reasoning_tokens;
    uint32_t drafts_made, drafts_right; /* draft tokens proposed, and those accepted */
    int64_t prompt_ns, answer_ns; /* first answer: to its first token, from there to its last */
};

struct api_progress { /* of a prompt */
    uint32_t prompt_tokens;
    uint32_t ready_tokens;  /* leading tokens that are computed or cached */
    uint32_t cached_tokens; /* <= ready_tokens */
    int64_t ns;             /* time since the unit began to compute it */
};

enum api_finish {
    API_FINISH_NONE,        /* not yet, or never */
    API_FINISH_STOP,        /* the model or a stop token ended it */
    API_FINISH_STOP_STRING, /* a stop string */
    API_FINISH_LENGTH,
    API_FINISH_CALLS, /* the model made tool calls, or the limit of calls was reached */
    API_FINISH_CUT    /* the engine failed, or the answer outgrew its memory */
};

/* One choice of an answer. Its index is its position among the choices. */
struct api_choice {
    const struct answer_text *text;   /* reasoning and content */
    const struct answer_calls *calls; /* tool calls; each has its byte position in the text */
    const struct token_list *echoed;  /* tokens of the prompt; NULL unless they are reported */
    const struct token_list *tokens;  /* empty unless ids or log probabilities were asked for */
    enum api_finish finish;
    struct bytes stop; /* the stop string, if `finish` is STOP_STRING */
};

struct api_piece {          /* a piece of a choice's stream */
    struct api_piece *next; /* next piece in an answer_delta */
    /* REASONING, CONTENT, CALL (the text is its name), ARGUMENTS (of the last call). Never CALL_ID:
     * the CALL has the id */
    enum token_stream_part part;
    struct bytes text;
    uint32_t token_at;               /* index in the answer of the token that began the piece */
    uint32_t call;                   /* CALL, ARGUMENTS: index of the call in the choice */
    struct bytes call_id;            /* CALL: the model's own id, or a generated one */
    const struct token_list *echoed; /* reported tokens of the prompt; NULL: none */
    const struct token_list *tokens; /* list with the reported tokens; NULL: none */
    uint32_t from, to;               /* reported range [from, to) of `tokens` */
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
    uint32_t choice;        /* index of the choice; 0 with DONE and FAILED */
    bool in_reasoning;      /* BEGIN: the prompt has opened the reasoning */
    struct api_piece piece; /* PIECE */
    enum api_finish finish; /* FINISH, DONE (the first choice's) */
    struct bytes stop;      /* the stop string, if `finish` is STOP_STRING */
    const struct api_choice
        *whole; /* PIECE, FINISH, DONE (first choice): the choice so far, for dialects that
                 * repeat it; else NULL */
    struct api_usage usage;        /* DONE; BEGIN: of the prompt alone */
    struct bytes receipt;          /* DONE: JSON; empty: none */
    const struct api_error *error; /* FAILED */
};

/* The state of a dialect's event printer for one choice; zeros before the first event. */
struct dialect_place {
    uint32_t events; /* count of printed events */
    uint32_t blocks; /* count of opened content blocks or output items */
    uint32_t open;   /* kind of the open block, in the dialect's own numbers; 0: none */
    size_t reported; /* tokens with log probabilities that were reported, or never will be */
};
