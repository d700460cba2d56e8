/* SPDX-License-Identifier: Apache-2.0
 * The protocol between two KV transports. Each message is one UCX active message: a header of fixed
 * size and, for a slice, its rows as payload. Little-endian, version 1.
 *
 *   sender                                receiver
 *   HELLO  model and KV format     ──►
 *                                  ◄──    WELCOME, or REFUSAL with the reason
 *   SLICE  ticket, place, checksum ──►    (any number, in any order)
 *   FINISH ticket, slices, summary ──►
 *                                  ◄──    END  ticket, how it ended
 *   END    ticket, how (gave up)   ──►
 *
 * Input from peers is not trusted: every field is validated, and text is cut and cleaned.
 */
#pragma once

#include "contract/kv_block.h"
#include "serving/cache/transfer_ledger.h"

#define KV_WIRE_MAGIC "FATHOMKT"
#define KV_WIRE_VERSION 1

enum kv_wire_kind {
    KV_WIRE_HELLO,
    KV_WIRE_WELCOME,
    KV_WIRE_REFUSAL,
    KV_WIRE_SLICE,
    KV_WIRE_FINISH,
    KV_WIRE_END,
    KV_WIRE_KIND_COUNT
};

struct kv_wire_hello {
    char magic[8]; /* KV_WIRE_MAGIC, no terminator */
    uint32_t version;
    uint32_t block_version; /* KV_BLOCK_VERSION */
    struct kv_shape shape;
    uint8_t model_id[32];
    char numerics_id[32]; /* zero-padded */
};

struct kv_wire_slice {
    struct transfer_grant grant;
    uint32_t block, slice;
    uint32_t rows; /* 1..64 */
    uint32_t bytes;
    uint64_t checksum; /* checksum_of the rows */
};

struct kv_wire_finish {
    struct transfer_grant grant;
    uint64_t slice_count;
    uint32_t summary_bytes, reserved;
    uint8_t summary[TRANSFER_SUMMARY_BYTES];
};

struct kv_wire_end {
    struct transfer_grant grant;
    uint32_t end, reserved; /* enum transfer_end */
    char reason[TRANSFER_REASON_BYTES];
};

/* The header of a refusal. */
struct kv_wire_reason {
    char reason[TRANSFER_REASON_BYTES];
};

struct kv_wire_message {
    enum kv_wire_kind kind;
    union {
        struct kv_wire_hello hello;
        struct kv_wire_slice slice;
        struct kv_wire_finish finish;
        struct kv_wire_end end;
        struct kv_wire_reason refusal;
    };
};

/* The size of the header of a kind of message. */
size_t kv_transport_wire_bytes(enum kv_wire_kind kind);

/* Parses the header of a message with `payload_bytes` of payload. Returns STATUS_INVALID if it is
 * invalid. In a parsed message all enums and sizes are in range, and texts are terminated and
 * printable. */
enum status kv_transport_wire_read(enum kv_wire_kind kind, const void *header, size_t header_bytes,
                                   size_t payload_bytes, struct kv_wire_message *message_out,
                                   struct error *error) MUST_USE;

/* Compares the formats of two peers. Returns STATUS_UNSUPPORTED with an error that names the
 * difference. */
enum status kv_transport_wire_agree(const struct kv_wire_hello *ours,
                                    const struct kv_wire_hello *theirs,
                                    struct error *error) MUST_USE;
