/* SPDX-License-Identifier: Apache-2.0
 * The work for an answer, over all units that took part: the account behind `usage` and the ledger,
 * and the receipt that a client may ask for. Each unit reports its part with every token (struct
 * unit_work); the parts are combined here.
 *
 * The hits that count are those of the unit that computed the prompt to the answer's first token.
 * From then on the account of the prompt is final, whatever happens to that unit. If a unit is lost
 * or fails before, its account is dropped, and the next one's counts. So for every answer
 *
 *   hit + miss = device + host + disk + computed = prompt
 *
 * If a client leaves before the first token, the prompt is the part that was obtained.
 *
 * Additional work of units (for an answer that moved, a transfer that failed, pages taken away) is
 * transferred, reloaded or recomputed.
 */
#pragma once

#include "base/json_writer.h"
#include "contract/record_unit.h"
#include "serving/gateway/metrics.h"

#define RECEIPT_STAYS_MAX 8              /* units that a receipt lists: the last ones */
#define RECEIPT_BYTES_MAX ((size_t)2048) /* of one answer's, as JSON */

/* A unit's part of a request: all of it or only the answer; or the prompt for another unit. */
enum request_part { PART_ANSWER, PART_PROMPT, PART_COUNT };

struct receipt_stay {  /* at a unit */
    uint64_t instance; /* from its hello */
    struct unit_id unit;
    uint32_t rank;
    uint8_t role; /* enum unit_role of its part */
};

struct receipt {   /* fields that every token reads come first */
    bool is_final; /* the first token has arrived, or none will */
    struct {
        bool reported, counts; /* the unit has reported `work`; its `work` is `first` */
        struct unit_work work;
    } parts[PART_COUNT];    /* of the units that have it now */
    struct unit_work first; /* of the unit that sent the first token, or would have */
    struct unit_work sum;   /* of units that it has left, in addition */
    struct receipt_stay stays[RECEIPT_STAYS_MAX];
    uint32_t stay_count; /* in all */
    uint32_t attempts;   /* units that it was sent to for its answer */
    int64_t ended_ns;
};

/* False: this cannot be a unit's work for a prompt of that length. */
bool receipt_is_credible(const struct unit_work *work, uint32_t prompt_tokens);

/* One of its units has reported its work so far. receipt_choose: the report came with the very
 * first token, or ends a prompt that no other unit computes any more. */
void receipt_note(struct receipt *receipt, enum request_part part, const struct unit_work *work);
void receipt_choose(struct receipt *receipt, enum request_part part);

/* Ends the request. If it has no token yet, the prefill unit's report is final. */
void receipt_end(struct receipt *receipt);

/* The unit has it no more; `stay` names the unit, without its rank. */
void receipt_leave(struct receipt *receipt, enum request_part part, struct receipt_stay stay);

/* All work so far: of the first, the former and the present units. */
struct unit_work receipt_total(const struct receipt *receipt, uint32_t prompt_tokens);

struct receipt_head { /* further fields of a receipt */
    struct request_id request;
    uint32_t index;     /* of the answer */
    const char *finish; /* its finish reason */
    uint32_t prompt_tokens, output_tokens;
    const struct metrics_times *times;
};

/* Writes a JSON object about an ended answer that no unit has any more. */
void receipt_write(struct json_writer *writer, const struct receipt *receipt,
                   const struct receipt_head *head);
