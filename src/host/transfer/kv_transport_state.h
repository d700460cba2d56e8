/* SPDX-License-Identifier: Apache-2.0
 * The inside of a KV transport, for its own files alone:
 *
 *   kv_transport.c          the public calls, the thread and its sleep
 *   kv_transport_link.c     connections (links): their making, breaking, and what is sent on them
 *   kv_transport_receive.c  the handlers of received messages
 *   kv_transport_early.c    received messages with a ticket that is not known here yet
 *   kv_transport_wire.c     the messages' format
 *
 * Callers' threads and the transport's own thread share the ledger, the queues and the counters
 * under the lock, which is held for moments only. UCX is called by the transport's thread alone and
 * without the lock, since it may call back. A callback about something sent or received only notes
 * it; the two tend functions, which the thread calls in turn, act on it. All times are by
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
    uint32_t slot;       /* of a slice's ticket, to be released in the ledger; else TRANSFER_NONE */
    const void *rows;    /* a slice's payload, in the owner's memory */
    size_t bytes;        /* of rows */
    ucs_status_t status; /* UCX's, once it is sent or has failed */
    union {
        struct kv_wire_hello hello;
        struct kv_wire_slice slice;
        struct kv_wire_finish finish;
        struct kv_wire_end end;
        struct kv_wire_reason refusal;
    } header;
};

/* A slice that UCX fetches from the sender straight into its page. */
struct incoming {
    struct incoming *next;
    struct link *link;
    struct transfer_write write;
    struct kv_wire_slice slice;
    ucs_status_t status; /* UCX's, once it no longer writes */
};

/* A SLICE or FINISH message that came before its ticket was expected here. */
struct early {
    struct early *next;
    struct link *link;
    struct kv_wire_message message;
    int64_t until_ns; /* then it waits no longer and is refused */
    void *fetch;      /* UCX's handle of a payload that is still at the sender; NULL: in rows */
    size_t bytes;     /* of rows */
    char rows[];
};

enum link_state {
    LINK_FREE,
    LINK_WANTED,   /* waits until wake_ns, then connects */
    LINK_GREETING, /* waits for WELCOME (ours) or HELLO (a peer's); breaks at wake_ns */
    LINK_OPEN,
    LINK_CLOSING, /* waits until UCX has let go of all that was under way */
};

struct link {
    struct kv_transport *transport;

    /* written with the transport's lock held; the thread reads without it */
    enum link_state state;          /* changed by the thread or, from FREE to WANTED, by link_to */
    bool ours;                      /* we connect and send slices; else a peer does */
    bool again;                     /* CLOSING, then WANTED: the next attempt to connect */
    uint64_t id;                    /* stands for the peer in the ledger; never used twice */
    char address[KV_ADDRESS_BYTES]; /* the peer's, where the link is ours; else "" */
    struct sockaddr_storage socket_address;
    socklen_t socket_address_bytes;
    struct outgoing *first, *last; /* the queue of what waits to be sent; read with the lock, too */

    /* the thread's own */
    bool broken;                     /* to be closed at the next tend, because of `why` */
    bool refused;                    /* by the peer's REFUSAL */
    char why[TRANSFER_REASON_BYTES]; /* one line */
    uint32_t attempts;               /* to connect, so far */
    int64_t wake_ns;                 /* of WANTED and GREETING; INT64_MAX: set at the next tend */
    ucp_ep_h endpoint;
    void *close_request;
    uint32_t sending, receiving; /* messages that UCX sends, slices that it fetches */
    uint64_t flying_bytes;       /* payload of those that it sends */
};

/* The argument that UCX passes to the receive handler: one for each kind of message. */
struct handler_argument {
    struct kv_transport *transport;
    enum kv_wire_kind kind;
};

struct kv_transport {
    struct kv_transport_options options;
    struct kv_pages pages;
    struct kv_wire_hello hello; /* as this rank says it */
    struct sockaddr_storage host;
    socklen_t host_bytes;
    char address[KV_ADDRESS_BYTES]; /* where senders find this transport */
    void *ledger_memory;
    pthread_t thread;
    int wake_file; /* wakes the thread */
    int file;      /* kv_transport_file: readable when the owner has to act */

