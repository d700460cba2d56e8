/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/accounts.h"

#include "base/check.h"
#include "base/format.h"
#include "base/sha256.h"

/* One for each that may be named, and for each that has requests but is not named any more. */
static uint32_t slots_for(uint32_t requests_max) {
    return LIMIT_ACCOUNTS + requests_max;
}

size_t accounts_bytes(uint32_t requests_max) {
    return slots_for(requests_max) * sizeof(struct account_state) +
           LIMIT_ACCOUNT_KEYS * sizeof(struct account_key) + 32;
}

enum status accounts_open(struct accounts *accounts, struct arena *arena, uint32_t requests_max) {
    accounts->slot_count = slots_for(requests_max);
    accounts->slots = arena_take_zeroed(arena, accounts->slot_count * sizeof *accounts->slots);
    accounts->keys = arena_take(arena, LIMIT_ACCOUNT_KEYS * sizeof *accounts->keys);
    return accounts->slots && accounts->keys ? STATUS_OK : STATUS_NO_MEMORY;
}

/* ---- the file's contents ---- */

static uint32_t find_name(const struct accounts *accounts, const char *name) {
    for (uint32_t i = 0; i < accounts->slot_count && accounts->slots[i].used; i++)
        if (strcmp(accounts->slots[i].is.name, name) == 0) return i;
    return ACCOUNT_NONE;
}

/* A place nobody has had, or else that of an account which is gone for good. */
static uint32_t find_room(const struct accounts *accounts) {
    uint32_t gone = ACCOUNT_NONE;
    for (uint32_t i = 0; i < accounts->slot_count; i++) {
        const struct account_state *slot = &accounts->slots[i];
        if (!slot->used) return i;
        if (!slot->known && slot->held == 0) gone = i;
    }
    check(gone != ACCOUNT_NONE);
    return gone;
}

void accounts_take(struct accounts *accounts, const struct record_accounts *record) {
    const struct account *named = accounts_named(record);
    const struct account_key *keys = accounts_keys(record);
    uint32_t places[LIMIT_ACCOUNTS];
    for (uint32_t i = 0; i < accounts->slot_count; i++)
        accounts->slots[i].known = false;
    for (uint32_t i = 0; i < record->account_count; i++) { /* first those that keep their place */
        places[i] = find_name(accounts, named[i].name);
        if (places[i] != ACCOUNT_NONE) accounts->slots[places[i]].known = true;
    }
    for (uint32_t i = 0; i < record->account_count; i++) {
        bool new = places[i] == ACCOUNT_NONE;
        if (new) places[i] = find_room(accounts);
        struct account_state *slot = &accounts->slots[places[i]];
        if (new) *slot = (struct account_state){.used = true, .known = true};
        slot->is = named[i];
    }
    for (uint32_t i = 0; i < record->key_count; i++) {
        accounts->keys[i] = keys[i];
        accounts->keys[i].account = places[keys[i].account];
    }
    accounts->key_count = record->key_count;
    accounts->asked_for = true;
}

/* ---- who asks ---- */

static struct bytes key_of(struct bytes authorization) {
    static const char scheme[] = "bearer ";
    size_t count = sizeof scheme - 1;
    if (authorization.count <= count) return BYTES_LITERAL("");
    for (size_t i = 0; i < count; i++)
        if ((authorization.data[i] | 0x20) != (scheme[i] | 0x20)) return BYTES_LITERAL("");
    return (struct bytes){authorization.data + count, authorization.count - count};
}

/* 0 if they are equal; no branch on what they hold. */
static uint8_t difference(const uint8_t *a, const uint8_t *b) {
    uint8_t different = 0;
    for (uint32_t i = 0; i < SHA256_BYTES; i++)
        different |= a[i] ^ b[i];
    return different;
}

uint32_t accounts_find(const struct accounts *accounts, struct bytes authorization) {
    struct bytes key = key_of(authorization);
    uint8_t digest[SHA256_BYTES];
    uint32_t found = ACCOUNT_NONE;
    sha256_digest(key.data, key.count, digest);
    for (uint32_t i = 0; i < accounts->key_count; i++) {
        uint32_t mask = (uint32_t)difference(digest, accounts->keys[i].sha256) - 1;
        mask = 0 - (mask >> 31); /* all ones if they are equal */
        found = (accounts->keys[i].account & mask) | (found & ~mask);
    }
    return key.count ? found : ACCOUNT_NONE;
}

