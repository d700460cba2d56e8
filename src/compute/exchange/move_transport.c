/* SPDX-License-Identifier: Apache-2.0
 * Messages have a channel of their own. A chunk is larger than what UCX sends eagerly, so it leaves
 * when the receiver is ready, and neither side buffers it.
 *
 * The rate limit is a token bucket that holds one chunk: unused rate is not saved for a burst.
 */
#include "compute/exchange/move_transport.h"

#include "base/check.h"
#include "base/clock.h"
#include "compute/exchange/job.h"
#include "compute/exchange/move_checksum.h"

#include <stdlib.h>

enum { TAG_CHUNK, TAG_SUM };

/* A piece that is sent or received. */
struct move_piece {
    uint32_t rank;
    char *data;
    size_t bytes;
    size_t at;    /* bytes that are done */
    size_t chunk; /* bytes of the current chunk */
    struct move_checksum sum;
    uint64_t checksum, peer_checksum; /* of the whole piece: this rank's, and the sender's */
    bool sends_checksum;              /* all bytes are done, and the checksum is being sent */
    enum move_state state;
    struct job_batch batch; /* the message of the chunk or of the checksum */
};

struct move_transport {
    struct move_piece outgoing, incoming;
    double ns_per_byte; /* 0: no limit */
    double room;        /* tokens of the bucket: bytes that may be sent now */
    int64_t filled_ns;  /* when the bucket was last filled */
    bool corrupts_next;
};

enum status move_transport_open(struct move_transport **transport_out, struct error *error) {
    struct move_transport *transport = calloc(1, sizeof *transport);
    if (!transport) return error_set(error, STATUS_NO_MEMORY, "no memory to move experts");
    transport->outgoing.state = transport->incoming.state = MOVE_COMPLETE;
    *transport_out = transport;
    return STATUS_OK;
}

void move_transport_close(struct move_transport *transport) {
    if (!transport) return;
    check(transport->outgoing.state != MOVE_IN_PROGRESS &&
          transport->incoming.state != MOVE_IN_PROGRESS);
    free(transport);
}

void move_transport_abandon(struct move_transport *transport) {
    check(transport->outgoing.batch.open == 0 && transport->incoming.batch.open == 0);
    transport->outgoing = transport->incoming = (struct move_piece){.state = MOVE_COMPLETE};
}

void move_transport_limit(struct move_transport *transport, uint64_t bytes_per_second) {
    transport->ns_per_byte = bytes_per_second ? 1e9 / (double)bytes_per_second : 0;
    transport->room = 0;
    transport->filled_ns = clock_now_ns();
}

bool move_transport_allows(struct move_transport *transport, size_t bytes) {
    if (transport->ns_per_byte == 0) return true;
    int64_t now = clock_now_ns();
    transport->room += (double)(now - transport->filled_ns) / transport->ns_per_byte;
    transport->filled_ns = now;
    if (transport->room > (double)MOVE_CHUNK_BYTES) transport->room = (double)MOVE_CHUNK_BYTES;
    size_t least = bytes < MOVE_CHUNK_BYTES ? bytes : MOVE_CHUNK_BYTES;
    if (transport->room < (double)least) return false; /* a larger request overdraws the bucket */
    transport->room -= (double)bytes;
    return true;
}

static void begin(struct move_piece *piece, uint32_t rank, char *data, size_t bytes) {
    check(piece->state != MOVE_IN_PROGRESS && bytes > 0);
    *piece =
        (struct move_piece){.rank = rank, .data = data, .bytes = bytes, .state = MOVE_IN_PROGRESS};
    move_checksum_begin(&piece->sum);
}

static size_t next_chunk_bytes(const struct move_piece *piece) {
    size_t left = piece->bytes - piece->at;
    return left < MOVE_CHUNK_BYTES ? left : MOVE_CHUNK_BYTES;
}

static void receive_chunk(struct move_piece *piece) {
    piece->chunk = next_chunk_bytes(piece);
    job_receive_begin(&piece->batch, JOB_CHANNEL_MOVES, TAG_CHUNK, piece->rank,
                      piece->data + piece->at, piece->chunk);
}

void move_transport_send(struct move_transport *transport, uint32_t to, const char *data,
                         size_t bytes) {
    begin(&transport->outgoing, to, (char *)(uintptr_t)data, bytes);
}

void move_transport_receive(struct move_transport *transport, uint32_t from, char *data,
                            size_t bytes) {
    begin(&transport->incoming, from, data, bytes);
    receive_chunk(&transport->incoming);
}

static void progress_outgoing(struct move_transport *transport) {
    struct move_piece *piece = &transport->outgoing;
    if (piece->state != MOVE_IN_PROGRESS || !job_done(&piece->batch)) return;
    piece->at += piece->chunk;
    piece->chunk = 0;
    if (piece->sends_checksum) {
        piece->state = MOVE_COMPLETE;
    } else if (piece->at == piece->bytes) {
        piece->sends_checksum = true;
        piece->checksum = move_checksum_end(&piece->sum);
        job_send_begin(&piece->batch, JOB_CHANNEL_MOVES, TAG_SUM, piece->rank, &piece->checksum,
                       sizeof piece->checksum);
    } else if (move_transport_allows(transport, next_chunk_bytes(piece))) {
        piece->chunk = next_chunk_bytes(piece);
        move_checksum_add(&piece->sum, piece->data + piece->at, piece->chunk);
        job_send_begin(&piece->batch, JOB_CHANNEL_MOVES, TAG_CHUNK, piece->rank,
                       piece->data + piece->at, piece->chunk);
    }
}

static void progress_incoming(struct move_transport *transport) {
    struct move_piece *piece = &transport->incoming;
    if (piece->state != MOVE_IN_PROGRESS || !job_done(&piece->batch)) return;
    if (piece->sends_checksum) {
        piece->checksum = move_checksum_end(&piece->sum);
        piece->state = piece->checksum == piece->peer_checksum ? MOVE_COMPLETE : MOVE_CORRUPT;
        return;
    }
    if (transport->corrupts_next) piece->data[piece->at + piece->chunk / 2] ^= 1;
    transport->corrupts_next = false;
    move_checksum_add(&piece->sum, piece->data + piece->at, piece->chunk);
    piece->at += piece->chunk;
    piece->chunk = 0;
    if (piece->at < piece->bytes) {
        receive_chunk(&transport->incoming);
        return;
    }
    piece->sends_checksum = true;
    job_receive_begin(&piece->batch, JOB_CHANNEL_MOVES, TAG_SUM, piece->rank, &piece->peer_checksum,
                      sizeof piece->peer_checksum);
}

void move_transport_progress(struct move_transport *transport) {
    progress_outgoing(transport);
    progress_incoming(transport);
}

enum move_state move_transport_sent(const struct move_transport *transport) {
    return transport->outgoing.state;
}
enum move_state move_transport_received(const struct move_transport *transport) {
    return transport->incoming.state;
}

uint64_t move_transport_checksum(const struct move_transport *transport) {
    return transport->incoming.checksum;
}

void move_transport_corrupt_next(struct move_transport *transport) {
    transport->corrupts_next = true;
}
