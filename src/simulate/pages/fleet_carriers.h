/* SPDX-License-Identifier: Apache-2.0
 * Transfers of KV blocks between the ranks of a simulated fleet. The module models
 * host/transfer/kv_carrier and kv_transport in virtual time, on pages of numbers, with the
 * product's own state machines (serving/cache/transfer_ledger, transfer_orders). Slices wait for
 * their turn on a connection, are read from their page when they leave, travel, and are written in
 * two halves. Releasing a page while it is still being read or written therefore causes visible
 * damage.
 *
 * A connection takes a while to open. It breaks when a process dies or the network between two
 * units is cut, and each side detects that at a different time. Under faults slices are lost,
 * damaged, doubled, or late, even long after their grant has ended.
 */
#pragma once

#include "contract/machine.h"
#include "serving/cache/transfer_orders.h"
#include "simulate/engine/fleet_engine.h"
#include "simulate/kernel/fleet_dice.h"
#include "simulate/kernel/fleet_log.h"

enum { FLEET_UNITS_MAX = 6, FLEET_RANKS_MAX = 3, FLEET_PAGES_MAX = 40, FLEET_TRANSFERS_MAX = 16 };
enum { FLEET_PROMPT_BLOCKS_MAX = 8 };

struct fleet_place {
    uint8_t unit, rank;
    uint32_t life; /* incarnation of the unit */
};

struct fleet_carrier {
    bool up;   /* its process is alive */
    bool dead; /* its process is dead, but the unit continues, and the unit's host answers for it */
    uint32_t life;
    struct fleet_engine *engine;
    struct transfer_ledger ledger;
    char *memory;                  /* the ledger's memory */
    struct transfer_orders orders; /* its orders are in order_places, with pages from `pages` */
    struct transfer_order order_places[FLEET_TRANSFERS_MAX];
    struct page_id pages[FLEET_TRANSFERS_MAX][FLEET_PROMPT_BLOCKS_MAX];
    uint64_t step;    /* the last step that reported its progress */
    uint32_t written; /* slices of that step that are written */
    int64_t stuck_ns; /* time of the next check for grants that hold memory for too long */
};

struct fleet_carrier_counts {
    uint64_t arrived, failed; /* transfers that ended at the receiver */
    uint64_t late;            /* slices */
};

struct fleet_carriers {
    struct fleet_dice dice;
    struct fleet_log *log;
    bool faults; /* may be cleared at any time */
    int64_t slice_ns_max, latency_ns_max, transfer_ns_max;
    struct fleet_carrier places[FLEET_UNITS_MAX][FLEET_RANKS_MAX];
    int64_t frozen_ns[FLEET_UNITS_MAX]; /* its processes are frozen until then */
    /* the connection transfers nothing until then */
    int64_t cut_ns[FLEET_UNITS_MAX][FLEET_UNITS_MAX];
    struct fleet_link *links;
    uint64_t links_opened;
    struct fleet_link_event *events; /* [EVENTS_MAX] */
    uint32_t *order;                 /* [EVENTS_MAX] the first event_count entries: events in the
                                      * order in which they are due */
    uint32_t event_count;
    struct fleet_carrier_counts counts;
    void *context;
    /* Sends that unit a KV_DONE. */
    void (*say)(void *context, uint32_t unit, const struct record *record);
};

/* The caller sets `faults`, `say`, `context` and the times afterwards. */
bool fleet_carriers_open(struct fleet_carriers *carriers, struct arena *arena, uint64_t seed);

/* Starts a unit's rank on these pages. */
void fleet_carriers_start(struct fleet_carriers *carriers, struct fleet_place place,
                          struct fleet_engine *engine);

/* Kills the unit's processes. */
void fleet_carriers_stop(struct fleet_carriers *carriers, uint32_t unit, int64_t now_ns);

/* Kills one rank's process. Its transfers end, and so do all that are requested of it from now
 * on. */
void fleet_carriers_bury(struct fleet_carriers *carriers, uint32_t unit, uint32_t rank,
                         int64_t now_ns);

/* Replaces the process by another one, with the same pages and address. */
void fleet_carriers_return(struct fleet_carriers *carriers, uint32_t unit, uint32_t rank);

void fleet_carriers_cut(struct fleet_carriers *carriers, uint32_t unit, uint32_t other,
                        int64_t until_ns, int64_t now_ns);

/* The address of a rank, for the hello. */
void fleet_carriers_address(struct fleet_place place, char address[KV_ADDRESS_BYTES]);

/* Handles KV_EXPECT, KV_PUSH, KV_CANCEL. */
void fleet_carriers_take(struct fleet_carriers *carriers, uint32_t unit, uint32_t rank,
                         const struct record *record, int64_t now_ns);

/* Reports that the first slices that this step of the rank's engine makes are written. */
void fleet_carriers_progress(struct fleet_carriers *carriers, uint32_t unit, uint32_t rank,
                             uint64_t step, uint32_t slices, int64_t now_ns);

/* Handles all events that are due. */
void fleet_carriers_run(struct fleet_carriers *carriers, int64_t now_ns);
int64_t fleet_carriers_next_ns(const struct fleet_carriers *carriers);

/* The number of a unit's transfers and grants that have not ended. */
uint32_t fleet_carriers_open_count(const struct fleet_carriers *carriers, uint32_t unit);

/* Checks the state machines with check(). */
void fleet_carriers_audit(const struct fleet_carriers *carriers);
