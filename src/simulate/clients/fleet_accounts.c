/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/clients/fleet_accounts.h"

#include "base/check.h"
#include "base/format.h"
#include "base/sha256.h"
#include "contract/machine.h"
#include "serving/gateway/gateway_state.h"

#define STREAM 7
#define STREAM_FLOOD 10
#define FLOODED_PLACES 30 /* open requests of an account at a gateway with 66 slots */
/* Nanos of the account that pays in advance. A request costs some thousands of nanos. */
#define PAID_FIRST 60000
#define PAID_MORE 12000
#define NEWS_NS_MAX (FLEET_SECOND / 5) /* longest delay until a gateway receives a new price */

enum { PREPAID = 1 };

/* The highest cost of a request in nanos, at the highest price. */
#define MOST                                                                                       \
    ((int64_t)10 * FLEET_PROMPTS_MAX * FLEET_PROMPT_MAX +                                          \
     (int64_t)20 * FLEET_ANSWERS_MAX * FLEET_ANSWER_MAX)
#define MINUTE_NS ((int64_t)60 * FLEET_SECOND)

static void draw_limits(struct fleet_dice *dice, struct account_limits *limits) {
    if (fleet_dice_below(dice, 3)) limits->requests_per_minute = 15 + fleet_dice_below(dice, 60);
    if (fleet_dice_below(dice, 3)) limits->tokens_per_minute = 8000 + fleet_dice_below(dice, 20000);
    if (fleet_dice_below(dice, 3) == 0)
        limits->requests_max = FLEET_ANSWERS_MAX + fleet_dice_below(dice, 20);
}

/* In some fleets one account floods: it sends as many requests as it can. All accounts use the same
 * slots of gateways, but their shares differ. */
static void draw_flood(struct fleet_accounts *accounts, struct account *account) {
    static const uint32_t weights[] = {50, ACCOUNT_WEIGHT, ACCOUNT_WEIGHT, 300};
    account->weight = weights[fleet_dice_below(&accounts->flood, ARRAY_COUNT(weights))];
    account->priority = fleet_dice_below(&accounts->flood, ACCOUNT_PRIORITY_COUNT);
    account->limits = (struct account_limits){.requests_max = FLOODED_PLACES};
}

static void draw_accounts(struct fleet_accounts *accounts, struct record_accounts *record) {
    char text[32];
    for (uint64_t i = 0; i <= FLEET_TENANTS; i++) {
        struct account *account = &accounts_named(record)[i];
        struct account_key *key = &accounts_keys(record)[i];
        *account = (struct account){.weight = ACCOUNT_WEIGHT, .is_operator = i == 0};
        format_text(account->name, sizeof account->name, "account-%u", (unsigned)i);
        memcpy(account->tenant.bytes, &i, sizeof i);
        if (i > 0) draw_limits(&accounts->dice, &account->limits);
        if (i > 0 && accounts->flooder) draw_flood(accounts, account);
        account->is_prepaid = i == PREPAID && !accounts->flooder;
        accounts->paid[i] = fleet_dice_below(&accounts->dice, PAID_FIRST);
        *key = (struct account_key){.account = (uint32_t)i, .budget = ACCOUNT_BUDGET_ANY};
        size_t bytes = fleet_clients_key(i, text, sizeof text);
        sha256_digest(text, bytes, key->sha256);
    }
}

void fleet_accounts_open(struct fleet_accounts *accounts, uint64_t seed, uint32_t gateway_count) {
    struct record_accounts fixed = {.account_count = 1 + FLEET_TENANTS,
                                    .key_count = 1 + FLEET_TENANTS};
    *accounts = (struct fleet_accounts){.dice = {.seed = seed, .stream = STREAM},
                                        .gateway_count = gateway_count};
    accounts->present = fleet_dice_below(&accounts->dice, 2);
    accounts->flood = (struct fleet_dice){.seed = seed, .stream = STREAM_FLOOD};
    bool is_alone = gateway_count == 1; /* balances are checked then, so there is no flood */
    if (accounts->present && !is_alone && fleet_dice_below(&accounts->flood, 4))
        accounts->flooder = 1 + fleet_dice_below(&accounts->flood, FLEET_TENANTS);
    for (uint32_t i = 0; i < gateway_count; i++) {
        struct fleet_reported *reported = &accounts->reported[i];
        struct outbox box = {.memory = reported->memory, .capacity = sizeof reported->memory};
        reported->report_ns = accounts->present ? 0 : MACHINE_NEVER;
        reported->record = machine_outbox_put(&box, RECORD_ACCOUNTS, &fixed);
        check(reported->record);
        if (i == 0)
            draw_accounts(accounts, reported->record);
        else
            memcpy(reported->memory, accounts->reported[0].memory, sizeof reported->memory);
    }
}

