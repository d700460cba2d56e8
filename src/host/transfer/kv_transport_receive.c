/* SPDX-License-Identifier: Apache-2.0
 * Received messages. Each message is validated strictly, and the ledger must accept each slice
 * before a byte is written. The sender chooses how a slice arrives: UCX writes it directly into its
 * page (rendezvous), or it comes with the header (eager) and is copied. In both cases the checksum
 * of the page is verified before the slice counts.
 *
 * The ranks of a unit do not get a ticket at the same time, so a sender may begin before the
 * receiving rank knows it. Such early messages are kept for a short time before they are refused.
 */
#include <stdlib.h>

#include "base/check.h"
#include "base/checksum.h"
#include "base/clock.h"
#include "base/format.h"
#include "host/transfer/kv_transport_state.h"

static struct link *link_at(struct kv_transport *transport, const ucp_am_recv_param_t *param) {
    if (!(param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP)) return NULL;
    for (uint32_t i = 0; i < transport->active_count; i++) {
        struct link *link = transport->active[i];
        if ((link->state == LINK_GREETING || link->state == LINK_OPEN) &&
            link->endpoint == param->reply_ep)
            return link->broken ? NULL : link;
    }
    return NULL;
}

/* Parses a message and returns its link. Returns NULL if the message is invalid. */
static struct link *kv_transport_receive_read_message(struct kv_transport *transport,
                                                      enum kv_wire_kind kind, const void *header,
                                                      size_t header_bytes, size_t payload_bytes,
                                                      const ucp_am_recv_param_t *param,
                                                      struct kv_wire_message *message) {
    struct link *link = link_at(transport, param);
    struct error error;
    if (!link) return NULL;
    enum status status =
        kv_transport_wire_read(kind, header, header_bytes, payload_bytes, message, &error);
    bool greeting = kind == KV_WIRE_HELLO || kind == KV_WIRE_WELCOME || kind == KV_WIRE_REFUSAL;
    if (status == STATUS_OK && greeting != (link->state == LINK_GREETING))
        status = error_set(&error, STATUS_INVALID, "a KV peer sent message kind %u out of turn",
                           (unsigned)kind);
    if (status == STATUS_OK) return link;
    pthread_mutex_lock(&transport->lock);
    transport->counters.malformed++;
    pthread_mutex_unlock(&transport->lock);
    kv_transport_link_break(link, error.text);
    return NULL;
}

/* Processes a valid message of one kind. `data` is its payload, as UCX passes it. */
typedef ucs_status_t take_function(struct link *link, const struct kv_wire_message *message,
                                   void *data, const ucp_am_recv_param_t *param);

static ucs_status_t kv_transport_receive_take_hello(struct link *link,
                                                    const struct kv_wire_message *message,
                                                    void *data, const ucp_am_recv_param_t *param) {
    struct error error;
    if (link->ours) {
        kv_transport_link_break(link, "a KV receiver greeted its sender");
    } else if (kv_transport_wire_agree(&link->transport->hello, &message->hello, &error)) {
        struct outgoing refusal = {.kind = KV_WIRE_REFUSAL, .slot = TRANSFER_NONE};
        format_text(refusal.header.refusal.reason, sizeof refusal.header.refusal.reason, "%s",
                    error.text);
        kv_transport_link_send_now(link, &refusal); /* the peer closes */
    } else {
        kv_transport_link_send_now(
            link, &(struct outgoing){.kind = KV_WIRE_WELCOME, .slot = TRANSFER_NONE});
        kv_transport_link_opened(link);
    }
    return UCS_OK;
}

static ucs_status_t take_welcome(struct link *link, const struct kv_wire_message *message,
                                 void *data, const ucp_am_recv_param_t *param) {
    if (link->ours)
        kv_transport_link_opened(link);
    else
        kv_transport_link_break(link, "a KV sender welcomed its receiver");
    return UCS_OK;
}

static ucs_status_t take_refusal(struct link *link, const struct kv_wire_message *message,
                                 void *data, const ucp_am_recv_param_t *param) {
    link->refused = true;
    kv_transport_link_break(link, message->refusal.reason);
    return UCS_OK;
}

/* Reports to a sender that its ticket is unknown here. */
static void report_unknown(struct link *link, struct transfer_grant grant,
                           enum transfer_verdict verdict) {
    struct outgoing end = {
        .kind = KV_WIRE_END,
        .slot = TRANSFER_NONE,
        .header.end = {.grant = grant, .end = TRANSFER_REFUSED},
    };
    if (verdict != TRANSFER_UNKNOWN && verdict != TRANSFER_FOREIGN) return;
    format_text(end.header.end.reason, sizeof end.header.end.reason, "%s",
                verdict == TRANSFER_UNKNOWN ? "the receiver does not expect this ticket (any more)"
                                            : "the ticket is another sender's");
    kv_transport_link_send_now(link, &end);
}

