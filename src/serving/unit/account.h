/* SPDX-License-Identifier: Apache-2.0
 * The token account of one request at one unit (struct unit_work): for each token, whether its KV
 * rows came from the prefix cache, the KV storage, another unit, or were computed here. All code
 * that obtains rows reports them here, in sequence order, so that the sums in
 * contract/record_unit.h hold whatever happens to the request. This file makes no decisions.
 */
#pragma once

#include "serving/unit/state.h"

enum account_source {
    ACCOUNT_DEVICE, /* a hit in the prefix cache: the pages were still on the device */
    ACCOUNT_HOST,
    ACCOUNT_DISK,
    ACCOUNT_TRANSFERRED,
    ACCOUNT_COMPUTED
};

/* Reports that the KV rows of tokens [from, end) are now available. Rows below the request's peak
 * were available before, and count as obtained again. */
void account_obtained(struct unit_request *request, enum account_source source, uint32_t from,
                      uint32_t end);

/* The KV storage has the first token_count tokens. They count as hits even if they are computed
 * instead of loaded. */
void account_found(struct unit_request *request, uint32_t token_count);

/* The KV storage could deliver only the first token_count tokens. The others no longer count as
 * hits. */
void account_missed(struct unit_request *request, uint32_t token_count);

/* Ends the queueing time: the first step of the request is about to begin. Later calls do
 * nothing. */
void account_begins(struct unit_request *request, int64_t now_ns);

/* Counts the speculative drafts of an answer's row: `made` were made and `right` were accepted. */
void account_drafted(struct unit_request *request, uint32_t made, uint32_t right);

/* Writes the account for the request's gateway. */
void account_report(const struct unit_request *request, struct unit_work *work_out);
