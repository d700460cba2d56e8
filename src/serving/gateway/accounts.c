/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/accounts.h"

#include "base/check.h"
#include "base/format.h"
#include "base/number.h"
#include "base/sha256.h"

#define CHARGES_MORE 4096 /* charges remembered in addition to one per request */

uint32_t accounts_slots(uint32_t requests_max) {
    return LIMIT_ACCOUNTS + requests_max;
}

static uint32_t key_slots_for(uint32_t requests_max) {
    return LIMIT_ACCOUNT_KEYS + requests_max;
}

static uint32_t charges_for(uint32_t requests_max) {
    return requests_max + CHARGES_MORE;
}

size_t accounts_bytes(uint32_t requests_max) {
    return accounts_slots(requests_max) * sizeof(struct account_state) +
           LIMIT_ACCOUNTS * sizeof(uint32_t) +
           key_slots_for(requests_max) * sizeof(struct account_key_state) +
           map_bytes(key_slots_for(requests_max)) +
           charges_for(requests_max) * sizeof(struct account_charge) + 64;
}

enum status accounts_open(struct accounts *accounts, struct arena *arena, uint32_t requests_max) {
    accounts->slot_count = accounts_slots(requests_max);
    accounts->key_slot_count = key_slots_for(requests_max);
    accounts->charges_max = charges_for(requests_max);
    accounts->slots = arena_take(arena, accounts->slot_count * sizeof *accounts->slots);
    accounts->named = arena_take(arena, LIMIT_ACCOUNTS * sizeof *accounts->named);
    accounts->keys = arena_take(arena, accounts->key_slot_count * sizeof *accounts->keys);
    accounts->charges = arena_take(arena, accounts->charges_max * sizeof *accounts->charges);
    if (!accounts->slots || !accounts->named || !accounts->keys || !accounts->charges)
        return STATUS_NO_MEMORY;
    return map_open(&accounts->by_digest, arena, accounts->key_slot_count);
}

/* ---- charges ---- */

static struct account_charge *charge_at(const struct accounts *accounts, uint32_t index) {
    return &accounts->charges[(accounts->charge_first + index) % accounts->charges_max];
}

/* Removes the oldest charge from the ring and returns it. */
static struct account_charge forget_charge(struct accounts *accounts) {
    struct account_charge first = *charge_at(accounts, 0);
    accounts->charge_first = (accounts->charge_first + 1) % accounts->charges_max;
    accounts->charge_count--;
    return first;
}

static void owe(struct accounts *accounts, const struct account_charge *charge, int64_t amount) {
    struct account_use *account = NULL, *key = NULL;
    if (charge->account != ACCOUNT_NONE) account = &accounts->slots[charge->account].use;
    if (charge->key != ACCOUNT_NONE) key = &accounts->keys[charge->key].use;
    if (account) account->unreported = sum_i64(account->unreported, amount);
    if (key) key->unreported = sum_i64(key->unreported, amount);
}

/* Drops the oldest charge from a full ring. Assumes that the next ACCOUNTS includes it. */
static void drop_charge(struct accounts *accounts) {
    struct account_charge charge = forget_charge(accounts);
    struct account_use *account = NULL, *key = NULL;
    if (charge.account != ACCOUNT_NONE) account = &accounts->slots[charge.account].use;
    if (charge.key != ACCOUNT_NONE) key = &accounts->keys[charge.key].use;
    if (account) account->dropped = sum_i64(account->dropped, charge.amount);
    if (key) key->dropped = sum_i64(key->dropped, charge.amount);
    accounts->charge_dropped = charge.sequence;
}

static void remember_charge(struct accounts *accounts, const struct account_charge *charge) {
    if (charge->amount == 0) return;
    if (accounts->charge_count == accounts->charges_max) drop_charge(accounts);
    *charge_at(accounts, accounts->charge_count++) = *charge;
    owe(accounts, charge, charge->amount);
}

/* Removes the charges that the balances just received include: those of entries up to
 * `committed`. */
