/* SPDX-License-Identifier: Apache-2.0 */
#include "host/transfer/kv_ranks.h"

#include <event2/event.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "contract/record_kv.h"
#include "contract/record_unit.h"
#include "host/transfer/kv_asked.h"
#include "host/transfer/kv_carrier.h"
#include "host/wire/record_queue.h"
#include "host/wire/wire.h"

#define JOIN_NS_MAX ((int64_t)60000000000)  /* time for all ranks to connect */
#define DEATH_NS_MAX ((int64_t)15000000000) /* default of death_ns_max */
#define DOUBT_US 100000                     /* poll interval for reported deaths */
#define RETRY_US 2000                       /* delay after the wire was full */

/* A rank's transport and host cache. */
struct kv_rank {
    struct kv_transport *transport;
    struct kv_carrier *carrier;
    struct kv_host_cache *host_cache;
    struct event *reported; /* the host cache has answers */
    void *context;
    void (*say)(void *context, const struct record *record);
};

static bool has_storage(const struct kv_ranks_options *options) {
    return kv_store_has_directory(&options->storage) || options->storage.host_bytes > 0;
}

bool kv_ranks_wanted(const struct kv_ranks_options *options) {
    return options->host || has_storage(options);
}

static enum status open_carrier(struct kv_rank *own, const struct kv_ranks_options *options,
                                struct event_base *base, struct error *error) {
    struct kv_transport_options transport = kv_transport_defaults();
    transport.pages = options->pages;
    transport.model_id = options->model_id;
    transport.numerics_id = options->numerics_id;
    transport.host = options->host;
    transport.bytes_per_second = options->bytes_per_second;
    enum status status = kv_transport_open(&transport, &own->transport, error);
    if (status) return status;
    struct kv_carrier_options carrier = {
        .transport = own->transport,
        .pages = transport.pages,
        .progress = options->by_step ? NULL : options->progress,
        .transfer_ns_max = (int64_t)(options->seconds_max * 1e9),
        .context = own->context,
        .say = own->say,
    };
    return kv_carrier_open(&carrier, base, &own->carrier, error);
}

static void on_reported(evutil_socket_t file, short what, void *context) {
    struct kv_rank *own = context;
    kv_host_cache_take(own->host_cache, own->say, own->context);
}

static enum status open_host_cache(struct kv_rank *own, const struct kv_ranks_options *options,
                                   struct event_base *base, struct error *error) {
    enum status status =
        kv_host_cache_open(&options->storage, options->pages, &own->host_cache, error);
    if (status) return status;
    own->reported = event_new(base, kv_host_cache_file(own->host_cache), EV_READ | EV_PERSIST,
                              on_reported, own);
    if (own->reported && event_add(own->reported, NULL) == 0) return STATUS_OK;
    return error_set(error, STATUS_NO_MEMORY, "no memory for the KV storage");
}

static enum status kv_ranks_open_own(struct kv_rank *own, const struct kv_ranks_options *options,
                                     struct event_base *base, void *context,
                                     void (*say)(void *context, const struct record *record),
                                     struct error *error) {
    enum status status = STATUS_OK;
    own->context = context;
    own->say = say;
    if (options->host) status = open_carrier(own, options, base, error);
    if (!status && has_storage(options)) status = open_host_cache(own, options, base, error);
    return status;
}

static void kv_ranks_close_own(struct kv_rank *own) {
    kv_carrier_close(own->carrier);
    kv_transport_close(own->transport);
    if (own->reported) event_free(own->reported);
    kv_host_cache_close(own->host_cache);
}

/* Gets the address of the rank's transport; "": none. */
static void own_address(const struct kv_rank *own, char address_out[KV_ADDRESS_BYTES]) {
    snprintf(address_out, KV_ADDRESS_BYTES, "%s",
             own->transport ? kv_transport_address(own->transport) : "");
}

static void kv_ranks_take_own(struct kv_rank *own, const struct record *record) {
    if (record_goes(record->kind, WAY_UNIT_TO_STORAGE)) {
        kv_host_cache_give(own->host_cache, record);
        kv_host_cache_take(own->host_cache, own->say, own->context); /* immediate answers */
    } else {
        kv_carrier_take(own->carrier, record);
    }
}

static bool kv_ranks_await(void *context, uint32_t slot, uint32_t slices) {
    return kv_host_cache_await(context, slot, slices);
}

