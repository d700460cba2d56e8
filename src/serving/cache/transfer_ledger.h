/* SPDX-License-Identifier: Apache-2.0
 * The state of KV transfers of one rank, on both sides: which tickets are open, which pages and
 * slices each may still write, the peer, and how each ended. It has no bytes, sockets or clock. A
 * transport reports arrivals to it and asks what it may do.
 *
 * A ticket is 128 random bits and a capability: data for no open ticket is refused here and not
 * written. A page belongs to one ticket at a time, so two tickets cannot write one page.
 *
 * A ticket ends once, for the first reason that is reported to the ledger or that it finds. Later
 * reasons change nothing.
 *
 *   open ──end──► ending ──last busy slice──► quiet ──announce──► ready ──take──► (gone)
 *
 * Ending refuses every further slice. But a slice that is being written (or, at the sender, read)
 * is busy until the transport reports that it no longer uses the memory. Only then does the ticket
 * become quiet. The transport then notifies the peer (announce), and the owner gets the end and its
 * pages back (take).
 *
 * All memory is allocated at the start: tables of tickets, of pages, of slices.
 *
 * Below, "in" marks fields of incoming tickets (this rank receives), "out" of outgoing ones. A slot
 * is a ticket's index in the table until its end is taken. A peer is the transport's number for a
 * connection, never 0 and never reused.
 */
#ifndef SERVING_CACHE_TRANSFER_LEDGER_H
#define SERVING_CACHE_TRANSFER_LEDGER_H

#include "base/map.h"
#include "contract/ids.h"

#define TRANSFER_NONE UINT32_MAX   /* no slot, no page */
#define TRANSFER_SUMMARY_BYTES 256 /* maximum size of the sender's final summary */
#define TRANSFER_REASON_BYTES 160  /* with the terminator */
#define TRANSFER_NO_PEER UINT64_C(0)

struct transfer_grant {
    uint64_t high, low; /* not both zero */
};

enum transfer_side { TRANSFER_IN, TRANSFER_OUT, TRANSFER_SIDE_COUNT };

/* How a ticket ended. */
enum transfer_end {
    TRANSFER_DONE,      /* in: every slice and the finish have arrived; out: the receiver confirmed
                         * it */
    TRANSFER_CANCELLED, /* by its owner on either side */
    TRANSFER_DEADLINE,
    TRANSFER_PEER_LOST,
    TRANSFER_DAMAGED, /* a checksum did not match, or the sender finished with slices missing */
    TRANSFER_REFUSED, /* the receiver does not know the ticket, or the two do not match */
    TRANSFER_END_COUNT
};

/* A block that an incoming ticket expects in a page: slices slice_first .. slice_first +
 * slice_count - 1, each with rows 0 .. row_count - 1. */
struct transfer_block {
    struct page_id page;
    uint32_t row_count; /* 1..64 */
    uint32_t slice_first, slice_count;
};

/* The verdict on a slice, or a finish, that has arrived. Drop it, unless it is ACCEPT. */
enum transfer_verdict {
    TRANSFER_ACCEPT,    /* write the slice into its page, then always call
                         * transfer_ledger_written */
    TRANSFER_UNKNOWN,   /* no such ticket: never expected, or gone; the peer should be notified */
    TRANSFER_LATE,      /* its ticket has ended; the peer was or will be notified */
    TRANSFER_FOREIGN,   /* another peer sends this ticket's slices; this peer should be notified */
    TRANSFER_DUPLICATE, /* it has arrived, or (a slice) is being written */
    TRANSFER_MISFIT,    /* the ticket expects no such slice, and ends as REFUSED for that */
    TRANSFER_VERDICT_COUNT
};

/* An accepted slice and its destination, to be passed to transfer_ledger_written. */
struct transfer_write {
    uint32_t slot, slice;
    struct page_id page;
};

struct transfer_limits {
    uint32_t grant_count; /* of both sides together */
    uint32_t page_count;  /* of this rank: page ids are below it */
    uint32_t slice_count; /* of a page */
};

/* Counts since the ledger was opened. */
struct transfer_counts {
    uint64_t opened[TRANSFER_SIDE_COUNT];
    uint64_t ended[TRANSFER_SIDE_COUNT][TRANSFER_END_COUNT];
    uint64_t taken[TRANSFER_SIDE_COUNT];     /* ends that owners have taken */
    uint64_t slices[TRANSFER_VERDICT_COUNT]; /* that arrived, by verdict */
    uint64_t damaged;                        /* slices with a wrong checksum */
    uint64_t leased, released; /* pages given to tickets, and returned when the end was taken */
};