static void commit_charges(struct accounts *accounts, uint64_t committed) {
    while (accounts->charge_count && charge_at(accounts, 0)->sequence <= committed) {
        struct account_charge charge = forget_charge(accounts);
        owe(accounts, &charge, -charge.amount);
    }
    if (accounts->charge_dropped > committed) return; /* some dropped charges are not included */
    for (uint32_t i = 0; i < accounts->slots_used; i++) {
        struct account_use *use = &accounts->slots[i].use;
        use->unreported = sum_i64(use->unreported, -use->dropped);
        use->dropped = 0;
    }
    for (uint32_t i = 0; i < accounts->keys_used; i++) {
        struct account_use *use = &accounts->keys[i].use;
        use->unreported = sum_i64(use->unreported, -use->dropped);
        use->dropped = 0;
    }
}

/* ---- ACCOUNTS ---- */

/* Finds an account's slot by name. `place`: its slot by the last ACCOUNTS, or ACCOUNT_NONE. */
static uint32_t find_name(const struct accounts *accounts, const char *name, uint32_t place) {
    if (place != ACCOUNT_NONE && strcmp(accounts->slots[place].is.name, name) == 0) return place;
    for (uint32_t i = 0; i < accounts->slots_used; i++)
        if (strcmp(accounts->slots[i].is.name, name) == 0) return i;
    return ACCOUNT_NONE;
}

/* Returns an unused slot, or else that of an account that is neither listed nor in use. */
static uint32_t accounts_find_room(struct accounts *accounts) {
    if (accounts->slots_used < accounts->slot_count) return accounts->slots_used++;
    uint32_t gone = 0;
    while (gone < accounts->slot_count &&
           (accounts->slots[gone].known || accounts->slots[gone].use.held))
        gone++;
    check(gone < accounts->slot_count);
    for (uint32_t i = 0; i < accounts->charge_count; i++)
        if (charge_at(accounts, i)->account == gone) charge_at(accounts, i)->account = ACCOUNT_NONE;
    return gone;
}

static struct map_key digest_key(const uint8_t sha256[SHA256_BYTES]) {
    struct map_key key;
    memcpy(&key, sha256, sizeof key);
    return key;
}

static uint32_t find_key_room(struct accounts *accounts) {
    if (accounts->keys_used < accounts->key_slot_count) return accounts->keys_used++;
    uint32_t gone = 0;
    while (gone < accounts->key_slot_count &&
           (accounts->keys[gone].known || accounts->keys[gone].use.held))
        gone++;
    check(gone < accounts->key_slot_count);
    map_remove(&accounts->by_digest, digest_key(accounts->keys[gone].is.sha256));
    for (uint32_t i = 0; i < accounts->charge_count; i++)
        if (charge_at(accounts, i)->key == gone) charge_at(accounts, i)->key = ACCOUNT_NONE;
    return gone;
}

/* Takes over the usage by other gateways of the same ledger since its last report. */
static void take_others(const struct accounts *accounts, struct account_state *slot,
                        const struct account *reported) {
    const struct account *before = &slot->is;
    if (reported->others_requests > before->others_requests)
        rate_limit_take(&slot->use.requests, reported->limits.requests_per_minute,
                        reported->others_requests - before->others_requests, accounts->now_ns);
    if (reported->others_tokens > before->others_tokens)
        rate_limit_take(&slot->use.tokens, reported->limits.tokens_per_minute,
                        reported->others_tokens - before->others_tokens, accounts->now_ns);
}

/* Sets `named`. Accounts that keep their slot come first. */
static void accounts_take_named(struct accounts *accounts, const struct account *reported,
                                uint32_t count) {
    for (uint32_t i = 0; i < accounts->slots_used; i++)
        accounts->slots[i].known = false;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t before = i < accounts->named_count ? accounts->named[i] : ACCOUNT_NONE;
        accounts->named[i] = find_name(accounts, reported[i].name, before);
        if (accounts->named[i] != ACCOUNT_NONE) accounts->slots[accounts->named[i]].known = true;
    }
    accounts->named_count = count;
    for (uint32_t i = 0; i < count; i++) {
        bool new = accounts->named[i] == ACCOUNT_NONE;
        if (new) accounts->named[i] = accounts_find_room(accounts);
        struct account_state *slot = &accounts->slots[accounts->named[i]];
        if (new)
            *slot = (struct account_state){.known = true};
        else
            take_others(accounts, slot, &reported[i]);
        slot->is = reported[i];
    }
}