static bool kv_ranks_take_end(void *context, uint32_t slot, struct load_end *end_out) {
    return kv_host_cache_take_end(context, slot, end_out);
}

static struct engine_loads kv_ranks_loads_of(const struct kv_rank *own) {
    if (!own->host_cache) return (struct engine_loads){0};
    return (struct engine_loads){own->host_cache, kv_ranks_await, kv_ranks_take_end};
}

static uint64_t kinds_of(const struct kv_ranks_options *options, bool asked) {
    uint32_t ways = 0;
    if (options->host) ways |= asked ? WAY_UNIT_TO_CARRIER : WAY_CARRIER_TO_UNIT;
    if (has_storage(options)) ways |= asked ? WAY_UNIT_TO_STORAGE : WAY_STORAGE_TO_UNIT;
    return record_kinds(ways);
}

/* Sends the queued records to a peer (0: not connected, which wire_send may cause). If the wire is
 * full, `retry` is scheduled for the rest. */
static void send_queue(struct wire *wire, const uint32_t *peer, struct record_queue *waiting,
                       struct event *retry) {
    const struct record *record;
    while (*peer && (record = record_queue_first(waiting))) {
        if (wire_send(wire, *peer, record) == STATUS_FULL) {
            event_add(retry, &(struct timeval){.tv_usec = RETRY_US});
            return;
        }
        record_queue_drop(waiting); /* if it was lost, the rank has died or the unit ends */
    }
}

/* ---- rank 0 ---- */

struct kv_peer {     /* another rank */
    uint32_t number; /* number of the wire's peer; 0: not connected */
    uint32_t next;   /* peer that rejoined before the old one's death was reported; 0: none */
    char next_address[KV_ADDRESS_BYTES];
    bool dead;
    int64_t lost_ns; /* time of the disconnection; 0: connected, or dead */
    struct record_queue waiting;
    struct kv_asked asked;
};

struct kv_ranks {
    struct kv_ranks_options options;
    struct kv_rank own;
    struct wire *wire;
    struct event *retry, *doubt;         /* doubt: checks how long ranks have been disconnected */
    struct kv_peer *peers;               /* [rank_count] the first is not used */
    uint32_t there;                      /* number of ranks that have sent hello, with rank 0 */
    char (*addresses)[KV_ADDRESS_BYTES]; /* [rank_count] as of the start */
};

static void send_waiting(struct kv_ranks *ranks, struct kv_peer *peer) {
    send_queue(ranks->wire, &peer->number, &peer->waiting, ranks->retry);
}

static void kv_ranks_on_retry(evutil_socket_t file, short what, void *context) {
    struct kv_ranks *ranks = context;
    for (uint32_t rank = 1; rank < ranks->options.rank_count; rank++)
        send_waiting(ranks, &ranks->peers[rank]);
}

/* Forwards a record of any rank to the owner. */
static void kv_ranks_forward(void *context, const struct record *record) {
    struct kv_ranks *ranks = context;
    ranks->options.say(ranks->options.context, record);
}

static void answer_for(struct kv_ranks *ranks, struct kv_peer *dead) {
    union kv_answer answer;
    while (kv_asked_deny(&dead->asked, &answer))
        kv_ranks_forward(ranks, &answer.record);
}

/* ---- ranks come and go ---- */

/* Registers a rank that joins at the start, or rejoins. */
static void kv_ranks_enter(struct kv_ranks *ranks, uint32_t rank, uint32_t number,
                           const char address[KV_ADDRESS_BYTES]) {
    struct kv_peer *peer = &ranks->peers[rank];
    struct record_kv_hello hello = {.record = record_head(RECORD_KV_HELLO, sizeof hello),
                                    .rank = rank};
    peer->number = number;
    peer->lost_ns = 0;
    memcpy(hello.address, address, sizeof hello.address);
    if (peer->dead)
        kv_ranks_forward(ranks, &hello.record);
    else
        memcpy(ranks->addresses[rank], address, sizeof ranks->addresses[rank]);
    peer->dead = false;
}

/* Waits for a report that the disconnected rank has died (kv_ranks_bury). */
static void doubt(struct kv_ranks *ranks, struct kv_peer *peer) {
    if (!peer->lost_ns) peer->lost_ns = clock_now_ns();
    event_add(ranks->doubt, &(struct timeval){.tv_usec = DOUBT_US});
}

