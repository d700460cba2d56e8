/* SPDX-License-Identifier: Apache-2.0
 * A request's account at its unit (struct unit_work): the origin of each token's KV rows. All code
 * that obtains rows reports it here, in the order of the sequence, so the sums of
 * contract/record_unit.h hold whatever happens to the request. Makes no decisions.
 */
#pragma once

#include "serving/unit/state.h"

enum account_source {
    ACCOUNT_DEVICE, /* pages still in the prefix cache */
    ACCOUNT_HOST,
    ACCOUNT_DISK,
    ACCOUNT_TRANSFERRED,
    ACCOUNT_COMPUTED
};

/* Reports rows of tokens [from, end) as available. Rows below the peak were available before. */
void account_obtained(struct unit_request *request, enum account_source source, uint32_t from,
                      uint32_t end);

/* The KV storage has the first token_count tokens. They are hits, whether they are loaded or
 * not. */
void account_found(struct unit_request *request, uint32_t token_count);

/* The KV storage could deliver only the first token_count tokens. The others were no hits. */
void account_missed(struct unit_request *request, uint32_t token_count);

/* Ends the waiting time, because the first step of the request is about to begin. Later calls do
 * nothing. */
void account_begins(struct unit_request *request, int64_t now_ns);

/* Counts the drafts of an answer row, and the right ones. */
void account_drafted(struct unit_request *request, uint32_t made, uint32_t right);

/* Writes the account for the request's gateway. */
void account_report(const struct unit_request *request, struct unit_work *work_out);
