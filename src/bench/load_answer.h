/* SPDX-License-Identifier: Apache-2.0
 * Parses one event of a streamed answer in OpenAI's format, as sent by our server, llama-server,
 * vLLM and SGLang.
 */
#pragma once

#include "base/bytes.h"
#include "base/status.h"

struct load_answer {
    bool done;          /* the last event: [DONE] */
    bool failed;        /* the server reports an error, in `message` */
    bool has_tokens;    /* it has text or tokens of the answer */
    bool finished;      /* it has a finish_reason */
    bool has_usage;     /* the next two are set */
    uint32_t token_ids; /* number listed in the event; 0: the server sends text only */
    uint64_t prompt_tokens, output_tokens;
    uint64_t
        cached_tokens; /* tokens of the prompt that the server did not have to compute; 0 also if
                        * not reported */
    char message[160];
};

/* `memory` (of memory_bytes) is scratch. Returns STATUS_INVALID if it is not JSON in the format of
 * such servers. */
enum status load_answer_read(struct bytes data, void *memory, size_t memory_bytes,
                             struct load_answer *answer_out, struct error *error);

/* The first model's id in the answer of GET /v1/models, cut to id_bytes - 1. */
enum status load_answer_model(struct bytes body, void *memory, size_t memory_bytes, char *id_out,
                              size_t id_bytes, struct error *error);

/* Finds the message in an error's body. Returns false if there is none. */
bool load_answer_error(struct bytes body, void *memory, size_t memory_bytes, char *message_out,
                       size_t message_bytes);