static int64_t death_ns_max(const struct kv_ranks *ranks) {
    return ranks->options.death_ns_max ? ranks->options.death_ns_max : DEATH_NS_MAX;
}

static void on_doubt(evutil_socket_t file, short what, void *context) {
    struct kv_ranks *ranks = context;
    struct error error;
    for (uint32_t rank = 1; rank < ranks->options.rank_count; rank++) {
        struct kv_peer *peer = &ranks->peers[rank];
        if (peer->lost_ns) event_add(ranks->doubt, &(struct timeval){.tv_usec = DOUBT_US});
        if (!peer->lost_ns || clock_now_ns() - peer->lost_ns < death_ns_max(ranks)) continue;
        peer->lost_ns = 0;
        error_set(&error, STATUS_GONE, "rank %u is not connected to %s any more", rank,
                  ranks->options.control);
        ranks->options.lost(ranks->options.context, &error);
    }
}

/* Marks a rank as dead and gives negative answers to its open requests. */
static void kv_ranks_bury(struct kv_ranks *ranks, uint32_t rank) {
    struct kv_peer *peer = &ranks->peers[rank];
    check(rank > 0 && rank < ranks->options.rank_count);
    record_queue_clear(&peer->waiting);
    answer_for(ranks, peer);
    peer->dead = true;
    peer->number = 0;
    peer->lost_ns = 0;
    if (peer->next) kv_ranks_enter(ranks, rank, peer->next, peer->next_address);
    peer->next = 0;
}

static void kv_ranks_on_joined(void *context, uint32_t peer) {
}

static void kv_ranks_on_lost(void *context, uint32_t number) {
    struct kv_ranks *ranks = context;
    for (uint32_t rank = 1; rank < ranks->options.rank_count; rank++) {
        struct kv_peer *peer = &ranks->peers[rank];
        if (peer->next == number) peer->next = 0;
        if (peer->number != number) continue;
        peer->number = 0;
        doubt(ranks, peer);
    }
}

static void kv_ranks_take_hello(struct kv_ranks *ranks, uint32_t number,
                                const struct record_kv_hello *hello) {
    if (hello->rank == 0 || hello->rank >= ranks->options.rank_count) {
        wire_drop(ranks->wire, number, "it is not a rank of this unit");
        return;
    }
    struct kv_peer *peer = &ranks->peers[hello->rank];
    bool first = !peer->number && !peer->lost_ns && !peer->dead;
    ranks->there += first;
    if (first || peer->dead) {
        kv_ranks_enter(ranks, hello->rank, number, hello->address);
        return;
    }
    peer->next = number;
    memcpy(peer->next_address, hello->address, sizeof peer->next_address);
    doubt(ranks, peer);
}

/* ---- records ---- */

void kv_ranks_take(struct kv_ranks *ranks, const struct record *record) {
    if (record->kind == RECORD_DRAIN) {
        const struct record_drain *drain = (const void *)record;
        if (drain->dead && !drain->back) kv_ranks_bury(ranks, drain->rank);
        return;
    }
    uint32_t rank = record_kv_rank(record);
    check(rank < ranks->options.rank_count);
    if (rank == 0) {
        kv_ranks_take_own(&ranks->own, record);
        return;
    }
    struct kv_peer *peer = &ranks->peers[rank];
    kv_asked_note(&peer->asked, record);
    if (peer->dead) {
        answer_for(ranks, peer);
        return;
    }
    record_queue_force(&peer->waiting, record);
    send_waiting(ranks, peer);
}

static void kv_ranks_on_wire(void *context, uint32_t number, const struct record *record) {
    struct kv_ranks *ranks = context;
    uint32_t rank = record_kv_rank(record);
    if (record->kind == RECORD_KV_HELLO) {
        kv_ranks_take_hello(ranks, number, (const struct record_kv_hello *)record);
    } else if (rank < ranks->options.rank_count && ranks->peers[rank].number == number) {
        kv_asked_end(&ranks->peers[rank].asked, record);
        kv_ranks_forward(ranks, record);
    } else {
        wire_drop(ranks->wire, number, "it speaks for another rank");
    }
}

static bool kv_ranks_may_take(void *context) {
    return true;
}

