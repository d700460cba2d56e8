/* SPDX-License-Identifier: Apache-2.0
 * The ledger of a simulated fleet: one database, and one writer for each gateway, as in
 * host/ledger. A writer collects the entries that its gateway reports, writes all pending ones at
 * once some time later, and confirms them. It may lose its process between the write and the
 * confirmation. The same entries are then written once more. If a gateway dies, all entries that
 * its writer has not written are lost; the other gateways go on. Prices change within a run, by the
 * calendar that `--prices` reads.
 *
 * Invariants: a client has one entry. A client that has seen the end of an answer has its entry in
 * the database, with the same figures, and at the price of the moment in which the answer ended.
 * Sums by account and by hour equal those of the usage that clients received. If nothing went
 * wrong, entries add up to the counts of units. A unit at rest that all its gateways saw from its
 * start has counted exactly what they entered. No other unit has counted less.
 */
#ifndef SIMULATE_FLEET_LEDGER_H
#define SIMULATE_FLEET_LEDGER_H

#include "base/arena.h"
#include "contract/machine.h"
#include "contract/record_ledger.h"
#include "simulate/fleet_clients.h"
#include "simulate/fleet_dice.h"
#include "simulate/scenario/prices.h"

enum { FLEET_HOURS_MAX = 4, FLEET_TALLIES_MAX = 1024 };

struct fleet_line { /* of one client */
    bool said, written, is_charged;
    uint32_t gateway, life; /* that reported it */
    uint64_t sequence;
    int64_t said_ns, ended_s; /* by the clock; by the entry */
    int64_t amount,
        charged; /* nanos, at the price of that moment; at the price that its gateway knew */
    uint32_t hit_tokens, miss_tokens, output_tokens;
    uint64_t made_tokens, computed_tokens; /* counted by units */
};

struct fleet_writer {                /* of one gateway */
    uint32_t life;                   /* the gateway's incarnation */
    uint64_t said, writing, written; /* sequences: the last one reported, the last one being
                                      * written, the last one written */
    int64_t done_ns;                 /* when the write ends; MACHINE_NEVER: none is under way */
};

struct fleet_sum { /* of an hour, or of the whole run */
    int64_t amount, requests, tokens;
};

/* The last tally of a unit by one incarnation of a gateway. */
struct fleet_reported_totals {
    uint32_t life;
    bool is_lost; /* some counts were lost at any time */
    struct record_unit_totals totals;
};

struct fleet_ledger {
    bool kept;            /* gateways wait for it */
    bool faults;          /* writers may lose their process */
    int64_t write_ns_max; /* the longest write */
    struct fleet_dice dice;
    struct prices prices;
    struct fleet_line *lines; /* [FLEET_CLIENTS_MAX] */
    struct fleet_writer writers[FLEET_GATEWAYS_MAX];
    /* The database: sums of charged entries by hour and account, and by account; */
    struct fleet_sum hours[FLEET_HOURS_MAX][1 + FLEET_TENANTS], accounts[1 + FLEET_TENANTS];
    /* the sums that each gateway's current incarnation has written. */
    struct fleet_sum own[FLEET_GATEWAYS_MAX][1 + FLEET_TENANTS];
    struct fleet_reported_totals *totals; /* [totals_count] of FLEET_TALLIES_MAX */
    uint32_t totals_count;
    uint64_t entries, again, losses; /* reported; written once more; lost processes of writers */
    uint64_t repriced;               /* entries with another price than the first one */
    char breach[200];
};

size_t fleet_ledger_bytes(void);
bool fleet_ledger_open(struct fleet_ledger *ledger, struct arena *arena, uint64_t seed,
                       bool faults);

/* Seconds since 1970 at a time of the run. */
int64_t fleet_ledger_unix_time(int64_t now_ns);

/* The price at a time of the run; the time of the next change, or MACHINE_NEVER. */
struct token_price fleet_ledger_price(const struct fleet_ledger *ledger, int64_t unix_time);
int64_t fleet_ledger_next_price_ns(const struct fleet_ledger *ledger, int64_t now_ns);

/* Begins an incarnation of the gateway, which counts from the beginning. */
void fleet_ledger_begin(struct fleet_ledger *ledger, uint32_t gateway, uint32_t life);

/* Records an ENTRY of the gateway, which knows this price. */
void fleet_ledger_receive(struct fleet_ledger *ledger, uint32_t gateway,
                          const struct token_price *known, const struct record_usage *entry,
                          int64_t now_ns);

/* Records a UNIT_TOTALS of the gateway. */
void fleet_ledger_totals(struct fleet_ledger *ledger, uint32_t gateway,
                         const struct record_unit_totals *totals);

/* Writes the gateway's entries that are due. If true, the caller sends *settled_out to the
 * gateway. */
bool fleet_ledger_run(struct fleet_ledger *ledger, uint32_t gateway, int64_t now_ns,
                      const struct fleet_clients *clients, struct record_committed *settled_out);

/* Ends the gateway's incarnation. */
void fleet_ledger_forget(struct fleet_ledger *ledger, uint32_t gateway,
                         const struct fleet_clients *clients);

/* Checks the entry of a client that has received something. */
void fleet_ledger_check(struct fleet_ledger *ledger, const struct fleet_client *client);

/* Checks at the end that each client has an entry, and that the sums equal those of the usage that
 * clients received. */
void fleet_ledger_verify(struct fleet_ledger *ledger, const struct fleet_clients *clients);

/* The unit is at rest, has counted `counted`, and so many gateways have run since it began. Returns
 * true if all of them have reported that count and it equals their entries. */
bool fleet_ledger_verify_unit(struct fleet_ledger *ledger, uint64_t instance,
                              const struct unit_books *counted, uint32_t gateway_lives);

/* The units' work as all entries have it. */
struct unit_books fleet_ledger_books(const struct fleet_ledger *ledger);

#endif
