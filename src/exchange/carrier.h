/* SPDX-License-Identifier: Apache-2.0
 * Inside of the room: what stands behind the door. An exchange begins with its carrier's functions.
 */
#ifndef EXCHANGE_CARRIER_H
#define EXCHANGE_CARRIER_H

#include "exchange/exchange.h"

struct carrier {
    bool carries;
    void (*close)(struct exchange *exchange);
    void (*dispatch_begin)(struct exchange *exchange, uint32_t layer, const uint32_t *experts,
                           uint32_t tokens, const char *activations);
    void (*dispatch_finish)(struct exchange *exchange, struct exchange_received *received_out);
    char *(*result)(struct exchange *exchange, uint32_t row);
    void (*combine_begin)(struct exchange *exchange, uint32_t first_row, uint32_t row_count);
    void (*combine_finish)(struct exchange *exchange, struct exchange_returned *returned_out);
    void (*progress)(struct exchange *exchange);
};

struct exchange {
    const struct carrier *carrier;
    struct exchange_options options;
    struct exchange_counts counts;
    struct exchange_transfer dispatch, combine, last; /* under way, under way, over */
};

#endif
