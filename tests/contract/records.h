/* SPDX-License-Identifier: Apache-2.0
 * A good example of each kind of record, for the tests that spoil them. There is one at a time:
 * each lies where the one before lay.
 */
#pragma once

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/random.h"
#include "contract/kv_block.h"
#include "contract/machine.h"
#include "contract/record_client.h"
#include "contract/record_fleet.h"
#include "contract/record_kv.h"
#include "contract/record_ledger.h"
#include "contract/record_unit.h"
#include "contract/step_plan.h"

extern char records_memory[4096];

void *records_make(enum record_kind kind, const void *fixed);

void *good_client_request(void);
void *good_accounts(void);
void *good_settled(void);
void *good_entry(void);
void *good_unit_totals(void);
void *good_respond(void);
void *good_stream_data(void);
void *good_tokenize(void);
void *good_tokenized(void);
void *good_constrain(void);
void *good_constrained(void);
void *good_submit(void);
void *good_cancel(void);
void *good_hello(void);
void *good_tokens(void);
void *good_progress(void);
void *good_scores(void);
void *good_finished(void);
void *good_plan(void);
void *good_result(void);
void *good_gone(void);
void *good_drain(void);
void *good_role(void);
void *good_begin(void);
void *good_end(void);
void *good_load(void);
void *good_joined(void);
void *good_lost(void);
void *good_continue(void);
void *good_reserved(void);
void *good_drain_of_rank(void);
void *good_experts(void);
void *good_expect(void);
void *good_push(void);
void *good_kv_cancel(void);
void *good_kv_done(void);
void *good_find(void);
void *good_found(void);
void *good_kv_load(void);
void *good_kv_park(void);
void *good_kv_loaded(void);
void *good_keep(void);
void *good_kept(void);
void *good_kv_hello(void);
void *good_fleet_load(void);
void *good_fleet_unit(void);
void *good_fleet_command(void);
void *good_fleet_action(void);
void *good_fleet_gateway(void);
void *good_fleet_jobs(void);
void *good_from_unit(void);
void *good_to_unit(void);

/* The record made last, carried (kind TO_UNIT or FROM_UNIT). */
void *records_carry(enum record_kind kind, const struct record *inner);

/* One of each kind, made when it is called. */
extern void *(*const good_records[])(void);
extern const size_t good_records_count;

void assert_invalid(const void *record);
