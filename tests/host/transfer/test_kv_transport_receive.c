/* SPDX-License-Identifier: Apache-2.0
 * Protects a KV transport from its peers: one that speaks UCX by itself sends what no sender of
 * ours would. Nothing of it reaches a page, and honest peers do not notice.
 */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/checksum.h"
#include "host/transfer/kv_transport_state.h"
#include "transport_ranks.h"

#define SLICES 3

/* A peer made by hand. */
struct peer {
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h endpoint;
    bool lost;
    uint32_t got[KV_WIRE_KIND_COUNT];
    struct kv_wire_end end;
    struct kv_wire_reason refusal;
};

static ucs_status_t take(struct peer *peer, enum kv_wire_kind kind, const void *header,
                         size_t bytes) {
    peer->got[kind]++;
    assert_int_equal(bytes, kv_transport_wire_bytes(kind));
    if (kind == KV_WIRE_END) memcpy(&peer->end, header, bytes);
    if (kind == KV_WIRE_REFUSAL) memcpy(&peer->refusal, header, bytes);
    return UCS_OK;
}

static ucs_status_t take_welcome(void *peer, const void *header, size_t bytes, void *data,
                                 size_t data_bytes, const ucp_am_recv_param_t *param) {
    return take(peer, KV_WIRE_WELCOME, header, bytes);
}

static ucs_status_t take_refusal(void *peer, const void *header, size_t bytes, void *data,
                                 size_t data_bytes, const ucp_am_recv_param_t *param) {
    return take(peer, KV_WIRE_REFUSAL, header, bytes);
}

static ucs_status_t take_end(void *peer, const void *header, size_t bytes, void *data,
                             size_t data_bytes, const ucp_am_recv_param_t *param) {
    return take(peer, KV_WIRE_END, header, bytes);
}

static void note_loss(void *peer, ucp_ep_h endpoint, ucs_status_t status) {
    ((struct peer *)peer)->lost = true;
}

static void listen_for(struct peer *peer, unsigned kind, ucp_am_recv_callback_t taker) {
    ucp_am_handler_param_t param = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                      UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = kind,
        .cb = taker,
        .arg = peer,
    };
    assert_int_equal(ucp_worker_set_am_recv_handler(peer->worker, &param), UCS_OK);
}

static void peer_open(struct peer *peer, const char *address) {
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_AM};
    ucp_worker_params_t worker_params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                         .thread_mode = UCS_THREAD_MODE_SINGLE};
    struct sockaddr_in to = {.sin_family = AF_INET};
    *peer = (struct peer){0};
    assert_int_equal(ucp_init(&params, NULL, &peer->context), UCS_OK);
    assert_int_equal(ucp_worker_create(peer->context, &worker_params, &peer->worker), UCS_OK);
    listen_for(peer, KV_WIRE_WELCOME, take_welcome);
    listen_for(peer, KV_WIRE_REFUSAL, take_refusal);
    listen_for(peer, KV_WIRE_END, take_end);
    to.sin_port = htons((uint16_t)strtoul(strchr(address, ':') + 1, NULL, 10));
    assert_int_equal(inet_pton(AF_INET, "127.0.0.1", &to.sin_addr), 1);
    ucp_ep_params_t endpoint = {
        .field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR,
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = note_loss, .arg = peer},
        .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
        .sockaddr = {.addr = (const struct sockaddr *)&to, .addrlen = sizeof to},
    };
    assert_int_equal(ucp_ep_create(peer->worker, &endpoint, &peer->endpoint), UCS_OK);
}

static void peer_hang_up(struct peer *peer) {
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                 .flags = UCP_EP_CLOSE_FLAG_FORCE};
    void *request = ucp_ep_close_nbx(peer->endpoint, &param);
    for (int i = 0; i < 1000; i++)
        ucp_worker_progress(peer->worker);
    if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
}

static void peer_close(struct peer *peer) {
    peer_hang_up(peer);
    ucp_worker_destroy(peer->worker);
    ucp_cleanup(peer->context);
}

/* The header and the rows must live until the peer is closed. */
static void say(struct peer *peer, unsigned kind, const void *header, size_t header_bytes,
                const void *rows, size_t bytes, unsigned flags) {
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                 .flags = UCP_AM_SEND_FLAG_REPLY | flags};
    void *request =
        ucp_am_send_nbx(peer->endpoint, kind, header, header_bytes, rows, bytes, &param);
    assert_false(UCS_PTR_IS_ERR(request));
    if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
}

