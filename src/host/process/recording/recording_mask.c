/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/recording/recording_mask.h"

#include <string.h>

#include "base/check.h"
#include "base/sha256.h"
#include "contract/record_unit.h"
#include "contract/step_plan.h"

#define SCHEME "Bearer "
#define SCHEME_BYTES (sizeof SCHEME - 1)
#define KEY_BYTES (SCHEME_BYTES + 2 * (size_t)SHA256_BYTES) /* a header with another key */

/* ---- replacements ---- */

struct draws { /* random numbers derived from the key */
    const struct recording_mask *mask;
    uint64_t counter;
    uint64_t words[SHA256_BYTES / 8];
    uint32_t left;
};

static uint32_t draw_below(struct draws *draws, uint32_t limit) {
    if (draws->left == 0) {
        uint8_t digest[SHA256_BYTES];
        uint64_t counter = draws->counter++;
        sha256_hmac(draws->mask->key, &counter, sizeof counter, digest);
        memcpy(draws->words, digest, sizeof digest);
        draws->left = ARRAY_COUNT(draws->words);
    }
    return (uint32_t)(draws->words[--draws->left] % limit);
}

void recording_mask_open(struct recording_mask *mask, const uint8_t key[32], uint32_t *tokens,
                         uint32_t vocab_count) {
    *mask =
        (struct recording_mask){.tokens = vocab_count ? tokens : NULL, .vocab_count = vocab_count};
    memcpy(mask->key, key, sizeof mask->key);
    struct draws draws = {.mask = mask};
    for (uint32_t i = 0; i < vocab_count; i++) { /* uniform shuffle (Fisher, Yates) */
        uint32_t at = draw_below(&draws, i + 1);
        tokens[i] = tokens[at];
        tokens[at] = i;
    }
    for (uint32_t i = 0; i < ARRAY_COUNT(mask->bytes); i++) {
        uint32_t at = draw_below(&draws, i + 1);
        mask->bytes[i] = mask->bytes[at];
        mask->bytes[at] = (uint8_t)i;
    }
}

static uint32_t token_for(const struct recording_mask *mask, uint32_t token) {
    return token < mask->vocab_count ? mask->tokens[token] : token;
}

static void mask_tokens(const struct recording_mask *mask, uint32_t *tokens, size_t count) {
    for (size_t i = 0; i < count; i++)
        tokens[i] = token_for(mask, tokens[i]);
}

static void mask_biases(const struct recording_mask *mask, struct token_bias *biases,
                        uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        biases[i].token = token_for(mask, biases[i].token);
}

static void mask_logprobs(const struct recording_mask *mask, struct token_logprob *logprobs,
                          size_t count) {
    for (size_t i = 0; i < count; i++)
        logprobs[i].token = token_for(mask, logprobs[i].token);
}

static void mask_text(const struct recording_mask *mask, char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        text[i] = (char)mask->bytes[(uint8_t)text[i]];
}

static void mask_salt(const struct recording_mask *mask, struct tenant_salt *tenant) {
    if (record_zeros(tenant, sizeof *tenant)) return;
    sha256_hmac(mask->key, tenant->bytes, sizeof tenant->bytes, tenant->bytes);
}

/* ---- a unit's records ---- */

static void mask_submit(const struct recording_mask *mask, struct record_submit *submit) {
    mask_salt(mask, &submit->tenant);
    mask_salt(mask, &submit->account);
    if (!mask->tokens) return;
    mask_tokens(mask, submit_tokens(submit), (size_t)submit->prompt_count + submit->resumed_count);
    mask_tokens(mask, submit_stop_tokens(submit), submit->stop_token_count);
    mask_biases(mask, submit_biases(submit), submit->bias_count);
    mask_text(mask, submit_constraint(submit), submit->constraint_bytes);
    memset(submit_name(submit), '?', submit->name_bytes);
}

static void mask_plan(const struct recording_mask *mask, struct step_plan *plan) {
    struct step_row *rows = step_plan_rows(plan);
    for (uint32_t i = 0; i < plan->constraint_count; i++)
        mask_salt(mask, &step_plan_constraints(plan)[i].account);
    if (!mask->tokens) return;
    for (uint32_t i = 0; i < plan->row_count; i++)
        if (rows[i].scored_count) rows[i].next_token = token_for(mask, rows[i].next_token);
    mask_tokens(mask, step_plan_tokens(plan), plan->token_count);
    mask_tokens(mask, step_plan_history(plan), plan->history_count);
    mask_biases(mask, step_plan_biases(plan), plan->bias_count);
    mask_tokens(mask, step_plan_constraint_tokens(plan), plan->constraint_token_count);
    mask_text(mask, step_plan_constraint_texts(plan), plan->constraint_bytes);
}

static void mask_result(const struct recording_mask *mask, struct step_result *result) {
    struct step_result_row *rows = step_result_rows(result);
    for (uint32_t i = 0; i < result->row_count; i++)
        mask_tokens(mask, rows[i].tokens, rows[i].token_count);
    mask_logprobs(mask, step_result_logprobs(result), result->logprob_count);
}

