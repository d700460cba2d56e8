/* SPDX-License-Identifier: Apache-2.0
 * The state of the KV transfers of one rank, as receiver and as sender: the open grants, the pages
 * and slices that each may still write, its peer, and how each ended. It contains no KV data,
 * sockets or clock. The transport reports arrivals to the ledger and asks it what it may do.
 *
 * A grant is a capability of 128 random bits. Data without an open grant is refused and not
 * written. A page belongs to one grant at a time, so two grants cannot write to the same page.
 *
 * A grant ends once, for the first reason that is reported to the ledger or found by it. Later
 * reasons change nothing.
 *
 *   open ──end──► ending ──last busy slice──► quiet ──announce──► ready ──take──► (gone)
 *
 * After the end, every further slice is refused. But a slice that is being written (or read, at the
 * sender) stays busy until the transport reports that it no longer uses the memory. The grant
 * becomes quiet when no slice is busy. The transport then notifies the peer (announce), and the
 * owner receives the end and gets its pages back (take).
 *
 * All memory is allocated at the start: tables of grants, of pages, of slices.
 *
 * Below, "in" marks fields of incoming grants (this rank receives), and "out" those of outgoing
 * ones. A slot is the index of a grant in the table until its end is taken. A peer is the
 * transport's number for a connection, never 0 and never reused.
 */
#pragma once

#include "base/map.h"
#include "contract/ids.h"

#define TRANSFER_NONE UINT32_MAX   /* no slot or no page */
#define TRANSFER_SUMMARY_BYTES 256 /* maximum size of the sender's final summary */
#define TRANSFER_REASON_BYTES 160  /* with the terminator */
#define TRANSFER_NO_PEER UINT64_C(0)

struct transfer_grant {
    uint64_t high, low; /* not both zero */
};

enum transfer_side { TRANSFER_IN, TRANSFER_OUT, TRANSFER_SIDE_COUNT };

/* How a grant ended. */
enum transfer_end {
    /* in: all slices and the finish have arrived; out: the receiver confirmed the end */
    TRANSFER_DONE,
    TRANSFER_CANCELLED, /* by the owner, on either side */
    TRANSFER_DEADLINE,
    TRANSFER_PEER_LOST,
    TRANSFER_DAMAGED, /* a checksum did not match, or the sender finished with slices missing */
    TRANSFER_REFUSED, /* the receiver does not have the grant, or the grants do not match */
    TRANSFER_END_COUNT
};

/* A block that an incoming grant expects in a page. It has the slices slice_first .. slice_first +
 * slice_count - 1, each with the rows 0 .. row_count - 1. */
struct transfer_block {
    struct page_id page;
    uint32_t row_count; /* 1..64 */
    uint32_t slice_first, slice_count;
};

/* The verdict on a slice or a finish that has arrived. The transport drops it unless the verdict is
 * ACCEPT. */
enum transfer_verdict {
    TRANSFER_ACCEPT,    /* write the slice into its page, then call transfer_ledger_written */
    TRANSFER_UNKNOWN,   /* no such grant: never expected, or gone; notify the peer */
    TRANSFER_LATE,      /* the grant has ended; the peer was or will be notified */
    TRANSFER_FOREIGN,   /* another peer sends this grant's slices; notify this peer */
    TRANSFER_DUPLICATE, /* it has arrived, or (a slice) is being written */
    TRANSFER_MISFIT,    /* the grant expects no such slice; it ends as REFUSED */
    TRANSFER_VERDICT_COUNT
};

/* An accepted slice and its destination, to be passed to transfer_ledger_written. */
struct transfer_write {
    uint32_t slot, slice;
    struct page_id page;
};

struct transfer_limits {
    uint32_t grant_count; /* of both sides together */
    uint32_t page_count;  /* pages of this rank; page ids are below it */
    uint32_t slice_count; /* of a page */
};

/* Counters since the ledger was opened. */
struct transfer_counts {
    uint64_t opened[TRANSFER_SIDE_COUNT];
    uint64_t ended[TRANSFER_SIDE_COUNT][TRANSFER_END_COUNT];
    uint64_t taken[TRANSFER_SIDE_COUNT];     /* ends taken by the owners */
    uint64_t slices[TRANSFER_VERDICT_COUNT]; /* slices that arrived, by verdict */
    uint64_t damaged;                        /* slices with a wrong checksum */
    uint64_t leased, released; /* pages leased to grants, and returned when the end was taken */
};

