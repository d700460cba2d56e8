/* SPDX-License-Identifier: Apache-2.0
 * Protects what comes before its ticket is known: it is kept for a moment, in bounded memory, and
 * goes with its sender.
 */
#include "test_case.h"
#include "transport_peer.h"

/* The sender may know of a ticket before the receiver does. */
TEST(what_comes_early_waits_for_its_grant) {
    for (size_t i = 0; i < ARRAY_COUNT(widths); i++) {
        struct scene scene;
        struct prompt prompt = {2, 5, 1, 64};
        struct kv_wire_slice slices[SLICES];
        struct kv_wire_finish finish = {.grant = grant_of(2), .slice_count = SLICES};
        patience_ns = PATIENCE;
        scene_open(&scene, widths[i], true);
        say(&scene.peer, KV_WIRE_FINISH, &finish, sizeof finish, NULL, 0, 0);
        for (uint32_t slice = 0; slice < SLICES; slice++) {
            slices[slice] = slice_of(&scene);
            slices[slice].grant = grant_of(2);
            slices[slice].block = 0;
            slices[slice].slice = slice;
            say_slice(&scene, &slices[slice]);
        }
        UNTIL(&scene.peer, rank_state(&scene.rank).early == SLICES + 1);
        assert_untouched(&scene);
        assert_int_equal(prompt_expect(&scene.rank, &prompt, PATIENCE), STATUS_OK);
        UNTIL(&scene.peer, scene.peer.got[KV_WIRE_END] == 1);
        assert_int_equal(scene.peer.end.end, TRANSFER_DONE);
        assert_int_equal(rank_wait(&scene.rank).end, TRANSFER_DONE);
        for (uint32_t slice = 0; slice < SLICES; slice++)
            assert_memory_equal(kv_pages_slice(&scene.rank.pages, 5, slice), scene.rows,
                                scene.bytes);
        assert_int_equal(rank_state(&scene.rank).counts.slices[TRANSFER_UNKNOWN], 0);
        scene_close(&scene);
    }
}

/* The sender may give a ticket up, or go, before the receiver knows of it: then nothing is left. */
TEST(what_came_early_goes_with_its_sender) {
    for (size_t i = 0; i < 2 * ARRAY_COUNT(widths); i++) {
        struct scene scene;
        struct prompt prompt = {2, 5, 2, 64};
        struct kv_wire_end end = {.grant = grant_of(2), .end = TRANSFER_CANCELLED};
        bool hangs_up = i >= ARRAY_COUNT(widths);
        patience_ns = PATIENCE;
        scene_open(&scene, widths[i % ARRAY_COUNT(widths)], true);
        struct kv_wire_slice slice = slice_of(&scene), mark = slice;
        slice.grant = grant_of(2);
        mark.grant = grant_of(3);
        say_slice(&scene, &slice);
        UNTIL(&scene.peer, rank_state(&scene.rank).early == 1);
        if (hangs_up) {
            peer_hang_up(&scene.peer);
            UNTIL(&scene.peer, rank_state(&scene.rank).links == 0);
        } else {
            say(&scene.peer, KV_WIRE_END, &end, sizeof end, NULL, 0, 0);
            say_slice(&scene, &mark); /* comes behind the end */
            UNTIL(&scene.peer, rank_state(&scene.rank).early == 2);
        }
        assert_int_equal(prompt_expect(&scene.rank, &prompt, PATIENCE), STATUS_OK);
        assert_true(kv_transport_cancel(scene.rank.transport, TRANSFER_IN, grant_of(2)));
        struct transfer_ended ended = rank_wait(&scene.rank);
        assert_int_equal(ended.end, TRANSFER_CANCELLED);
        assert_true(ended.peer == TRANSFER_NO_PEER);
        assert_untouched(&scene);
        if (!hangs_up) {
            scene_close(&scene);
            continue;
        }
        assert_true(kv_transport_cancel(scene.rank.transport, TRANSFER_IN, grant_of(1)));
        rank_wait(&scene.rank);
        ucp_worker_destroy(scene.peer.worker);
        ucp_cleanup(scene.peer.context);
        rank_end(&scene.rank);
        free(scene.rows);
    }
}
