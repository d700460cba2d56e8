/* SPDX-License-Identifier: Apache-2.0
 * A unit without an engine: a process that connects to gateways over the real wire, takes every
 * request at once, and says one token of each at a fixed speed. What it says when stands in memory
 * that is shared with the client, who so knows how long a token was under way.
 *
 * A request's seed is the client's number of its stream.
 */
#ifndef BENCH_STUB_UNIT_H
#define BENCH_STUB_UNIT_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"
#include "contract/machine.h"

#define STUB_STREAMS_MAX (1 << 17)
#define STUB_TIMES 8      /* of a stream's last tokens */
#define STUB_AHEAD 200000 /* tokens that may be under way */

struct stub_shared {
    _Atomic double tokens_each; /* a second and stream, from now on */
    _Atomic uint64_t said;      /* tokens, by the unit */
    _Atomic uint64_t heard;     /* tokens, by the client; the unit keeps at most STUB_AHEAD ahead */
    _Atomic int64_t said_ns[STUB_STREAMS_MAX][STUB_TIMES]; /* monotonic clock, by position */
};

struct stub_options {
    const char *addresses; /* of gateways, with commas between */
    uint32_t vocab, token; /* the token that it always says */
    uint8_t model_id[32];
    struct stub_shared *shared;
};

/* What a unit without an engine is: so many ranks, all alike. */
struct stub_shape {
    uint32_t vocab, ranks, pages_each, requests_each;
    int64_t step_ns; /* of which its load reports tell */
    const char *numerics;
    uint8_t model_id[32];
};

/* Its records: UNIT_HELLO and UNIT_LOAD, the latter of so many requests, spread over its ranks.
 * `from`: they are as a gateway gets them, carried (FROM_UNIT); NULL: as a unit says them. */
void stub_unit_say_hello(struct outbox *outbox, const struct stub_shape *shape,
                         const struct unit_id *from);
void stub_unit_say_load(struct outbox *outbox, const struct stub_shape *shape, uint32_t requests,
                        const struct unit_id *from);

struct stub;

/* The unit's machine alone; never given back. NULL: no memory. */
struct stub *stub_unit_open(const struct stub_options *options);
struct machine stub_unit_machine(struct stub *stub);

/* In a process of its own. STATUS_IO: there is none. */
enum status stub_unit_start(const struct stub_options *options, pid_t *pid_out,
                            struct error *error) MUST_USE;

/* Memory for it, zeroed; NULL: there is none. Never given back. */
struct stub_shared *stub_shared_take(void);

#endif