/* The end of a grant, for its owner and for the transport. */
struct transfer_ended {
    struct transfer_grant grant;
    enum transfer_side side;
    enum transfer_end end;
    uint64_t peer;   /* in: TRANSFER_NO_PEER if no peer sent anything */
    uint32_t layers; /* in: slices 0..layers-1 have arrived in every block that expects them */
    uint32_t blocks; /* in: blocks 0..blocks-1 have arrived with all their slices */
    uint32_t summary_bytes;
    uint8_t summary[TRANSFER_SUMMARY_BYTES]; /* in, DONE: the sender's summary */
    char reason[TRANSFER_REASON_BYTES];      /* one line; empty when DONE */
};

struct transfer_ledger {
    struct transfer_limits limits;
    struct transfer_counts counts;
    uint32_t used_count;      /* slots in use: opened, with the end not yet taken */
    uint32_t busy_count;      /* slices being written or held by a send, over all grants */
    uint32_t finishing_count; /* grants that have ended but still have busy slices */
    uint32_t page_count;      /* pages leased */
    int64_t deadline_ns;      /* no open grant has an earlier deadline */
    struct transfer *slots;   /* [grant_count] */
    uint32_t free_slot;       /* head of a list */
    struct transfer_list {
        uint32_t first, last; /* slots, in the order in which they entered this state */
    } quiet, ready;
    struct transfer_page *pages; /* [page_count] */
    uint8_t *slice_states;       /* [page_count][slice_count], enum slice_state */
    uint32_t *missing;           /* [grant_count][slice_count] blocks without this slice */
    struct map by_grant;         /* grant, side -> slot */
    struct map by_block;         /* slot, block index -> page */
};

/* Arena bytes that transfer_ledger_open needs. */
size_t transfer_ledger_bytes(const struct transfer_limits *limits);

enum status transfer_ledger_open(struct transfer_ledger *ledger, struct arena *arena,
                                 const struct transfer_limits *limits) MUST_USE;

/* ---- the receiver ---- */

/* Opens an incoming grant for blocks[count], which the sender numbers 0..count-1. Returns
 * STATUS_FULL if the table is full, or STATUS_INVALID if the grant is in use or a page is not
 * free. */
enum status transfer_ledger_expect(struct transfer_ledger *ledger, struct transfer_grant grant,
                                   const struct transfer_block *blocks, uint32_t count,
                                   int64_t deadline_ns, struct error *error) MUST_USE;

/* Reports the arrival of a slice from `peer`: slice `slice` of the grant's block `block`, with
 * `rows` rows. If the grant has no peer yet, this becomes its peer. Only ACCEPT sets *write_out and
 * makes the slice busy. */
enum transfer_verdict transfer_ledger_arrive(struct transfer_ledger *ledger, uint64_t peer,
                                             struct transfer_grant grant, uint32_t block,
                                             uint32_t slice, uint32_t rows,
                                             struct transfer_write *write_out) MUST_USE;

enum transfer_written {
    TRANSFER_WRITTEN, /* complete, and the checksum matches */
    TRANSFER_SPOILT,  /* complete, and the checksum does not match: the grant ends as DAMAGED */
    TRANSFER_BROKEN   /* the transport did not finish: the grant ends as PEER_LOST */
};

/* Reports that the transport no longer writes to the memory of an accepted slice. Returns true if
 * the grant's `layers` have grown (transfer_ledger_layers). */
bool transfer_ledger_written(struct transfer_ledger *ledger, const struct transfer_write *write,
                             enum transfer_written how);

/* Reports that the sender has finished, after slice_count slices in total. `summary` is stored for
 * the owner. The grant ends now, or when the last slice is written: as DONE if no slice is missing,
 * else as DAMAGED. */
enum transfer_verdict transfer_ledger_finish(struct transfer_ledger *ledger, uint64_t peer,
                                             struct transfer_grant grant, uint64_t slice_count,
                                             const void *summary, uint32_t summary_bytes) MUST_USE;

/* ---- the sender ---- */

/* Opens an outgoing grant to a peer. Returns STATUS_FULL if the table is full, or STATUS_INVALID if
 * the grant is in use. */
