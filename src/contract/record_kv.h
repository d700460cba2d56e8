/* SPDX-License-Identifier: Apache-2.0
 * Records about KV blocks, between a unit and the hosts of its KV pages: transfers between units
 * (prefill to decode), and the KV storage.
 */
#pragma once

#include "contract/load_end.h"
#include "contract/record.h"

/* The start of every KV_* record. */
struct record_kv {
    struct record record;
    struct request_id request; /* zeros in records without a request: KV_PUT, KV_STORED, KV_HELLO */
    uint32_t rank;             /* rank of the unit that owns the pages; replies repeat it */
    uint32_t value;            /* defined by each kind */
};

static inline bool record_is_kv(const struct record *record) {
    return record_goes(record->kind, WAYS_KV);
}
static inline uint32_t record_kv_rank(const struct record *record) {
    return ((const struct record_kv *)record)->rank;
}

#define KV_ADDRESS_BYTES 64

/* True if the address is terminated within its bytes and padded with zeros. */
bool record_kv_address_valid(const char address[KV_ADDRESS_BYTES]);

/* The route of a request's KV blocks from rank to rank. */
struct kv_route {
    uint64_t grant[2];              /* id of the transfer at both ends */
    char address[KV_ADDRESS_BYTES]; /* address of the receiving rank; text, zero-padded */
};

/* Announces that blocks of a request will arrive from another rank in these pages, which nothing
 * else writes until KV_DONE. The pages hold the blocks from first_block to the end of the
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

/* Permits the transfer of the blocks in these pages. The pages are not written until KV_DONE,
 * except those of the last making_count blocks, which the next step writes layer by layer. After
 * that step the unit sends the next push of the request, or a KV_CANCEL if the step failed.
 *
 * Each push continues where the previous one ended. The last push, which may have no pages, states
 * that all blocks are named and complete. */
struct record_kv_push {
    struct record record;
    struct request_id request;
    uint32_t rank;
    uint32_t first_block;
    struct kv_route route;
    uint32_t token_count; /* tokens of the sequence up to the end of these blocks */
    uint32_t page_count;
    uint32_t last;  /* 1: the request's last push */
    uint32_t first; /* 1: the request's first push */
    uint32_t making_count;
    uint32_t reserved; /* zero */
    uint64_t step;     /* step that writes the last making_count blocks; 0: none */
};
RECORD_TAIL(record_kv_push, 0, struct page_id, kv_push_pages) /* [page_count] */

/* Cancels the transfer of a request. Its KV_DONE still follows. */
struct record_kv_cancel {
    struct record record;
    struct request_id request;
    uint32_t rank;
    uint32_t reserved; /* zero */
};

/* The end of a request's transfer, sent exactly once for each transfer that an EXPECT or a PUSH
 * began. The transfer no longer reads or writes the request's pages. */
struct record_kv_done {
    struct record record;
    struct request_id request;
    uint32_t rank;
    uint32_t arrived; /* 1: complete and valid; 0: failed, late or cancelled */
    /* at the receiver: leading blocks that arrived completely and validated; at the sender: 0 */
    uint32_t blocks;
    uint32_t reserved; /* zero */
};

/* A rank other than 0 is ready for KV records. It is sent again after the rank was restarted: its
 * pages are then empty, and its address may have changed. */
struct record_kv_hello {
    struct record record;
    struct request_id request; /* zeros */
    uint32_t rank;
    uint32_t reserved; /* zero */
    /* address at which the rank receives blocks from other units; empty: none */
    char address[KV_ADDRESS_BYTES];
};

/* Looks up blocks in the KV storage. KV_FOUND is the reply. */
struct record_kv_find {
    struct record record;
    struct request_id request;
    uint32_t rank;
    uint32_t key_count;
    uint32_t fresh;    /* 1: another process may have stored them just now */
    uint32_t reserved; /* zero */
};
/* [key_count] keys of a sequence's blocks, from its first block on */
RECORD_TAIL(record_kv_find, 0, struct block_key, kv_find_keys)

/* The reply to a KV_FIND. */
struct record_kv_found {
    struct record record;
    struct request_id request;
    uint32_t rank;
    uint32_t blocks;      /* leading blocks in the storage */
    uint32_t host_blocks; /* those of `blocks` that are in host memory */
    uint32_t reserved;    /* zero */
};

/* Loads the blocks from first_block on into these pages. Nothing else reads or writes the pages
 * until KV_LOADED. */
struct record_kv_load {
    struct record record;
    struct request_id request;
    uint32_t rank;
    uint32_t first_block;
    uint32_t block_count;
    uint32_t slot; /* slot of the request in steps */
    /* 1: a row of the next step waits for these blocks (step_plan.h), and its STEP_DONE reports the
     * end of the load */
    uint32_t in_step;
    uint32_t reserved; /* zero */
};
RECORD_TAIL(record_kv_load, 0, struct block_key, kv_load_keys) /* [block_count] */
RECORD_TAIL(record_kv_load, 1, struct page_id, kv_load_pages)  /* [block_count] */

/* The end of a KV_LOAD, sent once for each load that no STEP_DONE reports. */
struct record_kv_loaded {
    struct record record;
    struct request_id request;
    uint32_t rank;
    uint32_t reserved; /* zero */
    struct load_end end;
};

/* No row waits any longer for the slot's KV_LOAD with in_step set. KV_LOADED will report its
 * end. */
struct record_kv_park {
    struct record record;
    struct request_id request;
    uint32_t rank;
    uint32_t slot; /* as in the KV_LOAD */
};

/* Stores complete blocks. Nothing writes to their pages until KV_STORED. */
struct record_kv_put {
    struct record record;
    struct request_id request; /* zeros */
    uint32_t rank;
    uint32_t first_block;
    uint32_t block_count; /* >= 1 */
    uint32_t last_page;   /* the last of the pages; identifies this record within its rank */
};
/* [1 + block_count] the first is the key of the block before first_block; zeros if there is none */
RECORD_TAIL(record_kv_put, 0, struct block_key, kv_keep_keys)
RECORD_TAIL(record_kv_put, 1, struct page_id, kv_keep_pages) /* [block_count] */

/* The end of a KV_PUT: its pages have been copied, or will not be. */
struct record_kv_stored {
    struct record record;
    struct request_id request; /* zeros */
    uint32_t rank;
    uint32_t last_page;
    uint32_t dropped;  /* blocks not stored, because the storage was full */
    uint32_t writable; /* 0: the disk is full or fails, or its directory cannot be written */
};

/* Validate the fields, for record_forms.c. */
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
