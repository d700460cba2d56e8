/* SPDX-License-Identifier: Apache-2.0
 * Bodies of load requests. A prompt depends only on the seed and the request's number, so that two
 * servers get the same prompts. Requests of a trace share tokens if their blocks are the same.
 */
#pragma once

#include "bench/load.h"

/* The URL path for the requests. */
const char *load_body_path(const struct load_options *options);

/* The caller frees data, which is NULL if memory is out. */
struct bytes load_body_take(const struct load_options *options, const char *model,
                            const struct load_request *request, uint64_t number);
