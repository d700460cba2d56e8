/* SPDX-License-Identifier: Apache-2.0
 * The gateway's table of units: each unit's hello, last load report, time of its last record, and
 * count of bound requests. It makes no scheduling decisions; serving/gateway/dispatch does.
 *
 * All units of a fleet run the same checkpoint. A unit with another one is refused. If the gateway
 * is not configured with a checkpoint, the first hello defines it. A fleet that has lost its last
 * unit and holds no requests adopts the next unit's checkpoint. During an upgrade, units may differ
 * in their numerics, so the same request may give different tokens at different units. A request
 * therefore stays with the numerics that it began with (request_life.numerics).
 */
#pragma once

#include "base/json_writer.h"
#include "base/map.h"
#include "contract/record_ledger.h"
#include "contract/record_unit.h"
#include "serving/policy/balance/balance_units.h"

#define FLEET_NONE BALANCE_NO_RANK
#define FLEET_NUMERICS_MAX 64 /* different numerics that a gateway can see */

enum fleet_state {
    FLEET_FREE,
    FLEET_JOINING, /* connected, no hello yet */
    FLEET_SERVING,
    FLEET_SILENT, /* sent no record for too long; its requests have moved */
    FLEET_REFUSED /* wrong model, too many numerics, or a protocol violation; not a member */
};

struct fleet_rank {
    struct unit_rank is;
    struct unit_rank_load load;
};

/* Added to a connection's number for a unit that cannot have the number it should; above all
 * numbers of fleets. */
#define FLEET_NUMBERS_APART 100000000

struct fleet_unit {
    struct unit_id id; /* its connection; records are addressed to it */
    /* The unit's number for operators, in orders, metrics, receipts and log lines: the number that
     * its fleet gave it, or else its connection's. No two units of a gateway have the same number
     * at a time. Set with the hello. */
    uint32_t number;
    uint8_t state; /* enum fleet_state */
    bool draining; /* an operator ordered a drain; load.draining: the unit itself reports one */
    bool full;     /* refused a request for lack of room; reset by its next load report */
    bool scarce;   /* has reserved no pages since it was full: gets one request at a time */
    struct record_unit_hello hello; /* without its tail; `role` is kept up to date */
    uint32_t numerics;              /* index in fleet.numerics; 0 for a unit that was never a
                                     * member */
    struct record_unit_load load;   /* last report, without its tail; at first all pages are free */
    struct record_experts experts;  /* zeros before the first report */
    struct fleet_rank *ranks;       /* [LIMIT_RANKS]; the first hello.rank_count are in use */
    uint32_t rank_pages;            /* KV pages of its largest rank */
    uint32_t bound;                 /* this gateway's requests at the unit */
    uint32_t fresh;                 /* this gateway's requests bound since the last load report */
    uint64_t promised_pages;        /* KV pages for bound requests that have no token yet */
    struct unit_books books;        /* work reported for this gateway's requests */
    bool given_up; /* a request left it before its end, so `books` lacks the rest of its work */
    int64_t last_seen_ns;
    int64_t step_began_ns; /* end of its last step, which is the start of a running one */
};

struct fleet_own { /* the model that the gateway is configured with; zeros if unknown */
    uint32_t vocab_count;
    char model_id[32];
};

struct fleet_room { /* limits of prompt and answer tokens of one request */
    uint64_t context_tokens, memory_tokens;
};

struct fleet {
    struct fleet_unit *units; /* [LIMIT_FLEET_UNITS] */
    struct map by_id;         /* unit id -> index of a unit that is not FREE */
    struct fleet_own own;
    struct record_unit_hello model; /* the model of all units; record.kind is RECORD_NONE before
                                     * the first hello */
    char numerics[FLEET_NUMERICS_MAX][32]; /* [numerics_count] seen so far */
    uint32_t numerics_count;
    uint32_t main_numerics;       /* numerics of a member, or of the last one while there is none */
    bool is_mixed;                /* members differ in their numerics */
    struct fleet_room largest;    /* over connected units, or the last ones seen while none is
                                   * connected */
    struct record_unit_load gone; /* sums of the counters of units that have left */
    uint64_t losses_total, refused_total;
    /* Decaying sums over recent steps of the units that compute prompts: rank-nanoseconds, computed
     * tokens, and pages of this gateway's finished prompts. */
    double prompts_ns, prompts_tokens, prompts_pages;
};

