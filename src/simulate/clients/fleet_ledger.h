/* SPDX-License-Identifier: Apache-2.0
 * The ledger of a simulated fleet: one database, and one writer for each gateway, as in
 * host/ledger. A writer collects the usage records of its gateway. After a while it writes all
 * pending ones in one transaction and confirms them. Its process may die between the write and the
 * confirmation; then the same records are written again. If a gateway dies, the records that its
 * writer has not written are lost, and the other gateways continue. Prices change within a run, by
 * a calendar as in a file for `--prices`.
 *
 * Invariants: a client has one usage record. Once a client has received the end of an answer, its
 * record is in the database, with the same token counts, at the price of the moment at which the
 * answer ended. The sums by account and by hour equal those of the usage that clients received.
 * Without faults, usage records add up to the counters of the units. If all gateways of an idle
 * unit were connected since its start, its counters equal their records exactly. Every other unit
 * has counted at least as much as the records.
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
    uint32_t gateway, life; /* the gateway and its incarnation that reported it */
    uint64_t sequence;
    int64_t said_ns, ended_s; /* when it was reported; the end in the record */
    int64_t amount,
        charged; /* nanos, at the true price of its end; at the price that its gateway knew */
    uint32_t hit_tokens, miss_tokens, output_tokens;
    uint64_t made_tokens, computed_tokens; /* counted by units */
};

struct fleet_writer { /* writer of one gateway */
    uint32_t life;    /* the gateway's incarnation */
    /* sequence numbers: the last record reported, being written, written */
    uint64_t said, writing, written;
    int64_t done_ns; /* end of the current write, or MACHINE_NEVER */
};

struct fleet_sum { /* of an hour, or of the whole run */
    int64_t amount, requests, tokens;
};

/* The last totals of a unit that one incarnation of a gateway reported. */
struct fleet_reported_totals {
    uint32_t life;
    bool is_lost; /* some counts were lost */
    struct record_unit_totals totals;
};

struct fleet_ledger {
    bool kept;            /* gateways wait for the ledger */
    bool faults;          /* processes of writers may die */
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
    uint64_t entries, again, losses; /* reported; written again; dead processes of writers */
    char breach[200];
};

bool fleet_ledger_open(struct fleet_ledger *ledger, struct arena *arena, uint64_t seed,
                       bool faults);

/* Seconds since 1970 at a time of the run. */
int64_t fleet_ledger_unix_time(int64_t now_ns);

/* The price at a time of the run. Returns the time of the next change, or MACHINE_NEVER. */
struct token_price fleet_ledger_price(const struct fleet_ledger *ledger, int64_t unix_time);
int64_t fleet_ledger_next_price_ns(const struct fleet_ledger *ledger, int64_t now_ns);

/* Begins an incarnation of the gateway. Its sequence numbers start again. */
void fleet_ledger_begin(struct fleet_ledger *ledger, uint32_t gateway, uint32_t life);

/* Receives a USAGE record of the gateway. `known` is the price that the gateway has. */
void fleet_ledger_receive(struct fleet_ledger *ledger, uint32_t gateway,
                          const struct token_price *known, const struct record_usage *entry,
                          int64_t now_ns);

/* Receives a UNIT_TOTALS record of the gateway. */
void fleet_ledger_totals(struct fleet_ledger *ledger, uint32_t gateway,
                         const struct record_unit_totals *totals);

/* Writes the records of the gateway that are due. If it returns true, the caller must send
 * *settled_out to the gateway. */
bool fleet_ledger_run(struct fleet_ledger *ledger, uint32_t gateway, int64_t now_ns,
                      const struct fleet_clients *clients, struct record_committed *settled_out);

/* Ends the gateway's incarnation. Its unwritten records are lost. */
void fleet_ledger_forget(struct fleet_ledger *ledger, uint32_t gateway,
                         const struct fleet_clients *clients);

/* Checks the usage record of a client that has received part of its response. */
void fleet_ledger_check(struct fleet_ledger *ledger, const struct fleet_client *client);

/* Checks at the end of a run that each client has one usage record, and that the sums equal those
 * of the usage that clients received. */
void fleet_ledger_verify(struct fleet_ledger *ledger, const struct fleet_clients *clients);

/* Checks the counters `counted` of an idle unit. Returns true if all gateways that ran since its
 * start have reported these counts and they equal the usage records. */
bool fleet_ledger_verify_unit(struct fleet_ledger *ledger, uint64_t instance,
                              const struct unit_books *counted, uint32_t gateway_lives);

/* The work of all units according to the usage records. */
struct unit_books fleet_ledger_books(const struct fleet_ledger *ledger);
