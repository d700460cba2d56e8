/* SPDX-License-Identifier: Apache-2.0
 * What a recording does not tell. Under a key that is drawn for each recording and kept nowhere:
 *
 *   API keys        another in their place, the same for the same key, in requests, in accounts and
 *                   in entries
 *   tenants' salts  likewise; none stays none
 *   addresses       of clients: none in their place
 *   names           that clients gave their requests, in a unit's recording: '?', as often, unless
 *                   prompts were asked for
 *   token ids, and texts of constraints, unless prompts were asked for: one fixed exchange of all
 *                   tokens of the vocabulary for one another, and of all bytes
 *
 * All that a unit's machine does with tokens is to compare them and pass them on, so it does the
 * same with others. The names of its KV blocks come out otherwise (host/process/recording/recording_compare.h).
 * An exchange of tokens hides a text from a reader of the file. It does not from one who counts how
 * often each token occurs: lengths and repetitions show.
 */
#ifndef HOST_PROCESS_RECORDING_RECORDING_MASK_H
#define HOST_PROCESS_RECORDING_RECORDING_MASK_H

#include "contract/record_client.h"
#include "contract/record_ledger.h"

struct recording_mask {
    uint8_t key[32];
    uint32_t *tokens; /* [vocab_count] what stands for each; NULL: tokens and texts stay */
    uint32_t vocab_count;
    uint8_t bytes[256];
};

/* vocab_count 0: tokens and texts stay. `tokens` [vocab_count] is the caller's memory. */
void recording_mask_open(struct recording_mask *mask, const uint8_t key[32], uint32_t *tokens,
                         uint32_t vocab_count);

/* A unit's record, given or put, in place. */
void recording_mask_unit(const struct recording_mask *mask, struct record *record);

/* The salts of accounts, before a gateway's machine takes them: its requests' salts are made of
 * them, so it has to run on what the recording tells. */
void recording_mask_salts(const struct recording_mask *mask, struct record_accounts *accounts);
/* The hashes of their API keys, for the recording alone. */
void recording_mask_keys(const struct recording_mask *mask, struct record_accounts *accounts);

/* Masks a record that a gateway puts, in the recording alone: usage records name the key of their
 * request. Names of accounts stay, with their amounts. */
void recording_mask_put(const struct recording_mask *mask, struct record *record);

/* Bytes of a client's request with another key in place of its own, at most. */
size_t recording_mask_request_bytes(const struct record_client_request *record);
/* `out` has room for so many. */
void recording_mask_request(const struct recording_mask *mask,
                            const struct record_client_request *record,
                            struct record_client_request *out);

#endif