static enum status wait_for_ranks(struct kv_ranks *ranks, struct event_base *base,
                                  struct error *error) {
    int64_t until_ns = clock_now_ns() + JOIN_NS_MAX;
    struct timeval while_looking = {.tv_usec = 50000};
    while (ranks->there < ranks->options.rank_count) {
        event_add(ranks->retry, &while_looking); /* only to wake the loop */
        event_base_loop(base, EVLOOP_ONCE);
        if (clock_now_ns() > until_ns)
            return error_set(error, STATUS_IO,
                             "%u of %u ranks have reported that their KV pages are ready; the "
                             "others do not reach %s",
                             ranks->there, ranks->options.rank_count, ranks->options.control);
    }
    return STATUS_OK;
}

static enum status open_wire(struct kv_ranks *ranks, struct event_base *base, struct error *error) {
    struct wire_options wire = {
        .address = ranks->options.control,
        .listens = true,
        .plain_anywhere = true, /* KV blocks are sent over the same private network */
        .kinds = record_kinds(WAY_RANK_TO_RANK_0) | kinds_of(&ranks->options, false),
        .context = ranks,
        .joined = kv_ranks_on_joined,
        .take = kv_ranks_on_wire,
        .lost = kv_ranks_on_lost,
        .may_take = kv_ranks_may_take,
    };
    enum status status = wire_open(&wire, base, &ranks->wire, error);
    return status ? status : wait_for_ranks(ranks, base, error);
}

enum status kv_ranks_open(const struct kv_ranks_options *options, struct event_base *base,
                          struct kv_ranks **ranks_out, struct error *error) {
    struct kv_ranks *ranks = calloc(1, sizeof *ranks);
    if (!ranks) return error_set(error, STATUS_NO_MEMORY, "no memory for transfers of KV blocks");
    ranks->options = *options;
    ranks->peers = calloc(options->rank_count, sizeof *ranks->peers);
    ranks->addresses = calloc(options->rank_count, sizeof *ranks->addresses);
    ranks->retry = event_new(base, -1, 0, kv_ranks_on_retry, ranks);
    ranks->doubt = event_new(base, -1, 0, on_doubt, ranks);
    enum status status = STATUS_OK;
    if (!ranks->peers || !ranks->addresses || !ranks->retry || !ranks->doubt)
        status = error_set(error, STATUS_NO_MEMORY, "no memory for transfers of KV blocks");
    if (!status)
        status = kv_ranks_open_own(&ranks->own, options, base, ranks, kv_ranks_forward, error);
    if (!status) {
        own_address(&ranks->own, ranks->addresses[0]);
        ranks->there = 1;
        if (options->rank_count > 1) status = open_wire(ranks, base, error);
    }
    if (status)
        kv_ranks_close(ranks);
    else
        *ranks_out = ranks;
    return status;
}

void kv_ranks_close(struct kv_ranks *ranks) {
    if (!ranks) return;
    kv_ranks_close_own(&ranks->own);
    if (ranks->wire) wire_close(ranks->wire);
    if (ranks->retry) event_free(ranks->retry);
    if (ranks->doubt) event_free(ranks->doubt);
    for (uint32_t rank = 0; ranks->peers && rank < ranks->options.rank_count; rank++) {
        record_queue_clear(&ranks->peers[rank].waiting);
        kv_asked_free(&ranks->peers[rank].asked);
    }
    free(ranks->peers);
    free(ranks->addresses);
    free(ranks);
}

struct engine_loads kv_ranks_loads(struct kv_ranks *ranks) {
    return kv_ranks_loads_of(&ranks->own);
}

struct kv_store *kv_ranks_store(const struct kv_ranks *ranks) {
    return ranks->own.host_cache ? kv_host_cache_store(ranks->own.host_cache) : NULL;
}

const char (*kv_ranks_addresses(const struct kv_ranks *ranks))[KV_ADDRESS_BYTES] {
    return (const char(*)[KV_ADDRESS_BYTES])ranks->addresses;
}

/* ---- another rank ---- */

struct kv_agent {
    struct kv_ranks_options options;
    struct event_base *base;
    struct kv_rank own;
    struct wire *wire;
    struct event *retry, *leave;
    int leave_files[2]; /* socket pair: a byte written to the second ends the thread */
    uint32_t peer;      /* rank 0, when connected */
    struct record_queue waiting;
    pthread_t thread;
};