/* Arena bytes that suffice for fleet_open. */
size_t fleet_bytes(void);

enum status fleet_open(struct fleet *fleet, struct arena *arena) MUST_USE;

/* Adds a connected unit. If the table is full, the unit stays unknown. */
void fleet_join(struct fleet *fleet, struct unit_id id, int64_t now_ns);

/* Returns the unit's index, or FLEET_NONE. */
uint32_t fleet_find(const struct fleet *fleet, struct unit_id id);

/* Returns the unit with this number, or FLEET_NONE. */
uint32_t fleet_find_number(const struct fleet *fleet, uint32_t number);

/* Returns the member with this instance id in its hello. FLEET_NONE if there is none, or `instance`
 * is 0. */
uint32_t fleet_find_instance(const struct fleet *fleet, uint64_t instance);

/* Counts the members with these numerics. */
uint32_t fleet_count_numerics(const struct fleet *fleet, uint32_t numerics);

/* Handles a hello. True if the unit serves from now on. A unit that already serves sends a hello to
 * update its ranks' processes and addresses. `idle`: the gateway holds no requests. */
bool fleet_hello(struct fleet *fleet, uint32_t unit, const struct record_unit_hello *hello,
                 bool idle);

/* Gives a member another role for later requests. */
void fleet_assign(struct fleet *fleet, uint32_t index, enum unit_role role);

/* True if the unit can serve prefill or decode alone, because its ranks can receive KV blocks. */
bool fleet_moves_blocks(const struct fleet *fleet, uint32_t unit);

void fleet_load(struct fleet *fleet, uint32_t index, const struct record_unit_load *load,
                int64_t now_ns);

/* Call when a unit has sent the first token of a request. Releases the pages that were promised to
 * it. */
void fleet_prompt_done(struct fleet *fleet, uint32_t index, uint64_t pages);

/* Removes a unit; no request may be bound to it any more. `lost`: it was not asked to leave. */
void fleet_leave(struct fleet *fleet, uint32_t index, bool lost);

/* Expels a unit that violated the protocol. It counts as lost, and its later records are
 * ignored. */
void fleet_expel(struct fleet *fleet, uint32_t index);

static inline bool fleet_knows_model(const struct fleet *fleet) {
    return fleet->model.record.kind != RECORD_NONE;
}

/* True if its hello was accepted, so it may hold requests of this gateway. */
static inline bool fleet_is_member(const struct fleet *fleet, uint32_t unit) {
    return fleet->units[unit].state == FLEET_SERVING || fleet->units[unit].state == FLEET_SILENT;
}

static inline bool fleet_drains(const struct fleet *fleet, uint32_t unit) {
    return fleet->units[unit].draining || fleet->units[unit].load.draining;
}

static inline bool fleet_accepts(const struct fleet *fleet, uint32_t unit) {
    return fleet->units[unit].state == FLEET_SERVING && !fleet_drains(fleet, unit);
}

/* The smaller of the two. */
uint64_t fleet_room_tokens(struct fleet_room room);

/* Limit of the tokens of a prompt and its answer together. There is none before the first unit. */
uint64_t fleet_tokens_max(const struct fleet *fleet);

/* True if any unit takes requests. */
bool fleet_serves(const struct fleet *fleet);

/* With disaggregated prefill and decode, the role that no unit serves. UNIT_BOTH: neither is
 * missing, or no unit serves at all. */
enum unit_role fleet_missing_role(const struct fleet *fleet);

/* Fills units_out[LIMIT_FLEET_UNITS] for balance_units. */
void fleet_view(const struct fleet *fleet, int64_t now_ns, struct balance_unit *units_out);
/* Updates the entry of one unit. */
void fleet_view_unit(const struct fleet *fleet, uint32_t index, int64_t now_ns,
                     struct balance_unit *units_io);

/* Sums load reports over all units. Counters include units that have left, so they never fall. */
struct record_unit_load fleet_sum(const struct fleet *fleet, uint32_t *page_count_out);
