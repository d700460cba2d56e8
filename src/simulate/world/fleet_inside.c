/* SPDX-License-Identifier: Apache-2.0
 * Checks that need the internal state of a simulated unit: the tenants of the rows of a step, and
 * that every access to a page outside of steps has a lease.
 */
#include "base/check.h"
#include "serving/unit/state.h"
#include "simulate/world/fleet_state.h"

void fleet_inside_salts(const struct unit *unit, const struct step_plan *plan,
                        uint64_t *salts_out) {
    for (uint32_t i = 0; i < plan->row_count; i++)
        memcpy(&salts_out[i], unit->requests[step_plan_rows(plan)[i].slot].tenant.bytes,
               sizeof salts_out[i]);
}

bool fleet_inside_abandoned(const struct fleet_unit_host *host, uint32_t rank) {
    return rank_units_unit(host->units, rank)->abandoned;
}

struct writers {
    uint8_t count[FLEET_PAGES_MAX];
};

static const char *add_writer(const struct unit *unit, struct writers *writers, uint32_t page) {
    if (unit->pages.pages[page].leases == 0) return "a page without an owner is written to";
    if (unit->pages.pages[page].kept) return "a page is written to that is shared";
    if (writers->count[page]++) return "two write to one page";
    return NULL;
}

/* Adds the rows of the current step. */
static const char *fleet_inside_add_steps(const struct unit *unit, struct writers *writers) {
    const char *wrong = NULL;
    for (uint32_t slot = 0; slot < unit->slot_end; slot++) {
        const struct unit_request *request = &unit->requests[slot];
        if (request->state == UNIT_REQUEST_FREE || !request->in_step) continue;
        uint32_t first = request->computed_count / KV_BLOCK_TOKENS;
        uint32_t last = (request->computed_count + request->row_tokens - 1) / KV_BLOCK_TOKENS;
        for (uint32_t block = first; block <= last && !wrong; block++)
            wrong = add_writer(unit, writers, request->pages[block].index);
    }
    return wrong;
}

const char *fleet_inside_audit(const struct world *world, uint32_t index, uint32_t rank) {
    const struct fleet_unit_host *host = &world->units[index];
    const struct fleet_carrier *carrier = &world->carriers.places[index][rank];
    const struct unit *unit = rank_units_unit(host->units, rank);
    struct writers writers = {{0}};
    unit_audit(unit);
    const char *wrong = fleet_inside_add_steps(unit, &writers);
    for (uint32_t i = 0; i < carrier->orders.count && !carrier->dead && !wrong; i++) {
        const struct transfer_order *order = &carrier->order_places[i];
        for (uint32_t block = 0; block < order->block_count && !wrong; block++) {
            uint32_t page = order->pages[block].index;
            if (order->side == TRANSFER_IN)
                wrong = add_writer(unit, &writers, page);
            else if (unit->pages.pages[page].leases == 0)
                wrong = "a page without an owner is sent";
        }
    }
    struct page_id pages[FLEET_STORAGE_KEYS_MAX];
    bool writes;
    for (uint32_t i = 0; i < world->storage.job_count && !wrong; i++) {
        uint32_t count = fleet_storage_pages(&world->storage, i, index, rank, pages, &writes);
        for (uint32_t k = 0; k < count && !wrong && !host->dead[rank]; k++) {
            if (writes)
                wrong = add_writer(unit, &writers, pages[k].index);
            else if (unit->pages.pages[pages[k].index].leases == 0)
                wrong = "a page without an owner is stored";
        }
    }
    return wrong;
}
