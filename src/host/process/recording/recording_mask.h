/* SPDX-License-Identifier: Apache-2.0
 * Masks private data in a recording. The key of the masks is random for each recording and is not
 * stored.
 *
 *   API keys           replaced: the same key by the same replacement in requests, accounts and
 *                      usage records
 *   salts of tenants   replaced in the same way; no salt stays no salt
 *   client addresses   removed
 *   names of requests  in a unit's recording: each byte is replaced by '?'
 *   token ids          replaced by a random permutation of the vocabulary
 *   constraint texts   replaced by a random permutation of all byte values
 *
 * The last three are not masked if prompts are recorded. A unit only compares tokens and forwards
 * them, so it behaves the same with other tokens. Only the names of its KV blocks change
 * (host/process/recording/recording_compare.h). A permutation does not hide lengths, repetitions
 * and frequencies of tokens.
 */
#pragma once

#include "contract/record_client.h"
#include "contract/record_ledger.h"

struct recording_mask {
    uint8_t key[32];
    uint32_t *tokens; /* [vocab_count] replacement of each token; NULL: not masked */
    uint32_t vocab_count;
    uint8_t bytes[256];
};

/* vocab_count 0: tokens and texts are not masked. `tokens` [vocab_count] is the caller's memory. */
void recording_mask_open(struct recording_mask *mask, const uint8_t key[32], uint32_t *tokens,
                         uint32_t vocab_count);

/* Masks a record that a unit receives or puts out, in place. */
void recording_mask_unit(const struct recording_mask *mask, struct record *record);

/* Masks the salts of accounts before a gateway's machine receives them: it derives the salts of
 * requests from them, so the machine must run with the recorded ones. */
void recording_mask_salts(const struct recording_mask *mask, struct record_accounts *accounts);
/* Masks the hashes of API keys, only in the recording. */
void recording_mask_keys(const struct recording_mask *mask, struct record_accounts *accounts);

/* Masks a record that a gateway puts out, only in the recording: usage records contain the key of
 * their request. Names and amounts of accounts are not masked. */
void recording_mask_put(const struct recording_mask *mask, struct record *record);

/* The largest size of a client's request with a masked key. */
size_t recording_mask_request_bytes(const struct record_client_request *record);
/* Masks a client's request. `out` has recording_mask_request_bytes() bytes. */
void recording_mask_request(const struct recording_mask *mask,
                            const struct record_client_request *record,
                            struct record_client_request *out);
