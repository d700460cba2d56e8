/* SPDX-License-Identifier: Apache-2.0
 * Records are the messages between state machines and their hosts: versioned byte strings that
 * start with struct record. They have no pointers, so they can be queued, logged, replayed and
 * sent. All kinds are in one list, because one machine often receives what another has sent (such
 * as SUBMIT).
 *
 * A record is a fixed struct followed by its tails. A tail is an array that starts at a multiple of
 * 8 bytes from the record's start; padding is zero. Fields of the fixed struct give the numbers of
 * elements. record_forms.c has one row for each kind: its name, struct, directions, tails, and the
 * check of its fields. The functions below read these rows.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "contract/ids.h"

#define RECORD_VERSION 14 /* raise it when the layout of a record changes */

enum record_kind {
    RECORD_NONE,
    /* clients (record_client.h) */
    RECORD_CLIENT_REQUEST,
    RECORD_CLIENT_GONE,
    RECORD_TOKENIZED,
    RECORD_CONSTRAINED,
    RECORD_DRAIN, /* record_unit.h: accept nothing new, finish running work */
    RECORD_RESPOND,
    RECORD_STREAM_BEGIN,
    RECORD_STREAM_DATA,
    RECORD_STREAM_END,
    RECORD_TOKENIZE,
    RECORD_CONSTRAIN,
    /* the ledger (record_ledger.h) */
    RECORD_ACCOUNTS,
    RECORD_COMMITTED,
    RECORD_USAGE,
    RECORD_UNIT_TOTALS,
    /* units (record_unit.h) */
    RECORD_UNIT_JOINED,
    RECORD_UNIT_LOST,
    RECORD_FROM_UNIT,
    RECORD_TO_UNIT,
    RECORD_SUBMIT,
    RECORD_CANCEL,
    RECORD_CONTINUE,
    RECORD_ROLE,
    RECORD_UNIT_HELLO,
    RECORD_TOKENS,
    RECORD_FINISHED,
    RECORD_UNIT_LOAD,
    RECORD_RESERVED,
    RECORD_SCORES,
    RECORD_EXPERTS,
    /* steps (step_plan.h) */
    RECORD_RUN_STEP,
    RECORD_STEP_DONE,
    /* KV pages (record_kv.h) */
    RECORD_KV_EXPECT,
    RECORD_KV_PUSH,
    RECORD_KV_CANCEL,
    RECORD_KV_DONE,
    RECORD_KV_FIND,
    RECORD_KV_FOUND,
    RECORD_KV_LOAD,
    RECORD_KV_LOADED,
    RECORD_KV_PARK,
    RECORD_KV_PUT,
    RECORD_KV_STORED,
    RECORD_KV_HELLO,
    /* the fleet's manager (record_fleet.h) */
    RECORD_FLEET_LOAD,
    RECORD_FLEET_UNIT,
    RECORD_FLEET_COMMAND,
    RECORD_FLEET_ACTION,
    RECORD_FLEET_GATEWAY,
    RECORD_FLEET_JOBS,
    RECORD_PROGRESS, /* record_unit.h */
    RECORD_KIND_COUNT
};

/* Directions in which a record may be sent. Each is one bit, because some kinds have several. */
enum record_way {
    WAY_CLIENT_TO_GATEWAY = 1 << 0, /* sent by the host that serves the clients */
    WAY_GATEWAY_TO_CLIENT = 1 << 1,
    WAY_HOST_TO_GATEWAY = 1 << 2, /* units that connect or disconnect, and their records */
    WAY_GATEWAY_TO_HOST = 1 << 3, /* records for units */
    WAY_GATEWAY_TO_UNIT = 1 << 4, /* in a TO_UNIT envelope */
    WAY_UNIT_TO_GATEWAY = 1 << 5, /* in a FROM_UNIT envelope */
    WAY_UNIT_TO_ENGINE = 1 << 6,
    WAY_ENGINE_TO_UNIT = 1 << 7,
    WAY_UNIT_TO_CARRIER = 1 << 8, /* the part of the host that transfers KV blocks */
    WAY_CARRIER_TO_UNIT = 1 << 9,
    WAY_UNIT_TO_STORAGE = 1 << 10, /* the KV storage */
    WAY_STORAGE_TO_UNIT = 1 << 11,
    WAY_RANK_TO_RANK_0 = 1 << 12, /* from a rank's KV agent to rank 0 */
    WAY_LEDGER_TO_GATEWAY = 1 << 13,
    WAY_GATEWAY_TO_LEDGER = 1 << 14,
    WAY_HOST_TO_MANAGER = 1 << 15, /* the manager of a fleet */
    WAY_MANAGER_TO_HOST = 1 << 16,
    WAYS_KV = WAY_UNIT_TO_CARRIER | WAY_CARRIER_TO_UNIT | WAY_UNIT_TO_STORAGE |
              WAY_STORAGE_TO_UNIT | WAY_RANK_TO_RANK_0
};

