/* SPDX-License-Identifier: Apache-2.0
 * Protects the reading of what KV peers send: strict sizes, ranges, clean texts, and a handshake
 * that names what differs.
 */
#include "base/check.h"
#include "host/transfer/kv_transport_wire.h"
#include "test_case.h"

static struct kv_wire_message message;

static enum status read_as(enum kv_wire_kind kind, const void *header, size_t bytes,
                           size_t payload) {
    return kv_transport_wire_read(kind, header, bytes, payload, &message, NULL);
}

TEST(only_exact_sizes_are_read) {
    struct kv_wire_message all = {0};
    memcpy(all.hello.magic, KV_WIRE_MAGIC, sizeof all.hello.magic);
    for (int kind = 0; kind < KV_WIRE_KIND_COUNT; kind++) {
        size_t bytes = kv_transport_wire_bytes((enum kv_wire_kind)kind);
        if (bytes)
            assert_int_equal(read_as((enum kv_wire_kind)kind, &all.hello, bytes - 1, 0),
                             STATUS_INVALID);
        assert_int_equal(read_as((enum kv_wire_kind)kind, &all.hello, bytes + 1, 0),
                         STATUS_INVALID);
        assert_int_equal(read_as((enum kv_wire_kind)kind, &all.hello, bytes, 1), STATUS_INVALID);
    }
    assert_int_equal(read_as(KV_WIRE_KIND_COUNT, &all.hello, 0, 0), STATUS_INVALID);
    assert_int_equal(read_as(KV_WIRE_WELCOME, NULL, 0, 0), STATUS_OK);
}

TEST(fields_are_checked) {
    struct kv_wire_slice slice = {.grant = {1, 2}, .rows = 64, .bytes = 100};
    assert_int_equal(read_as(KV_WIRE_SLICE, &slice, sizeof slice, 100), STATUS_OK);
    assert_memory_equal(&message.slice, &slice, sizeof slice);
    assert_int_equal(read_as(KV_WIRE_SLICE, &slice, sizeof slice, 99), STATUS_INVALID);
    slice.rows = 65;
    assert_int_equal(read_as(KV_WIRE_SLICE, &slice, sizeof slice, 100), STATUS_INVALID);
    slice.rows = 0;
    assert_int_equal(read_as(KV_WIRE_SLICE, &slice, sizeof slice, 100), STATUS_INVALID);

    struct kv_wire_finish finish = {.summary_bytes = TRANSFER_SUMMARY_BYTES};
    assert_int_equal(read_as(KV_WIRE_FINISH, &finish, sizeof finish, 0), STATUS_OK);
    finish.summary_bytes++;
    assert_int_equal(read_as(KV_WIRE_FINISH, &finish, sizeof finish, 0), STATUS_INVALID);

    struct kv_wire_end end = {.end = TRANSFER_END_COUNT};
    assert_int_equal(read_as(KV_WIRE_END, &end, sizeof end, 0), STATUS_INVALID);
}

TEST(texts_are_cleaned) {
    struct kv_wire_end end = {.end = TRANSFER_REFUSED};
    memset(end.reason, 'a', sizeof end.reason);
    end.reason[1] = '\n';
    end.reason[2] = (char)0xFF;
    assert_int_equal(read_as(KV_WIRE_END, &end, sizeof end, 0), STATUS_OK);
    assert_int_equal(strlen(message.end.reason), sizeof end.reason - 1);
    assert_memory_equal(message.end.reason, "a??a", 4);

    struct kv_wire_hello hello = {.version = 1};
    assert_int_equal(read_as(KV_WIRE_HELLO, &hello, sizeof hello, 0), STATUS_INVALID);
    memcpy(hello.magic, KV_WIRE_MAGIC, sizeof hello.magic);
    assert_int_equal(read_as(KV_WIRE_HELLO, &hello, sizeof hello, 0), STATUS_OK);
    memset(hello.numerics_id, 'x', sizeof hello.numerics_id);
    assert_int_equal(read_as(KV_WIRE_HELLO, &hello, sizeof hello, 0), STATUS_INVALID);
}

TEST(a_difference_is_named) {
    struct kv_wire_hello ours = {.version = 1, .block_version = 1, .shape.width = 576}, theirs;
    struct error error;
    assert_int_equal(kv_transport_wire_agree(&ours, &ours, NULL), STATUS_OK);
    const struct {
        size_t offset;
        const char *name;
    } fields[] = {
        {offsetof(struct kv_wire_hello, version), "protocol version"},
        {offsetof(struct kv_wire_hello, block_version), "KV block version"},
        {offsetof(struct kv_wire_hello, shape.element), "sender's unknown-576-0-0"},
        {offsetof(struct kv_wire_hello, shape.width), "are bf16-576-0-0 and the sender's bf16-513"},
        {offsetof(struct kv_wire_hello, shape.slice_count), "sender's bf16-576-65-0"},
        {offsetof(struct kv_wire_hello, shape.mtp_count), "sender's bf16-576-0-65"},
        {offsetof(struct kv_wire_hello, model_id), "different models"},
        {offsetof(struct kv_wire_hello, numerics_id), "numerics"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(fields); i++) {
        theirs = ours;
        ((char *)&theirs)[fields[i].offset] ^= 'A';
        assert_int_equal(kv_transport_wire_agree(&ours, &theirs, &error), STATUS_UNSUPPORTED);
        assert_non_null(strstr(error.text, fields[i].name));
    }
}
