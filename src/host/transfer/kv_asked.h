/* SPDX-License-Identifier: Apache-2.0
 * What the host of one rank's KV pages was asked and has not answered. When the rank dies, no
 * answers follow: then each of these gets the answer that nothing came of it, as the unit takes it
 * from any host, and its request goes on without. So a dead rank needs no rule of its own in the unit:
 * what its pages held is forgotten, and transfers from and to it have ended.
 */
#ifndef HOST_TRANSFER_KV_ASKED_H
#define HOST_TRANSFER_KV_ASKED_H

#include "contract/record_kv.h"

union kv_answer {
    struct record record;
    struct record_kv_done done;
    struct record_kv_found found;
    struct record_kv_loaded loaded;
    struct record_kv_stored kept;
};

/* Zeros at first. */
struct kv_asked {
    union kv_answer *answers; /* [count] that nothing came of it, of each that is open */
    uint32_t count, capacity;
};

/* Notes a unit's records that need an answer. */
void kv_asked_note(struct kv_asked *asked, const struct record *record);

/* An answer has come. */
void kv_asked_end(struct kv_asked *asked, const struct record *answer);

/* Takes one that is open, and the answer that nothing came of it. False: there is none. */
bool kv_asked_deny(struct kv_asked *asked, union kv_answer *answer_out);

void kv_asked_free(struct kv_asked *asked);

#endif
