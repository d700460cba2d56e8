/* SPDX-License-Identifier: Apache-2.0
 * A request's account at its unit (struct unit_work): the origin of each token's KV rows. All code
 * that obtains rows reports it here, in the order of the sequence, so the sums of contract/record.h
 * hold whatever happens to the request. Makes no decisions.
 */
#ifndef SERVING_UNIT_ACCOUNT_H
#define SERVING_UNIT_ACCOUNT_H

#include "serving/unit/state.h"

enum account_source {
    ACCOUNT_DEVICE, /* its pages were still in the prefix cache */
    ACCOUNT_HOST,
    ACCOUNT_DISK,
    ACCOUNT_TRANSFERRED,
    ACCOUNT_COMPUTED
};

/* The rows of tokens [from, end) are available. Those below the peak were available before. */
void account_obtained(struct unit_request *request, enum account_source source, uint32_t from,
                      uint32_t end);

/* The KV storage has so many leading tokens: hits, whether they are loaded or not. */
void account_found(struct unit_request *request, uint32_t token_count);

/* The KV storage could not deliver more than so many tokens: the others were no hits. */
void account_missed(struct unit_request *request, uint32_t token_count);

/* The request's first step is about to begin: ends its waiting time. Later calls do nothing. */
void account_begins(struct unit_request *request, int64_t now_ns);

/* A row of its answer had drafts; so many of them were right. */
void account_drafted(struct unit_request *request, uint32_t made, uint32_t right);

/* The present account, for the request's gateway. */
void account_report(const struct unit_request *request, struct unit_work *work_out);

#endif
