/* SPDX-License-Identifier: Apache-2.0
 * What one event of a streamed answer says, for whoever measures it: OpenAI's format, as spoken by
 * our server, llama-server, vLLM, SGLang.
 */
#ifndef BENCH_LOAD_ANSWER_H
#define BENCH_LOAD_ANSWER_H

#include "base/bytes.h"
#include "base/status.h"

struct load_answer {
    bool done;          /* the last event: [DONE] */
    bool failed;        /* the server reports an error; `message` says which */
    bool has_tokens;    /* it brings text or tokens of the answer */
    bool finished;      /* it has a finish_reason */
    bool has_usage;     /* the next two are set */
    uint32_t token_ids; /* listed in the event; 0: the server sends text alone */
    uint64_t prompt_tokens, output_tokens;
    uint64_t
        cached_tokens; /* of the prompt, that the server did not have to compute; 0: or unsaid */
    char message[160];
};

/* `memory` (of memory_bytes) is scratch. STATUS_INVALID: not the JSON that such servers send. */
enum status load_answer_read(struct bytes data, void *memory, size_t memory_bytes,
                             struct load_answer *answer_out, struct error *error);

/* The first model's id in the answer of GET /v1/models, cut to id_bytes - 1. */
enum status load_answer_model(struct bytes body, void *memory, size_t memory_bytes, char *id_out,
                              size_t id_bytes, struct error *error);

/* The message of an error answer's body; false if there is none to be found. */
bool load_answer_error(struct bytes body, void *memory, size_t memory_bytes, char *message_out,
                       size_t message_bytes);

#endif
