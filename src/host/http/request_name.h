/* SPDX-License-Identifier: Apache-2.0
 * The name of a request in the X-Request-Id of its response: the client's own name, or the random
 * number that is also in the id of the response, so that one can be found by the other.
 */
#pragma once

#include "base/bytes.h"
#include "base/limits.h"

/* limit of a client's name; a longer one is ignored */
#define REQUEST_NAME_BYTES_MAX LIMIT_REQUEST_NAME

struct request_name {
    uint64_t random[2];
    char text[REQUEST_NAME_BYTES_MAX + 1];
};

/* Draws a random name for the next request. */
void request_name_draw(struct request_name *name);

/* Replaces the name by the client's if that is visible ASCII, not empty and not too long. */
void request_name_take(struct request_name *name, struct bytes given);