#define UNTIL(peer, condition)                                                                     \
    do {                                                                                           \
        int64_t limit_ns = clock_now_ns() + PATIENCE;                                              \
        while (!(condition) && clock_now_ns() < limit_ns)                                          \
            ucp_worker_progress((peer)->worker);                                                   \
        assert_true(condition);                                                                    \
    } while (0)

static struct kv_wire_hello greeting(const struct rank *rank) {
    struct kv_wire_hello hello = {
        .version = KV_WIRE_VERSION,
        .block_version = KV_BLOCK_VERSION,
        .element = rank->pages.element,
        .width = rank->pages.width,
        .slice_count = rank->pages.slice_count,
        .mtp_count = rank->pages.mtp_count,
        .numerics_id = "test-f32",
    };
    memcpy(hello.magic, KV_WIRE_MAGIC, sizeof hello.magic);
    memcpy(hello.model_id, test_model, sizeof hello.model_id);
    return hello;
}

static int64_t patience_ns = SECOND / 100; /* of the next scene's rank, for what comes early */

struct scene {
    struct rank rank;
    struct peer peer;
    struct kv_wire_hello hello;
    char *rows; /* [64][width], all 'r' */
    size_t bytes;
};

/* A rank that expects ticket 1 (two blocks of 64 rows), and a peer that was welcomed. */
static void scene_open(struct scene *scene, uint32_t width, bool greet) {
    rank_prepare(&scene->rank, KV_ELEMENT_BF16, width, SLICES, 8);
    memset(scene->rank.pages.memory, 0xEE, scene->rank.pages.mapped_bytes);
    scene->rank.options.early_ns_max = patience_ns;
    patience_ns = SECOND / 100;
    rank_start(&scene->rank);
    struct prompt prompt = {1, 2, 2, 64};
    assert_int_equal(prompt_expect(&scene->rank, &prompt, PATIENCE), STATUS_OK);
    scene->bytes = 64 * scene->rank.pages.row_bytes;
    scene->rows = malloc(scene->bytes);
    assert_non_null(scene->rows);
    memset(scene->rows, 'r', scene->bytes);
    scene->hello = greeting(&scene->rank);
    peer_open(&scene->peer, kv_transport_address(scene->rank.transport));
    if (!greet) return;
    say(&scene->peer, KV_WIRE_HELLO, &scene->hello, sizeof scene->hello, NULL, 0, 0);
    UNTIL(&scene->peer, scene->peer.got[KV_WIRE_WELCOME] == 1);
}

static void scene_close(struct scene *scene) {
    struct transfer_ended ended;
    if (kv_transport_cancel(scene->rank.transport, TRANSFER_IN, ticket_of(1)))
        ended = rank_wait(&scene->rank);
    while (kv_transport_next(scene->rank.transport, &ended)) {
    }
    assert_true(rank_idle(&scene->rank));
    peer_close(&scene->peer);
    rank_end(&scene->rank);
    free(scene->rows);
}

static void assert_untouched(struct scene *scene) {
    assert_true(pages_are(&scene->rank, (char)0xEE));
}

static struct kv_wire_slice slice_of(struct scene *scene) {
    return (struct kv_wire_slice){
        .ticket = ticket_of(1),
        .block = 1,
        .slice = 2,
        .rows = 64,
        .bytes = (uint32_t)scene->bytes,
        .checksum = checksum_of(scene->rows, scene->bytes),
    };
}

static const uint32_t widths[] = {8, 576}; /* small slices are copied, large ones fetched */

static void say_slice(struct scene *scene, const struct kv_wire_slice *slice) {
    say(&scene->peer, KV_WIRE_SLICE, slice, sizeof *slice, scene->rows, slice->bytes,
        slice->bytes > 8192 ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER);
}

