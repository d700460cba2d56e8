/* SPDX-License-Identifier: Apache-2.0
 * The gateways of a fleet, for its manager: their reports (POST /debug/fleet/load), and orders to
 * them about a unit. A unit's instance identifies it at all gateways.
 */
#pragma once

#include "contract/record_fleet.h"
#include "host/fleet/fleet_file.h"

struct gateway_watch;

/* `tag`: the tag of the fleet's units (host/fleet/launcher.h). */
enum status gateway_watch_open(const struct fleet_file *file, const char *tag,
                               struct gateway_watch **watch_out, struct error *error) MUST_USE;
void gateway_watch_close(struct gateway_watch *watch);

/* Requests the report of a gateway. *report_out is always set, and valid until the next call. After
 * an error it states that the gateway does not respond. */
enum status gateway_watch_poll(struct gateway_watch *watch, uint32_t gateway,
                               const struct record_fleet_gateway **report_out,
                               struct error *error) MUST_USE;

/* Sends a DRAIN, RESUME or ROLE to its gateway. Returns NOT_FOUND if no gateway is connected to the
 * unit. */
enum status gateway_watch_order(struct gateway_watch *watch,
                                const struct record_fleet_action *action,
                                struct error *error) MUST_USE;