static void take_keys(struct accounts *accounts, const struct account_key *reported,
                      uint32_t count) {
    for (uint32_t i = 0; i < accounts->keys_used; i++)
        accounts->keys[i].known = false;
    for (uint32_t i = 0; i < count; i++) { /* first those that keep their slot */
        uint32_t slot = map_find(&accounts->by_digest, digest_key(reported[i].sha256));
        if (slot != MAP_NONE) accounts->keys[slot].known = true;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct map_key digest = digest_key(reported[i].sha256);
        uint32_t place = map_find(&accounts->by_digest, digest);
        if (place == MAP_NONE) {
            place = find_key_room(accounts);
            accounts->keys[place] = (struct account_key_state){.known = true};
            map_add(&accounts->by_digest, digest, place);
        }
        accounts->keys[place].is = reported[i];
        accounts->keys[place].is.account = accounts->named[reported[i].account];
    }
}

void accounts_take(struct accounts *accounts, const struct record_accounts *record) {
    accounts_take_named(accounts, accounts_named(record), record->account_count);
    take_keys(accounts, accounts_keys(record), record->key_count);
    accounts->prices = record->prices;
    memcpy(accounts->currency, record->currency, sizeof accounts->currency);
    commit_charges(accounts, record->committed);
    accounts->asked_for = true;
}

/* ---- keys ---- */

/* Returns the key after "Bearer", in any case, and spaces (RFC 9110, 11.4). */
static struct bytes accounts_key_of(struct bytes authorization) {
    static const char scheme[] = "bearer ";
    size_t from = sizeof scheme - 1, to = authorization.count;
    if (to <= from) return BYTES_LITERAL("");
    for (size_t i = 0; i < from; i++)
        if ((authorization.data[i] | 0x20) != (scheme[i] | 0x20)) return BYTES_LITERAL("");
    while (from < to && authorization.data[from] == ' ')
        from++;
    while (to > from && authorization.data[to - 1] == ' ')
        to--;
    return (struct bytes){authorization.data + from, to - from};
}

uint32_t accounts_find(const struct accounts *accounts, struct bytes authorization,
                       uint32_t *key_out) {
    struct bytes key = accounts_key_of(authorization);
    uint8_t digest[SHA256_BYTES];
    sha256_digest(key.data, key.count, digest);
    uint32_t found = map_find(&accounts->by_digest, digest_key(digest));
    *key_out = ACCOUNT_NONE;
    if (key.count == 0 || found == MAP_NONE || !accounts->keys[found].known) return ACCOUNT_NONE;
    if (memcmp(digest, accounts->keys[found].is.sha256, sizeof digest) != 0) return ACCOUNT_NONE;
    *key_out = found;
    return accounts->keys[found].is.account;
}

/* Derives a narrower tenant from `what`; empty: the tenant does not change. */
static void accounts_narrow(struct tenant_salt *tenant, struct bytes domain, struct bytes what) {
    struct sha256 hash;
    if (what.count == 0) return;
    sha256_init(&hash);
    sha256_update(&hash, domain.data, domain.count);
    sha256_update(&hash, tenant->bytes, sizeof tenant->bytes);
    sha256_update(&hash, what.data, what.count);
    sha256_final(&hash, tenant->bytes);
}

struct tenant_salt accounts_salt(const struct accounts *accounts, uint32_t account) {
    return account == ACCOUNT_NONE ? (struct tenant_salt){{0}} : accounts->slots[account].is.tenant;
}

struct tenant_salt accounts_tenant(const struct accounts *accounts, uint32_t account,
                                   struct bytes user_id, struct bytes cache_salt) {
    static const char user_domain[] = "fathom user id", salt_domain[] = "fathom cache salt";
    struct tenant_salt tenant = accounts_salt(accounts, account);
    accounts_narrow(&tenant, (struct bytes){user_domain, sizeof user_domain}, user_id);
    accounts_narrow(&tenant, (struct bytes){salt_domain, sizeof salt_domain}, cache_salt);
    return tenant;
}

