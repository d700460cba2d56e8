/* SPDX-License-Identifier: Apache-2.0
 * The ledger's report as one HTML page. It has the two charts that DeepSeek published (nodes per
 * hour; cost and theoretical income per hour), the totals, and a table of the accounts.
 */
#pragma once

#include "base/json_writer.h"
#include "host/ledger/ledger_sums.h"

#define LEDGER_ROLES 3               /* enum unit_role */
#define LEDGER_PAGE_HOURS_MAX 100000 /* eleven years; each chart has one point per hour */

struct ledger_totals {
    struct ledger_usage usage;
    double node_hours[LEDGER_ROLES];
    int64_t cost;
};

struct ledger_found {
    const char *title, *currency;
    struct ledger_totals totals;
    struct ledger_hour *hours; /* [hour_count] */
    size_t hour_count;
    struct ledger_account *accounts; /* [account_count] */
    size_t account_count;
};

double ledger_page_node_hours(const struct ledger_totals *totals);
/* Cached share of the prompt tokens; 0 if there are none. */
double ledger_page_hit_rate(const struct ledger_usage *usage);
double ledger_page_margin_percent(const struct ledger_totals *totals);

/* "2026-11-23T07" */
#define LEDGER_HOUR_BYTES 24
void ledger_page_hour(int64_t hour, char out[LEDGER_HOUR_BYTES]);

void ledger_page_write(struct json_writer *writer, const struct ledger_found *found);