enum status transfer_ledger_offer(struct transfer_ledger *ledger, struct transfer_grant grant,
                                  uint64_t peer, int64_t deadline_ns, struct error *error) MUST_USE;

/* Counts one more slice of the grant as busy, because it waits or is being sent.
 * transfer_ledger_release takes the returned slot. Returns false if the grant is unknown or accepts
 * no more slices. */
bool transfer_ledger_hold(struct transfer_ledger *ledger, struct transfer_grant grant,
                          uint32_t *slot_out);
void transfer_ledger_release(struct transfer_ledger *ledger, uint32_t slot);

/* Records that the owner sends no further slice. The grant stays open until the receiver reports
 * its end. *slice_count_out: slices held in total. Returns false under the conditions of
 * transfer_ledger_hold. */
bool transfer_ledger_finish_sending(struct transfer_ledger *ledger, struct transfer_grant grant,
                                    uint64_t *peer_out, uint64_t *slice_count_out);

/* ---- both ---- */

/* Ends an open grant; false if there is none. `reason` is one line, ignored for DONE; NULL: the
 * name of the end. */
bool transfer_ledger_end(struct transfer_ledger *ledger, enum transfer_side side,
                         struct transfer_grant grant, enum transfer_end end, const char *reason);

/* Like transfer_ledger_end, on behalf of `peer`. Also returns false if the grant belongs to another
 * peer. An incoming grant without a peer gets this one. */
bool transfer_ledger_end_by(struct transfer_ledger *ledger, enum transfer_side side, uint64_t peer,
                            struct transfer_grant grant, enum transfer_end end, const char *reason);

/* Ends all open grants of this peer. */
void transfer_ledger_end_peer(struct transfer_ledger *ledger, uint64_t peer, enum transfer_end how,
                              const char *reason);

/* Ends all open grants with a deadline in the past. */
void transfer_ledger_expire(struct transfer_ledger *ledger, int64_t now_ns);

/* Ends all open grants. */
void transfer_ledger_end_all(struct transfer_ledger *ledger, enum transfer_end how,
                             const char *reason);

/* The time for the next call of transfer_ledger_expire. No open grant has an earlier deadline, but
 * this one may belong to a grant that has ended. INT64_MAX: there is no deadline. */
int64_t transfer_ledger_next_deadline(const struct transfer_ledger *ledger);

/* Finds a connection that keeps an ended grant busy. The first call that sees the grant records
 * `now_ns`. A later call returns its peer once drain_ns_max has passed; the transport must then
 * close that connection to get the memory back. TRANSFER_NO_PEER: there is none. *wake_out: the
 * time of the next call, or INT64_MAX. */
uint64_t transfer_ledger_stuck(struct transfer_ledger *ledger, int64_t drain_ns_max, int64_t now_ns,
                               int64_t *wake_out);

/* True if the grant in that slot is open. The slot must be from transfer_ledger_hold and not
 * released yet. */
bool transfer_ledger_is_open(const struct transfer_ledger *ledger, uint32_t slot);
uint64_t transfer_ledger_peer(const struct transfer_ledger *ledger, uint32_t slot);

/* True from transfer_ledger_expect until the end of the incoming grant is taken. */
bool transfer_ledger_knows(const struct transfer_ledger *ledger, struct transfer_grant grant);

/* Sets *layers_out to the number of leading slices that have arrived in every block of an incoming
 * grant that expects them. Returns false if the grant is not open. */
bool transfer_ledger_layers(const struct transfer_ledger *ledger, struct transfer_grant grant,
                            uint32_t *layers_out);

/* For the transport: returns each quiet grant once, to notify its peer; false if there is none. */
bool transfer_ledger_announce(struct transfer_ledger *ledger, struct transfer_ended *ended_out);

/* For the owner: returns the next announced end; false if there is none. Removes the grant and
 * releases its pages. */
bool transfer_ledger_take(struct transfer_ledger *ledger, struct transfer_ended *ended_out);

/* Recounts all state and checks it. Slow: for tests. */
void transfer_ledger_audit(const struct transfer_ledger *ledger);

/* Short lower-case names, e.g. "peer lost". */
const char *transfer_ledger_end_name(enum transfer_end end);

static inline bool transfer_grant_equal(struct transfer_grant a, struct transfer_grant b) {
    return a.high == b.high && a.low == b.low;
}