static void a_slice_with_a_wrong_checksum_fails_its_ticket(void **state) {
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

static void what_nobody_expects_is_written_nowhere(void **state) {
    for (size_t i = 0; i < ARRAY_COUNT(widths); i++) {
        struct scene scene;
        scene_open(&scene, widths[i], true);
        struct kv_wire_slice slice = slice_of(&scene), late = slice;
        slice.ticket.low++;
        say_slice(&scene, &slice);
        UNTIL(&scene.peer, scene.peer.got[KV_WIRE_END] == 1);
        assert_int_equal(scene.peer.end.end, TRANSFER_REFUSED);
        assert_true(scene.peer.end.ticket.low == slice.ticket.low);
        assert_true(kv_transport_cancel(scene.rank.transport, TRANSFER_IN, ticket_of(1)));
        assert_int_equal(rank_wait(&scene.rank).end, TRANSFER_CANCELLED);
        say_slice(&scene, &late);
        UNTIL(&scene.peer, scene.peer.got[KV_WIRE_END] == 2);
        assert_untouched(&scene);
        assert_int_equal(rank_state(&scene.rank).counts.slices[TRANSFER_UNKNOWN], 2);
        scene_close(&scene);
    }
}

/* The sender may know of a ticket before the receiver does. */
static void what_comes_early_waits_for_its_ticket(void **state) {
    for (size_t i = 0; i < ARRAY_COUNT(widths); i++) {
        struct scene scene;
        struct prompt prompt = {2, 5, 1, 64};
        struct kv_wire_slice slices[SLICES];
        struct kv_wire_finish finish = {.ticket = ticket_of(2), .slice_count = SLICES};
        patience_ns = PATIENCE;
        scene_open(&scene, widths[i], true);
        say(&scene.peer, KV_WIRE_FINISH, &finish, sizeof finish, NULL, 0, 0);
        for (uint32_t slice = 0; slice < SLICES; slice++) {
            slices[slice] = slice_of(&scene);
            slices[slice].ticket = ticket_of(2);
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
static void what_came_early_goes_with_its_sender(void **state) {
    for (size_t i = 0; i < 2 * ARRAY_COUNT(widths); i++) {
        struct scene scene;
        struct prompt prompt = {2, 5, 2, 64};
        struct kv_wire_end end = {.ticket = ticket_of(2), .end = TRANSFER_CANCELLED};
        bool hangs_up = i >= ARRAY_COUNT(widths);
        patience_ns = PATIENCE;
        scene_open(&scene, widths[i % ARRAY_COUNT(widths)], true);
        struct kv_wire_slice slice = slice_of(&scene), mark = slice;
        slice.ticket = ticket_of(2);
        mark.ticket = ticket_of(3);
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
        assert_true(kv_transport_cancel(scene.rank.transport, TRANSFER_IN, ticket_of(2)));
        struct transfer_ended ended = rank_wait(&scene.rank);
        assert_int_equal(ended.end, TRANSFER_CANCELLED);
        assert_true(ended.peer == TRANSFER_NO_PEER);
        assert_untouched(&scene);
        if (!hangs_up) {
            scene_close(&scene);
            continue;
        }
        assert_true(kv_transport_cancel(scene.rank.transport, TRANSFER_IN, ticket_of(1)));
        rank_wait(&scene.rank);
        ucp_worker_destroy(scene.peer.worker);
        ucp_cleanup(scene.peer.context);
        rank_end(&scene.rank);
        free(scene.rows);
    }
}

static void a_misfit_ends_its_ticket(void **state) {
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
static void nonsense_ends_the_connection(void **state) {
    enum { BEFORE_HELLO, SHORT_HEADER, WRONG_LENGTH, WRONG_WIDTH, SECOND_HELLO, BAD_END, CASES };
    for (int what = 0; what < CASES; what++) {
        struct scene scene;
        scene_open(&scene, 576, what != BEFORE_HELLO);
        struct kv_wire_slice slice = slice_of(&scene);
        struct kv_wire_end end = {.ticket = ticket_of(1), .end = TRANSFER_DONE};
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

static void a_stranger_is_refused_with_the_reason(void **state) {
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

static void who_never_greets_is_sent_away(void **state) {
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
static void a_peer_that_hangs_up_loses_its_tickets(void **state) {
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
static void a_peer_that_withholds_bytes_keeps_no_page(void **state) {
    struct scene scene;
    scene_open(&scene, 576, true);
    struct kv_wire_slice slice = slice_of(&scene);
    say_slice(&scene, &slice);
    wait_for_accept(&scene);
    assert_true(kv_transport_cancel(scene.rank.transport, TRANSFER_IN, ticket_of(1)));
    struct transfer_ended ended = rank_wait(&scene.rank);
    assert_int_equal(ended.end, TRANSFER_CANCELLED);
    UNTIL(&scene.peer, scene.peer.lost);
    assert_untouched(&scene);
    scene_close(&scene);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slice_with_a_wrong_checksum_fails_its_ticket),
        cmocka_unit_test(what_nobody_expects_is_written_nowhere),
        cmocka_unit_test(what_comes_early_waits_for_its_ticket),
        cmocka_unit_test(what_came_early_goes_with_its_sender),
        cmocka_unit_test(a_misfit_ends_its_ticket),
        cmocka_unit_test(nonsense_ends_the_connection),
        cmocka_unit_test(a_stranger_is_refused_with_the_reason),
        cmocka_unit_test(who_never_greets_is_sent_away),
        cmocka_unit_test(a_peer_that_hangs_up_loses_its_tickets),
        cmocka_unit_test(a_peer_that_withholds_bytes_keeps_no_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
