/* SPDX-License-Identifier: Apache-2.0
 * Events and actions are records: one run of bytes that starts with struct record, versioned, free
 * of pointers, so that they can be queued, logged, replayed and sent. An action of one machine is
 * often the event of another (a gateway's SUBMIT is a unit's SUBMIT), hence one list of kinds.
 *
 * A record is a fixed struct and its tails: runs of elements, each starting on a multiple of 8 bytes
 * from the record's start, with zeros between. Fields of the fixed struct say how many elements
 * there are. record_forms.c has one row for each kind: its name, its struct, who says it to whom,
 * its tails, and what its fields may hold. All that follows from these is here.
 */
#ifndef CONTRACT_RECORD_H
#define CONTRACT_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "contract/ids.h"

#define RECORD_VERSION 13

enum record_kind {
    RECORD_NONE,
    /* clients (record_client.h) */
    RECORD_CLIENT_REQUEST,
    RECORD_CLIENT_GONE,
    RECORD_TOKENIZED,
    RECORD_CONSTRAINED,
    RECORD_DRAIN, /* record_unit.h: take nothing new, finish what runs */
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
    RECORD_FLEET_ORDER,
    RECORD_FLEET_ACTION,
    RECORD_FLEET_GATEWAY,
    RECORD_FLEET_JOBS,
    RECORD_KIND_COUNT
};

/* Who says a record to whom: a bit each, because some go several ways. */
enum record_way {
    WAY_CLIENT_TO_GATEWAY = 1 << 0, /* from the host of the clients */
    WAY_GATEWAY_TO_CLIENT = 1 << 1,
    WAY_HOST_TO_GATEWAY = 1 << 2, /* units come and go, and speak */
    WAY_GATEWAY_TO_HOST = 1 << 3, /* units are spoken to */
    WAY_GATEWAY_TO_UNIT = 1 << 4, /* inside a TO_UNIT */
    WAY_UNIT_TO_GATEWAY = 1 << 5, /* inside a FROM_UNIT */
    WAY_UNIT_TO_ENGINE = 1 << 6,
    WAY_ENGINE_TO_UNIT = 1 << 7,
    WAY_UNIT_TO_CARRIER = 1 << 8, /* of KV blocks between units */
    WAY_CARRIER_TO_UNIT = 1 << 9,
    WAY_UNIT_TO_STORAGE = 1 << 10, /* of KV blocks */
    WAY_STORAGE_TO_UNIT = 1 << 11,
    WAY_RANK_TO_RANK_0 = 1 << 12, /* between the hosts of their KV pages */
    WAY_LEDGER_TO_GATEWAY = 1 << 13,
    WAY_GATEWAY_TO_LEDGER = 1 << 14,
    WAY_HOST_TO_MANAGER = 1 << 15, /* of a fleet */
    WAY_MANAGER_TO_HOST = 1 << 16,
    WAYS_KV = WAY_UNIT_TO_CARRIER | WAY_CARRIER_TO_UNIT | WAY_UNIT_TO_STORAGE |
              WAY_STORAGE_TO_UNIT | WAY_RANK_TO_RANK_0
};

struct record {
    uint16_t version; /* RECORD_VERSION */
    uint16_t kind;    /* enum record_kind */
    uint32_t bytes;   /* of the whole record, this header and the tails included; multiple of 8 */
};

#define RECORD_BYTES_MAX ((uint32_t)64 << 20)

/* Every record about one request begins so. */
struct record_about {
    struct record record;
    struct request_id request;
};

static inline struct request_id record_request(const struct record *record) {
    return ((const struct record_about *)record)->request;
}

/* Bytes of a kind's fixed struct. */
size_t record_fixed_bytes(enum record_kind kind);

/* Bytes of a record with as many elements as the count fields of `fixed` say; its head is not read.
 * NULL: all counts are 0. A multiple of 8. */
size_t record_bytes(enum record_kind kind, const void *fixed);

/* A record's head. */
struct record record_head(enum record_kind kind, size_t bytes);

/* Sets the head of a record; its count fields must be set. */
void record_set_head(void *record, enum record_kind kind);

/* How many tails records of a kind have. */
uint32_t record_tail_count(enum record_kind kind);

/* The start of a record's index'th tail. The record's kind and counts must be set. */
void *record_tail(const void *record, uint32_t index);

/* Bytes of its elements. */
size_t record_tail_bytes(const void *record, uint32_t index);

/* How many elements it has, and the bytes of one. The kind and the counts must be set. */
uint64_t record_tail_elements(const void *record, uint32_t index);
size_t record_tail_element_bytes(const void *record, uint32_t index);

/* Declares the access to a tail: `name`(record) points to its first element. The first tail's place
 * does not hang on the record, and is known to who reads it without a call. */
#define RECORD_TAIL(of, index, type, name)                                                         \
    static inline type *name(const struct of *record) {                                            \
        if ((index) > 0) return (type *)record_tail(record, index);                                \
        return (type *)(void *)((char *)(uintptr_t)record + (sizeof *record + 7) / 8 * 8);         \
    }

/* True if a record of that kind may go one of these ways (enum record_way). */
bool record_goes(uint16_t kind, uint32_t ways);

/* The kinds that may go one of these ways: a bit each. */
uint64_t record_kinds(uint32_t ways);

/* "SUBMIT"; for a number that is no kind "no record". */
const char *record_name(uint16_t kind);

/* True if `record` of `bytes` (aligned to 8) is whole: version, kind, fixed struct, tails inside,
 * zeros between, and fields that can be used without looking outside the record. What a record
 * means is for its receiver to judge. For records from outside this process. */
bool record_valid(const void *record, size_t bytes);

/* ---- the table ---- */

#define RECORD_TAILS_MAX 8

/* How many elements a tail has. */
enum record_count {
    COUNT_FIELD,         /* `field` */
    COUNT_FIELD_AND_ONE, /* `field` + 1 */
    COUNT_SUM,           /* `field` + `other` */
    COUNT_PRODUCT        /* `field` * `other` */
};

struct record_tail_form {
    uint16_t element_bytes; /* of one element; 0: there is no such tail */
    uint16_t count;         /* enum record_count */
    uint16_t field, other;  /* offsets of uint32_t in the fixed struct */
};

struct record_form {
    const char *name;
    uint32_t ways;  /* enum record_way */
    uint16_t bytes; /* of the fixed struct */
    /* Validates the fields of a record with tails that fit: enums are in range, indices within the
     * record, reserved fields zero. NULL: anything. */
    bool (*fields_valid)(const void *record);
    struct record_tail_form tails[RECORD_TAILS_MAX + 1]; /* the last has no elements */
};

extern const struct record_form record_forms[RECORD_KIND_COUNT]; /* record_forms.c */

/* For checks of fields: true if all bytes are zero. */
bool record_zeros(const void *bytes, size_t count);
/* True if the text may name a request in headers and logs: visible ASCII, and not too long. */
bool record_name_valid(const char *text, uint32_t count);
/* True if a record that begins as struct record_about names its request as it should. */
bool record_request_valid(const void *record);

#endif
