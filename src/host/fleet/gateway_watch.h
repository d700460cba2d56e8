/* SPDX-License-Identifier: Apache-2.0
 * A fleet's gateways, as its manager sees them: their reports (POST /debug/fleet/load), and orders to
 * them for a unit. A unit is known by its instance at all gateways that it is connected to.
 */
#ifndef HOST_FLEET_GATEWAY_WATCH_H
#define HOST_FLEET_GATEWAY_WATCH_H

#include "contract/record_fleet.h"
#include "host/fleet/fleet_file.h"

struct gateway_watch;

/* `mark`: of the fleet's units (host/fleet/launcher.h). */
enum status gateway_watch_open(const struct fleet_file *file, const char *mark,
                               struct gateway_watch **watch_out, struct error *error) MUST_USE;
void gateway_watch_close(struct gateway_watch *watch);

/* Asks a gateway of the file. *report_out is set in any case, valid until the next look; after an error
 * it says that the gateway does not answer. */
enum status gateway_watch_look(struct gateway_watch *watch, uint32_t gateway,
                               const struct record_fleet_gateway **report_out,
                               struct error *error) MUST_USE;

/* Sends a DRAIN, BACK or ROLE to its gateway. NOT_FOUND: no gateway knows the unit. */
enum status gateway_watch_order(struct gateway_watch *watch,
                                const struct record_fleet_action *action,
                                struct error *error) MUST_USE;

#endif
