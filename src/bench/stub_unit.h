/* SPDX-License-Identifier: Apache-2.0
 * A unit without an engine: a process that connects to gateways over the real wire, accepts every
 * request at once, and streams tokens at a fixed rate. The send times of its tokens are in memory
 * shared with the client, which can thus compute each token's latency.
 *
 * A request's seed is the number that the client gives its stream.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"
#include "contract/machine.h"

#define STUB_STREAMS_MAX (1 << 17)
#define STUB_TIMES 8      /* the latest tokens of a stream */
#define STUB_AHEAD 200000 /* tokens that may be in flight */

struct stub_shared {
    _Atomic double tokens_each; /* per second and stream, from now on */
    _Atomic uint64_t said;      /* tokens sent by the unit */
    _Atomic uint64_t received;  /* tokens received by the client; the unit is at most STUB_AHEAD
                                 * ahead */
    _Atomic int64_t said_ns[STUB_STREAMS_MAX][STUB_TIMES]; /* monotonic clock, by position */
};

struct stub_options {
    const char *addresses; /* of gateways, separated by commas */
    uint32_t vocab, token; /* the token that it always sends */
    uint8_t model_id[32];
    struct stub_shared *shared;
};

/* The shape of a unit without an engine: identical ranks. */
struct stub_shape {
    uint32_t vocab, ranks, pages_each, requests_each;
    int64_t step_ns; /* reported in its load reports */
    const char *numerics;
    uint8_t model_id[32];
};

/* Writes its records UNIT_HELLO and UNIT_LOAD. The latter has `requests` requests, spread over its
 * ranks. `from`: the record as a gateway receives it, in an envelope (FROM_UNIT); NULL: as a unit
 * sends it. */
void stub_unit_say_hello(struct outbox *outbox, const struct stub_shape *shape,
                         const struct unit_id *from);
void stub_unit_say_load(struct outbox *outbox, const struct stub_shape *shape, uint32_t requests,
                        const struct unit_id *from);

struct stub;

/* Creates only the unit's machine, which is never freed. Returns NULL if memory is out. */
struct stub *stub_unit_open(const struct stub_options *options);
struct machine stub_unit_machine(struct stub *stub);

/* Runs the unit in a separate process. Returns STATUS_IO if no process could be started. */
enum status stub_unit_start(const struct stub_options *options, pid_t *pid_out,
                            struct error *error) MUST_USE;

/* Allocates the zeroed shared memory, which is never freed. Returns NULL if memory is out. */
struct stub_shared *stub_unit_shared_take(void);
