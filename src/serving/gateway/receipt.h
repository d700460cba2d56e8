/* SPDX-License-Identifier: Apache-2.0
 * Accounts for the work of one answer over all units that took part in it. `usage`, the ledger and
 * the receipt that a client may ask for come from it. Each unit reports its work with every token
 * (struct unit_work), and the reports are combined here.
 *
 * The prefix-cache hits that count are those of the unit that computed the prompt up to the
 * answer's first token. From then on the prompt's numbers are final, whatever happens to that unit.
 * If a unit is lost or fails earlier, its numbers are dropped and those of the next one count. This
 * holds for every answer:
 *
 *   hit + miss = device + host + disk + computed = prompt
 *
 * If a client leaves before the first token, `prompt` is the part that was computed or loaded.
 *
 * Additional work (after an answer moved, a transfer failed, or pages were preempted) is counted as
 * transferred, reloaded or recomputed tokens.
 */
#pragma once

#include "base/json_writer.h"
#include "contract/record_unit.h"
#include "serving/gateway/metrics.h"

#define RECEIPT_STAYS_MAX 8              /* limit of units that a receipt lists: the last ones */
#define RECEIPT_BYTES_MAX ((size_t)2048) /* limit of one answer's receipt as JSON */

/* A unit's part of a request. PART_ANSWER: it makes the answer, with or without the prompt.
 * PART_PROMPT: it computes the prompt for another unit. */
enum request_part { PART_ANSWER, PART_PROMPT, PART_COUNT };

struct receipt_stay {  /* the stay of a request at one unit */
    uint64_t instance; /* instance id from the unit's hello */
    uint32_t unit;     /* number of the unit at this gateway */
    uint32_t rank;
    uint8_t role; /* enum unit_role of the unit's part */
};

struct receipt {   /* fields that every token reads come first */
    bool is_final; /* the first token has arrived, or none will */
    struct {
        bool reported, counts; /* reported: `work` is set; counts: it is the source of `first` */
        struct unit_work work;
    } parts[PART_COUNT];    /* reports of the units that have the request now */
    struct unit_work first; /* work of the unit that sent the first token, or would have sent it */
    struct unit_work sum;   /* additional work of units that the request has left */
    struct receipt_stay stays[RECEIPT_STAYS_MAX];
    uint32_t stay_count; /* including those no longer listed */
    uint32_t attempts;   /* units to which the request was sent for its answer */
    int64_t ended_ns;
};

/* False if no correct unit reports such work for a prompt of this length. */
bool receipt_is_credible(const struct unit_work *work, uint32_t prompt_tokens);

/* receipt_note stores a unit's report of its work so far. Call receipt_choose after it if the
 * report came with the first token, or ends a prompt that no other unit computes. */
void receipt_note(struct receipt *receipt, enum request_part part, const struct unit_work *work);
void receipt_choose(struct receipt *receipt, enum request_part part);

/* Ends the request. If it has no token yet, the prefill unit's report is final. */
void receipt_end(struct receipt *receipt);

/* Call when a unit no longer has the request. `stay` identifies the unit; its rank is not set. */
void receipt_leave(struct receipt *receipt, enum request_part part, struct receipt_stay stay);

/* The total work so far of all units, former and present. */
struct unit_work receipt_total(const struct receipt *receipt, uint32_t prompt_tokens);

struct receipt_head { /* further fields of a receipt */
    struct request_id request;
    uint32_t index;     /* index of the answer */
    const char *finish; /* the finish reason */
    uint32_t prompt_tokens, output_tokens;
    const struct metrics_times *times;
    uint32_t left_out;        /* bits of enum agent_habit */
    uint32_t differs_at;      /* a part of the prompt, as prompt_outline_compare returns it */
    const char *differs_role; /* the role of that message */
};

/* Writes the receipt of an ended answer, which no unit has now, as a JSON object. */
void receipt_write(struct json_writer *writer, const struct receipt *receipt,
                   const struct receipt_head *head);
