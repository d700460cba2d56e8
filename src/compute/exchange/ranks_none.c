/* SPDX-License-Identifier: Apache-2.0
 * Ranks in a build without MPI: one process is all there is.
 */
#include "base/check.h"
#include "compute/exchange/exchange.h"
#include "compute/exchange/freight.h"
#include "compute/exchange/ranks.h"

bool ranks_built(void) {
    return false;
}

bool ranks_in_job(void) {
    return false;
}

uint32_t ranks_rank_ahead(void) {
    return 0;
}

enum status ranks_begin(struct error *error) {
    return error_set(error, STATUS_UNSUPPORTED,
                     "this build has no ranks: build it where Open MPI is (libopenmpi-dev)");
}

void ranks_end(void) {
}

uint32_t ranks_rank(void) {
    return 0;
}
uint32_t ranks_count(void) {
    return 1;
}

void ranks_send(uint32_t to, const void *data, size_t bytes) {
    check_failed("one process alone has nobody to send to", __FILE__, __LINE__);
}

bool ranks_ready(uint32_t from, size_t *bytes_out) {
    return false;
}

size_t ranks_receive(uint32_t from, void *data, size_t bytes) {
    check_failed("one process alone hears from nobody", __FILE__, __LINE__);
}

void ranks_barrier(void) {
}

void ranks_swap(const char *out, char *in, size_t bytes) {
}

enum status exchange_open_ranks(const struct exchange_options *options,
                                struct exchange **exchange_out, struct error *error) {
    return ranks_begin(error);
}

/* Nobody opens one, so nobody calls the rest. */
enum status freight_open(struct freight **freight_out, struct error *error) {
    return ranks_begin(error);
}

void freight_close(struct freight *freight) {
}
void freight_limit(struct freight *freight, uint64_t bytes_per_second) {
}
bool freight_may(struct freight *freight, size_t bytes) {
    return false;
}
void freight_give(struct freight *freight, uint32_t to, const char *data, size_t bytes) {
}
void freight_take(struct freight *freight, uint32_t from, char *data, size_t bytes) {
}
void freight_progress(struct freight *freight) {
}
enum freight_state freight_given(const struct freight *freight) {
    return FREIGHT_WHOLE;
}
enum freight_state freight_taken(const struct freight *freight) {
    return FREIGHT_WHOLE;
}
uint64_t freight_taken_sum(const struct freight *freight) {
    return 0;
}
void freight_damage_next(struct freight *freight) {
}
