/* SPDX-License-Identifier: Apache-2.0
 * Protects a KV transport from its peers: one that speaks UCX by itself sends what no sender of
 * ours would. Nothing of it reaches a page, and honest peers do not notice.
 */
#include "test_case.h"
#include "transport_peer.h"

TEST(a_slice_with_a_wrong_checksum_fails_its_grant) {
    for (size_t i = 0; i < ARRAY_COUNT(widths); i++) {
        struct scene scene;
        scene_open(&scene, widths[i], true);
        struct kv_wire_slice slice = slice_of(&scene);
        slice.checksum ^= (uint64_t)1 << 40;
        say_slice(&scene, &slice);
        UNTIL(&scene.peer, scene.peer.got[KV_WIRE_END] == 1);
        assert_int_equal(scene.peer.end.end, TRANSFER_DAMAGED);
        struct transfer_ended ended = rank_wait(&scene.rank);
        assert_int_equal(ended.end, TRANSFER_DAMAGED);
        assert_string_equal(ended.reason, "slice 2 of block 1 came with a wrong checksum");
        assert_int_equal(rank_state(&scene.rank).counts.damaged, 1);
        scene_close(&scene);
    }
}

TEST(what_nobody_expects_is_written_nowhere) {
    for (size_t i = 0; i < ARRAY_COUNT(widths); i++) {
        struct scene scene;
        scene_open(&scene, widths[i], true);
        struct kv_wire_slice slice = slice_of(&scene), late = slice;
        slice.grant.low++;
        say_slice(&scene, &slice);
        UNTIL(&scene.peer, scene.peer.got[KV_WIRE_END] == 1);
        assert_int_equal(scene.peer.end.end, TRANSFER_REFUSED);
        assert_true(scene.peer.end.grant.low == slice.grant.low);
        assert_true(kv_transport_cancel(scene.rank.transport, TRANSFER_IN, grant_of(1)));
        assert_int_equal(rank_wait(&scene.rank).end, TRANSFER_CANCELLED);
        say_slice(&scene, &late);
        UNTIL(&scene.peer, scene.peer.got[KV_WIRE_END] == 2);
        assert_untouched(&scene);
        assert_int_equal(rank_state(&scene.rank).counts.slices[TRANSFER_UNKNOWN], 2);
        scene_close(&scene);
    }
}

TEST(a_misfit_ends_its_grant) {
    for (size_t i = 0; i < ARRAY_COUNT(widths); i++) {
        struct scene scene;
        scene_open(&scene, widths[i], true);
        struct kv_wire_slice slice = slice_of(&scene);
        slice.block = 2;
        say_slice(&scene, &slice);
        UNTIL(&scene.peer, scene.peer.got[KV_WIRE_END] == 1);
        assert_int_equal(scene.peer.end.end, TRANSFER_REFUSED);
        assert_int_equal(rank_wait(&scene.rank).end, TRANSFER_REFUSED);
        assert_untouched(&scene);
        scene_close(&scene);
    }
}

/* What breaks the protocol breaks the connection, and with it what the peer had begun. */
TEST(nonsense_ends_the_connection) {
    enum { BEFORE_HELLO, SHORT_HEADER, WRONG_LENGTH, WRONG_WIDTH, SECOND_HELLO, BAD_END, CASES };
    for (int what = 0; what < CASES; what++) {
        struct scene scene;
        scene_open(&scene, 576, what != BEFORE_HELLO);
        struct kv_wire_slice slice = slice_of(&scene);
        struct kv_wire_end end = {.grant = grant_of(1), .end = TRANSFER_DONE};
        size_t bytes = scene.bytes;
        if (what == WRONG_LENGTH) slice.bytes--;
        if (what == WRONG_WIDTH) bytes = slice.bytes = (uint32_t)scene.bytes - 64;
        if (what == SECOND_HELLO)
            say(&scene.peer, KV_WIRE_HELLO, &scene.hello, sizeof scene.hello, NULL, 0, 0);
        else if (what == BAD_END)
            say(&scene.peer, KV_WIRE_END, &end, sizeof end, NULL, 0, 0);
        else
            say(&scene.peer, KV_WIRE_SLICE, &slice,
                what == SHORT_HEADER ? sizeof slice - 8 : sizeof slice, scene.rows, bytes,
                what == WRONG_LENGTH ? UCP_AM_SEND_FLAG_EAGER : 0);
        UNTIL(&scene.peer, scene.peer.lost);
        assert_untouched(&scene);
        assert_int_equal(rank_state(&scene.rank).counts.ended[TRANSFER_IN][TRANSFER_DONE], 0);
        scene_close(&scene);
    }
}

TEST(a_stranger_is_refused_with_the_reason) {
    struct scene scene;
    scene_open(&scene, 8, false);
    scene.hello.version++;
    say(&scene.peer, KV_WIRE_HELLO, &scene.hello, sizeof scene.hello, NULL, 0, 0);
    UNTIL(&scene.peer, scene.peer.got[KV_WIRE_REFUSAL] == 1);
    assert_string_equal(scene.peer.refusal.reason,
                        "KV peers must run alike, but the receiver's protocol version is 1 and the "
                        "sender's 2");
    scene_close(&scene);
}

TEST(who_never_greets_is_sent_away) {
    struct scene scene;
    rank_prepare(&scene.rank, KV_ELEMENT_BF16, 8, SLICES, 8);
    scene.rank.options.connect_ns_max = SECOND / 20;
    rank_start(&scene.rank);
    peer_open(&scene.peer, kv_transport_address(scene.rank.transport));
    UNTIL(&scene.peer, rank_state(&scene.rank).links == 1);
    UNTIL(&scene.peer, scene.peer.lost);
    UNTIL(&scene.peer, rank_state(&scene.rank).links == 0);
    peer_close(&scene.peer);
    rank_end(&scene.rank);
}

/* Until the receiver has asked for the slice's bytes, without answering. */
static void wait_for_accept(struct scene *scene) {
    int64_t until_ns = clock_now_ns() + PATIENCE;
    while (rank_state(&scene->rank).counts.slices[TRANSFER_ACCEPT] == 0 &&
           clock_now_ns() < until_ns) {
    }
}

/* The receiver has asked for a slice's bytes and its sender is gone. */
TEST(a_peer_that_hangs_up_loses_its_grants) {
    struct scene scene;
    scene_open(&scene, 576, true);
    struct kv_wire_slice slice = slice_of(&scene);
    say_slice(&scene, &slice);
    wait_for_accept(&scene);
    peer_hang_up(&scene.peer);
    struct transfer_ended ended = rank_wait(&scene.rank);
    assert_int_equal(ended.end, TRANSFER_PEER_LOST);
    assert_true(rank_idle(&scene.rank));
    ucp_worker_destroy(scene.peer.worker);
    ucp_cleanup(scene.peer.context);
    rank_end(&scene.rank);
    free(scene.rows);
}

/* An ended ticket whose sender withholds the bytes: the connection is broken to get the page back.
 */
TEST(a_peer_that_withholds_bytes_keeps_no_page) {
    struct scene scene;
    scene_open(&scene, 576, true);
    struct kv_wire_slice slice = slice_of(&scene);
    say_slice(&scene, &slice);
    wait_for_accept(&scene);
    assert_true(kv_transport_cancel(scene.rank.transport, TRANSFER_IN, grant_of(1)));
    struct transfer_ended ended = rank_wait(&scene.rank);
    assert_int_equal(ended.end, TRANSFER_CANCELLED);
    UNTIL(&scene.peer, scene.peer.lost);
    assert_untouched(&scene);
    scene_close(&scene);
}