struct record {
    uint16_t version; /* RECORD_VERSION */
    uint16_t kind;    /* enum record_kind */
    uint32_t bytes;   /* size of the whole record, with this header and the tails; multiple of 8 */
};

#define RECORD_BYTES_MAX ((uint32_t)64 << 20)

/* The start of every record about one request. */
struct record_about {
    struct record record;
    struct request_id request;
};

static inline struct request_id record_request(const struct record *record) {
    return ((const struct record_about *)record)->request;
}

/* Bytes of a kind's fixed struct. */
size_t record_fixed_bytes(enum record_kind kind);

/* Bytes of a record with the element counts in `fixed`, a multiple of 8. The head of `fixed` is not
 * read. If `fixed` is NULL, all counts are 0. */
size_t record_bytes(enum record_kind kind, const void *fixed);

struct record record_head(enum record_kind kind, size_t bytes);

/* Sets the head of a record. Its count fields must be set already. */
void record_set_head(void *record, enum record_kind kind);

uint32_t record_tail_count(enum record_kind kind);

/* The start of tail `index` of a record. The record's kind and counts must be set. */
void *record_tail(const void *record, uint32_t index);

/* Bytes of the elements of tail `index`. */
size_t record_tail_bytes(const void *record, uint32_t index);

/* Number of elements of tail `index`, and bytes of one element. Kind and counts must be set. */
uint64_t record_tail_elements(const void *record, uint32_t index);
size_t record_tail_element_bytes(const void *record, uint32_t index);

/* Declares the accessor of a tail: `name`(record) points to the first element. The offset of the
 * first tail is a constant, so its accessor needs no call. */
#define RECORD_TAIL(of, index, type, name)                                                         \
    static inline type *name(const struct of *record) {                                            \
        if ((index) > 0) return (type *)record_tail(record, index);                                \
        return (type *)(void *)((char *)(uintptr_t)record + (sizeof *record + 7) / 8 * 8);         \
    }

/* True if a record of this kind may be sent in one of these directions (enum record_way). */
bool record_goes(uint16_t kind, uint32_t ways);

/* The kinds that may be sent in one of these directions, one bit each. */
uint64_t record_kinds(uint32_t ways);

/* The name of a kind, such as "SUBMIT"; "no record" for an unknown kind. */
const char *record_name(uint16_t kind);

/* Validates a record from another process. True if it is aligned to 8 bytes, has the right version
 * and a known kind, is complete and zero-padded, and no field leads a reader outside of it. Whether
 * the values make sense is for the receiver to check. */
bool record_valid(const void *record, size_t bytes);

/* ---- the table ---- */

#define RECORD_TAILS_MAX 8

/* The rule for the number of elements of a tail. */
enum record_count {
    COUNT_FIELD,         /* `field` */
    COUNT_FIELD_AND_ONE, /* `field` + 1 */
    COUNT_SUM,           /* `field` + `other` */
    COUNT_PRODUCT        /* `field` * `other` */
};

struct record_tail_form {
    uint16_t element_bytes; /* bytes of one element; 0: no tail */
    uint16_t count;         /* enum record_count */
    uint16_t field, other;  /* offsets of the uint32_t counts in the fixed struct */
};

struct record_form {
    const char *name;
    uint32_t ways;  /* enum record_way */
    uint16_t bytes; /* bytes of the fixed struct */
    /* Validates the fields of a record with complete tails: enums are in range, indices are within
     * the record, reserved fields are zero. NULL accepts everything. */
    bool (*fields_valid)(const void *record);
    struct record_tail_form tails[RECORD_TAILS_MAX + 1]; /* the last is empty */
};

extern const struct record_form record_forms[RECORD_KIND_COUNT]; /* defined in record_forms.c */

/* True if all bytes are zero. For validators. */
bool record_zeros(const void *bytes, size_t count);
/* True if the text can be a request's name in headers and logs: visible ASCII within the limit. */
bool record_name_valid(const char *text, uint32_t count);
/* True if the id of a record that starts with struct record_about is valid. */
bool record_request_valid(const void *record);
