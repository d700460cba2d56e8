/* SPDX-License-Identifier: Apache-2.0
 * The gateway's load report to the fleet's manager (autoscaler).
 */
#pragma once

#include "contract/record_fleet.h"

struct gateway;

/* Fills the record except its head and index, and units_out[LIMIT_FLEET_UNITS] except their
 * numbers. Latency limits are rounded up to the next bucket bound of the gateway's histograms. */
void fleet_report_fill(const struct gateway *gateway, int64_t ttft_limit_ns, int64_t tpot_limit_ns,
                       struct record_fleet_gateway *report_out,
                       struct fleet_gateway_unit *units_out);
