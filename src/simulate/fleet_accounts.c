/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/fleet_accounts.h"

#include "base/check.h"
#include "base/format.h"
#include "base/sha256.h"
#include "contract/machine.h"
#include "serving/gateway/gateway_state.h"

#define STREAM 7
#define PAID_FIRST 160000 /* nanos, of who pays in advance; a request costs some thousands */
#define PAID_MORE 30000

enum { PREPAID = 1 };

static const struct token_price price = {
    .hit = PICOS_PER_NANO / 2, .miss = 10 * PICOS_PER_NANO, .output = 20 * PICOS_PER_NANO};
/* Nanos that a request may come to. */
#define MOST                                                                                       \
    ((int64_t)10 * FLEET_PROMPTS_MAX * FLEET_PROMPT_MAX +                                          \
     (int64_t)20 * FLEET_ANSWERS_MAX * FLEET_ANSWER_MAX)
#define MINUTE_NS ((int64_t)60 * FLEET_SECOND)

static void draw_limits(struct fleet_dice *dice, struct account_limits *limits) {
    if (fleet_dice_below(dice, 3)) limits->requests_per_minute = 40 + fleet_dice_below(dice, 80);
    if (fleet_dice_below(dice, 3)) limits->tokens_per_minute = 8000 + fleet_dice_below(dice, 20000);
    if (fleet_dice_below(dice, 3) == 0)
        limits->requests_max = FLEET_ANSWERS_MAX + fleet_dice_below(dice, 20);
}

void fleet_accounts_open(struct fleet_accounts *accounts, uint64_t seed) {
    struct record_accounts fixed = {.account_count = 1 + FLEET_TENANTS,
                                    .key_count = 1 + FLEET_TENANTS};
    struct outbox box = {.memory = accounts->memory, .capacity = sizeof accounts->memory};
    char text[32];
    accounts->dice = (struct fleet_dice){.seed = seed, .stream = STREAM};
    accounts->present = fleet_dice_below(&accounts->dice, 3) == 0;
    accounts->tell_ns = accounts->present ? 0 : MACHINE_NEVER;
    accounts->record = outbox_put(&box, RECORD_ACCOUNTS, &fixed);
    check(accounts->record);
    for (uint64_t i = 0; i <= FLEET_TENANTS; i++) {
        struct account *account = &accounts_named(accounts->record)[i];
        struct account_key *key = &accounts_keys(accounts->record)[i];
        *account = (struct account){.weight = ACCOUNT_WEIGHT, .is_operator = i == 0};
        format_text(account->name, sizeof account->name, "account-%u", (unsigned)i);
        memcpy(account->tenant.bytes, &i, sizeof i);
        if (i > 0) draw_limits(&accounts->dice, &account->limits);
        account->is_prepaid = i == PREPAID;
        accounts->paid[i] = fleet_dice_below(&accounts->dice, PAID_FIRST);
        *key = (struct account_key){.account = (uint32_t)i, .budget = ACCOUNT_BUDGET_ANY};
        size_t bytes = fleet_clients_key(i, text, sizeof text);
        sha256_digest(text, bytes, key->sha256);
    }
}

/* ---- money ---- */

/* What a tenant has left by the entries that are written down; or by all that are, or still may be. */
static int64_t balance_of(const struct fleet_accounts *accounts, const struct fleet_ledger *ledger,
                          const struct fleet_clients *clients, uint64_t tenant, bool written_only) {
    int64_t balance = accounts->paid[tenant];
    for (uint32_t i = 0; i < clients->count; i++) {
        const struct fleet_line *line = &ledger->lines[i];
        bool lives = line->life == ledger->life;
        bool counts = !lives ? line->written : !written_only || line->sequence <= ledger->written;
        if (line->said && line->is_charged && counts && clients->clients[i].tenant == tenant)
            balance -= token_price_amount(&price, line->hit_tokens, line->miss_tokens,
                                          line->output_tokens);
    }
    return balance;
}

void fleet_accounts_settle(struct fleet_accounts *accounts, const struct fleet_ledger *ledger,
                           const struct fleet_clients *clients) {
    if (!ledger->kept) return;
    memcpy(accounts->record->currency, "USD", 3);
    accounts->record->price = price;
    accounts->record->settled = ledger->written;
    for (uint32_t i = 0; i <= FLEET_TENANTS; i++)
        accounts_named(accounts->record)[i].balance =
            balance_of(accounts, ledger, clients, i, true);
}

