/* SPDX-License-Identifier: Apache-2.0
 * The KV transport of a build without UCX: none can be opened.
 */
#include "base/check.h"
#include "host/transfer/kv_transport.h"

struct kv_transport_options kv_transport_defaults(void) {
    return (struct kv_transport_options){0};
}

enum status kv_transport_open(const struct kv_transport_options *options,
                              struct kv_transport **transport_out, struct error *error) {
    return error_set(
        error, STATUS_UNSUPPORTED,
        "this build cannot transfer KV blocks between ranks: build it where UCX is installed "
        "(libucx-dev)");
}

void kv_transport_close(struct kv_transport *transport) {
}

/* There is no transport, so these functions are never called. */
#define NO_UCX check(!"a KV transport in a build without UCX")

const char *kv_transport_address(const struct kv_transport *transport) {
    NO_UCX;
    return "";
}

enum status kv_transport_expect(struct kv_transport *transport, struct transfer_grant grant,
                                const struct transfer_block *blocks, uint32_t count,
                                int64_t deadline_ns, struct error *error) {
    NO_UCX;
    return STATUS_UNSUPPORTED;
}

bool kv_transport_layers(struct kv_transport *transport, struct transfer_grant grant,
                         uint32_t *layers_out) {
    NO_UCX;
    return false;
}

enum status kv_transport_offer(struct kv_transport *transport, struct transfer_grant grant,
                               const char *address, int64_t deadline_ns, struct error *error) {
    NO_UCX;
    return STATUS_UNSUPPORTED;
}

enum status kv_transport_push(struct kv_transport *transport, struct transfer_grant grant,
                              uint32_t block, uint32_t slice, const void *rows,
                              uint32_t row_count) {
    NO_UCX;
    return STATUS_UNSUPPORTED;
}

enum status kv_transport_finish(struct kv_transport *transport, struct transfer_grant grant,
                                const void *summary, uint32_t summary_bytes) {
    NO_UCX;
    return STATUS_UNSUPPORTED;
}

bool kv_transport_cancel(struct kv_transport *transport, enum transfer_side side,
                         struct transfer_grant grant) {
    NO_UCX;
    return false;
}

int kv_transport_file(const struct kv_transport *transport) {
    NO_UCX;
    return -1;
}

bool kv_transport_next(struct kv_transport *transport, struct transfer_ended *ended_out) {
    NO_UCX;
    return false;
}

void kv_transport_get_state(struct kv_transport *transport, struct kv_transport_state *state_out) {
    NO_UCX;
}
