/* SPDX-License-Identifier: Apache-2.0
 * Log lines about requests: one for each request that has ended. Other lines refer to a request by
 * its name, which is the `id` in its answer without the prefix.
 */
#pragma once

#include "base/bytes.h"
#include "contract/record_ledger.h"

#define LOG_REQUEST_BYTES 33

/* Writes the name of a request. Returns `out`. */
const char *log_request_name(struct request_id request, char out[LOG_REQUEST_BYTES]);

/* Returns the size of the name that a client gave its request; 0 if it equals the request's own
 * name, which need not be logged twice. */
int log_request_given(struct request_id request, struct bytes name);

/* Logs the access line, of the subject "access". Requests that were at a unit or were answered are
 * all logged. The others (refused, or left early by their clients) form one kind per account and
 * status; the number of lines of a kind is limited. */
void log_request_ended(const struct record_usage *entry);
