/* SPDX-License-Identifier: Apache-2.0
 * Protects when a rank looks at the CPU of one for which it waits: after a silence, ever more
 * rarely, and not while there are signs; and that a peer with its own signs or without shared
 * memory is left alone.
 */
#include "test_case.h"

#include "base/heartbeat.h"
#include "compute/exchange/peer_watch.h"

TEST(a_silent_peer_is_looked_at_ever_more_rarely) {
    struct peer_wait wait = {.peer = 0};
    int64_t now_ns = 1000000, last_ns = now_ns, looks = 0;
    assert_false(peer_watch_is_due(&wait, 3, 7, now_ns));
    for (int64_t gap_ns = 0; now_ns < 11000000; now_ns += 5000) {
        if (!peer_watch_is_due(&wait, 3, 7, now_ns)) continue;
        assert_true(now_ns - last_ns > gap_ns);
        gap_ns = now_ns - last_ns;
        last_ns = now_ns;
        looks++;
    }
    assert_in_range(looks, 5, 10);
}

TEST(signs_and_other_peers_begin_anew) {
    struct peer_wait wait = {.peer = 0};
    uint64_t signs = 0;
    for (int64_t now_ns = 1000000; now_ns < 9000000; now_ns += 15000)
        assert_false(peer_watch_is_due(&wait, 1, ++signs, now_ns));
    assert_false(peer_watch_is_due(&wait, 1, signs, 9000000));
    assert_false(peer_watch_is_due(&wait, 2, signs, 9900000));
    assert_true(peer_watch_is_due(&wait, 2, signs, 9990000));
}

TEST(a_look_counts_as_a_sign_and_needs_no_peer) {
    struct error error;
    const struct shared_file none = {.name = 0};
    assert_int_equal(peer_watch_open(2, &error), STATUS_OK);
    struct heartbeat_thread *own = heartbeat_thread;
    uint64_t before = own->signs;
    peer_watch_look(1, 0); /* nothing is mapped */
    peer_watch_map(1, &none, 0);
    peer_watch_look(1, 0);
    heartbeat_tile();
    assert_int_equal(own->signs, before + 3);
    assert_true(own->id > 0);
    peer_watch_close();
    assert_ptr_not_equal(heartbeat_thread, own);
    heartbeat_tile(); /* to memory of this process again */
}
