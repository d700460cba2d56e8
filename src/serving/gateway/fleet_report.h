/* SPDX-License-Identifier: Apache-2.0
 * What an operator sees and says of the fleet. GET /debug/fleet:
 *
 *   {"units":[{"id","role","state":"joining|serving|draining|silent|refused","model","numerics",
 *     "ranks":[{"pid","requests_waiting","requests_running","requests_parked","kv_pages":{...}}],
 *     "requests_bound","requests_waiting","requests_running",
 *     "kv_pages":{"free","held","cached","total"},"steps_total","last_step_ms",
 *     "prefill_choices":{reason: times},"decode_choices":{reason: times}}],
 *    "unit_choices":{reason: times},"queue","requests","resumed_total","role_changes_total",
 *    "lost_units_total"}
 *
 * POST /debug/fleet/drain with {"unit":id}: that unit takes nothing new and finishes what it has;
 * with "back":true it serves again. With "rank":r the same of one rank.
 * POST /debug/fleet/role with {"unit":id,"role":"prefill|decode|both"}: what it is used for by
 * requests to come.
 */
#ifndef SERVING_GATEWAY_FLEET_REPORT_H
#define SERVING_GATEWAY_FLEET_REPORT_H

#include "serving/gateway/gateway_state.h"

enum status fleet_report(struct gateway *gateway, struct connection_id connection) MUST_USE;

enum status fleet_report_drain(struct gateway *gateway,
                               const struct record_client_request *record) MUST_USE;

enum status fleet_report_role(struct gateway *gateway,
                              const struct record_client_request *record) MUST_USE;

#endif
