/* SPDX-License-Identifier: Apache-2.0
 * The ledger of a simulated fleet: one database, and one writer for each gateway, as in
 * host/ledger. A writer collects the usage records of its gateway, writes all pending ones at
 * once some time later, and confirms them. It may lose its process between the write and the
 * confirmation. The same records are then written once more. If a gateway dies, all records that
 * its writer has not written are lost; the other gateways continue. Prices change within a run,
 * by the calendar that `--prices` reads.
 *
 * Invariants: a client has one usage record. If a client has received the end of an answer, its
 * record is in the database, with the same figures, and at the price of the moment in which the
 * answer ended. Sums by account and by hour equal those of the usage that clients received.
 * Without faults, usage records add up to the counts of units. If all gateways of an idle unit
 * were connected from its start, its counts equal their records exactly. No other unit has
 * counted less.
 */
#pragma once

#include "base/arena.h"
#include "contract/machine.h"
#include "contract/record_ledger.h"
#include "simulate/clients/fleet_clients.h"
#include "simulate/kernel/fleet_dice.h"
#include "simulate/scenario/prices.h"

enum { FLEET_HOURS_MAX = 4, FLEET_TALLIES_MAX = 1024 };

struct fleet_line { /* the usage record of one client */
    bool said, written, is_charged;
    uint32_t gateway, life; /* gateway and incarnation that reported it */
    uint64_t sequence;
    int64_t said_ns, ended_s; /* by the clock; by the record */
    int64_t amount,
        charged; /* nanos, at the price of that moment; at the price known to its gateway */
    uint32_t hit_tokens, miss_tokens, output_tokens;
    uint64_t made_tokens, computed_tokens; /* counted by units */
};

struct fleet_writer { /* writer of one gateway */
    uint32_t life;    /* the gateway's incarnation */
    /* sequence numbers: last reported, last being written, last written */
    uint64_t said, writing, written;
    int64_t done_ns; /* end of the current write; MACHINE_NEVER: none */
};

struct fleet_sum { /* sum of an hour, or of the whole run */
    int64_t amount, requests, tokens;
};

/* The last totals of a unit, reported by one incarnation of a gateway. */
struct fleet_reported_totals {
    uint32_t life;
    bool is_lost; /* some counts were lost */
    struct record_unit_totals totals;
};

struct fleet_ledger {
    bool kept;            /* gateways wait for the ledger */
    bool faults;          /* writers may lose their process */
    int64_t write_ns_max; /* the longest write */
    struct fleet_dice dice;
    struct prices prices;
    struct fleet_line *lines; /* [FLEET_CLIENTS_MAX] */
    struct fleet_writer writers[FLEET_GATEWAYS_MAX];
    /* The database: sums of charged records by hour and account, and by account; */
    struct fleet_sum hours[FLEET_HOURS_MAX][1 + FLEET_TENANTS], accounts[1 + FLEET_TENANTS];
    /* the sums that each gateway's current incarnation has written. */
    struct fleet_sum own[FLEET_GATEWAYS_MAX][1 + FLEET_TENANTS];
    struct fleet_reported_totals *totals; /* [totals_count] of FLEET_TALLIES_MAX */
    uint32_t totals_count;
    uint64_t entries, again, losses; /* reported; written once more; lost processes of writers */
    char breach[200];
};

bool fleet_ledger_open(struct fleet_ledger *ledger, struct arena *arena, uint64_t seed,
                       bool faults);

/* Seconds since 1970 at a time of the run. */
int64_t fleet_ledger_unix_time(int64_t now_ns);

/* The price at a time of the run. Returns the time of the next change, or MACHINE_NEVER. */
struct token_price fleet_ledger_price(const struct fleet_ledger *ledger, int64_t unix_time);
int64_t fleet_ledger_next_price_ns(const struct fleet_ledger *ledger, int64_t now_ns);

/* Begins an incarnation of the gateway, which counts from the beginning. */
void fleet_ledger_begin(struct fleet_ledger *ledger, uint32_t gateway, uint32_t life);

/* Receives a USAGE record of the gateway, which has this price. */
void fleet_ledger_receive(struct fleet_ledger *ledger, uint32_t gateway,
                          const struct token_price *known, const struct record_usage *entry,
                          int64_t now_ns);

/* Receives a UNIT_TOTALS of the gateway. */
void fleet_ledger_totals(struct fleet_ledger *ledger, uint32_t gateway,
                         const struct record_unit_totals *totals);

/* Writes the gateway's records that are due. If it returns true, the caller sends *settled_out to
 * the gateway. */
bool fleet_ledger_run(struct fleet_ledger *ledger, uint32_t gateway, int64_t now_ns,
                      const struct fleet_clients *clients, struct record_committed *settled_out);

/* Ends the gateway's incarnation. */
void fleet_ledger_forget(struct fleet_ledger *ledger, uint32_t gateway,
                         const struct fleet_clients *clients);

/* Checks the usage record of a client that has received data. */
void fleet_ledger_check(struct fleet_ledger *ledger, const struct fleet_client *client);

/* Checks at the end that each client has a usage record, and that the sums equal those of the usage
 * that clients received. */
void fleet_ledger_verify(struct fleet_ledger *ledger, const struct fleet_clients *clients);

/* Verifies an idle unit that has counted `counted`. Returns true if all gateways that ran since its
 * start have reported that count and it equals their records. */
bool fleet_ledger_verify_unit(struct fleet_ledger *ledger, uint64_t instance,
                              const struct unit_books *counted, uint32_t gateway_lives);

/* The units' work according to all usage records. */
struct unit_books fleet_ledger_books(const struct fleet_ledger *ledger);