struct tenant_salt accounts_tenant_now(struct tenant_salt tenant, int64_t unix_time,
                                       int64_t life_s) {
    static const char domain[] = "fathom cache period";
    uint64_t phase, period;
    if (!life_s) return tenant;
    memcpy(&phase, tenant.bytes, sizeof phase);
    period = ((uint64_t)unix_time + phase % (uint64_t)life_s) / (uint64_t)life_s;
    accounts_narrow(&tenant, (struct bytes){domain, sizeof domain},
                    (struct bytes){(const char *)&period, sizeof period});
    return tenant;
}

/* ---- permissions ---- */

uint64_t accounts_models_denied(const struct accounts *accounts, uint32_t account, uint32_t key) {
    uint64_t denied = 0;
    if (account != ACCOUNT_NONE) denied = accounts->slots[account].is.limits.models_denied;
    if (key != ACCOUNT_NONE) denied |= accounts->keys[key].is.limits.models_denied;
    return denied;
}

uint32_t accounts_most(const struct accounts *accounts, uint32_t account, uint32_t key) {
    uint32_t most = 0, of_key = 0;
    if (account != ACCOUNT_NONE) most = accounts->slots[account].is.limits.requests_max;
    if (key != ACCOUNT_NONE) of_key = accounts->keys[key].is.limits.requests_max;
    return !most || (of_key && of_key < most) ? of_key : most;
}

int64_t accounts_balance(const struct accounts *accounts, uint32_t account) {
    if (account == ACCOUNT_NONE) return 0;
    const struct account_state *slot = &accounts->slots[account];
    return sum_i64(slot->is.balance, -slot->use.unreported);
}

/* True if an amount is about to leave the range that can be represented, prepaid or not. `left`:
 * the balance after all charges. */
static bool is_at_end(const struct account_use *use, int64_t left) {
    return sum_i64(use->unreported, use->set_aside) >= LEDGER_AMOUNT_MAX ||
           sum_i64(left, -use->set_aside) <= -2 * LEDGER_AMOUNT_MAX;
}

enum usage_limit accounts_lack(const struct accounts *accounts, uint32_t account, uint32_t key) {
    if (account == ACCOUNT_NONE || !accounts->currency[0]) return USAGE_LIMIT_NONE;
    const struct account_state *slot = &accounts->slots[account];
    int64_t left = accounts_balance(accounts, account);
    bool is_spent = slot->is.is_prepaid && left <= slot->use.set_aside;
    if (is_spent || is_at_end(&slot->use, left)) return USAGE_LIMIT_BALANCE;
    if (key == ACCOUNT_NONE || accounts->keys[key].is.budget == ACCOUNT_BUDGET_ANY)
        return USAGE_LIMIT_NONE;
    const struct account_key_state *of = &accounts->keys[key];
    bool has_left = sum_i64(of->is.budget, -of->use.unreported) > of->use.set_aside;
    return has_left ? USAGE_LIMIT_NONE : USAGE_LIMIT_BUDGET;
}

int64_t accounts_amount_most(const struct accounts *accounts, struct bytes model,
                             uint64_t prompt_tokens, uint64_t output_tokens) {
    const struct token_price *price = record_ledger_model_prices_find(&accounts->prices, model);
    bool hits_cost_more = price->hit > price->miss;
    return record_ledger_token_price_amount(price, hits_cost_more ? prompt_tokens : 0,
                                            hits_cost_more ? 0 : prompt_tokens, output_tokens);
}

/* ---- usage ---- */

static enum account_verdict begin(struct accounts *accounts, uint32_t account, uint32_t key,
                                  const struct account_demand *demand, uint32_t *retry_out) {
    struct account_state *slot = &accounts->slots[account];
    int64_t wait_ns = 0;
    enum account_verdict verdict =
        account_use_verify(&slot->use, &slot->is.limits, demand, accounts->now_ns, &wait_ns);
    struct account_key_state *of = key == ACCOUNT_NONE ? NULL : &accounts->keys[key];
    if (key != ACCOUNT_NONE && verdict != ACCOUNT_NEVER) {
        enum account_verdict other =
            account_use_verify(&of->use, &of->is.limits, demand, accounts->now_ns, &wait_ns);
        if (verdict == ACCOUNT_MAY || other == ACCOUNT_NEVER) verdict = other;
    }
    *retry_out = rate_limit_retry_seconds(wait_ns);
    if (verdict == ACCOUNT_MAY && demand->amount && accounts_lack(accounts, account, key))
        verdict = ACCOUNT_UNPAID;
    if (verdict != ACCOUNT_MAY) return verdict;
    account_use_begin(&slot->use, &slot->is.limits, demand, accounts->now_ns);
    if (key != ACCOUNT_NONE) account_use_begin(&of->use, &of->is.limits, demand, accounts->now_ns);
    return ACCOUNT_MAY;
}

