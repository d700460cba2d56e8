/* SPDX-License-Identifier: Apache-2.0
 * For tests of a KV transport: a peer that speaks UCX by itself, and says what no sender of ours
 * would.
 */
#pragma once

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

static inline ucs_status_t take(struct peer *peer, enum kv_wire_kind kind, const void *header,
                                size_t bytes) {
    peer->got[kind]++;
    assert_int_equal(bytes, kv_transport_wire_bytes(kind));
    if (kind == KV_WIRE_END) memcpy(&peer->end, header, bytes);
    if (kind == KV_WIRE_REFUSAL) memcpy(&peer->refusal, header, bytes);
    return UCS_OK;
}

static inline ucs_status_t take_welcome(void *peer, const void *header, size_t bytes, void *data,
                                        size_t data_bytes, const ucp_am_recv_param_t *param) {
    return take(peer, KV_WIRE_WELCOME, header, bytes);
}

static inline ucs_status_t take_refusal(void *peer, const void *header, size_t bytes, void *data,
                                        size_t data_bytes, const ucp_am_recv_param_t *param) {
    return take(peer, KV_WIRE_REFUSAL, header, bytes);
}

static inline ucs_status_t take_end(void *peer, const void *header, size_t bytes, void *data,
                                    size_t data_bytes, const ucp_am_recv_param_t *param) {
    return take(peer, KV_WIRE_END, header, bytes);
}

static inline void note_loss(void *peer, ucp_ep_h endpoint, ucs_status_t status) {
    ((struct peer *)peer)->lost = true;
}

static inline void listen_for(struct peer *peer, unsigned kind, ucp_am_recv_callback_t taker) {
    ucp_am_handler_param_t param = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                      UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = kind,
        .cb = taker,
        .arg = peer,
    };
    assert_int_equal(ucp_worker_set_am_recv_handler(peer->worker, &param), UCS_OK);
}

static inline void peer_open(struct peer *peer, const char *address) {
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

static inline void peer_hang_up(struct peer *peer) {
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                 .flags = UCP_EP_CLOSE_FLAG_FORCE};
    void *request = ucp_ep_close_nbx(peer->endpoint, &param);
    for (int i = 0; i < 1000; i++)
        ucp_worker_progress(peer->worker);
    if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
}

static inline void peer_close(struct peer *peer) {
    peer_hang_up(peer);
    ucp_worker_destroy(peer->worker);
    ucp_cleanup(peer->context);
}

/* The header and the rows must live until the peer is closed. */
static inline void say(struct peer *peer, unsigned kind, const void *header, size_t header_bytes,
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

static inline struct kv_wire_hello greeting(const struct rank *rank) {
    struct kv_wire_hello hello = {
        .version = KV_WIRE_VERSION,
        .block_version = KV_BLOCK_VERSION,
        .shape = kv_shape_of(&rank->pages.format),
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
static inline void scene_open(struct scene *scene, uint32_t width, bool greet) {
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

static inline void scene_close(struct scene *scene) {
    struct transfer_ended ended;
    if (kv_transport_cancel(scene->rank.transport, TRANSFER_IN, grant_of(1)))
        ended = rank_wait(&scene->rank);
    while (kv_transport_next(scene->rank.transport, &ended)) {
    }
    assert_true(rank_idle(&scene->rank));
    peer_close(&scene->peer);
    rank_end(&scene->rank);
    free(scene->rows);
}

static inline void assert_untouched(struct scene *scene) {
    assert_true(pages_are(&scene->rank, (char)0xEE));
}

static inline struct kv_wire_slice slice_of(struct scene *scene) {
    return (struct kv_wire_slice){
        .grant = grant_of(1),
        .block = 1,
        .slice = 2,
        .rows = 64,
        .bytes = (uint32_t)scene->bytes,
        .checksum = checksum_of(scene->rows, scene->bytes),
    };
}

static const uint32_t widths[] = {8, 576}; /* small slices are copied, large ones fetched */

static inline void say_slice(struct scene *scene, const struct kv_wire_slice *slice) {
    say(&scene->peer, KV_WIRE_SLICE, slice, sizeof *slice, scene->rows, slice->bytes,
        slice->bytes > 8192 ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER);
}