/* ---- what a gateway receives ---- */

/* The sum written by all writers except this incarnation of the gateway. */
static struct fleet_sum others_of(const struct fleet_accounts *accounts,
                                  const struct fleet_ledger *ledger, uint32_t gateway,
                                  uint32_t tenant) {
    const struct fleet_sum *all = &ledger->accounts[tenant], *own = &ledger->own[gateway][tenant];
    const struct fleet_sum *beyond = &accounts->beyond[tenant];
    return (struct fleet_sum){.requests = all->requests - own->requests + beyond->requests,
                              .tokens = all->tokens - own->tokens + beyond->tokens};
}

/* The amount of the usage records that are written but not yet confirmed to their gateway, and so
 * not yet part of its balance. */
static int64_t unsaid_amount(const struct fleet_ledger *ledger, uint32_t gateway,
                             const struct fleet_clients *clients, uint32_t tenant) {
    const struct fleet_writer *writer = &ledger->writers[gateway];
    int64_t amount = 0;
    for (uint32_t i = 0; i < clients->count; i++) {
        const struct fleet_line *line = &ledger->lines[i];
        if (line->written && line->gateway == gateway && line->life == writer->life &&
            line->sequence > writer->written && clients->clients[i].tenant == tenant)
            amount += line->amount;
    }
    return amount;
}

const struct record_accounts *fleet_accounts_read(struct fleet_accounts *accounts,
                                                  const struct fleet_ledger *ledger,
                                                  const struct fleet_clients *clients,
                                                  uint32_t gateway, int64_t now_ns) {
    struct record_accounts *record = accounts->reported[gateway].record;
    for (uint32_t i = 0; i <= FLEET_TENANTS; i++) {
        struct fleet_sum others = others_of(accounts, ledger, gateway, i);
        accounts_named(record)[i].others_requests = (uint64_t)others.requests;
        accounts_named(record)[i].others_tokens = (uint64_t)others.tokens;
    }
    if (!ledger->kept) return record;
    memcpy(record->currency, "USD", 3);
    record->prices.others = fleet_ledger_price(ledger, fleet_ledger_unix_time(now_ns));
    record->committed = ledger->writers[gateway].written;
    for (uint32_t i = 0; i <= FLEET_TENANTS; i++)
        accounts_named(record)[i].balance = accounts->paid[i] - ledger->accounts[i].amount +
                                            unsaid_amount(ledger, gateway, clients, i);
    return record;
}

const struct record *fleet_accounts_report(struct fleet_accounts *accounts,
                                           const struct fleet_ledger *ledger,
                                           const struct fleet_clients *clients, uint32_t gateway,
                                           int64_t now_ns) {
    struct fleet_reported *reported = &accounts->reported[gateway];
    struct fleet_dice *dice = &accounts->dice;
    if (fleet_dice_below(dice, 2)) accounts->paid[PREPAID] += fleet_dice_below(dice, PAID_MORE);
    for (uint32_t i = 1; i <= FLEET_TENANTS; i++) {
        accounts->beyond[i].requests += fleet_dice_below(dice, 3) == 0;
        accounts->beyond[i].tokens += fleet_dice_below(dice, 50);
    }
    reported->report_ns = now_ns + fleet_dice_time(dice, FLEET_SECOND / 5, 9 * FLEET_SECOND);
    int64_t price_ns = fleet_ledger_next_price_ns(ledger, now_ns);
    if (price_ns < reported->report_ns)
        reported->report_ns = price_ns + fleet_dice_time(dice, 0, NEWS_NS_MAX);
    return &fleet_accounts_read(accounts, ledger, clients, gateway, now_ns)->record;
}

/* ---- the balance at a gateway ---- */

/* The balance that the gateway received last, minus the charges since then at the price that it
 * received last. */