static void end(struct accounts *accounts, uint32_t account, uint32_t key,
                const struct account_demand *demand) {
    if (account == ACCOUNT_NONE) return;
    struct account_state *slot = &accounts->slots[account];
    account_use_end(&slot->use, &slot->is.limits, demand);
    if (key == ACCOUNT_NONE) return;
    struct account_key_state *of = &accounts->keys[key];
    account_use_end(&of->use, &of->is.limits, demand);
}

enum account_verdict accounts_hold(struct accounts *accounts, uint32_t account, uint32_t key,
                                   uint32_t count, uint64_t tokens_least, uint32_t *retry_out) {
    struct account_demand demand = {
        .answers = count, .is_request = true, .tokens_least = tokens_least};
    return account == ACCOUNT_NONE ? ACCOUNT_MAY
                                   : begin(accounts, account, key, &demand, retry_out);
}

enum account_verdict accounts_hold_tokens(struct accounts *accounts, uint32_t account, uint32_t key,
                                          uint64_t tokens, int64_t amount, uint32_t *retry_out) {
    struct account_demand demand = {.tokens = tokens, .amount = amount};
    return account == ACCOUNT_NONE ? ACCOUNT_MAY
                                   : begin(accounts, account, key, &demand, retry_out);
}

void accounts_uncount(struct accounts *accounts, uint32_t account, uint32_t key) {
    end(accounts, account, key, &(struct account_demand){.is_request = true});
}

void accounts_release(struct accounts *accounts, uint32_t account, uint32_t key, uint32_t count,
                      uint64_t tokens, int64_t amount) {
    end(accounts, account, key,
        &(struct account_demand){.answers = count, .tokens = tokens, .amount = amount});
}

void accounts_count_refused(struct accounts *accounts, uint32_t account, enum usage_limit limit) {
    if (account == ACCOUNT_NONE) return;
    struct account_state *slot = &accounts->slots[account];
    slot->refused += limit == USAGE_LIMIT_REQUESTS;
    slot->rate_refused +=
        limit == USAGE_LIMIT_REQUESTS_PER_MINUTE || limit == USAGE_LIMIT_TOKENS_PER_MINUTE;
    slot->unpaid += limit == USAGE_LIMIT_BALANCE || limit == USAGE_LIMIT_BUDGET;
}

void accounts_charge(struct accounts *accounts, uint32_t account, uint32_t key, struct bytes model,
                     const struct api_usage *usage, uint64_t sequence) {
    if (account == ACCOUNT_NONE) return;
    const struct token_price *price = record_ledger_model_prices_find(&accounts->prices, model);
    struct account_state *slot = &accounts->slots[account];
    uint32_t hit = usage->prompt_hit_tokens, miss = usage->prompt_tokens - hit;
    uint64_t tokens = (uint64_t)usage->prompt_tokens + usage->completion_tokens;
    struct account_demand used = {.tokens = tokens};
    struct account_charge charge = {
        .sequence = sequence,
        .account = account,
        .key = key,
        .amount = record_ledger_token_price_amount(price, hit, miss, usage->completion_tokens)};
    slot->requests++;
    slot->prompt_hit_tokens += hit;
    slot->prompt_miss_tokens += miss;
    slot->output_tokens += usage->completion_tokens;
    account_use_begin(&slot->use, &slot->is.limits, &used, accounts->now_ns);
    if (key != ACCOUNT_NONE)
        account_use_begin(&accounts->keys[key].use, &accounts->keys[key].is.limits, &used,
                          accounts->now_ns);
    remember_charge(accounts, &charge);
}

