/* SPDX-License-Identifier: Apache-2.0
 * Transfers of KV blocks between the ranks of a simulated fleet. The module models
 * host/transfer/kv_carrier and kv_transport in virtual time, on pages of numbers, with the
 * product's own state machines (serving/cache/transfer_ledger, transfer_orders). The slices of a
 * block queue for a connection, are read from their page when they leave, travel, and are written
 * in two halves. So a page that is released while it is still read or written shows damage.
 *
 * Opening a connection takes a while. A connection breaks when a process dies or the network
 * between two units is cut, and each side detects that at a different time. Under faults, slices
 * are lost, damaged, duplicated, or late, even long after their grant has ended.
 */
#pragma once

#include "contract/machine.h"
#include "serving/cache/transfer_orders.h"
#include "simulate/engine/fleet_engine.h"
#include "simulate/kernel/fleet_dice.h"
#include "simulate/kernel/fleet_log.h"
#include "simulate/kernel/post.h"

enum { FLEET_UNITS_MAX = 6, FLEET_RANKS_MAX = 3, FLEET_PAGES_MAX = 40, FLEET_TRANSFERS_MAX = 16 };
enum { FLEET_PROMPT_BLOCKS_MAX = 8 };

struct fleet_place {
    uint8_t unit, rank;
    uint32_t life; /* the unit's incarnation */
};

struct fleet_carrier {
    bool up;   /* its process is alive */
    bool dead; /* its process is dead, but the unit continues, and its host answers for this rank */
    uint32_t life;
    struct fleet_engine *engine;
    struct transfer_ledger ledger;
    char *memory;                  /* of the ledger */
    struct transfer_orders orders; /* uses order_places and `pages` */
    struct transfer_order order_places[FLEET_TRANSFERS_MAX];
    struct page_id pages[FLEET_TRANSFERS_MAX][FLEET_PROMPT_BLOCKS_MAX];
    uint64_t step;    /* the last step that reported progress */
    uint32_t written; /* slices that this step has written */
    int64_t stuck_ns; /* next check for grants that hold memory for too long */
};

struct fleet_carrier_counts {
    uint64_t arrived, failed; /* ends of transfers at the receiver */
    uint64_t late;            /* slices */
};

struct fleet_carriers {
    struct fleet_dice dice;
    struct fleet_log *log;
    bool faults; /* may be cleared at any time */
    int64_t slice_ns_max, latency_ns_max, transfer_ns_max;
    struct fleet_carrier places[FLEET_UNITS_MAX][FLEET_RANKS_MAX];
    int64_t frozen_ns[FLEET_UNITS_MAX]; /* the unit's processes are frozen until then */
    /* the network between two units is cut until then */
    int64_t cut_ns[FLEET_UNITS_MAX][FLEET_UNITS_MAX];
    struct fleet_link *links;
    uint64_t links_opened;
    struct post events; /* struct fleet_link_event */
    struct fleet_carrier_counts counts;
    void *context;
    /* Sends a KV_DONE to the unit. */
    void (*say)(void *context, uint32_t unit, const struct record *record);
};

/* Afterwards the caller sets `faults`, `say`, `context` and the times. Returns false if the arena
 * is out of memory. */
bool fleet_carriers_open(struct fleet_carriers *carriers, struct arena *arena, uint64_t seed);

/* Starts a rank, with the pages of this engine. */
void fleet_carriers_start(struct fleet_carriers *carriers, struct fleet_place place,
                          struct fleet_engine *engine);

/* Kills all processes of the unit. */
void fleet_carriers_stop(struct fleet_carriers *carriers, uint32_t unit, int64_t now_ns);

/* Kills the process of one rank. All its transfers end as failed, now and until it returns. */
void fleet_carriers_bury(struct fleet_carriers *carriers, uint32_t unit, uint32_t rank,
                         int64_t now_ns);

/* Replaces the dead process of a rank. The new one has the same pages and address. */
void fleet_carriers_return(struct fleet_carriers *carriers, uint32_t unit, uint32_t rank);

void fleet_carriers_cut(struct fleet_carriers *carriers, uint32_t unit, uint32_t other,
                        int64_t until_ns, int64_t now_ns);

/* Writes the address of a rank, for the hello. */
void fleet_carriers_address(struct fleet_place place, char address[KV_ADDRESS_BYTES]);

/* Handles a KV_EXPECT, KV_PUSH or KV_CANCEL. */
void fleet_carriers_take(struct fleet_carriers *carriers, uint32_t unit, uint32_t rank,
                         const struct record *record, int64_t now_ns);

/* Reports that the first `slices` slices of this step of the rank's engine are written. */
void fleet_carriers_progress(struct fleet_carriers *carriers, uint32_t unit, uint32_t rank,
                             uint64_t step, uint32_t slices, int64_t now_ns);

/* Handles all events that are due. */
void fleet_carriers_run(struct fleet_carriers *carriers, int64_t now_ns);
int64_t fleet_carriers_next_ns(const struct fleet_carriers *carriers);

/* The number of transfers and grants of a unit that have not ended. */
uint32_t fleet_carriers_open_count(const struct fleet_carriers *carriers, uint32_t unit);

/* Audits the state machines with check(). */
void fleet_carriers_audit(const struct fleet_carriers *carriers);
