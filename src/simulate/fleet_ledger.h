/* SPDX-License-Identifier: Apache-2.0
 * The ledger of a simulated fleet: takes what the gateway says of requests, writes it down some time
 * later, all that waits in one go, and says so. It may lose its process between the writing and the
 * saying: then the same entries are written once more. With the gateway's death all that it has not
 * written is lost.
 *
 * What must hold: a client has one entry; who has seen the end of an answer finds it written down, and
 * with the same figures; and where nothing went wrong, entries come to what units have counted.
 */
#ifndef SIMULATE_FLEET_LEDGER_H
#define SIMULATE_FLEET_LEDGER_H

#include "base/arena.h"
#include "contract/machine.h"
#include "contract/record_ledger.h"
#include "simulate/fleet_clients.h"
#include "simulate/fleet_dice.h"

struct fleet_line { /* of a client */
    bool said, written, is_charged;
    uint32_t life; /* of the gateway that said it */
    uint64_t sequence;
    uint32_t hit_tokens, miss_tokens, output_tokens;
    uint64_t made_tokens, computed_tokens; /* by units */
};

struct fleet_ledger {
    bool kept;            /* the gateway waits for it */
    bool faults;          /* it may lose its process */
    int64_t write_ns_max; /* one of its writings takes so long */
    struct fleet_dice dice;
    struct fleet_line *lines; /* [FLEET_CLIENTS_MAX] */
    uint32_t life;
    uint64_t said, writing, written; /* sequences: the last one said, of those in work, written */
    int64_t done_ns;                 /* these are then written; MACHINE_NEVER: none are in work */
    uint64_t entries, again, losses; /* said; written once more; of its process */
    char breach[200];
};

size_t fleet_ledger_bytes(void);
bool fleet_ledger_open(struct fleet_ledger *ledger, struct arena *arena, uint64_t seed,
                       bool faults);

/* An ENTRY of the gateway. */
void fleet_ledger_hear(struct fleet_ledger *ledger, const struct record_entry *entry,
                       int64_t now_ns);

/* Writes what is due. True: *settled_out is to be said to the gateway. */
bool fleet_ledger_run(struct fleet_ledger *ledger, int64_t now_ns,
                      struct record_settled *settled_out);

/* The gateway is gone, and the next one counts from the beginning. */
void fleet_ledger_forget(struct fleet_ledger *ledger);

/* The client has been told something. */
void fleet_ledger_check(struct fleet_ledger *ledger, const struct fleet_client *client);

/* At the end: everybody has an entry. */
void fleet_ledger_judge(struct fleet_ledger *ledger, const struct fleet_clients *clients);

/* What all entries say that units did. */
struct unit_books fleet_ledger_books(const struct fleet_ledger *ledger);

#endif