struct account_standing accounts_standing(const struct accounts *accounts, uint32_t account,
                                          uint32_t key) {
    if (account == ACCOUNT_NONE) return (struct account_standing){0};
    const struct account_state *slot = &accounts->slots[account];
    struct account_standing standing =
        account_use_standing(&slot->use, &slot->is.limits, accounts->now_ns);
    if (key == ACCOUNT_NONE) return standing;
    const struct account_key_state *of = &accounts->keys[key];
    return account_use_stricter(standing,
                                account_use_standing(&of->use, &of->is.limits, accounts->now_ns));
}

/* ---- counters ---- */

struct accounts_family {
    const char *name, *help;
    size_t offset; /* offset of a uint64_t in struct account_state */
};

#define AT(field) offsetof(struct account_state, field)

static const struct accounts_family families[] = {
    {"fathom_account_requests_total", "Requests answered, or ended because the client left.",
     AT(requests)},
    {"fathom_account_refused_total", "Requests beyond what the account may have at the same time.",
     AT(refused)},
    {"fathom_account_rate_refused_total", "Requests beyond what the account may have in a minute.",
     AT(rate_refused)},
    {"fathom_account_unpaid_total", "Requests refused because nothing was left to pay them from.",
     AT(unpaid)},
    {"fathom_account_prompt_cache_hit_tokens_total", "Prompt tokens found in the cache, as billed.",
     AT(prompt_hit_tokens)},
    {"fathom_account_prompt_cache_miss_tokens_total", "Prompt tokens computed, as billed.",
     AT(prompt_miss_tokens)},
    {"fathom_account_output_tokens_total", "Tokens of answers, as billed.", AT(output_tokens)},
};

static void accounts_write_head(struct json_writer *writer, const char *name, const char *help,
                                const char *type) {
    char line[256];
    format_text(line, sizeof line, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
    json_writer_text(writer, line);
}

void accounts_write_amount(struct json_writer *writer, int64_t nanos, uint32_t places) {
    int64_t unit = 1, whole = 1; /* nanos of the last decimal, and those per whole */
    for (uint32_t i = 0; i < 9; i++)
        *(i < places ? &whole : &unit) *= 10;
    int64_t units = nanos / unit - (nanos % unit < 0);
    uint64_t size = units < 0 ? 0 - (uint64_t)units : (uint64_t)units;
    char text[48];
    format_text(text, sizeof text, "%s%llu.%0*llu", units < 0 ? "-" : "",
                (unsigned long long)(size / (uint64_t)whole), (int)places,
                (unsigned long long)(size % (uint64_t)whole));
    json_writer_text(writer, text);
}

static void accounts_write_balances(struct json_writer *writer, const struct accounts *accounts) {
    static const char name[] = "fathom_account_balance";
    char line[256];
    if (!accounts->currency[0]) return;
    accounts_write_head(writer, name,
                        "What the account has left, in the currency; below zero: owed.", "gauge");
    for (uint32_t i = 0; i < accounts->named_count; i++) {
        const struct account_state *slot = &accounts->slots[accounts->named[i]];
        format_text(line, sizeof line, "%s{account=\"%s\",currency=\"%s\"} ", name, slot->is.name,
                    accounts->currency);
        json_writer_text(writer, line);
        accounts_write_amount(writer, accounts_balance(accounts, accounts->named[i]), 9);
        json_writer_text(writer, "\n");
    }
}

void accounts_write_metrics(struct json_writer *writer, const struct accounts *accounts) {
    char line[256];
    if (!accounts->asked_for) return;
    for (size_t i = 0; i < ARRAY_COUNT(families); i++) {
        const struct accounts_family *family = &families[i];
        accounts_write_head(writer, family->name, family->help, "counter");
        for (uint32_t slot = 0; slot < accounts->slots_used; slot++) {
            const struct account_state *account = &accounts->slots[slot];
            uint64_t value;
            memcpy(&value, (const char *)account + family->offset, sizeof value);
            format_text(line, sizeof line, "%s{account=\"%s\"} %llu\n", family->name,
                        account->is.name, (unsigned long long)value);
            json_writer_text(writer, line);
        }
    }
    accounts_write_balances(writer, accounts);
}
