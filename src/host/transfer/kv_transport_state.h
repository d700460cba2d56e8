/* SPDX-License-Identifier: Apache-2.0
 * The internal state of a KV transport (host/transfer/kv_transport.h), for its own files only:
 *
 *   kv_transport.c          public functions, and the transport's thread
 *   kv_transport_link.c     connections (links) and sending
 *   kv_transport_receive.c  handlers of received messages
 *   kv_transport_early.c    received messages with a ticket that is not known here yet
 *   kv_transport_wire.c     message format
 *
 * Callers' threads and the transport's thread share the ledger, the queues and the counters under
 * the lock, which is held only briefly. Only the transport's thread calls UCX, and never with the
 * lock held, because UCX may call back. A callback of a send or receive only adds it to a list. The
 * two tend functions, which the thread calls in turn, process these lists. All times are those of
 * clock_now_ns. A build without UCX has none of this.
 */
#pragma once

#if __has_include(<ucp/api/ucp.h>)
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <ucp/api/ucp.h>

#include "host/transfer/kv_transport.h"
#include "host/transfer/kv_transport_wire.h"

/* A message that waits in its link's queue or is being sent. */
struct outgoing {
    struct outgoing *next;
    struct link *link;
    enum kv_wire_kind kind;
    uint32_t slot;       /* ledger slot of a slice's ticket, to be released; else TRANSFER_NONE */
    const void *rows;    /* payload of a slice, in the memory of the transport's owner */
    size_t bytes;        /* bytes of rows */
    ucs_status_t status; /* result of UCX, once the message is sent or has failed */
    union {
        struct kv_wire_hello hello;
        struct kv_wire_slice slice;
        struct kv_wire_finish finish;
        struct kv_wire_end end;
        struct kv_wire_reason refusal;
    } header;
};

/* A slice that UCX fetches from the sender directly into its page. */
struct incoming {
    struct incoming *next;
    struct link *link;
    struct transfer_write write;
    struct kv_wire_slice slice;
    ucs_status_t status; /* result of UCX, once it no longer writes */
};

/* A SLICE or FINISH message that arrived before its ticket was expected here. */
struct early {
    struct early *next;
    struct link *link;
    struct kv_wire_message message;
    int64_t until_ns; /* the message is refused if the ticket is still unknown at this time */
    void *fetch;      /* UCX handle of a payload that is still at the sender; NULL: it is in rows */
    size_t bytes;     /* bytes of rows */
    char rows[];
};

enum link_state {
    LINK_FREE,
    LINK_WANTED,   /* waits until wake_ns, then connects */
    LINK_GREETING, /* waits for WELCOME (ours) or HELLO (a peer's); times out at wake_ns */
    LINK_OPEN,
    LINK_CLOSING, /* waits until UCX has ended all messages in progress */
};

struct link {
    struct kv_transport *transport;

    /* written with the transport's lock held; the transport's thread reads them without it */
    enum link_state state;          /* changed by the thread or, from FREE to WANTED, by link_to */
    bool ours;                      /* this side connected, and sends slices; else the peer does */
    bool again;                     /* CLOSING: becomes WANTED for another attempt to connect */
    uint64_t id;                    /* identifies the peer in the ledger; never reused */
    char address[KV_ADDRESS_BYTES]; /* address of the peer if the link is ours; else "" */
    struct sockaddr_storage socket_address;
    socklen_t socket_address_bytes;
    struct outgoing *first, *last; /* send queue; the thread also reads it only with the lock */

    /* used by the transport's thread only */
    bool broken;                     /* to be closed at the next tend, because of `why` */
    bool refused;                    /* by the peer's REFUSAL */
    char why[TRANSFER_REASON_BYTES]; /* one line */
    uint32_t attempts;               /* number of attempts to connect so far */
    int64_t wake_ns;                 /* for WANTED and GREETING; INT64_MAX: set at the next tend */
    ucp_ep_h endpoint;
    void *close_request;
    uint32_t sending, receiving; /* messages that UCX is sending, slices that it is fetching */
    uint64_t flying_bytes;       /* payload bytes of messages that UCX is sending */
};

/* The argument that UCX passes to the receive handler: one for each kind of message. */
struct handler_argument {
    struct kv_transport *transport;
    enum kv_wire_kind kind;
};

struct kv_transport {
    struct kv_transport_options options;
    struct kv_pages pages;
    struct kv_wire_hello hello; /* the HELLO message of this rank */
    struct sockaddr_storage host;
    socklen_t host_bytes;
    char address[KV_ADDRESS_BYTES]; /* the address for senders */
    void *ledger_memory;
    pthread_t thread;
    int wake_file; /* wakes the thread */
    int file;      /* kv_transport_file: readable when the owner has to act */

