/* SPDX-License-Identifier: Apache-2.0
 * A build without UCX: there is one process, and no exchange among ranks is opened.
 */
#include "base/check.h"
#include "compute/exchange/exchange.h"
#include "compute/exchange/job.h"
#include "compute/exchange/move_transport.h"

bool job_built(void) {
    return false;
}

bool job_exists(void) {
    return false;
}

uint32_t job_rank_assigned(void) {
    return 0;
}

bool job_rejoins(void) {
    return false;
}

enum status job_begin(struct error *error) {
    return error_set(error, STATUS_UNSUPPORTED,
                     "this build has no ranks: build it where UCX is (libucx-dev)");
}

void job_end(void) {
}

void job_on_abort(void (*says)(uint32_t rank, const char *what, const char *why)) {
}

_Noreturn void job_abort(const char *what, const char *why) {
    check_failed("there is no job that could go on without this process", __FILE__, __LINE__);
}

uint32_t job_rank(void) {
    return 0;
}
uint32_t job_count(void) {
    return 1;
}

void job_send(uint32_t to, const void *data, size_t bytes) {
    check_failed("one process alone has no rank to send to", __FILE__, __LINE__);
}

bool job_probe(uint32_t from, size_t *bytes_out) {
    return false;
}

size_t job_receive(uint32_t from, void *data, size_t bytes) {
    check_failed("one process alone receives from no rank", __FILE__, __LINE__);
}

void job_sleep(int64_t ns_max) {
}

void job_backoff(uint32_t *looks, int64_t ns_max) {
}

bool job_wait_message(uint32_t from, size_t *bytes_out) {
    return false;
}

void job_send_begin(struct job_batch *batch, enum job_channel channel, uint32_t tag, uint32_t to,
                    const void *data, size_t bytes) {
    job_send(to, data, bytes);
}

void job_wait(const struct job_batch *batch) {
}

void job_barrier(void) {
}

bool job_progress(void) {
    return false;
}
bool job_broken(void) {
    return false;
}
bool job_poll(void) {
    return false;
}
bool job_is_alive(uint32_t rank) {
    return true;
}
uint32_t job_epoch(void) {
    return 0;
}
bool job_is_one_host(void) {
    return false;
}

uint32_t job_local_rank(void) {
    return 0;
}

uint32_t job_node_ranks(void) {
    return 0;
}

uint32_t job_alive_ranks(const uint32_t **ranks_out, uint32_t *own_out) {
    static const uint32_t alone[1];
    *ranks_out = alone;
    *own_out = 0;
    return 1;
}
void job_regroup(void) {
}

void job_all_to_all(const char *out, char *in, size_t bytes) {
}
void job_ring_shift(const char *out, char *in, size_t bytes, uint32_t by, uint32_t ring) {
}

enum status exchange_open_ranks(const struct exchange_options *options,
                                struct exchange **exchange_out, struct error *error) {
    return job_begin(error);
}

enum status move_transport_open(struct move_transport **transport_out, struct error *error) {
    return job_begin(error);
}

void move_transport_abandon(struct move_transport *transport) {
}
void move_transport_close(struct move_transport *transport) {
}
void move_transport_limit(struct move_transport *transport, uint64_t bytes_per_second) {
}
bool move_transport_allows(struct move_transport *transport, size_t bytes) {
    return false;
}
void move_transport_send(struct move_transport *transport, uint32_t to, const char *data,
                         size_t bytes) {
}
void move_transport_receive(struct move_transport *transport, uint32_t from, char *data,
                            size_t bytes) {
}
void move_transport_progress(struct move_transport *transport) {
}
enum move_state move_transport_sent(const struct move_transport *transport) {
    return MOVE_COMPLETE;
}
enum move_state move_transport_received(const struct move_transport *transport) {
    return MOVE_COMPLETE;
}
uint64_t move_transport_checksum(const struct move_transport *transport) {
    return 0;
}
void move_transport_corrupt_next(struct move_transport *transport) {
}