/* `what` empty: not at all. */
static void narrow(struct tenant_salt *tenant, struct bytes domain, struct bytes what) {
    struct sha256 hash;
    if (what.count == 0) return;
    sha256_init(&hash);
    sha256_update(&hash, domain.data, domain.count);
    sha256_update(&hash, tenant->bytes, sizeof tenant->bytes);
    sha256_update(&hash, what.data, what.count);
    sha256_final(&hash, tenant->bytes);
}

struct tenant_salt accounts_tenant(const struct accounts *accounts, uint32_t account,
                                   struct bytes user_id, struct bytes cache_salt) {
    static const char user_domain[] = "fathom user id", salt_domain[] = "fathom cache salt";
    struct tenant_salt tenant = {{0}};
    if (account != ACCOUNT_NONE) tenant = accounts->slots[account].is.tenant;
    narrow(&tenant, (struct bytes){user_domain, sizeof user_domain}, user_id);
    narrow(&tenant, (struct bytes){salt_domain, sizeof salt_domain}, cache_salt);
    return tenant;
}

/* ---- what they use ---- */

uint32_t accounts_most(const struct accounts *accounts, uint32_t account) {
    return account == ACCOUNT_NONE ? 0 : accounts->slots[account].is.limits.requests_max;
}

uint32_t accounts_left(const struct accounts *accounts, uint32_t account) {
    uint32_t most = accounts_most(accounts, account);
    uint32_t held = most ? accounts->slots[account].held : 0;
    return held < most ? most - held : 0; /* the file may have been read again */
}

bool accounts_hold(struct accounts *accounts, uint32_t account, uint32_t count) {
    if (account == ACCOUNT_NONE) return true;
    struct account_state *slot = &accounts->slots[account];
    if (slot->is.limits.requests_max && slot->held + count > slot->is.limits.requests_max) {
        slot->refused++;
        return false;
    }
    slot->held += count;
    return true;
}

void accounts_release(struct accounts *accounts, uint32_t account, uint32_t count) {
    if (account == ACCOUNT_NONE) return;
    check(accounts->slots[account].held >= count);
    accounts->slots[account].held -= count;
}

void accounts_charge(struct accounts *accounts, uint32_t account, const struct api_usage *usage) {
    if (account == ACCOUNT_NONE) return;
    struct account_state *slot = &accounts->slots[account];
    slot->requests++;
    slot->prompt_hit_tokens += usage->prompt_hit_tokens;
    slot->prompt_miss_tokens += usage->prompt_tokens - usage->prompt_hit_tokens;
    slot->output_tokens += usage->completion_tokens;
}

struct accounts_family {
    const char *name, *help;
    size_t offset; /* of a uint64_t in struct account_state */
};

#define AT(field) offsetof(struct account_state, field)

static const struct accounts_family families[] = {
    {"fathom_account_requests_total", "Requests that were answered, or whose client left.",
     AT(requests)},
    {"fathom_account_refused_total", "Requests beyond what the account may have at the same time.",
     AT(refused)},
    {"fathom_account_prompt_cache_hit_tokens_total", "Prompt tokens found in the cache, as billed.",
     AT(prompt_hit_tokens)},
    {"fathom_account_prompt_cache_miss_tokens_total", "Prompt tokens computed, as billed.",
     AT(prompt_miss_tokens)},
    {"fathom_account_output_tokens_total", "Tokens of answers, as billed.", AT(output_tokens)},
};

void accounts_write_metrics(struct json_writer *writer, const struct accounts *accounts) {
    char line[256];
    for (size_t i = 0; i < ARRAY_COUNT(families) && accounts->asked_for; i++) {
        const struct accounts_family *family = &families[i];
        format_text(line, sizeof line, "# HELP %s %s\n# TYPE %s counter\n", family->name,
                    family->help, family->name);
        json_writer_text(writer, line);
        for (uint32_t slot = 0; slot < accounts->slot_count; slot++) {
            const struct account_state *account = &accounts->slots[slot];
            uint64_t value;
            if (!account->used) continue;
            memcpy(&value, (const char *)account + family->offset, sizeof value);
            format_text(line, sizeof line, "%s{account=\"%s\"} %llu\n", family->name,
                        account->is.name, (unsigned long long)value);
            json_writer_text(writer, line);
        }
    }
}