static void finish_slice(struct kv_transport *transport, const struct kv_wire_slice *slice,
                         const struct transfer_write *write, bool whole) {
    enum transfer_written how = TRANSFER_BROKEN;
    if (whole) {
        const void *rows = kv_pages_slice(&transport->pages, write->page.index, write->slice);
        how =
            checksum_of(rows, slice->bytes) == slice->checksum ? TRANSFER_WRITTEN : TRANSFER_SPOILT;
        kv_pages_give(&transport->pages, write->page.index, write->slice, 1);
    }
    pthread_mutex_lock(&transport->lock);
    transport->announced |= transfer_ledger_written(&transport->ledger, write, how);
    if (whole) transport->counters.slice_bytes[TRANSFER_IN] += slice->bytes;
    pthread_mutex_unlock(&transport->lock);
}

static void kv_transport_receive_note_received(void *request, ucs_status_t status, size_t bytes,
                                               void *argument) {
    struct incoming *incoming = argument;
    struct kv_transport *transport = incoming->link->transport;
    incoming->status =
        bytes == incoming->slice.bytes || status != UCS_OK ? status : UCS_ERR_IO_ERROR;
    incoming->next = transport->received;
    transport->received = incoming;
    if (request) ucp_request_free(request);
}

/* Lets UCX fetch a slice into its page. Returns the status for UCX's receive handler. Sets *data to
 * NULL once UCX owns it. */
static ucs_status_t fetch_slice(struct kv_transport *transport, struct link *link,
                                const struct kv_wire_slice *slice,
                                const struct transfer_write *write, void **data) {
    struct incoming *incoming = malloc(sizeof *incoming);
    void *rows = kv_pages_slice(&transport->pages, write->page.index, write->slice);
    size_t got = slice->bytes;
    ucp_request_param_t param = {
        .op_attr_mask =
            UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_RECV_INFO,
        .cb.recv_am = kv_transport_receive_note_received,
        .user_data = incoming,
        .recv_info.length = &got,
    };
    if (!incoming) {
        finish_slice(transport, slice, write, false);
        return UCS_OK; /* UCX notifies the sender that the data is not fetched */
    }
    *incoming = (struct incoming){.link = link, .write = *write, .slice = *slice};
    if (transport->memory) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
        param.memh = transport->memory;
    }
    link->receiving++;
    ucs_status_ptr_t request =
        ucp_am_recv_data_nbx(transport->worker, *data, rows, slice->bytes, &param);
    *data = NULL;
    if (UCS_PTR_IS_PTR(request)) return UCS_INPROGRESS;
    kv_transport_receive_note_received(NULL, UCS_PTR_STATUS(request), got, incoming);
    return UCS_OK;
}

/* Stores a slice in its page, or refuses it. *fetch: UCX handle of the payload, as *data in
 * fetch_slice; NULL: the payload is in rows[slice->bytes]. */
static ucs_status_t place_slice(struct link *link, const struct kv_wire_slice *slice, void **fetch,
                                const void *rows) {
    struct kv_transport *transport = link->transport;
    struct transfer_write write;
    pthread_mutex_lock(&transport->lock);
    enum transfer_verdict verdict =
        transfer_ledger_arrive(&transport->ledger, link->id, slice->grant, slice->block,
                               slice->slice, slice->rows, &write);
    pthread_mutex_unlock(&transport->lock);
    if (verdict != TRANSFER_ACCEPT) {
        report_unknown(link, slice->grant, verdict);
        return UCS_OK;
    }
    if (*fetch) return fetch_slice(transport, link, slice, &write, fetch);
    check(rows); /* an accepted slice is not empty, so UCX passed its address */
    memcpy(kv_pages_slice(&transport->pages, write.page.index, write.slice), rows, slice->bytes);
    finish_slice(transport, slice, &write, true);
    return UCS_OK;
}

static void place_finish(struct link *link, const struct kv_wire_finish *finish) {
    struct kv_transport *transport = link->transport;
    pthread_mutex_lock(&transport->lock);
    enum transfer_verdict verdict =
        transfer_ledger_finish(&transport->ledger, link->id, finish->grant, finish->slice_count,
                               finish->summary, finish->summary_bytes);
    pthread_mutex_unlock(&transport->lock);
    report_unknown(link, finish->grant, verdict);
}