/* How a ticket ended, for its owner and for the transport. */
struct transfer_ended {
    struct transfer_grant grant;
    enum transfer_side side;
    enum transfer_end end;
    uint64_t peer;   /* in: TRANSFER_NO_PEER if none ever sent anything */
    uint32_t layers; /* in: slices 0..layers-1 have arrived in every block that expects them */
    uint32_t blocks; /* in: blocks 0..blocks-1 have arrived with all their slices */
    uint32_t summary_bytes;
    uint8_t summary[TRANSFER_SUMMARY_BYTES]; /* in, DONE: the sender's summary */
    char reason[TRANSFER_REASON_BYTES];      /* one line; empty when DONE */
};

struct transfer_ledger {
    struct transfer_limits limits;
    struct transfer_counts counts;
    uint32_t used_count;      /* slots in use: opened, end not yet taken */
    uint32_t busy_count;      /* slices being written or held by a send, over all tickets */
    uint32_t finishing_count; /* tickets that have ended and still have busy slices */
    uint32_t page_count;      /* pages leased */
    int64_t deadline_ns;      /* no open ticket has an earlier one */
    struct transfer *slots;   /* [grant_count] */
    uint32_t free_slot;       /* the first one of a list */
    struct transfer_list {
        uint32_t first, last; /* slots, in the order in which they entered this state */
    } quiet, ready;
    struct transfer_page *pages; /* [page_count] */
    uint8_t *slice_states;       /* [page_count][slice_count], enum slice_state */
    uint32_t *missing;           /* [grant_count][slice_count] blocks without this slice */
    struct map by_grant;         /* ticket, side -> slot */
    struct map by_block;         /* slot, block index -> page */
};

/* Arena bytes that suffice for transfer_ledger_open. */
size_t transfer_ledger_bytes(const struct transfer_limits *limits);

enum status transfer_ledger_open(struct transfer_ledger *ledger, struct arena *arena,
                                 const struct transfer_limits *limits) MUST_USE;

/* ---- the receiver ---- */

/* Opens a ticket for blocks[count], which the sender numbers 0..count-1. STATUS_FULL if the table
 * is full; STATUS_INVALID if the ticket is in use or a page is not free for it. */
enum status transfer_ledger_expect(struct transfer_ledger *ledger, struct transfer_grant grant,
                                   const struct transfer_block *blocks, uint32_t count,
                                   int64_t deadline_ns, struct error *error) MUST_USE;

/* A slice has arrived from `peer`, which becomes the ticket's peer if it has none: slice `slice` of
 * the ticket's block `block`, with `rows` rows. Only ACCEPT sets *write_out and makes the slice
 * busy. */
enum transfer_verdict transfer_ledger_arrive(struct transfer_ledger *ledger, uint64_t peer,
                                             struct transfer_grant grant, uint32_t block,
                                             uint32_t slice, uint32_t rows,
                                             struct transfer_write *write_out) MUST_USE;

enum transfer_written {
    TRANSFER_WRITTEN, /* complete, and the checksum matches */
    TRANSFER_SPOILT,  /* complete, and it does not match: the ticket ends as DAMAGED */
    TRANSFER_BROKEN   /* the transport did not finish: the ticket ends as PEER_LOST */
};

/* The memory of an accepted slice is no longer written. True: the ticket's `layers` have grown
 * (transfer_ledger_layers). */
bool transfer_ledger_written(struct transfer_ledger *ledger, const struct transfer_write *write,
                             enum transfer_written how);

/* The sender's finish has arrived: it has sent slice_count slices in total; `summary` is kept for
 * the owner. The ticket ends, now or when the last of them is written: DONE if none is missing,
 * else DAMAGED. */
enum transfer_verdict transfer_ledger_finish(struct transfer_ledger *ledger, uint64_t peer,
                                             struct transfer_grant grant, uint64_t slice_count,
                                             const void *summary, uint32_t summary_bytes) MUST_USE;

/* ---- the sender ---- */

/* Opens a ticket towards a peer. STATUS_FULL if the table is full; STATUS_INVALID if the ticket is
 * in use. */
