/* SPDX-License-Identifier: Apache-2.0
 * Messages of a KV peer: each is read or refused, and what is read meets the books as it would in a
 * transport. Whatever comes, only expected slices of open tickets are accepted, once each, and the
 * books agree.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "host/transfer/kv_transport_wire.h"

#define PAGES 4
#define SLICES 3
#define ROW_BYTES 2

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct transfer_limits limits = {4, PAGES, SLICES};

static void expect(struct transfer_ledger *ledger) {
    struct transfer_block blocks[2] = {{{0}, 64, 0, SLICES}, {{2}, 5, 1, 2}};
    check(transfer_ledger_expect(ledger, (struct transfer_grant){1, 1}, blocks, 2, 1000, NULL) ==
          STATUS_OK);
    check(transfer_ledger_offer(ledger, (struct transfer_grant){2, 2}, 1, 1000, NULL) == STATUS_OK);
}

static void take_slice(struct transfer_ledger *ledger, const struct kv_wire_slice *slice,
                       uint8_t counts[PAGES][SLICES]) {
    struct transfer_write write;
    check(slice->rows >= 1 && slice->rows <= KV_BLOCK_TOKENS);
    if (transfer_ledger_arrive(ledger, 1, slice->grant, slice->block, slice->slice, slice->rows,
                               &write) != TRANSFER_ACCEPT)
        return;
    check(slice->grant.high == 1 && slice->grant.low == 1);
    check(write.page.index == 0 || (write.page.index == 2 && write.slice >= 1));
    check(counts[write.page.index][write.slice]++ == 0);
    transfer_ledger_written(ledger, &write,
                            slice->checksum % 7 ? TRANSFER_WRITTEN : TRANSFER_SPOILT);
}

static void take(struct transfer_ledger *ledger, const struct kv_wire_message *message,
                 uint8_t counts[PAGES][SLICES]) {
    switch (message->kind) {
    case KV_WIRE_HELLO: {
        struct kv_wire_hello ours = message->hello;
        struct error error;
        check(kv_transport_wire_agree(&ours, &message->hello, &error) == STATUS_OK);
        ours.shape.width++;
        check(kv_transport_wire_agree(&ours, &message->hello, &error) == STATUS_UNSUPPORTED);
        break;
    }
    case KV_WIRE_SLICE:
        take_slice(ledger, &message->slice, counts);
        break;
    case KV_WIRE_FINISH:
        (void)!transfer_ledger_finish(ledger, 1, message->finish.grant, message->finish.slice_count,
                                      message->finish.summary, message->finish.summary_bytes);
        break;
    case KV_WIRE_END:
        check(memchr(message->end.reason, 0, sizeof message->end.reason));
        transfer_ledger_end_by(ledger, message->end.grant.high == 1 ? TRANSFER_IN : TRANSFER_OUT, 1,
                               message->end.grant, (enum transfer_end)message->end.end,
                               message->end.reason);
        break;
    case KV_WIRE_REFUSAL:
        check(memchr(message->refusal.reason, 0, sizeof message->refusal.reason));
        break;
    case KV_WIRE_WELCOME:
    case KV_WIRE_KIND_COUNT:
        break;
    }
}

/* Input: messages, each its kind, its header's length, the low byte of its payload's length. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct transfer_ledger ledger;
    struct transfer_ended ended;
    struct arena arena;
    uint8_t counts[PAGES][SLICES] = {{0}};
    size_t bytes = transfer_ledger_bytes(&limits);
    void *memory = malloc(bytes);
    check(memory);
    arena_over(&arena, memory, bytes);
    check(transfer_ledger_open(&ledger, &arena, &limits) == STATUS_OK);
    expect(&ledger);
    for (size_t at = 0; size - at >= 4;) {
        size_t header_bytes = data[at + 1] | (size_t)data[at + 2] << 8;
        struct kv_wire_message message;
        struct error error;
        if (header_bytes > size - at - 4) header_bytes = size - at - 4;
        void *header = malloc(header_bytes + !header_bytes); /* of exact size */
        check(header);
        memcpy(header, data + at + 4, header_bytes);
        if (kv_transport_wire_read((enum kv_wire_kind)data[at], header, header_bytes, data[at + 3],
                                   &message, &error) == STATUS_OK)
            take(&ledger, &message, counts);
        free(header);
        at += 4 + header_bytes;
    }
    transfer_ledger_audit(&ledger);
    transfer_ledger_end_all(&ledger, TRANSFER_CANCELLED, NULL);
    while (transfer_ledger_announce(&ledger, &ended)) {
    }
    while (transfer_ledger_take(&ledger, &ended)) {
    }
    transfer_ledger_audit(&ledger);
    check(ledger.used_count == 0 && ledger.page_count == 0);
    free(memory);
    return 0;
}