static int64_t known_balance(const struct fleet_accounts *accounts,
                             const struct fleet_ledger *ledger, const struct fleet_clients *clients,
                             uint32_t gateway, uint64_t tenant) {
    const struct record_accounts *record = accounts->reported[gateway].record;
    int64_t balance = accounts_named(record)[tenant].balance;
    for (uint32_t i = 0; i < clients->count; i++) {
        const struct fleet_line *line = &ledger->lines[i];
        if (line->said && line->gateway == gateway && line->life == ledger->writers[gateway].life &&
            line->sequence > record->committed && clients->clients[i].tenant == tenant)
            balance -= line->charged;
    }
    return balance;
}

bool fleet_accounts_lack(const struct fleet_accounts *accounts, const struct fleet_ledger *ledger,
                         const struct fleet_clients *clients, uint32_t gateway, uint64_t tenant) {
    return accounts->present && ledger->kept && tenant == PREPAID && !accounts->flooder &&
           known_balance(accounts, ledger, clients, gateway, tenant) <= 0;
}

const char *fleet_accounts_audit(const struct fleet_accounts *accounts,
                                 const struct fleet_ledger *ledger,
                                 const struct fleet_clients *clients, uint32_t index,
                                 const struct gateway *gateway) {
    bool is_steady = accounts->gateway_count == 1 && !ledger->prices.calendar.period_count;
    if (!accounts->present || !ledger->kept) return NULL;
    for (uint32_t i = 0; i <= FLEET_TENANTS; i++) {
        int64_t known = known_balance(accounts, ledger, clients, index, i);
        if (known != accounts_balance(&gateway->accounts, gateway->accounts.named[i]))
            return "a gateway knows another balance than its entries say";
        if (i == PREPAID && known <= -MOST && is_steady)
            return "who pays in advance owes more than one request may come to";
    }
    return NULL;
}

/* ---- rates ---- */

/* True if the client's response shows that its request began. An answer that was given up may have
 * returned its tokens to the account's limits. For answers that no client received, this is
 * unknown. */
static bool fleet_accounts_has_begun(const struct fleet_client *client, uint64_t tenant,
                                     uint32_t life) {
    return client->tenant == tenant && client->gateway_life == life && client->ended &&
           !client->refused && !client->cut;
}

static uint64_t fleet_accounts_tokens_of(const struct fleet_client *client) {
    uint64_t tokens = 0;
    for (uint32_t p = 0; p < client->prompt_count; p++)
        tokens += client->prompts[p].count;
    return tokens;
}

static bool exceeds(uint64_t count, uint64_t per_minute, int64_t ns) {
    double most = (double)per_minute * (1 + (double)ns / (double)MINUTE_NS);
    return per_minute && (double)count > most + 1e-3;
}

/* Checks all requests of the account, starting at the client `first`. */
static void verify_from(const struct fleet_accounts *accounts, struct fleet_clients *clients,
                        const struct fleet_client *first) {
    const struct account_limits *limits =
        &accounts_named(accounts->reported[0].record)[first->tenant].limits;
    uint64_t requests = 0, tokens = 0;
    for (uint64_t i = first->number; i < clients->count; i++) {
        const struct fleet_client *client = &clients->clients[i];
        if (!fleet_accounts_has_begun(client, first->tenant, first->gateway_life)) continue;
        int64_t ns = client->asked_ns - first->asked_ns;
        requests++;
        tokens += fleet_accounts_tokens_of(client);
        if (exceeds(requests, limits->requests_per_minute, ns))
            fleet_clients_breach(clients, client, "its account begins more requests than it may");
        if (exceeds(tokens, limits->tokens_per_minute, ns))
            fleet_clients_breach(clients, client, "its account has more tokens than it may");
    }
}

void fleet_accounts_verify(const struct fleet_accounts *accounts, struct fleet_clients *clients) {
    for (uint32_t i = 0; i < clients->count && accounts->present; i++) {
        const struct fleet_client *client = &clients->clients[i];
        bool is_unpaid = bytes_equal(bytes_of(client->code), bytes_of(FLEET_UNPAID_CODE));
        if (client->ended && client->lacks && !client->refused)
            fleet_clients_breach(clients, client, "is answered with nothing left to pay from");
        if (is_unpaid && !client->lacks && !client->shares)
            fleet_clients_breach(clients, client, "is refused with something left to pay from");
        if (fleet_accounts_has_begun(client, client->tenant, client->gateway_life))
            verify_from(accounts, clients, client);
    }
}
