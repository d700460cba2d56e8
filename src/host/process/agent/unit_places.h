/* SPDX-License-Identifier: Apache-2.0
 * The places of a supervisor's units: the ranks of each unit on each host. Units fill the hosts in
 * order (serving/policy/place_ranks.h). Each unit's part on a host has the number of ranks of all
 * units there, which share the CPUs, and of those before it, which have the first devices.
 */
#pragma once

#include "base/status.h"
#include "host/process/agent/unit_hosts.h"
#include "host/process/configuration/host_list.h"

struct unit_places;

/* `own` is this machine's name. `list` NULL: only this machine, which takes any number of ranks.
 * Both must outlive the places and what they return. */
enum status unit_places_open(const struct host_list *list, const char *own,
                             struct unit_places **places_out, struct error *error) MUST_USE;
void unit_places_close(struct unit_places *places);

/* Places a unit, `number` 1.., with its ranks: `hosts` and `parts`, [*count_out], are from malloc.
 * `sharing` of the hosts is not known yet. STATUS_INVALID: too few slots are free. */
enum status unit_places_add(struct unit_places *places, uint32_t number, uint32_t ranks,
                            struct unit_host **hosts_out, struct supervise_host **parts_out,
                            uint32_t *count_out, struct error *error) MUST_USE;

/* Sets `sharing` of a unit's hosts, [count], after all units were added. */
void unit_places_share(const struct unit_places *places, struct unit_host *hosts, uint32_t count);

/* The largest number of ranks on a host. */
uint32_t unit_places_most(const struct unit_places *places);

/* True if a host's name is this machine's: "localhost", or its own name with or without the
 * domain. */
bool unit_places_is_here(const char *own, const char *name);
