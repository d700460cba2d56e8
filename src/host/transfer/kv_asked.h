/* SPDX-License-Identifier: Apache-2.0
 * Open requests of a unit to the host of one rank's KV pages. If the rank dies, they get no answer.
 * Each then gets a negative answer in the usual form, and the unit continues its request without
 * the blocks. So the unit needs no special case for a dead rank.
 */
#pragma once

#include "contract/record_kv.h"

union kv_answer {
    struct record record;
    struct record_kv_done done;
    struct record_kv_found found;
    struct record_kv_loaded loaded;
    struct record_kv_stored kept;
};

/* Initialize with zeros. */
struct kv_asked {
    union kv_answer *answers; /* [count] negative answers to the open requests */
    uint32_t count, capacity;
};

/* Adds a unit's record if it needs an answer. */
void kv_asked_note(struct kv_asked *asked, const struct record *record);

/* Removes the request of an answer. */
void kv_asked_end(struct kv_asked *asked, const struct record *answer);

/* Removes an open request and returns its negative answer. Returns false if there is none. */
bool kv_asked_deny(struct kv_asked *asked, union kv_answer *answer_out);

void kv_asked_free(struct kv_asked *asked);
