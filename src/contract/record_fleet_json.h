/* SPDX-License-Identifier: Apache-2.0
 * The record FLEET_GATEWAY in JSON. A gateway sends it in response to POST /debug/fleet/load, and
 * the host of the fleet manager reads it:
 *
 *   {"load":{"arrived_requests":N, and each other name of `load_members`},
 *    "units":[{"instance":"16 hexadecimal digits","connection":N,"role":"prefill|decode|both",
 *      "sight":"starting|serving|draining","requests":N,"refused":bool,"numerics":"text"}]}
 */
#pragma once

#include "base/json_writer.h"
#include "base/tree.h"
#include "contract/record_fleet.h"

void record_fleet_json_write(struct json_writer *writer, const struct record_fleet_gateway *report,
                             const struct fleet_gateway_unit *units);

/* Reads the counters and at most units_max units, without their numbers. Returns false if a member
 * is missing or has another type; *missing_out is then its name. Unknown members are ignored. */
bool record_fleet_json_read(const struct tree *root, struct record_fleet_gateway *report_out,
                            struct fleet_gateway_unit *units_out, uint32_t units_max,
                            const char **missing_out);