enum status transfer_ledger_offer(struct transfer_ledger *ledger, struct transfer_grant grant,
                                  uint64_t peer, int64_t deadline_ns, struct error *error) MUST_USE;

/* Counts one slice of the ticket as busy while it waits or is being sent; then
 * transfer_ledger_release takes the slot. False: the ticket is unknown or takes no more slices. */
bool transfer_ledger_hold(struct transfer_ledger *ledger, struct transfer_grant grant,
                          uint32_t *slot_out);
void transfer_ledger_release(struct transfer_ledger *ledger, uint32_t slot);

/* The owner sends no slice after this. The ticket takes no more, but stays open until the
 * receiver reports its end. *slice_count_out: how many were held in total. False: as
 * transfer_ledger_hold. */
bool transfer_ledger_finish_sending(struct transfer_ledger *ledger, struct transfer_grant grant,
                                    uint64_t *peer_out, uint64_t *slice_count_out);

/* ---- both ---- */

/* Ends an open ticket; false if there is none. `reason` is one line, ignored for DONE; NULL: the
 * end's name. */
bool transfer_ledger_end(struct transfer_ledger *ledger, enum transfer_side side,
                         struct transfer_grant grant, enum transfer_end end, const char *reason);

/* Like transfer_ledger_end, on behalf of `peer`: also false if the ticket belongs to another peer. An
 * incoming ticket without a peer gets this one. */
bool transfer_ledger_end_by(struct transfer_ledger *ledger, enum transfer_side side, uint64_t peer,
                            struct transfer_grant grant, enum transfer_end end, const char *reason);

/* Ends all open tickets of this peer. */
void transfer_ledger_end_peer(struct transfer_ledger *ledger, uint64_t peer, enum transfer_end how,
                              const char *reason);

/* Ends all open tickets with a deadline that has passed. */
void transfer_ledger_expire(struct transfer_ledger *ledger, int64_t now_ns);

/* Ends all open tickets. */
void transfer_ledger_end_all(struct transfer_ledger *ledger, enum transfer_end how,
                             const char *reason);

/* When to call transfer_ledger_expire: no open ticket's deadline is earlier, but that of an ended
 * ticket may be. INT64_MAX: none has a deadline. */
int64_t transfer_ledger_next_deadline(const struct transfer_ledger *ledger);

/* Notes `now_ns` in each ending ticket that it sees for the first time. Returns the peer of one
 * first seen drain_ns_max ago or longer: the transport has to close that connection to get the
 * memory back. TRANSFER_NO_PEER: there is none. *wake_out: when to call again, or INT64_MAX. */
uint64_t transfer_ledger_stuck(struct transfer_ledger *ledger, int64_t drain_ns_max, int64_t now_ns,
                               int64_t *wake_out);

/* Whether the ticket in that slot is open. The slot was returned by transfer_ledger_hold and is not
 * released. */
bool transfer_ledger_is_open(const struct transfer_ledger *ledger, uint32_t slot);
uint64_t transfer_ledger_peer(const struct transfer_ledger *ledger, uint32_t slot);

/* True from transfer_ledger_expect until the incoming ticket's end is taken. */
bool transfer_ledger_knows(const struct transfer_ledger *ledger, struct transfer_grant grant);

/* Slices 0..*layers_out-1 have arrived in every block of an incoming ticket that expects them.
 * False: the ticket is not open. */
bool transfer_ledger_layers(const struct transfer_ledger *ledger, struct transfer_grant grant,
                            uint32_t *layers_out);

/* For the transport: returns each ticket that has become quiet once; false if there is none. */
bool transfer_ledger_announce(struct transfer_ledger *ledger, struct transfer_ended *ended_out);

/* For the owner: the next announced end; false if there is none. The ticket is removed, its pages
 * are released. */
bool transfer_ledger_take(struct transfer_ledger *ledger, struct transfer_ended *ended_out);

/* Recounts everything and check()s that it agrees. Slow: for tests. */
void transfer_ledger_audit(const struct transfer_ledger *ledger);

/* Short lower-case names, e.g. "peer lost". */
const char *transfer_ledger_end_name(enum transfer_end end);

static inline bool transfer_grant_equal(struct transfer_grant a, struct transfer_grant b) {
    return a.high == b.high && a.low == b.low;
}

#endif
