/* SPDX-License-Identifier: Apache-2.0
 * The ledger of a simulated fleet: one database, and for each gateway one who writes for it, as in
 * host/ledger. A writer takes what its gateway says of requests, writes it down some time later, all
 * that waits in one go, and says so. It may lose its process between the writing and the saying: then
 * the same entries are written once more. With a gateway's death all that its writer has not written
 * is lost; the others go on. Prices change within a life, by the calendar that `--prices` reads.
 *
 * What must hold: a client has one entry; who has seen the end of an answer finds it written down,
 * with the same figures, and at the price of the moment in which it ended; sums by account and by
 * hour are those of what clients were told; and where nothing went wrong, entries come to what units
 * have counted. A unit at rest whose gateways all saw it from its start on has counted what they
 * entered; no other one has counted less.
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

struct fleet_line { /* of a client */
    bool said, written, is_charged;
    uint32_t gateway, life; /* that said it */
    uint64_t sequence;
    int64_t said_ns, ended_s; /* as the clock has it; as the entry has it */
    int64_t amount,
        charged; /* nanos, at the price of that moment; at that which its gateway knew */
    uint32_t hit_tokens, miss_tokens, output_tokens;
    uint64_t made_tokens, computed_tokens; /* by units */
};

struct fleet_writer {                /* of a gateway */
    uint32_t life;                   /* of the gateway */
    uint64_t said, writing, written; /* sequences: the last one said, of those in work, written */
    int64_t done_ns;                 /* these are then written; MACHINE_NEVER: none are in work */
};

struct fleet_sum { /* of an hour, or of all */
    int64_t amount, requests, tokens;
};

/* What a gateway's life told last of a unit. */
struct fleet_told_tally {
    uint32_t life;
    bool is_lost; /* ever */
    struct record_unit_tally tally;
};

struct fleet_ledger {
    bool kept;            /* gateways wait for it */
    bool faults;          /* writers may lose their process */
    int64_t write_ns_max; /* one writing takes so long */
    struct fleet_dice dice;
    struct prices prices;
    struct fleet_line *lines; /* [FLEET_CLIENTS_MAX] */
    struct fleet_writer writers[FLEET_GATEWAYS_MAX];
    /* What the database has: sums of charged entries, by account. */
    struct fleet_sum hours[FLEET_HOURS_MAX][1 + FLEET_TENANTS], accounts[1 + FLEET_TENANTS];
    /* and of those that each gateway's life has written. */
    struct fleet_sum own[FLEET_GATEWAYS_MAX][1 + FLEET_TENANTS];
    struct fleet_told_tally *tallies; /* [tally_count] of FLEET_TALLIES_MAX */
    uint32_t tally_count;
    uint64_t entries, again, losses; /* said; written once more; of writers' processes */
    uint64_t repriced;               /* entries at another price than the first one's */
    char breach[200];
};

size_t fleet_ledger_bytes(void);
bool fleet_ledger_open(struct fleet_ledger *ledger, struct arena *arena, uint64_t seed,
                       bool faults);

/* Seconds since 1970, at a time of the life. */
int64_t fleet_ledger_unix_time(int64_t now_ns);

/* At a time of the life, and when it is another one next; MACHINE_NEVER. */
struct token_price fleet_ledger_price(const struct fleet_ledger *ledger, int64_t unix_time);
int64_t fleet_ledger_next_price_ns(const struct fleet_ledger *ledger, int64_t now_ns);

/* A life of the gateway begins, and counts from the beginning. */
void fleet_ledger_begin(struct fleet_ledger *ledger, uint32_t gateway, uint32_t life);

/* An ENTRY of the gateway, which knows this price. */
void fleet_ledger_hear(struct fleet_ledger *ledger, uint32_t gateway,
                       const struct token_price *known, const struct record_entry *entry,
                       int64_t now_ns);

/* A UNIT_TALLY of it. */
void fleet_ledger_tally(struct fleet_ledger *ledger, uint32_t gateway,
                        const struct record_unit_tally *tally);

/* Writes what is due of the gateway's. True: *settled_out is to be said to it. */
bool fleet_ledger_run(struct fleet_ledger *ledger, uint32_t gateway, int64_t now_ns,
                      const struct fleet_clients *clients, struct record_settled *settled_out);

/* The gateway is gone. */
void fleet_ledger_forget(struct fleet_ledger *ledger, uint32_t gateway,
                         const struct fleet_clients *clients);

/* The client has been told something. */
void fleet_ledger_check(struct fleet_ledger *ledger, const struct fleet_client *client);

/* At the end: everybody has an entry, and the sums are those of what clients were told. */
void fleet_ledger_judge(struct fleet_ledger *ledger, const struct fleet_clients *clients);

/* The unit is at rest, has counted so much, and so many gateways have lived since it began. True: all
 * of them have told of that, and it is what they entered. */
bool fleet_ledger_judge_unit(struct fleet_ledger *ledger, uint64_t instance,
                             const struct unit_books *counted, uint32_t gateway_lives);

/* What all entries say that units did. */
struct unit_books fleet_ledger_books(const struct fleet_ledger *ledger);

#endif
