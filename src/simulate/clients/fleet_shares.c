/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/clients/fleet_shares.h"

#include "base/check.h"
#include "serving/gateway/gateway_state.h"

#define ROUNDING 1e-3 /* relative to the bound, because turns are integers */

/* ---- comparison ---- */

static bool is_compared(const struct fleet_shares *shares, uint32_t account) {
    return shares->waits[account] && !shares->passes[account];
}

static void compare(struct fleet_shares *shares) {
    for (uint32_t i = 1; i <= FLEET_TENANTS; i++)
        for (uint32_t k = 1; k <= FLEET_TENANTS; k++) {
            bool both = i != k && is_compared(shares, i) && is_compared(shares, k);
            if (both && !shares->both[i][k])
                shares->ahead[i][k] = shares->given[i] - shares->given[k];
            shares->both[i][k] = both;
        }
}

/* ---- waiting requests ---- */

/* The share of an account. The work of high priority counts a quarter, that of low priority four
 * times. */
static double fleet_shares_of(const struct account *account) {
    static const double times[ACCOUNT_PRIORITY_COUNT] = {
        [ACCOUNT_LOW] = 0.25, [ACCOUNT_NORMAL] = 1, [ACCOUNT_HIGH] = 4};
    return account->weight * times[account->priority];
}

static uint32_t fleet_shares_number_of(const struct gateway *gateway, uint32_t slot) {
    for (uint32_t i = 0; i <= FLEET_TENANTS; i++)
        if (gateway->accounts.named[i] == slot) return i;
    check(!"an account without a name");
    return 0;
}

static struct fleet_waiting *find(struct fleet_shares *shares, struct request_id id) {
    for (uint32_t i = 0; i < shares->waiting_count; i++)
        if (request_id_equal(shares->waiting[i].id, id)) return &shares->waiting[i];
    return NULL;
}

static void add(struct fleet_shares *shares, const struct gateway *gateway,
                const struct request *request) {
    const struct request *leader = request->leader;
    uint32_t account = fleet_shares_number_of(gateway, request->asked.account);
    double share = fleet_shares_of(&gateway->accounts.slots[request->asked.account].is), whole = 0;
    for (uint32_t i = 0; i < leader->choice_count; i++)
        whole += (double)leader->choices[i]->life.work_tokens / share;
    check(shares->waiting_count < FLEET_WAITING_MAX);
    shares->waiting[shares->waiting_count++] =
        (struct fleet_waiting){.id = request->id,
                               .account = account,
                               .work = (double)request->life.work_tokens / share,
                               .waits = true};
    shares->waits[account]++;
    if (whole > shares->largest[account]) shares->largest[account] = whole;
}

static void fleet_shares_take_out(struct fleet_shares *shares, struct fleet_waiting *waiting) {
    uint32_t account = waiting->account;
    *waiting = shares->waiting[--shares->waiting_count];
    shares->waits[account]--;
}

/* Drops requests that no longer wait although they were not sent to a unit. */
static void drop_gone(struct fleet_shares *shares) {
    for (uint32_t i = shares->waiting_count; i-- > 0;) {
        struct fleet_waiting *waiting = &shares->waiting[i];
        if (waiting->waits) continue;
        shares->gets_less[waiting->account] = true;
        fleet_shares_take_out(shares, waiting);
    }
}

/* True if other choices of the request already run with some numerics, so that it cannot use units
 * with other numerics. */
static bool is_bound(const struct gateway *gateway, const struct request *request) {
    uint32_t numerics = request->leader->life.numerics;
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS && numerics != FLEET_NONE; i++)
        if (fleet_is_member(&gateway->fleet, i) && gateway->fleet.units[i].numerics != numerics)
            return true;
    return false;
}

void fleet_shares_look(struct fleet_shares *shares, const struct gateway *gateway) {
    bool in_line[1 + FLEET_TENANTS] = {false};
    for (uint32_t i = 0; i < shares->waiting_count; i++)
        shares->waiting[i].waits = false;
    for (uint32_t slot = 0; slot < gateway->requests.slots_used; slot++) {
        const struct request *request = &gateway->requests.slots[slot];
        if (request->life.state != REQUEST_WAITING || request->asked.account == ACCOUNT_NONE)
            continue;
        uint32_t account = fleet_shares_number_of(gateway, request->asked.account);
        in_line[account] = true;
        if (is_bound(gateway, request)) shares->gets_less[account] = true;
        if (request->id.attempt) continue;
        struct fleet_waiting *known = find(shares, request->id);
        if (known)
            known->waits = true;
        else
            add(shares, gateway, request);
    }
    drop_gone(shares);
    for (uint32_t i = 1; i <= FLEET_TENANTS; i++)
        if (!in_line[i]) shares->passes[i] = shares->gets_less[i] = false;
    compare(shares);
}

/* ---- work of units ---- */

static bool has_roles(const struct fleet *fleet) {
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++)
        if (fleet_is_member(fleet, i) && fleet->units[i].hello.role != UNIT_BOTH) return true;
    return false;
}

const char *fleet_shares_give(struct fleet_shares *shares, const struct gateway *gateway,
                              const struct record_submit *submit) {
    struct fleet_waiting *waiting = find(shares, submit->request);
    const char *wrong = NULL;
    if (!waiting || submit->task == SUBMIT_PREFILL) return NULL;
    uint32_t account = waiting->account;
    shares->given[account] += waiting->work;
    for (uint32_t other = 1; other <= FLEET_TENANTS; other++) {
        if (!shares->both[account][other] || shares->gets_less[other]) continue;
        double ahead =
            shares->given[account] - shares->given[other] - shares->ahead[account][other];
        double most = (shares->largest[account] + shares->largest[other]) * (1 + ROUNDING);
        shares->compared++;
        if (ahead > most) wrong = "an account gets more of the units than its share";
    }
    shares->passes[account] |= submit->task != SUBMIT_RESERVE && has_roles(&gateway->fleet);
    fleet_shares_take_out(shares, waiting);
    compare(shares);
    return wrong;
}