/* Processes early messages that are due. SLICE and FINISH messages may come in any order. */
static bool tend_early(struct kv_transport *transport, int64_t now_ns, int64_t *wake_out) {
    struct early *due = kv_transport_early_due(transport, now_ns, wake_out);
    if (!due) return false;
    for (struct early *next; due; due = next) {
        next = due->next;
        if (due->message.kind == KV_WIRE_SLICE)
            place_slice(due->link, &due->message.slice, &due->fetch, due->rows);
        else
            place_finish(due->link, &due->message.finish);
        kv_transport_early_free(transport, due);
    }
    return true;
}

/* ---- slices and tickets ---- */

static ucs_status_t take_slice(struct link *link, const struct kv_wire_message *message, void *data,
                               const ucp_am_recv_param_t *param) {
    const struct kv_wire_slice *slice = &message->slice;
    if (slice->bytes != kv_format_filled_bytes(&link->transport->pages.format, slice->rows)) {
        kv_transport_link_break(link, "a KV peer sent rows of another width than it had agreed to");
        return UCS_OK;
    }
    void *fetch = param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV ? data : NULL;
    if (kv_transport_early_keep(link, message, fetch, data, slice->bytes))
        return fetch ? UCS_INPROGRESS : UCS_OK;
    return place_slice(link, slice, &fetch, data);
}

static ucs_status_t kv_transport_receive_take_finish(struct link *link,
                                                     const struct kv_wire_message *message,
                                                     void *data, const ucp_am_recv_param_t *param) {
    if (!kv_transport_early_keep(link, message, NULL, NULL, 0))
        place_finish(link, &message->finish);
    return UCS_OK;
}

/* On a link that is ours, the receiver reports how the ticket ended. On a peer's link, the sender
 * gives up. */
static ucs_status_t kv_transport_receive_take_end(struct link *link,
                                                  const struct kv_wire_message *message, void *data,
                                                  const ucp_am_recv_param_t *param) {
    struct kv_transport *transport = link->transport;
    const struct kv_wire_end *end = &message->end;
    if (!link->ours && end->end == TRANSFER_DONE) {
        kv_transport_link_break(link, "a KV sender said that it had received");
        return UCS_OK;
    }
    kv_transport_early_forget(link, &end->grant);
    pthread_mutex_lock(&transport->lock);
    transfer_ledger_end_by(&transport->ledger, link->ours ? TRANSFER_OUT : TRANSFER_IN, link->id,
                           end->grant, (enum transfer_end)end->end, end->reason);
    pthread_mutex_unlock(&transport->lock);
    return UCS_OK;
}

/* UCX's receive handler for all messages; `argument` is the handler_argument of the kind. */
static ucs_status_t kv_transport_receive_take(void *argument, const void *header,
                                              size_t header_bytes, void *data, size_t bytes,
                                              const ucp_am_recv_param_t *param) {
    static take_function *const takers[KV_WIRE_KIND_COUNT] = {
        [KV_WIRE_HELLO] = kv_transport_receive_take_hello,
        [KV_WIRE_WELCOME] = take_welcome,
        [KV_WIRE_REFUSAL] = take_refusal,
        [KV_WIRE_SLICE] = take_slice,
        [KV_WIRE_FINISH] = kv_transport_receive_take_finish,
        [KV_WIRE_END] = kv_transport_receive_take_end,
    };
    const struct handler_argument *of = argument;
    struct kv_wire_message message;
    struct link *link = kv_transport_receive_read_message(of->transport, of->kind, header,
                                                          header_bytes, bytes, param, &message);
    return link ? takers[of->kind](link, &message, data, param) : UCS_OK;
}

ucs_status_t kv_transport_receive_open(struct kv_transport *transport) {
    for (unsigned kind = 0; kind < KV_WIRE_KIND_COUNT; kind++) {
        transport->handler_arguments[kind] =
            (struct handler_argument){transport, (enum kv_wire_kind)kind};
        ucp_am_handler_param_t param = {
            .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                          UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS,
            .id = kind,
            .flags = UCP_AM_FLAG_WHOLE_MSG,
            .cb = kv_transport_receive_take,
            .arg = &transport->handler_arguments[kind],
        };
        ucs_status_t status = ucp_worker_set_am_recv_handler(transport->worker, &param);
        if (status != UCS_OK) return status;
    }
    return UCS_OK;
}

static bool tend_received(struct kv_transport *transport) {
    struct incoming *incoming = transport->received;
    if (!incoming) return false;
    transport->received = NULL;
    for (struct incoming *next; incoming; incoming = next) {
        next = incoming->next;
        incoming->link->receiving--;
        finish_slice(transport, &incoming->slice, &incoming->write, incoming->status == UCS_OK);
        free(incoming);
    }
    return true;
}

bool kv_transport_receive_tend(struct kv_transport *transport, int64_t now_ns, int64_t *wake_out) {
    bool any = tend_received(transport);
    return tend_early(transport, now_ns, wake_out) || any;
}
