/* SPDX-License-Identifier: Apache-2.0 */
#include "host/transfer/kv_transport_wire.h"

#include "base/check.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "headers are sent as they lie in memory");
_Static_assert(sizeof(struct kv_wire_hello) == 96, "no padding");
_Static_assert(sizeof(struct kv_wire_slice) == 40, "no padding");
_Static_assert(sizeof(struct kv_wire_finish) == 32 + TRANSFER_SUMMARY_BYTES, "no padding");
_Static_assert(sizeof(struct kv_wire_end) == 24 + TRANSFER_REASON_BYTES, "no padding");

static const uint16_t header_bytes_of[KV_WIRE_KIND_COUNT] = {
    [KV_WIRE_HELLO] = sizeof(struct kv_wire_hello),
    [KV_WIRE_WELCOME] = 0,
    [KV_WIRE_REFUSAL] = sizeof(struct kv_wire_reason),
    [KV_WIRE_SLICE] = sizeof(struct kv_wire_slice),
    [KV_WIRE_FINISH] = sizeof(struct kv_wire_finish),
    [KV_WIRE_END] = sizeof(struct kv_wire_end),
};

size_t kv_transport_wire_bytes(enum kv_wire_kind kind) {
    check((unsigned)kind < KV_WIRE_KIND_COUNT);
    return header_bytes_of[kind];
}

/* Makes a peer's text one printable line, for the log. */
static void kv_transport_wire_clean(char *text, size_t bytes) {
    text[bytes - 1] = 0;
    for (char *at = text; *at; at++)
        if (*at < ' ' || *at > '~') *at = '?';
}

static const char *fault_of(struct kv_wire_message *message, size_t payload_bytes) {
    switch (message->kind) {
    case KV_WIRE_HELLO:
        if (memcmp(message->hello.magic, KV_WIRE_MAGIC, sizeof message->hello.magic) != 0)
            return "it does not begin with " KV_WIRE_MAGIC;
        if (!memchr(message->hello.numerics_id, 0, sizeof message->hello.numerics_id))
            return "its numerics id has no end";
        kv_transport_wire_clean(message->hello.numerics_id, sizeof message->hello.numerics_id);
        return NULL;
    case KV_WIRE_SLICE:
        if (message->slice.rows == 0 || message->slice.rows > KV_BLOCK_TOKENS)
            return "a slice has 1 to 64 rows";
        return message->slice.bytes == payload_bytes ? NULL : "its length is not what it says";
    case KV_WIRE_FINISH:
        return message->finish.summary_bytes <= TRANSFER_SUMMARY_BYTES ? NULL
                                                                       : "its summary is too long";
    case KV_WIRE_END:
        kv_transport_wire_clean(message->end.reason, sizeof message->end.reason);
        return message->end.end < TRANSFER_END_COUNT ? NULL : "it ends in an unknown way";
    case KV_WIRE_REFUSAL:
        kv_transport_wire_clean(message->refusal.reason, sizeof message->refusal.reason);
        return NULL;
    case KV_WIRE_WELCOME:
    case KV_WIRE_KIND_COUNT:
        break;
    }
    return NULL;
}

enum status kv_transport_wire_read(enum kv_wire_kind kind, const void *header, size_t header_bytes,
                                   size_t payload_bytes, struct kv_wire_message *message_out,
                                   struct error *error) {
    struct kv_wire_message message = {.kind = kind};
    if ((unsigned)kind >= KV_WIRE_KIND_COUNT)
        return error_set(error, STATUS_INVALID, "a KV peer sent a message of unknown kind %u",
                         (unsigned)kind);
    if (header_bytes != header_bytes_of[kind])
        return error_set(error, STATUS_INVALID,
                         "a KV peer sent a header of %zu bytes for message kind %u; expected %u",
                         header_bytes, (unsigned)kind, header_bytes_of[kind]);
    if (kind != KV_WIRE_SLICE && payload_bytes > 0)
        return error_set(error, STATUS_INVALID,
                         "a KV peer sent %zu bytes of payload with message kind %u, which has none",
                         payload_bytes, (unsigned)kind);
    if (header_bytes) memcpy(&message.hello, header, header_bytes);
    const char *fault = fault_of(&message, payload_bytes);
    if (fault)
        return error_set(error, STATUS_INVALID, "a KV peer sent message kind %u and %s",
                         (unsigned)kind, fault);
    *message_out = message;
    return STATUS_OK;
}

static enum status kv_transport_wire_differs(struct error *error, const char *what,
                                             unsigned long long ours, unsigned long long theirs) {
    return error_set(error, STATUS_UNSUPPORTED,
                     "KV peers must run alike, but the receiver's %s is %llu and the sender's %llu",
                     what, ours, theirs);
}

enum status kv_transport_wire_agree(const struct kv_wire_hello *ours,
                                    const struct kv_wire_hello *theirs, struct error *error) {
    if (ours->version != theirs->version)
        return kv_transport_wire_differs(error, "protocol version", ours->version, theirs->version);
    if (ours->block_version != theirs->block_version)
        return kv_transport_wire_differs(error, "KV block version", ours->block_version,
                                         theirs->block_version);
    if (memcmp(ours->model_id, theirs->model_id, sizeof ours->model_id) != 0)
        return error_set(error, STATUS_UNSUPPORTED,
                         "KV peers must run alike, but they have different models "
                         "(%02x%02x%02x%02x... and %02x%02x%02x%02x...)",
                         ours->model_id[0], ours->model_id[1], ours->model_id[2], ours->model_id[3],
                         theirs->model_id[0], theirs->model_id[1], theirs->model_id[2],
                         theirs->model_id[3]);
    if (strncmp(ours->numerics_id, theirs->numerics_id, sizeof ours->numerics_id) != 0)
        return error_set(
            error, STATUS_UNSUPPORTED,
            "KV peers must calculate alike, but the receiver's numerics are %.31s and "
            "the sender's %.31s; give both the same --activations, --expert-sum and --cpu-mask",
            ours->numerics_id, theirs->numerics_id);
    if (memcmp(&ours->shape, &theirs->shape, sizeof ours->shape) != 0) {
        char our_name[KV_SHAPE_NAME_BYTES], their_name[KV_SHAPE_NAME_BYTES];
        kv_block_shape_name(&ours->shape, our_name);
        kv_block_shape_name(&theirs->shape, their_name);
        return error_set(error, STATUS_UNSUPPORTED,
                         "KV peers must run alike, but the receiver's KV blocks are %s and the "
                         "sender's %s (element type, row width, slices, MTP slices); give both the "
                         "same --activations",
                         our_name, their_name);
    }
    return STATUS_OK;
}
