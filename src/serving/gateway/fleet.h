/* SPDX-License-Identifier: Apache-2.0
 * The gateway's table of units. For each unit it has the hello, the load reports, the time of its
 * last record, and the count of bound requests. It makes no choices; serving/gateway/dispatch does.
 *
 * All units of a fleet run the same checkpoint; a unit with another one is refused. If the gateway
 * does not know its checkpoint, the first hello defines it. A fleet that has lost its last unit and
 * holds no request adopts the next unit's. Units may differ in their numerics while a fleet is
 * upgraded. The same request then has other tokens at some of them, so it stays with the numerics
 * it began with (request_life.numerics).
 */
#pragma once

#include "base/json_writer.h"
#include "base/map.h"
#include "contract/record_ledger.h"
#include "contract/record_unit.h"
#include "serving/policy/balance/balance_units.h"

#define FLEET_NONE BALANCE_NO_RANK
#define FLEET_NUMERICS_MAX 64 /* kinds of numerics that a gateway has seen; more are refused */

enum fleet_state {
    FLEET_FREE,
    FLEET_JOINING, /* connected, no hello yet */
    FLEET_SERVING,
    FLEET_SILENT, /* no record from it for too long; its requests have moved */
    FLEET_REFUSED /* another model, too many numerics, or a protocol violation; it does not count */
};

struct fleet_rank {
    struct unit_rank is;
    struct unit_rank_load load;
};

struct fleet_unit {
    struct unit_id id;
    uint8_t state; /* enum fleet_state */
    bool draining; /* was asked to take no new requests; load.draining: the unit reports so
                    * itself */
    bool full;     /* had no room; until its next load report */
    bool scarce;   /* has reserved nothing since it had no room: gets one request at a time */
    struct record_unit_hello hello; /* without its tail; the role is the present one */
    uint32_t numerics;              /* index in the fleet's table; 0 of a unit that was never a
                                     * member */
    struct record_unit_load load;   /* without its tail; before the first, all pages are free */
    struct record_experts experts;  /* zeros before the first report */
    struct fleet_rank *ranks;       /* [LIMIT_RANKS], of them hello.rank_count */
    uint32_t rank_pages;            /* of its largest rank */
    uint32_t bound;                 /* requests of this gateway */
    uint32_t fresh;                 /* requests of this gateway bound since its last load report */
    uint64_t promised_pages;        /* pages for bound requests without a token */
    struct unit_books books;        /* work that it has reported for requests of this gateway */
    bool given_up; /* a request was taken from it before its end: books lack the rest */
    int64_t last_seen_ns;
    int64_t step_began_ns; /* start of the step that may be running: when the last one ended */
};

struct fleet_own { /* the model that the gateway is configured with; zeros if unknown */
    uint32_t vocab_count;
    char model_id[32];
};

struct fleet_room { /* tokens for prompt and answer of one request */
    uint64_t context_tokens, memory_tokens;
};

struct fleet {
    struct fleet_unit *units; /* [LIMIT_FLEET_UNITS] */
    struct map by_id;         /* -> units that are not free */
    struct fleet_own own;
    struct record_unit_hello model; /* the model of all units; record.kind RECORD_NONE before the
                                     * first hello */
    char numerics[FLEET_NUMERICS_MAX][32]; /* [numerics_count] seen so far */
    uint32_t numerics_count;
    uint32_t main_numerics;       /* numerics of a member, or of the last members while there is
                                   * none */
    bool is_mixed;                /* members have more than one */
    struct fleet_room largest;    /* of the connected units, or of the last ones seen while none is
                                   * connected */
    struct record_unit_load gone; /* totals of units that have left */
    uint64_t losses_total, refused_total;
    /* Sums over the last steps of the units that compute prompts, where each earlier step counts
     * slightly less: nanoseconds of ranks, tokens computed, pages of this gateway's finished
     * prompts. */
    double prompts_ns, prompts_tokens, prompts_pages;
};

/* Arena bytes that suffice for fleet_open. */
size_t fleet_bytes(void);

enum status fleet_open(struct fleet *fleet, struct arena *arena) MUST_USE;

/* Adds a connected unit. If the table is full the unit stays unknown. */
void fleet_join(struct fleet *fleet, struct unit_id id, int64_t now_ns);

/* FLEET_NONE if there is none. */
uint32_t fleet_find(const struct fleet *fleet, struct unit_id id);

/* The member with this instance id in its hello. FLEET_NONE if there is none, or it is 0. */
uint32_t fleet_find_instance(const struct fleet *fleet, uint64_t instance);

/* Counts the members with these numerics. */
uint32_t fleet_count_numerics(const struct fleet *fleet, uint32_t numerics);

/* True if the unit serves from now on. A unit that already serves sends its ranks' processes and
 * addresses again. `idle`: the gateway holds no request. */
bool fleet_hello(struct fleet *fleet, uint32_t unit, const struct record_unit_hello *hello,
                 bool idle);

/* Gives a member another role for later requests. */
void fleet_assign(struct fleet *fleet, uint32_t index, enum unit_role role);

/* True if it can have a role other than both: its ranks can receive KV blocks. */
bool fleet_moves_blocks(const struct fleet *fleet, uint32_t unit);

void fleet_load(struct fleet *fleet, uint32_t index, const struct record_unit_load *load,
                int64_t now_ns);

/* A unit has sent the first token of a request of this gateway; releases the pages that were
 * promised to it. */
void fleet_prompt_done(struct fleet *fleet, uint32_t index, uint64_t pages);

/* Frees its place; no request is bound to it any more. `lost`: it was not asked to leave. */
void fleet_leave(struct fleet *fleet, uint32_t index, bool lost);

/* Expels a unit that violated the protocol. It counts as lost, and later records are ignored. */
void fleet_expel(struct fleet *fleet, uint32_t index);

static inline bool fleet_knows_model(const struct fleet *fleet) {
    return fleet->model.record.kind != RECORD_NONE;
}

/* True if its hello was accepted: it may hold requests of this gateway. */
static inline bool fleet_is_member(const struct fleet *fleet, uint32_t unit) {
    return fleet->units[unit].state == FLEET_SERVING || fleet->units[unit].state == FLEET_SILENT;
}

static inline bool fleet_drains(const struct fleet *fleet, uint32_t unit) {
    return fleet->units[unit].draining || fleet->units[unit].load.draining;
}

static inline bool fleet_takes(const struct fleet *fleet, uint32_t unit) {
    return fleet->units[unit].state == FLEET_SERVING && !fleet_drains(fleet, unit);
}

/* The smaller of the two. */
uint64_t fleet_room_tokens(struct fleet_room room);

/* The most tokens that a prompt and its answer can have here. Before the first unit, no limit. */
uint64_t fleet_tokens_max(const struct fleet *fleet);

/* True if any unit takes requests. */
bool fleet_serves(const struct fleet *fleet);

/* The role that no unit takes while prompts and answers are computed apart. UNIT_BOTH: none is
 * missing, or no unit serves. */
enum unit_role fleet_missing_role(const struct fleet *fleet);

/* Fills units_out[LIMIT_FLEET_UNITS] for balance_units. */
void fleet_view(const struct fleet *fleet, int64_t now_ns, struct balance_unit *units_out);
/* Updates one of them. */
void fleet_view_unit(const struct fleet *fleet, uint32_t index, int64_t now_ns,
                     struct balance_unit *units_io);

/* Sums over all units. Counters do not fall when a unit leaves. */
struct record_unit_load fleet_sum(const struct fleet *fleet, uint32_t *page_count_out);
