/* SPDX-License-Identifier: Apache-2.0
 * The inside of a KV transport, for its own files alone:
 *
 *   kv_transport.c          the door, the thread and its sleep
 *   kv_transport_link.c     connections: their making, breaking, and what is sent on them
 *   kv_transport_receive.c  what comes
 *   kv_transport_wire.c     the messages
 *
 * The lock guards the ledger, the queues and the counters; callers and the thread take it for
 * moments. UCX belongs to the thread alone, and is called without the lock, since it may call back.
 * Callbacks only note what happened; kv_transport_link_tend acts on it. A build without UCX has
 * none of this.
 */
#ifndef HOST_TRANSFER_KV_TRANSPORT_STATE_H
#define HOST_TRANSFER_KV_TRANSPORT_STATE_H

#if __has_include(<ucp/api/ucp.h>)
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <ucp/api/ucp.h>

#include "host/transfer/kv_transport.h"
#include "host/transfer/kv_transport_wire.h"

/* A message that waits or is being sent. */
struct outgoing {
    struct outgoing *next;
    struct link *link;
    enum kv_wire_kind kind;
    uint32_t slot; /* of the ticket whose memory `rows` is; TRANSFER_NONE: of none */
    const void *rows;
    size_t bytes;
    ucs_status_t status;
    union {
        struct kv_wire_hello hello;
        struct kv_wire_slice slice;
        struct kv_wire_finish finish;
        struct kv_wire_end end;
        struct kv_wire_reason refusal;
    } header;
};

/* A slice that UCX writes into its page. */
struct incoming {
    struct incoming *next;
    struct link *link;
    struct transfer_write write;
    struct kv_wire_slice slice;
    ucs_status_t status;
};

/* A slice or a finish that came before its ticket. */
struct early {
    struct early *next;
    struct link *link;
    struct kv_wire_message message;
    int64_t until_ns;
    void *fetch;  /* UCX's hold on bytes that are still the sender's; NULL: they are in rows */
    size_t bytes; /* of rows */
    char rows[];
};

enum link_state {
    LINK_FREE,
    LINK_WANTED,   /* to be connected at wake_ns */
    LINK_GREETING, /* until wake_ns: for WELCOME (ours), for HELLO (a peer's) */
    LINK_OPEN,
    LINK_CLOSING, /* until UCX has let go of all that was under way */
};

struct link {
    struct kv_transport *transport;
    enum link_state
        state;    /* changed by the thread or, from FREE to WANTED, by link_to; with lock */
    bool ours;    /* we connect and send slices; else a peer does */
    bool again;   /* CLOSING, then WANTED at wake_ns */
    bool broken;  /* noted by a callback or a check; `why` says why */
    bool refused; /* by the peer's REFUSAL */
    uint64_t id;  /* the ledger's peer; never used twice */
    char address[KV_ADDRESS_BYTES];
    struct sockaddr_storage socket_address;
    socklen_t socket_address_bytes;
    uint32_t attempts;
    int64_t wake_ns;
    ucp_ep_h endpoint;
    void *close_request;
    uint32_t sending, receiving;   /* messages that UCX has */
    uint64_t flying_bytes;         /* of slices among them */
    struct outgoing *first, *last; /* what waits */
    char why[TRANSFER_REASON_BYTES];
};

/* What UCX is to say with each message of a kind. */
struct kind_of_messages {
    struct kv_transport *transport;
    enum kv_wire_kind kind;
};

struct kv_transport {
    struct kv_transport_options options;
    struct kv_pages pages;
    struct kv_wire_hello hello;
    struct sockaddr_storage host;
    socklen_t host_bytes;
    char address[KV_ADDRESS_BYTES];
    void *ledger_memory;
    pthread_t thread;
    int wake_file; /* wakes the thread */
    int file;      /* tells the owner */

    pthread_mutex_t lock; /* guards what follows */
    struct transfer_ledger ledger;
    struct kv_transport_state state;
    bool asleep, kicked, ending;
    bool starved;   /* somebody was told FULL */
    bool announced; /* the owner has to be told */
    uint64_t link_ids;
    struct link links[KV_LINKS_MAX];

    /* the thread's own */
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_listener_h listener;
    ucp_mem_h memory; /* the pages; NULL: not registered */
    struct kind_of_messages kinds[KV_WIRE_KIND_COUNT];
    int ucx_file;
    struct link *active[KV_LINKS_MAX]; /* not FREE at the last look */
    uint32_t active_count;
    struct outgoing *sent;     /* done, to be let go of */
    struct incoming *received; /* to be checked and counted */
    struct early *early;
    size_t early_bytes;
    int64_t send_at_ns; /* no slice is sent before, because of bytes_per_second */
};

/* Counts and queues a message (the lock is held). False: no memory. */
bool kv_transport_link_put(struct kv_transport *transport, struct link *link,
                           const struct outgoing *message, bool first);

/* A link of ours to this address, made if there is none (the lock is held). NULL with an error. */
struct link *kv_transport_link_to(struct kv_transport *transport, const char *address,
                                  enum status *status_out, struct error *error);

struct link *kv_transport_link_of(struct kv_transport *transport, uint64_t id);

/* To be closed at the next tend; the first reason stays. */
void kv_transport_link_break(struct link *link, const char *why);

void kv_transport_link_opened(struct link *link);

void kv_transport_link_accept(ucp_conn_request_h request, void *argument);

/* Sends at once, without queue and lock. */
void kv_transport_link_say(struct link *link, const struct outgoing *message);

/* Does all that is due; true if anything was done. *wake_out is lowered to when more will be. */
bool kv_transport_link_tend(struct kv_transport *transport, int64_t now_ns, int64_t *wake_out);

/* Asks every link to close; true when none is left. */
bool kv_transport_link_close_all(struct kv_transport *transport, bool now);

/* Sets the handlers of all kinds of message. */
ucs_status_t kv_transport_receive_open(struct kv_transport *transport);

/* Checks and counts the slices that UCX has written, and takes what came early and is expected now,
 * or waited for too long; true if there was any. *wake_out as above. */
bool kv_transport_receive_tend(struct kv_transport *transport, int64_t now_ns, int64_t *wake_out);

/* ---- kv_transport_early.c: what came before its ticket was known ---- */

/* Keeps a message and its rows, or what fetches them; false: its ticket is known, or there is no
 * room, and the caller deals with it now. */
bool kv_transport_early_keep(struct link *link, const struct kv_wire_message *message, void *fetch,
                             const void *rows, size_t bytes);
/* Takes off the list what is expected now, or has waited for too long: a list, by `next`. Lowers
 * *wake_out to when the next of the others has. */
struct early *kv_transport_early_due(struct kv_transport *transport, int64_t now_ns,
                                     int64_t *wake_out);
void kv_transport_early_free(struct kv_transport *transport, struct early *early);
/* Drops what came early on this link: of one ticket, or (NULL) all. */
void kv_transport_early_forget(struct link *link, const struct transfer_ticket *ticket);

#endif
#endif