static void kv_agent_send(struct kv_agent *agent) {
    send_queue(agent->wire, &agent->peer, &agent->waiting, agent->retry);
}

static void kv_agent_on_retry(evutil_socket_t file, short what, void *context) {
    kv_agent_send(context);
}

static void kv_agent_send_record(void *context, const struct record *record) {
    struct kv_agent *agent = context;
    record_queue_force(&agent->waiting, record);
    kv_agent_send(agent);
}

static void agent_joined(void *context, uint32_t peer) {
    struct kv_agent *agent = context;
    struct record_kv_hello hello = {.record = record_head(RECORD_KV_HELLO, sizeof hello),
                                    .rank = agent->options.rank};
    own_address(&agent->own, hello.address);
    agent->peer = peer;
    kv_agent_send_record(agent, &hello.record);
}

static void agent_lost(void *context, uint32_t peer) {
    struct kv_agent *agent = context;
    agent->peer = 0;
}

static void agent_take(void *context, uint32_t peer, const struct record *record) {
    struct kv_agent *agent = context;
    kv_ranks_take_own(&agent->own, record);
}

static void agent_leave(evutil_socket_t file, short what, void *context) {
    struct kv_agent *agent = context;
    event_base_loopbreak(agent->base);
}

static void *kv_ranks_agent_run(void *context) {
    struct kv_agent *agent = context;
    event_base_dispatch(agent->base);
    return NULL;
}

static enum status agent_events(struct kv_agent *agent, struct error *error) {
    agent->base = event_base_new();
    if (agent->base && evutil_socketpair(AF_UNIX, SOCK_STREAM, 0, agent->leave_files) == 0) {
        agent->retry = event_new(agent->base, -1, 0, kv_agent_on_retry, agent);
        agent->leave =
            event_new(agent->base, agent->leave_files[0], EV_READ | EV_PERSIST, agent_leave, agent);
        if (agent->retry && agent->leave && event_add(agent->leave, NULL) == 0) return STATUS_OK;
    }
    return error_set(error, STATUS_NO_MEMORY, "no memory or files for KV blocks on their way");
}

enum status kv_ranks_agent_open(const struct kv_ranks_options *options, struct kv_agent **agent_out,
                                struct error *error) {
    struct kv_agent *agent = calloc(1, sizeof *agent);
    if (!agent) return error_set(error, STATUS_NO_MEMORY, "no memory for transfers of KV blocks");
    agent->options = *options;
    agent->leave_files[0] = agent->leave_files[1] = -1;
    enum status status = agent_events(agent, error);
    if (!status)
        status = kv_ranks_open_own(&agent->own, options, agent->base, agent, kv_agent_send_record,
                                   error);
    struct wire_options wire = {
        .address = options->control,
        .plain_anywhere = true,
        .kinds = kinds_of(options, true),
        .context = agent,
        .joined = agent_joined,
        .take = agent_take,
        .lost = agent_lost,
        .may_take = kv_ranks_may_take,
    };
    if (!status) status = wire_open(&wire, agent->base, &agent->wire, error);
    if (!status && pthread_create(&agent->thread, NULL, kv_ranks_agent_run, agent) == 0) {
        *agent_out = agent;
        return STATUS_OK;
    }
    if (!status) status = error_set(error, STATUS_NO_MEMORY, "cannot start a thread");
    agent->thread = 0;
    kv_ranks_agent_close(agent);
    return status;
}

struct engine_loads kv_ranks_agent_loads(struct kv_agent *agent) {
    return kv_ranks_loads_of(&agent->own);
}

void kv_ranks_agent_close(struct kv_agent *agent) {
    if (!agent) return;
    if (agent->thread) {
        (void)!write(agent->leave_files[1], "", 1);
        pthread_join(agent->thread, NULL);
    }
    kv_ranks_close_own(&agent->own);
    if (agent->wire) wire_close(agent->wire);
    if (agent->retry) event_free(agent->retry);
    if (agent->leave) event_free(agent->leave);
    for (int i = 0; i < 2; i++)
        if (agent->leave_files[i] >= 0) evutil_closesocket(agent->leave_files[i]);
    record_queue_clear(&agent->waiting);
    if (agent->base) event_base_free(agent->base);
    free(agent);
}
