/* SPDX-License-Identifier: Apache-2.0
 * What a client's request is called in its answer's X-Request-Id: as the client called it, or by
 * the random number that also makes the id of its answer, so that one finds the other.
 */
#ifndef HOST_HTTP_REQUEST_NAME_H
#define HOST_HTTP_REQUEST_NAME_H

#include "base/bytes.h"
#include "base/limits.h"

#define REQUEST_NAME_BYTES_MAX LIMIT_REQUEST_NAME /* a client's own; a longer one is not taken */

struct request_name {
    uint64_t random[2];
    char text[REQUEST_NAME_BYTES_MAX + 1];
};

/* A fresh one for the next request. */
void request_name_draw(struct request_name *name);

/* The client's own takes its place, if it is visible ASCII, not empty and not too long. */
void request_name_take(struct request_name *name, struct bytes given);

#endif
