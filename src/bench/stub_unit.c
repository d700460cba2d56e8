/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/stub_unit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/check.h"
#include "base/format.h"
#include "base/map.h"
#include "contract/machine.h"
#include "contract/record_unit.h"
#include "host/loop.h"
#include "host/process/log/log.h"

#define OUTBOX_BYTES ((size_t)8 << 20)
#define TICK_NS ((int64_t)2000000)
#define LOAD_NS ((int64_t)100000000)
#define PAGES (1u << 28)

struct stub_stream { /* a request, at the index of its seed */
    struct request_id id;
    bool lives;
    uint32_t prompt_tokens, reported, tokens_max;
    int64_t due_ns;
};

struct stub {
    struct stub_options options;
    struct outbox outbox;
    struct map places; /* indices by id */
    struct stub_stream *streams;
    uint32_t *living; /* [count] indices */
    uint32_t *at;     /* [index] in `living` */
    uint32_t count;
    bool greeted, changed; /* content of a load report */
    int64_t wake_ns, load_ns;
};

/* ---- records about itself ---- */

static void *put(struct outbox *outbox, const struct unit_id *from, enum record_kind kind,
                 const void *fixed) {
    void *record = from ? machine_outbox_put_envelope(outbox, RECORD_FROM_UNIT, *from, kind, fixed)
                        : machine_outbox_put(outbox, kind, fixed);
    check(record);
    return record;
}

void stub_unit_say_hello(struct outbox *outbox, const struct stub_shape *shape,
                         const struct unit_id *from) {
    struct record_unit_hello fixed = {.vocab_count = shape->vocab,
                                      .context_tokens_max = LIMIT_CONTEXT,
                                      .page_count = shape->ranks * shape->pages_each,
                                      .page_tokens = KV_BLOCK_TOKENS,
                                      .requests_max = shape->ranks * shape->requests_each,
                                      .rank_count = shape->ranks};
    memcpy(fixed.model_id, shape->model_id, sizeof fixed.model_id);
    format_text(fixed.numerics_id, sizeof fixed.numerics_id, "%s", shape->numerics);
    struct record_unit_hello *hello = put(outbox, from, RECORD_UNIT_HELLO, &fixed);
    for (uint32_t i = 0; i < shape->ranks; i++)
        hello_ranks(hello)[i] = (struct unit_rank){.page_count = shape->pages_each,
                                                   .requests_max = shape->requests_each};
}

void stub_unit_say_load(struct outbox *outbox, const struct stub_shape *shape, uint32_t requests,
                        const struct unit_id *from) {
    uint32_t each = requests / shape->ranks;
    struct record_unit_load fixed = {.rank_count = shape->ranks,
                                     .requests_running = requests,
                                     .pages_free = shape->ranks * shape->pages_each,
                                     .last_step_ns = shape->step_ns};
    struct record_unit_load *load = put(outbox, from, RECORD_UNIT_LOAD, &fixed);
    for (uint32_t i = 0; i < shape->ranks; i++)
        load_ranks(load)[i] = (struct unit_rank_load){
            .requests_running = i ? each : requests - each * (shape->ranks - 1),
            .pages_free = shape->pages_each};
}

/* ---- its streams ---- */

static struct map_key stub_unit_key_of(struct request_id id) {
    return (struct map_key){id.high, id.low, id.attempt};
}

static void end(struct stub *stub, uint32_t place, enum finish_reason reason) {
    struct stub_stream *stream = &stub->streams[place];
    struct record_finished fixed = {
        .request = stream->id, .reason = reason, .output_tokens = stream->reported};
    fixed.work.prompt_miss_tokens = fixed.work.computed_tokens = stream->prompt_tokens;
    check(machine_outbox_put(&stub->outbox, RECORD_FINISHED, &fixed));
    map_remove(&stub->places, stub_unit_key_of(stream->id));
    stream->lives = false;
    stub->living[stub->at[place]] = stub->living[--stub->count];
    stub->at[stub->living[stub->at[place]]] = stub->at[place];
}

static int64_t pause_of(const struct stub *stub) {
    return (int64_t)(1e9 / atomic_load(&stub->options.shared->tokens_each));
}

static void stub_unit_take(struct stub *stub, const struct record_submit *submit, int64_t now_ns) {
    uint32_t place = (uint32_t)(submit->sampling.seed % STUB_STREAMS_MAX);
    struct stub_stream *stream = &stub->streams[place];
    check(!stream->lives); /* the client's streams have different seeds */
    *stream = (struct stub_stream){.id = submit->request,
                                   .lives = true,
                                   .prompt_tokens = submit->prompt_count,
                                   .tokens_max = submit->new_tokens_max,
                                   .due_ns = now_ns};
    if (stream->tokens_max > 1) /* spreads them over time */
        stream->due_ns += (int64_t)((uint64_t)place * 2654435761u % (uint64_t)pause_of(stub));
    map_add(&stub->places, stub_unit_key_of(submit->request), place);
    stub->at[place] = stub->count;
    stub->living[stub->count++] = place;
    stub->changed = true;
}

static enum status stub_receive(void *self, const struct record *record, int64_t now_ns) {
    struct stub *stub = self;
    if (outbox_room(&stub->outbox) < 4096) return STATUS_FULL;
    if (record->kind == RECORD_SUBMIT)
        stub_unit_take(stub, (const struct record_submit *)record, now_ns);
    if (record->kind == RECORD_CANCEL) {
        uint32_t place = map_find(&stub->places, stub_unit_key_of(record_request(record)));
        if (place != MAP_NONE) end(stub, place, FINISH_CANCELLED);
    }
    return STATUS_OK;
}

