/* SPDX-License-Identifier: Apache-2.0
 * What the log says of requests: one line for each that has ended, and the name by which lines
 * elsewhere mean it, which is what follows the prefix in its answer's `id`.
 */
#pragma once

#include "base/bytes.h"
#include "contract/record_ledger.h"

#define LOG_REQUEST_BYTES 33

/* Returns `out`. */
const char *log_request_name(struct request_id request, char out[LOG_REQUEST_BYTES]);

/* Bytes of the name that a client gave its request; 0: it is called as we call it, which need not
 * be said twice. */
int log_request_given(struct request_id request, struct bytes name);

/* The access line, of the subject "access". Those that units had or that were answered are all
 * said. The others (refused, or left by their clients before) are of one kind for an account and a
 * status: of a flood some are said, and the rest counted. */
void log_request_ended(const struct record_usage *entry);
