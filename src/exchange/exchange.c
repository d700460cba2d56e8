/* SPDX-License-Identifier: Apache-2.0
 * The door itself: each call goes to the carrier that was opened.
 */
#include "exchange/carrier.h"

void exchange_close(struct exchange *exchange) {
    if (exchange) exchange->carrier->close(exchange);
}

bool exchange_carries(const struct exchange *exchange) {
    return exchange->carrier->carries;
}

void exchange_dispatch_begin(struct exchange *exchange, uint32_t layer, const uint32_t *experts,
                             uint32_t tokens, const char *activations) {
    exchange->carrier->dispatch_begin(exchange, layer, experts, tokens, activations);
}

void exchange_dispatch_finish(struct exchange *exchange, struct exchange_received *received_out) {
    exchange->carrier->dispatch_finish(exchange, received_out);
}

char *exchange_result(struct exchange *exchange, uint32_t row) {
    return exchange->carrier->result(exchange, row);
}

void exchange_combine_begin(struct exchange *exchange, uint32_t first_row, uint32_t row_count) {
    exchange->carrier->combine_begin(exchange, first_row, row_count);
}

void exchange_combine_finish(struct exchange *exchange, struct exchange_returned *returned_out) {
    exchange->carrier->combine_finish(exchange, returned_out);
}

void exchange_progress(struct exchange *exchange) {
    if (exchange->carrier->progress) exchange->carrier->progress(exchange);
}

struct exchange_counts exchange_counts(const struct exchange *exchange) {
    return exchange->counts;
}