static struct stub_shape stub_unit_shape_of(const struct stub *stub) {
    struct stub_shape shape = {.vocab = stub->options.vocab,
                               .ranks = 1,
                               .pages_each = PAGES,
                               .requests_each = STUB_STREAMS_MAX,
                               .step_ns = TICK_NS,
                               .numerics = "stub.v1"};
    memcpy(shape.model_id, stub->options.model_id, sizeof shape.model_id);
    return shape;
}

static void say_token(struct stub *stub, uint32_t place, int64_t now_ns) {
    struct stub_stream *stream = &stub->streams[place];
    struct record_tokens fixed = {.request = stream->id,
                                  .first_output_position = stream->reported,
                                  .token_count = 1,
                                  .work_count = stream->reported == 0};
    struct record_tokens *tokens = machine_outbox_put(&stub->outbox, RECORD_TOKENS, &fixed);
    check(tokens);
    *tokens_chosen(tokens) = stub->options.token;
    if (fixed.work_count)
        *tokens_work(tokens) = (struct unit_work){.prompt_miss_tokens = stream->prompt_tokens,
                                                  .computed_tokens = stream->prompt_tokens};
    struct stub_shared *shared = stub->options.shared;
    atomic_store(&shared->said_ns[place][stream->reported++ % STUB_TIMES], now_ns);
    atomic_fetch_add(&shared->said, 1);
    stream->due_ns += pause_of(stub);
    if (stream->due_ns < now_ns) stream->due_ns = now_ns; /* a delayed stream does not catch up */
    if (stream->reported == stream->tokens_max) end(stub, place, FINISH_LENGTH);
}

static bool stub_unit_may_say(const struct stub *stub) {
    const struct stub_shared *shared = stub->options.shared;
    return outbox_room(&stub->outbox) > 4096 &&
           atomic_load(&shared->said) - atomic_load(&shared->received) < (uint64_t)STUB_AHEAD;
}

static void stub_step(void *self, int64_t now_ns) {
    struct stub *stub = self;
    const struct stub_shape shape = stub_unit_shape_of(stub);
    if (!stub->greeted) stub_unit_say_hello(&stub->outbox, &shape, NULL);
    stub->greeted = true;
    if (now_ns < stub->wake_ns) return;
    stub->wake_ns = now_ns + TICK_NS;
    for (uint32_t i = stub->count; i-- > 0 && stub_unit_may_say(stub);)
        if (stub->streams[stub->living[i]].due_ns <= now_ns)
            say_token(stub, stub->living[i], now_ns);
    if (!stub->changed && now_ns < stub->load_ns) return;
    stub_unit_say_load(&stub->outbox, &shape, stub->count, NULL);
    stub->changed = false;
    stub->load_ns = now_ns + LOAD_NS;
}

static int64_t stub_wake(const void *self) {
    return ((const struct stub *)self)->wake_ns;
}

struct stub *stub_unit_open(const struct stub_options *options) {
    struct arena arena;
    struct stub *stub = calloc(1, sizeof *stub);
    size_t bytes = map_bytes(STUB_STREAMS_MAX);
    void *memory = malloc(bytes);
    if (!stub || !memory) return NULL;
    stub->options = *options;
    stub->outbox = (struct outbox){.memory = malloc(OUTBOX_BYTES), .capacity = OUTBOX_BYTES};
    stub->streams = calloc(STUB_STREAMS_MAX, sizeof *stub->streams);
    stub->living = calloc(STUB_STREAMS_MAX, sizeof *stub->living);
    stub->at = calloc(STUB_STREAMS_MAX, sizeof *stub->at);
    arena_over(&arena, memory, bytes);
    bool whole = stub->outbox.memory && stub->streams && stub->living && stub->at;
    return whole && map_open(&stub->places, &arena, STUB_STREAMS_MAX) == STATUS_OK ? stub : NULL;
}

struct machine stub_unit_machine(struct stub *stub) {
    return (struct machine){.self = stub,
                            .outbox = &stub->outbox,
                            .receive = stub_receive,
                            .step = stub_step,
                            .next_wake_ns = stub_wake};
}

static enum status run(const struct stub_options *options, struct error *error) {
    struct loop_parts parts = {.wire = {.address = options->addresses, .plain_anywhere = true}};
    struct loop *loop = NULL;
    struct stub *stub = stub_unit_open(options);
    if (!stub) return error_set(error, STATUS_NO_MEMORY, "no memory");
    parts.unit = stub_unit_machine(stub);
    enum status status = loop_open(NULL, 0, &loop, error);
    return status ? status : loop_run(loop, &parts, error);
}

enum status stub_unit_start(const struct stub_options *options, pid_t *pid_out,
                            struct error *error) {
    pid_t parent = getpid();
    fflush(NULL);
    *pid_out = fork();
    if (*pid_out < 0)
        return error_set(error, STATUS_IO, "cannot start the unit: %s", strerror(errno));
    if (*pid_out) return STATUS_OK;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    struct error own;
    log_start("text", "error", false);
    if (run(options, &own)) dprintf(STDERR_FILENO, "the unit of the bench: %s\n", own.text);
    _exit(0);
}

struct stub_shared *stub_unit_shared_take(void) {
    void *memory = mmap(NULL, sizeof(struct stub_shared), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}