    pthread_mutex_t lock; /* protects the members from here to `links` */
    struct transfer_ledger ledger;
    struct kv_transport_state
        counters;      /* except what kv_transport_get_state gets from the ledger */
    bool asleep;       /* the thread sleeps, or is about to */
    bool kicked;       /* the thread must check for work before it sleeps */
    bool finishing;    /* kv_transport_close was called */
    bool starved;      /* a push returned FULL; the owner waits for room */
    bool announced;    /* the thread must notify the owner */
    uint64_t link_ids; /* the last id given to a link */
    struct link links[KV_LINKS_MAX];

    /* used by the transport's thread only */
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_listener_h listener;
    ucp_mem_h memory; /* the pages; NULL: not registered */
    struct handler_argument handler_arguments[KV_WIRE_KIND_COUNT];
    int ucx_file;                      /* readable when UCX has events */
    struct link *active[KV_LINKS_MAX]; /* links that were not FREE at the last tend */
    uint32_t active_count;
    struct outgoing *sent;     /* list of messages that UCX has sent, to be freed */
    struct incoming *received; /* list of slices that UCX has fetched, to be verified */
    struct early *early;       /* list of early messages */
    size_t early_bytes;        /* memory of this list */
    int64_t send_at_ns;        /* time of the next slice, because of bytes_per_second */
};

/* ---- kv_transport_link.c; the first three are called with the lock held ---- */

/* Queues a copy of the message, at the front if `first`. Returns false if memory is out. */
bool kv_transport_link_put(struct kv_transport *transport, struct link *link,
                           const struct outgoing *message, bool first);

/* Returns a link that is ours to this address ("10.0.0.7:4711"), or a new one in state WANTED. Sets
 * *status_out only if it returns NULL: STATUS_INVALID (invalid address) or STATUS_FULL. */
struct link *kv_transport_link_to(struct kv_transport *transport, const char *address,
                                  enum status *status_out, struct error *error);

/* The link with this id; NULL if it is gone. */
struct link *kv_transport_link_of(struct kv_transport *transport, uint64_t id);

/* Marks the link to be closed at the next tend. If it is marked already, the old reason stays. */
void kv_transport_link_break(struct link *link, const char *why);

/* Changes the state from GREETING to OPEN, after the greeting has succeeded. */
void kv_transport_link_opened(struct link *link);

/* UCX's callback when a peer connects; `argument` is the transport. */
void kv_transport_link_accept(ucp_conn_request_h request, void *argument);

/* Sends a copy of a message without payload immediately, ahead of the queue. Breaks the link if
 * memory is out. */
void kv_transport_link_send_now(struct link *link, const struct outgoing *message);

/* Frees sent messages, ends tickets at their deadline, reports the ends of tickets to peers, and
 * connects, closes and sends on links. Returns true if anything was done. Lowers *wake_out to the
 * time of the next work that is due. */
bool kv_transport_link_tend(struct kv_transport *transport, int64_t now_ns, int64_t *wake_out);

/* Breaks every link. Without `now`, an open link is kept until its queue is sent. Returns true if
 * no link is left; else the caller calls again after the next tend. */
bool kv_transport_link_close_all(struct kv_transport *transport, bool now);

/* ---- kv_transport_receive.c ---- */

/* Sets UCX's handlers for all kinds of message. */
ucs_status_t kv_transport_receive_open(struct kv_transport *transport);

/* Verifies and counts the slices that UCX has fetched. Processes early messages with a ticket that
 * is known by now, and refuses those that have waited too long. The result and *wake_out are as in
 * kv_transport_link_tend. */
bool kv_transport_receive_tend(struct kv_transport *transport, int64_t now_ns, int64_t *wake_out);

/* ---- kv_transport_early.c ---- */

/* Keeps a SLICE or FINISH message with its payload: the UCX handle `fetch` or, if that is NULL, a
 * copy of rows[bytes]. Returns false if its ticket is known or there is no room; then the caller
 * processes the message now. */
bool kv_transport_early_keep(struct link *link, const struct kv_wire_message *message, void *fetch,
                             const void *rows, size_t bytes);
/* Removes the messages with a ticket that is known by now, or with until_ns reached, and returns
 * their list. Lowers *wake_out to the least until_ns of the others. */
struct early *kv_transport_early_due(struct kv_transport *transport, int64_t now_ns,
                                     int64_t *wake_out);
/* Frees a message that kv_transport_early_due returned. */
void kv_transport_early_free(struct kv_transport *transport, struct early *early);
/* Drops the link's early messages for a ticket; NULL: for all tickets. */
void kv_transport_early_forget(struct link *link, const struct transfer_grant *grant);

#endif
