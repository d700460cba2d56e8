/* SPDX-License-Identifier: Apache-2.0
 * Bodies of requests, read as a gateway reads them whose model has the names "m" and "quick" and
 * whose chat template can think, or not, and knows tools.
 */
#pragma once

#include "serving/gateway/api/api_request.h"
#include "serving/gateway/dialects/chat_dialect.h"
#include "serving/gateway/dialects/completion_dialect.h"

struct bodies {
    struct api_defaults defaults; /* may be changed; zeros before bodies_open */
    struct api_request request;   /* of the last body */
    struct api_error error;
};

void bodies_open(struct bodies *bodies);

/* `members`: of a chat of one message, or a completion, with what they share left out:
 * "\"n\":2". */
bool bodies_chat(struct bodies *bodies, const char *members);
bool bodies_completion(struct bodies *bodies, const char *members);

/* A whole body. */
bool bodies_read(struct bodies *bodies, const struct dialect *dialect, const char *body);

/* The last body was refused so. */
void bodies_refused(const struct bodies *bodies, uint32_t http_status, const char *param,
                    const char *code);