void recording_mask_unit(const struct recording_mask *mask, struct record *record) {
    void *is = record;
    if (record->kind == RECORD_SUBMIT) mask_submit(mask, is);
    if (record->kind == RECORD_RUN_STEP) mask_plan(mask, is);
    if (!mask->tokens) return;
    if (record->kind == RECORD_CONTINUE) {
        struct record_continue *more = is;
        mask_tokens(mask, continue_tokens(more), more->token_count);
    } else if (record->kind == RECORD_STEP_DONE) {
        mask_result(mask, is);
    } else if (record->kind == RECORD_TOKENS) {
        struct record_tokens *tokens = is;
        mask_tokens(mask, tokens_chosen(tokens), tokens->token_count);
        mask_logprobs(mask, tokens_logprobs(tokens),
                      (size_t)tokens->token_count * tokens->logprobs_each);
    } else if (record->kind == RECORD_SCORES) {
        struct record_scores *scores = is;
        mask_logprobs(mask, scores_logprobs(scores),
                      (size_t)scores->token_count * scores->logprobs_each);
    }
}

/* ---- a gateway's ---- */

void recording_mask_salts(const struct recording_mask *mask, struct record_accounts *accounts) {
    for (uint32_t i = 0; i < accounts->account_count; i++)
        mask_salt(mask, &accounts_named(accounts)[i].tenant);
}

/* The first bytes of a key's hash, from which the replacement is derived: usage entries have only
 * these. */
#define HASH_START sizeof((struct record_usage *)NULL)->key

/* Writes a replacement of the API key with this start of its hash, in hexadecimal digits. */
static void other_key(const struct recording_mask *mask, const uint8_t sha256[HASH_START],
                      char out[2 * SHA256_BYTES]) {
    static const char digits[] = "0123456789abcdef";
    uint8_t digest[SHA256_BYTES];
    sha256_hmac(mask->key, sha256, HASH_START, digest);
    for (size_t i = 0; i < sizeof digest; i++) {
        out[2 * i] = digits[digest[i] >> 4];
        out[2 * i + 1] = digits[digest[i] & 15];
    }
}

void recording_mask_keys(const struct recording_mask *mask, struct record_accounts *accounts) {
    for (uint32_t i = 0; i < accounts->key_count; i++) {
        char key[2 * SHA256_BYTES];
        uint8_t *sha256 = accounts_keys(accounts)[i].sha256;
        other_key(mask, sha256, key);
        sha256_digest(key, sizeof key, sha256);
    }
}

void recording_mask_put(const struct recording_mask *mask, struct record *record) {
    char key[2 * SHA256_BYTES];
    uint8_t sha256[SHA256_BYTES];
    if (record->kind != RECORD_USAGE) return;
    struct record_usage *entry = (void *)record;
    memset(entry->peer, 0, sizeof entry->peer);
    if (record_zeros(entry->key, sizeof entry->key)) return; /* it has no key */
    other_key(mask, entry->key, key);
    sha256_digest(key, sizeof key, sha256);
    memcpy(entry->key, sha256, sizeof entry->key);
}

static bool has_key(const struct record_client_request *record) {
    const char *header = client_request_authorization(record);
    if (record->authorization_bytes <= SCHEME_BYTES) return false;
    for (size_t i = 0; i < SCHEME_BYTES; i++)
        if ((header[i] | 0x20) != (SCHEME[i] | 0x20)) return false;
    return true;
}

/* Copies the head without the client's address. A header without a key becomes one byte, so that
 * its length is not recorded, either. */
static struct record_client_request without_key(const struct record_client_request *record) {
    struct record_client_request fixed = *record;
    memset(fixed.peer, 0, sizeof fixed.peer);
    fixed.authorization_bytes = has_key(record) ? (uint32_t)KEY_BYTES : 0;
    if (record->authorization_bytes && !fixed.authorization_bytes) fixed.authorization_bytes = 1;
    return fixed;
}

size_t recording_mask_request_bytes(const struct record_client_request *record) {
    struct record_client_request fixed = without_key(record);
    return record_bytes(RECORD_CLIENT_REQUEST, &fixed);
}

void recording_mask_request(const struct recording_mask *mask,
                            const struct record_client_request *record,
                            struct record_client_request *out) {
    memset(out, 0, recording_mask_request_bytes(record));
    *out = without_key(record);
    record_set_head(out, RECORD_CLIENT_REQUEST);
    memcpy(client_request_path(out), client_request_path(record), record->path_bytes);
    memcpy(client_request_body(out), client_request_body(record), record->body_bytes);
    memcpy(client_request_name(out), client_request_name(record), record->name_bytes);
    char *header = client_request_authorization(out);
    if (out->authorization_bytes == 1) *header = '?';
    if (!has_key(record)) return;
    uint8_t sha256[SHA256_BYTES];
    const char *given = client_request_authorization(record);
    size_t from = SCHEME_BYTES, to = record->authorization_bytes;
    while (from < to && given[from] == ' ') /* the account's hash is of the key alone */
        from++;
    while (to > from && given[to - 1] == ' ')
        to--;
    sha256_digest(given + from, to - from, sha256);
    memcpy(header, SCHEME, SCHEME_BYTES);
    other_key(mask, sha256, header + SCHEME_BYTES);
}
