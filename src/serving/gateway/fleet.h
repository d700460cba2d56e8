/* SPDX-License-Identifier: Apache-2.0
 * The gateway's table of units: what each is (hello), how it is loaded (load reports), when it last
 * sent a record, and how many requests are bound to it. Tables only: whose requests go where is
 * serving/gateway/dispatch.
 *
 * All units of a fleet compute on the same checkpoint, and a unit that differs is refused. It is the
 * gateway's own; where the gateway does not know its weights, the first hello says which, and a fleet
 * that has lost its last unit, and holds no request, takes the next one's.
 * Units may differ in their numerics, while a fleet is renewed: then the same request has other
 * tokens at some of them, and stays where it began (request_life.numerics).
 */
#ifndef SERVING_GATEWAY_FLEET_H
#define SERVING_GATEWAY_FLEET_H

#include "base/json_writer.h"
#include "base/map.h"
#include "contract/record_ledger.h"
#include "contract/record_unit.h"
#include "serving/policy/balance_units.h"

#define FLEET_NONE BALANCE_NO_RANK
#define FLEET_NUMERICS_MAX 64 /* kinds of them that a gateway has seen; one more is refused */

enum fleet_state {
    FLEET_FREE,
    FLEET_JOINING, /* connected, has not said hello */
    FLEET_SERVING,
    FLEET_SILENT, /* no record from it for too long; what it had has gone elsewhere */
    FLEET_REFUSED /* another model, too many numerics, or it broke the rules; it does not count */
};

struct fleet_rank {
    struct unit_rank is;
    struct unit_rank_load load;
};

struct fleet_unit {
    struct unit_id id;
    uint8_t state; /* enum fleet_state */
    bool draining; /* was asked to take nothing new; load.draining: says so itself */
    bool full;     /* had no room; until its next load report */
    bool scarce;   /* has reserved nothing since it had no room: it is asked for
                                     * one request at a time */
    struct record_unit_hello hello; /* without its tail; the role is the one that it has now */
    uint32_t numerics;              /* of the fleet's table; 0 of a unit that was never a member */
    struct record_unit_load load;   /* without its tail; before the first, all pages are free */
    struct record_experts experts;  /* zeros before the first */
    struct fleet_rank *ranks;       /* [LIMIT_RANKS], of them hello.rank_count */
    uint32_t rank_pages;            /* of its largest rank */
    uint32_t bound;                 /* requests of ours */
    uint32_t fresh;                 /* of ours, bound since its last load report */
    uint64_t promised_pages;        /* to those of them that have brought no token yet */
    struct unit_books books;        /* what it has said that it did for requests of ours */
    bool given_up; /* a request was taken from it unfinished: books lack the rest */
    int64_t last_seen_ns;
    int64_t step_began_ns; /* the one that may be running: when the last one ended */
};

struct fleet_own { /* what a gateway knows of its own model: zeros where it does not */
    uint32_t vocab_count;
    char model_id[32];
};

struct fleet_room { /* for prompt and answer of one request */
    uint64_t context_tokens, memory_tokens;
};

struct fleet {
    struct fleet_unit *units; /* [LIMIT_FLEET_UNITS] */
    struct map by_id;         /* -> units that are not free */
    struct fleet_own own;
    struct record_unit_hello model; /* that of all units; record.kind RECORD_NONE before any */
    char numerics[FLEET_NUMERICS_MAX][32]; /* [numerics_count] that units have had */
    uint32_t numerics_count;
    uint32_t main_numerics;       /* which a member has; of the last ones while there is none */
    bool is_mixed;                /* members have more than one */
    struct fleet_room largest;    /* of those that are there; of the last ones while nobody is */
    struct record_unit_load gone; /* totals of units that have left */
    uint64_t losses_total, refused_total;
    /* Of the units that compute prompts, sums over their last steps, each before the last counting
     * a little less: ranks' nanoseconds, tokens computed, pages of our own prompts that were done. */
    double prompts_ns, prompts_tokens, prompts_pages;
};

/* Arena bytes that suffice for fleet_open. */
size_t fleet_bytes(void);

enum status fleet_open(struct fleet *fleet, struct arena *arena) MUST_USE;

/* A unit has connected. More than the table holds are refused: they stay unknown. */
void fleet_join(struct fleet *fleet, struct unit_id id, int64_t now_ns);

/* FLEET_NONE if it is not there. */
uint32_t fleet_find(const struct fleet *fleet, struct unit_id id);

/* The member whose hello said this instance. FLEET_NONE: none did, or it is 0. */
uint32_t fleet_find_instance(const struct fleet *fleet, uint64_t instance);

/* The members that have these numerics. */
uint32_t fleet_count_numerics(const struct fleet *fleet, uint32_t numerics);

/* True if it serves from now on; one that has served tells its ranks' processes and addresses again.
 * `idle`: the gateway holds no request. */
bool fleet_hello(struct fleet *fleet, uint32_t unit, const struct record_unit_hello *hello,
                 bool idle);

/* Another role for a member: for the requests to come. */
void fleet_assign(struct fleet *fleet, uint32_t index, enum unit_role role);

/* True if it can have a role other than both: its ranks take KV blocks. */
bool fleet_moves_blocks(const struct fleet *fleet, uint32_t unit);

void fleet_load(struct fleet *fleet, uint32_t index, const struct record_unit_load *load,
                int64_t now_ns);

/* A unit has brought the first token of one of ours, to which it had been promised so many pages. */
void fleet_prompt_done(struct fleet *fleet, uint32_t index, uint64_t pages);

/* Frees its place; nothing is bound to it any more. `lost`: it had not been asked to go. */
void fleet_leave(struct fleet *fleet, uint32_t index, bool lost);

/* It broke the rules of the records: as good as lost, whatever it says from now on. */
void fleet_expel(struct fleet *fleet, uint32_t index);

static inline bool fleet_knows_model(const struct fleet *fleet) {
    return fleet->model.record.kind != RECORD_NONE;
}

/* True if it said hello and was taken: it holds, or may hold, requests of ours. */
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

/* No prompt and its answer can ever have more tokens here; before any unit has come, anywhere. */
uint64_t fleet_tokens_max(const struct fleet *fleet);

/* True if any unit does. */
bool fleet_serves(const struct fleet *fleet);

/* Prompts and answers are computed apart, and no unit takes this half of it; UNIT_BOTH: neither half
 * is missing, or no unit serves at all. */
enum unit_role fleet_missing_role(const struct fleet *fleet);

/* For balance_units: units_out[LIMIT_FLEET_UNITS]. */
void fleet_view(const struct fleet *fleet, int64_t now_ns, struct balance_unit *units_out);
/* One of them anew. */
void fleet_view_unit(const struct fleet *fleet, uint32_t index, int64_t now_ns,
                     struct balance_unit *units_io);

/* Sums over all units; counters do not fall when a unit leaves. */
struct record_unit_load fleet_sum(const struct fleet *fleet, uint32_t *page_count_out);

#endif
