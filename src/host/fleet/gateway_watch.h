/* SPDX-License-Identifier: Apache-2.0
 * A fleet's gateways, as its manager sees them: what they count (GET /metrics), which units they have
 * (GET /debug/fleet), and what is asked of them for a unit. A unit is known by its instance, at all
 * gateways that it is connected to.
 */
#ifndef HOST_FLEET_GATEWAY_WATCH_H
#define HOST_FLEET_GATEWAY_WATCH_H

#include "base/limits.h"
#include "contract/record_fleet.h"
#include "host/fleet/fleet_file.h"

struct gateway_watch;

struct watched_unit {
    uint32_t number;
    uint32_t role;     /* enum unit_role; UNIT_BOTH where it says so */
    uint32_t sight;    /* FLEET_SEEN_STARTING, SERVING or DRAINING */
    uint32_t requests; /* of all gateways */
    char numerics[32]; /* as its gateways say */
    bool alone;        /* no others that serve could go on with what it has, prompts and answers */
    bool refused;      /* a gateway lets it do nothing: another model, or another version */
};

struct gateway_sight {
    uint32_t unit_count;
    struct watched_unit units[MANAGED_UNITS_MAX];
    bool has_load; /* all gateways have answered: */
    struct record_fleet_load load;
};

/* `mark`: of the fleet's units (host/fleet/launcher.h). */
enum status gateway_watch_open(const struct fleet_file *file, const char *mark,
                               struct gateway_watch **watch_out, struct error *error) MUST_USE;
void gateway_watch_close(struct gateway_watch *watch);

/* Asks all gateways. An error is the first one's that did not answer; what the others say is there. */
enum status gateway_watch_look(struct gateway_watch *watch, struct gateway_sight *sight_out,
                               struct error *error) MUST_USE;

/* DRAIN, BACK or ROLE, of every gateway that knows the unit; NOT_FOUND: none does. */
enum status gateway_watch_order(struct gateway_watch *watch,
                                const struct record_fleet_action *action,
                                struct error *error) MUST_USE;

/* Adds one gateway's counts from GET /metrics to the load. Limits are rounded up to the next bound of
 * its histograms. False: `text` is no metrics text. */
bool gateway_watch_add_metrics(struct bytes text, int64_t ttft_limit_ns, int64_t tpot_limit_ns,
                               struct record_fleet_load *load_io);

#endif
