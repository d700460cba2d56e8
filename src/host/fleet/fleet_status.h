/* SPDX-License-Identifier: Apache-2.0
 * The status of a fleet: a table for people, JSON for programs, and metrics.
 *
 *   {"units":[{"id","role","state","nodes","launcher","job"}],"wanted":{"prefill","decode"},
 *    "next":{"at","action","reason"}}
 *
 * `nodes` is a count, `at` a time in UTC; `next` has nulls if no change is expected within a
 * day.
 */
#pragma once

#include "base/json_writer.h"
#include "host/fleet/fleet_file.h"
#include "serving/fleet/fleet_keeper.h"

struct fleet_moment {
    const struct fleet_file *file;
    const struct fleet_manager *manager;
    const struct kept_unit *units; /* [unit_count] */
    uint32_t unit_count;
    int64_t wall_ns;
    const char *launcher;
    const char *trouble; /* reason why the state of the fleet is incomplete; "": it is complete */
};

void fleet_status_write_json(struct json_writer *writer, const struct fleet_moment *reported);
void fleet_status_write_table(struct json_writer *writer, const struct fleet_moment *reported);
void fleet_status_write_metrics(struct json_writer *writer, const struct fleet_moment *reported);
