/* SPDX-License-Identifier: Apache-2.0
 * The ways of KV blocks between the ranks of a simulated fleet: what host/transfer/kv_carrier and
 * host/transfer/kv_transport do with sockets and threads, done in virtual time on pages of numbers,
 * with the same books (serving/cache/transfer_ledger, transfer_orders). Slices wait for their turn on a connection,
 * are read from their page when they leave, travel, and are written in two halves: so whoever gives
 * a page away while it is still being read or written does harm that can be seen.
 *
 * Connections take a while to open; they break when a process dies or the network between two units
 * is cut, and each side notices in its own time. Under faults slices are lost, damaged, doubled,
 * and come late, also long after their ticket has ended.
 */
#ifndef SIMULATE_FLEET_CARRIERS_H
#define SIMULATE_FLEET_CARRIERS_H

#include "contract/machine.h"
#include "serving/cache/transfer_orders.h"
#include "simulate/fleet_dice.h"
#include "simulate/fleet_engine.h"
#include "simulate/fleet_log.h"

enum { FLEET_UNITS_MAX = 6, FLEET_RANKS_MAX = 3, FLEET_PAGES_MAX = 40, FLEET_TRANSFERS_MAX = 16 };
enum { FLEET_PROMPT_BLOCKS_MAX = 8 };

struct fleet_place {
    uint8_t unit, rank;
    uint32_t life; /* of the unit: a place in another life is another place */
};

struct fleet_carrier {
    bool up;   /* its process lives */
    bool dead; /* it does not, but its unit goes on: its host answers for it */
    uint32_t life;
    struct fleet_engine *engine;
    struct transfer_ledger ledger;
    char *memory;                  /* of the ledger */
    struct transfer_orders orders; /* in the places, with the pages, that follow */
    struct transfer_order order_places[FLEET_TRANSFERS_MAX];
    struct page_id pages[FLEET_TRANSFERS_MAX][FLEET_PROMPT_BLOCKS_MAX];
    uint64_t step;    /* the last one that told how far it was */
    uint32_t written; /* its slices */
    int64_t stuck_ns; /* when to look again for tickets whose memory does not come back */
};

struct fleet_carrier_counts {
    uint64_t arrived, failed; /* transfers' ends at the receiver */
    uint64_t ended[TRANSFER_END_COUNT];
    uint64_t late, lost, damaged, doubled; /* slices */
};

struct fleet_carriers {
    struct fleet_dice dice;
    struct fleet_log *log;
    bool faults; /* may be cleared at any time */
    int64_t slice_ns_max, latency_ns_max, transfer_ns_max;
    struct fleet_carrier places[FLEET_UNITS_MAX][FLEET_RANKS_MAX];
    int64_t frozen_ns[FLEET_UNITS_MAX];               /* until then its processes stand still */
    int64_t cut_ns[FLEET_UNITS_MAX][FLEET_UNITS_MAX]; /* until then nothing gets through */
    struct fleet_link *links;
    uint64_t links_opened;
    struct fleet_link_event *events; /* [EVENTS_MAX] */
    uint32_t *order;                 /* [EVENTS_MAX] the first event_count: by when they are due */
    uint32_t event_count;
    struct fleet_carrier_counts counts;
    void *context;
    /* A KV_DONE for that unit. */
    void (*say)(void *context, uint32_t unit, const struct record *record);
};

size_t fleet_carriers_bytes(void);

/* `faults`, `say`, `context` and the times are the caller's to set afterwards. */
bool fleet_carriers_open(struct fleet_carriers *carriers, struct arena *arena, uint64_t seed);

/* A unit's rank begins to live, on these pages. */
void fleet_carriers_start(struct fleet_carriers *carriers, struct fleet_place place,
                          struct fleet_engine *engine);

/* The unit's processes die. */
void fleet_carriers_stop(struct fleet_carriers *carriers, uint32_t unit, int64_t now_ns);

/* One rank's process dies; its transfers end, and all that are asked of it from now on. */
void fleet_carriers_bury(struct fleet_carriers *carriers, uint32_t unit, uint32_t rank,
                         int64_t now_ns);

/* Another process has come in its place, on the same pages, and is reached at the same address. */
void fleet_carriers_return(struct fleet_carriers *carriers, uint32_t unit, uint32_t rank);

void fleet_carriers_cut(struct fleet_carriers *carriers, uint32_t unit, uint32_t other,
                        int64_t until_ns, int64_t now_ns);

/* Where a rank is reached, for the hello. */
void fleet_carriers_address(struct fleet_place place, char address[KV_ADDRESS_BYTES]);

/* KV_EXPECT, KV_PUSH, KV_CANCEL. */
void fleet_carriers_take(struct fleet_carriers *carriers, uint32_t unit, uint32_t rank,
                         const struct record *record, int64_t now_ns);

/* So many leading slices of what that step of the rank's engine makes are written. */
void fleet_carriers_progress(struct fleet_carriers *carriers, uint32_t unit, uint32_t rank,
                             uint64_t step, uint32_t slices, int64_t now_ns);

/* Does all that is due. */
void fleet_carriers_run(struct fleet_carriers *carriers, int64_t now_ns);
int64_t fleet_carriers_next_ns(const struct fleet_carriers *carriers);

/* Transfers and tickets of a unit that have not ended. */
uint32_t fleet_carriers_open_count(const struct fleet_carriers *carriers, uint32_t unit);

/* check()s the books. */
void fleet_carriers_audit(const struct fleet_carriers *carriers);

#endif