    pthread_mutex_t lock; /* guards what follows, down to the thread's own */
    struct transfer_ledger ledger;
    struct kv_transport_state counters; /* but for what kv_transport_look has from the ledger */
    bool asleep;                        /* the thread sleeps, or is about to */
    bool kicked;                        /* the thread has to look again before it sleeps */
    bool finishing;                     /* kv_transport_close was called */
    bool starved;                       /* a push returned FULL; the owner waits for room */
    bool announced;                     /* the thread has to notify the owner */
    uint64_t link_ids;                  /* the last id given to a link */
    struct link links[KV_LINKS_MAX];

    /* the thread's own */
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_listener_h listener;
    ucp_mem_h memory; /* the pages; NULL: not registered */
    struct handler_argument handler_arguments[KV_WIRE_KIND_COUNT];
    int ucx_file;                      /* becomes readable when UCX has something to do */
    struct link *active[KV_LINKS_MAX]; /* not FREE at the last look */
    uint32_t active_count;
    struct outgoing *sent;     /* UCX is done with them: to be let go of */
    struct incoming *received; /* UCX is done with them: to be checked and counted */
    struct early *early;       /* a list */
    size_t early_bytes;        /* memory of the list */
    int64_t send_at_ns;        /* no slice is sent before, because of bytes_per_second */
};

/* ---- kv_transport_link.c; the first three are called with the lock held ---- */

/* Queues a copy of the message, at the head if `first`. False: no memory. */
bool kv_transport_link_put(struct kv_transport *transport, struct link *link,
                           const struct outgoing *message, bool first);

/* A link of ours to this address ("10.0.0.7:4711"); if there is none, a new one that is WANTED.
 * NULL: STATUS_INVALID (no address) or STATUS_FULL in *status_out, which is left alone otherwise. */
struct link *kv_transport_link_to(struct kv_transport *transport, const char *address,
                                  enum status *status_out, struct error *error);

/* The link with this id; NULL if it is gone. */
struct link *kv_transport_link_of(struct kv_transport *transport, uint64_t id);

/* Notes that the link has to be closed at the next tend; the first reason stays. */
void kv_transport_link_break(struct link *link, const char *why);

/* The greeting has succeeded: from GREETING to OPEN. */
void kv_transport_link_opened(struct link *link);

/* UCX's callback when a peer connects; `argument` is the transport. */
void kv_transport_link_accept(ucp_conn_request_h request, void *argument);

/* Sends a copy of a message without payload at once, past the queue. Breaks the link if there is no
 * memory. */
void kv_transport_link_say(struct link *link, const struct outgoing *message);

/* Frees what was sent, ends tickets at their deadline, reports to peers how tickets ended, and
 * connects, closes and sends on links. True if anything was done. *wake_out is lowered to the
 * time of the next thing that is due. */
bool kv_transport_link_tend(struct kv_transport *transport, int64_t now_ns, int64_t *wake_out);

/* Breaks every link; unless `now`, an open one only when it has nothing left to send. True when no
 * link is left: called again after each tend until then. */
bool kv_transport_link_close_all(struct kv_transport *transport, bool now);

/* ---- kv_transport_receive.c ---- */

/* Sets UCX's handlers for all kinds of message. */
ucs_status_t kv_transport_receive_open(struct kv_transport *transport);

/* Checks and counts the slices that UCX has fetched, and handles early messages: those with
 * a ticket known by now are processed, those that waited too long are refused. The result and
 * *wake_out are as kv_transport_link_tend's. */
bool kv_transport_receive_tend(struct kv_transport *transport, int64_t now_ns, int64_t *wake_out);

/* ---- kv_transport_early.c ---- */

/* Keeps a SLICE or FINISH message with its payload: UCX's handle `fetch` or, if that is NULL, a copy
 * of rows[bytes]. False: its ticket is known, or there is no room; the caller deals with it now. */
bool kv_transport_early_keep(struct link *link, const struct kv_wire_message *message, void *fetch,
                             const void *rows, size_t bytes);
/* Removes from the transport's list, and returns as a list, the messages with a ticket known by now
 * and those that have waited until their until_ns. Lowers *wake_out to the next of the others'. */
struct early *kv_transport_early_due(struct kv_transport *transport, int64_t now_ns,
                                     int64_t *wake_out);
/* Frees a message that kv_transport_early_due returned. */
void kv_transport_early_free(struct kv_transport *transport, struct early *early);
/* Drops the early messages of this link: one ticket's, or (NULL) all. */
void kv_transport_early_forget(struct link *link, const struct transfer_grant *grant);

#endif
