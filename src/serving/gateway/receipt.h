/* SPDX-License-Identifier: Apache-2.0
 * What an answer took, over all units that worked on it: the account behind `usage` and the ledger,
 * and the receipt that a client may ask for. Each unit tells its part with every token
 * (struct unit_work); here the parts are put together.
 *
 * Whose hits count: those of the unit that computed the prompt to the answer's first token. From
 * then on the account of the prompt is settled, whatever becomes of that unit; before, a unit that
 * is lost or fails takes its account along, and the next one's counts. So for every answer
 *
 *   hit + miss = device + host + disk + computed = prompt
 *
 * Where a client leaves before the first token, the prompt is what was obtained of it.
 *
 * and what units did besides (for an answer that moved, a transfer that failed, pages taken away)
 * is transferred, reloaded or recomputed.
 */
#ifndef SERVING_GATEWAY_RECEIPT_H
#define SERVING_GATEWAY_RECEIPT_H

#include "base/json_writer.h"
#include "contract/record_unit.h"
#include "serving/gateway/metrics.h"

#define RECEIPT_STAYS_MAX 8              /* units that a receipt names: the last ones */
#define RECEIPT_BYTES_MAX ((size_t)2048) /* of one answer's, as JSON */

/* What a unit does for a request: all of it or the answer alone, or the prompt for another unit. */
enum request_part { PART_ANSWER, PART_PROMPT, PART_COUNT };

struct receipt_stay {  /* at a unit */
    uint64_t instance; /* of its hello */
    struct unit_id unit;
    uint32_t rank;
    uint8_t role; /* enum unit_role, of what it did */
};

struct receipt {  /* first what every token looks at */
    bool settled; /* the first token has come, or none will */
    struct {
        bool told, settles; /* the unit has told `work`; its `work` is `first` */
        struct unit_work work;
    } parts[PART_COUNT];    /* of the units that have it now */
    struct unit_work first; /* of the unit that the first token came from, or might have */
    struct unit_work sum;   /* of units that it has parted from, besides */
    struct receipt_stay stays[RECEIPT_STAYS_MAX];
    uint32_t stay_count; /* in all */
    uint32_t attempts;   /* units that it was given to for its answer */
    int64_t ended_ns;
};

/* False: this cannot be what a unit did for a prompt so long. */
bool receipt_is_credible(const struct unit_work *work, uint32_t prompt_tokens);

/* One of its units has told what it has done so far; the first token of all came with it, or it ends
 * a prompt that nobody else computes any more. */
void receipt_note(struct receipt *receipt, enum request_part part, const struct unit_work *work);
void receipt_settle(struct receipt *receipt, enum request_part part);

/* It ends: where no token has come, what the unit that has its prompt has told is all there will be. */
void receipt_end(struct receipt *receipt);

/* The unit has it no more; `stay` names the unit, but for its rank. */
void receipt_leave(struct receipt *receipt, enum request_part part, struct receipt_stay stay);

/* All of it, as it stands: first, parted and present units together. */
struct unit_work receipt_total(const struct receipt *receipt, uint32_t prompt_tokens);

struct receipt_head { /* what a receipt says besides */
    struct request_id request;
    uint32_t index;     /* of the answer */
    const char *finish; /* its finish reason */
    uint32_t prompt_tokens, output_tokens;
    const struct metrics_times *times;
};

/* As a JSON object, of an answer that has ended and that no unit has any more. */
void receipt_write(struct json_writer *writer, const struct receipt *receipt,
                   const struct receipt_head *head);

#endif