bool fleet_accounts_lack(const struct fleet_accounts *accounts, const struct fleet_ledger *ledger,
                         const struct fleet_clients *clients, uint64_t tenant) {
    return accounts->present && ledger->kept && tenant == PREPAID &&
           balance_of(accounts, ledger, clients, tenant, false) <= 0;
}

const char *fleet_accounts_audit(const struct fleet_accounts *accounts,
                                 const struct fleet_ledger *ledger,
                                 const struct fleet_clients *clients,
                                 const struct gateway *gateway) {
    if (!accounts->present || !ledger->kept) return NULL;
    for (uint32_t i = 0; i <= FLEET_TENANTS; i++) {
        uint32_t slot = gateway->accounts.named[i];
        int64_t owed = balance_of(accounts, ledger, clients, i, false) -
                       accounts_balance(&gateway->accounts, slot);
        if (owed) return "the gateway knows another balance than its entries say";
        if (i == PREPAID && accounts_balance(&gateway->accounts, slot) <= -MOST)
            return "who pays in advance owes more than one request may come to";
    }
    return NULL;
}

const struct record *fleet_accounts_tell(struct fleet_accounts *accounts,
                                         const struct fleet_ledger *ledger,
                                         const struct fleet_clients *clients, int64_t now_ns) {
    struct account *named = accounts_named(accounts->record);
    if (fleet_dice_below(&accounts->dice, 2))
        accounts->paid[PREPAID] += fleet_dice_below(&accounts->dice, PAID_MORE);
    fleet_accounts_settle(accounts, ledger, clients);
    for (uint32_t i = 1; i <= FLEET_TENANTS; i++) {
        named[i].others_requests += fleet_dice_below(&accounts->dice, 3) == 0;
        named[i].others_tokens += fleet_dice_below(&accounts->dice, 50);
    }
    accounts->tell_ns =
        now_ns + fleet_dice_time(&accounts->dice, FLEET_SECOND / 5, 9 * FLEET_SECOND);
    return &accounts->record->record;
}

/* ---- rates ---- */

/* What the client's answer says that it began: an answer that was given up may have given back its
 * tokens, and whether one that nobody waited for has begun is not known. */
static bool has_begun(const struct fleet_client *client, uint64_t tenant, uint32_t life) {
    return client->tenant == tenant && client->gateway_life == life && client->ended &&
           !client->refused && !client->cut;
}

static uint64_t tokens_of(const struct fleet_client *client) {
    uint64_t tokens = 0;
    for (uint32_t p = 0; p < client->prompt_count; p++)
        tokens += client->prompts[p].count;
    return tokens;
}

static bool exceeds(uint64_t count, uint64_t per_minute, int64_t ns) {
    double most = (double)per_minute * (1 + (double)ns / (double)MINUTE_NS);
    return per_minute && (double)count > most + 1e-3;
}

/* All that its account began from the first client on. */
static void judge_from(const struct fleet_accounts *accounts, struct fleet_clients *clients,
                       const struct fleet_client *first) {
    const struct account_limits *limits = &accounts_named(accounts->record)[first->tenant].limits;
    uint64_t requests = 0, tokens = 0;
    for (uint64_t i = first->number; i < clients->count; i++) {
        const struct fleet_client *client = &clients->clients[i];
        if (!has_begun(client, first->tenant, first->gateway_life)) continue;
        int64_t ns = client->asked_ns - first->asked_ns;
        requests++;
        tokens += tokens_of(client);
        if (exceeds(requests, limits->requests_per_minute, ns))
            fleet_clients_breach(clients, client, "its account begins more requests than it may");
        if (exceeds(tokens, limits->tokens_per_minute, ns))
            fleet_clients_breach(clients, client, "its account has more tokens than it may");
    }
}

void fleet_accounts_judge(const struct fleet_accounts *accounts, struct fleet_clients *clients) {
    for (uint32_t i = 0; i < clients->count && accounts->present; i++) {
        const struct fleet_client *client = &clients->clients[i];
        bool is_unpaid = bytes_equal(bytes_of(client->code), bytes_of(FLEET_UNPAID_CODE));
        if (client->ended && client->lacks && !client->refused)
            fleet_clients_breach(clients, client, "is answered with nothing left to pay from");
        if (is_unpaid && !client->lacks && !client->beside)
            fleet_clients_breach(clients, client, "is refused with something left to pay from");
        if (has_begun(client, client->tenant, client->gateway_life))
            judge_from(accounts, clients, client);
    }
}
