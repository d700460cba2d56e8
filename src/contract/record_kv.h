/* SPDX-License-Identifier: Apache-2.0
 * What a unit and the hosts of its KV pages tell each other: blocks on their way to another unit,
 * and blocks in the KV storage.
 */
#ifndef CONTRACT_RECORD_KV_H
#define CONTRACT_RECORD_KV_H

#include "contract/load_end.h"
#include "contract/record.h"

/* Every KV_* record begins so. */
struct record_kv {
    struct record record;
    struct request_id request; /* zeros where it is about none: KEEP, KEPT, HELLO */
    uint32_t rank;             /* of the unit, owner of the pages; an answer names it again */
    uint32_t value;            /* each kind's own */
};

static inline bool record_is_kv(const struct record *record) {
    return record_goes(record->kind, WAYS_KV);
}
static inline uint32_t record_kv_rank(const struct record *record) {
    return ((const struct record_kv *)record)->rank;
}

#define KV_ADDRESS_BYTES 64

/* True if the address ends within its bytes, and zeros follow. */
bool record_kv_address_valid(const char address[KV_ADDRESS_BYTES]);

/* The way of a request's KV blocks from rank to rank. */
struct kv_route {
    uint64_t grant[2];              /* names the transfer, at both ends */
    char address[KV_ADDRESS_BYTES]; /* of the receiving rank; text, zero-padded */
};

/* Blocks of a request will arrive from another rank, into these pages. No one else writes to the
 * pages until KV_DONE. The pages are for the blocks from first_block on, which reach to the
 * sequence's first token_count tokens. */
struct record_kv_expect {
    struct record record;
    struct request_id request;
    uint32_t rank;
    uint32_t first_block;
    uint64_t grant[2];
    uint32_t token_count;
    uint32_t page_count;
};
RECORD_TAIL(record_kv_expect, 0, struct page_id, kv_expect_pages) /* [page_count] */

/* Blocks that may be sent. They are in these pages, and no one writes to the pages until KV_DONE.
 * The last making_count of the blocks are not computed yet: the next step writes them, layer by
 * layer. When that step is done, the request's next push comes; if it failed, a KV_CANCEL.
 *
 * A request's pushes go on where the one before ended. The last push, which may have no page, says
 * that all blocks have been named and stand. */
struct record_kv_push {
    struct record record;
    struct request_id request;
    uint32_t rank;
    uint32_t first_block;
    struct kv_route route;
    uint32_t token_count; /* of the sequence, as far as these blocks reach */
    uint32_t page_count;
    uint32_t last;  /* 1: no push of this request follows */
    uint32_t first; /* 1: no push of this request came before */
    uint32_t making_count;
    uint32_t reserved; /* zero */
    uint64_t step;     /* that writes them; 0: none */
};
RECORD_TAIL(record_kv_push, 0, struct page_id, kv_push_pages) /* [page_count] */

/* The request's transfer is not wanted any more. Its KV_DONE follows all the same. */
struct record_kv_cancel {
    struct record record;
    struct request_id request;
    uint32_t rank;
    uint32_t reserved; /* zero */
};

/* The end of a request's transfer, exactly once for each transfer that an EXPECT or a PUSH began.
 * The transfer neither reads nor writes the request's pages any more. */
struct record_kv_done {
    struct record record;
    struct request_id request;
    uint32_t rank;
    uint32_t arrived;  /* 1: all of it, checked; 0: it failed, was late, or was cancelled */
    uint32_t blocks;   /* in: leading ones that are there with every row, checked; out: 0 */
    uint32_t reserved; /* zero */
};

/* A rank other than 0 is ready to take KV records. It is sent again after the rank
 * was restarted: then its pages are empty, and its address may have changed. */
struct record_kv_hello {
    struct record record;
    struct request_id request; /* zeros */
    uint32_t rank;
    uint32_t reserved;              /* zero */
    char address[KV_ADDRESS_BYTES]; /* where it takes other units' blocks; empty: it does not */
};

/* Asks which of these blocks are in the KV storage. KV_FOUND answers. */
struct record_kv_find {
    struct record record;
    struct request_id request;
    uint32_t rank;
    uint32_t key_count;
    uint32_t fresh;    /* 1: another process may have stored them a moment ago */
    uint32_t reserved; /* zero */
};
/* [key_count], of a sequence's blocks from the first one on */
RECORD_TAIL(record_kv_find, 0, struct block_key, kv_find_keys)

/* Answers a KV_FIND. */
struct record_kv_found {
    struct record record;
    struct request_id request;
    uint32_t rank;
    uint32_t blocks;      /* leading ones that are there */
    uint32_t host_blocks; /* of them, in memory */
    uint32_t reserved;    /* zero */
};

/* Load the blocks from first_block on into these pages. No one else touches the pages until
 * KV_LOADED. */
struct record_kv_load {
    struct record record;
    struct request_id request;
    uint32_t rank;
    uint32_t first_block;
    uint32_t block_count;
    uint32_t slot;     /* of the request in steps */
    uint32_t in_step;  /* 1: a row of the coming step waits for these blocks (step_plan.h), and its
                        * STEP_DONE tells the load's end */
    uint32_t reserved; /* zero */
};
RECORD_TAIL(record_kv_load, 0, struct block_key, kv_load_keys) /* [block_count] */
RECORD_TAIL(record_kv_load, 1, struct page_id, kv_load_pages)  /* [block_count] */

/* A KV_LOAD has ended: once for each that no STEP_DONE tells of. */
struct record_kv_loaded {
    struct record record;
    struct request_id request;
    uint32_t rank;
    uint32_t reserved; /* zero */
    struct load_end end;
};

/* No row waits for the slot's KV_LOAD any more, which was given with in_step: KV_LOADED tells its
 * end. */
struct record_kv_park {
    struct record record;
    struct request_id request;
    uint32_t rank;
    uint32_t slot; /* as in the KV_LOAD */
};

/* Complete blocks to store. No one writes to their pages until KV_STORED. */
struct record_kv_put {
    struct record record;
    struct request_id request; /* zeros */
    uint32_t rank;
    uint32_t first_block;
    uint32_t block_count; /* >= 1 */
    uint32_t last_page;   /* of pages; names this record among those of its rank */
};
/* [1 + block_count], the first of them the key of the block before first_block; zeros if there is
 * none */
RECORD_TAIL(record_kv_put, 0, struct block_key, kv_keep_keys)
RECORD_TAIL(record_kv_put, 1, struct page_id, kv_keep_pages) /* [block_count] */

/* The pages of a KV_PUT have been copied, or are not going to be. */
struct record_kv_stored {
    struct record record;
    struct request_id request; /* zeros */
    uint32_t rank;
    uint32_t last_page;
    uint32_t dropped;  /* blocks that are not stored, for want of room */
    uint32_t writable; /* 0: its disk is full or fails, or it may not use its directory */
};

/* Check the fields' values, for record_forms.c. */
bool record_kv_expect_valid(const void *record);
bool record_kv_push_valid(const void *record);
bool record_kv_cancel_valid(const void *record);
bool record_kv_done_valid(const void *record);
bool record_kv_find_valid(const void *record);
bool record_kv_found_valid(const void *record);
bool record_kv_load_valid(const void *record);
bool record_kv_loaded_valid(const void *record);
bool record_kv_park_valid(const void *record);
bool record_kv_put_valid(const void *record);
bool record_kv_stored_valid(const void *record);
bool record_kv_hello_valid(const void *record);

#endif
