/* SPDX-License-Identifier: Apache-2.0
 * test_gpu_comm RANKS HOSTS: protects ranks on devices of several hosts from the deaths of other
 * ranks. Ranks are killed in the middle of a step: after a dispatch, while the others' groups wait
 * for them on their devices; after they have enqueued their experts; and after that in the last
 * layer, when no rank waits for messages any more. No rank hangs: the step ends, the living ranks
 * regroup and open new communicators, and the same step gives the bits of a single CPU, with the
 * dead ranks' experts on other ranks.
 *
 * The last rank to die pauses before. Ranks that wait for its groups report that they wait, so that
 * a supervisor does not take them for stuck. Until the first death steps have two levels, so the
 * dead rank was to forward other ranks' rows: after a dispatch with four ranks, with its experts
 * enqueued with more.
 */
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <unistd.h>

#define TEST_OWN_MAIN
#include "test_case.h"

#include "../exchange/on_ranks.h"
#include "base/heartbeat.h"
#include "compute/emulated/compute_emulated.h"
#include "compute/exchange/exchange.h"
#include "compute/gpu/compute_gpu.h"
#include "compute/gpu/gpu_state.h"
#include "compute/model/forward.h"
#include "contract/machine.h"
#include "rank_models.h"

enum { TOKENS = 48, PAGES = 1, DEATHS = 3, NODE_RANKS = 2, LOOKS = 10 };

static _Alignas(16) char plan_memory[1 << 12];
static struct step_plan *const plan = (struct step_plan *)(void *)plan_memory;

/* This rank dies behind that stage of a layer with experts; STAGE_COUNT: it does not. Or it stands
 * still there. */
static enum stage deadly = STAGE_COUNT;
static uint32_t deadly_layer; /* or of a later one */
static int deadly_signal = SIGKILL;

/* What rank 0 is seen to do in the last combine, until it has been seen often enough. */
static uint32_t last_combine, seen_waiting, seen_computing;
static pid_t stands_still;

static void look_at_oneself(int signal_number) {
    if (atomic_load(&heartbeat_memory->place) != last_combine) return;
    if (atomic_load(&heartbeat_memory->state) == HEARTBEAT_WAITS)
        seen_waiting++;
    else
        seen_computing++;
    if (seen_waiting < LOOKS && seen_computing < LOOKS) return;
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    kill(stands_still, SIGKILL);
}

static void begin_to_look(uint32_t layers, pid_t rank) {
    const struct itimerval often = {.it_interval.tv_usec = 5000, .it_value.tv_usec = 5000};
    last_combine = (layers - 1) << 8 | STAGE_COMBINE;
    stands_still = rank;
    signal(SIGALRM, look_at_oneself);
    setitimer(ITIMER_REAL, &often, NULL);
}

static void begin_stage(void *context) {
}

static void end_stage(void *context, enum stage stage, uint32_t micro_batch, uint32_t layer,
                      const struct exchange_transfer *ended) {
    const struct model *model = context;
    if (stage != deadly || layer < deadly_layer || !shape_layer_is_moe(model->shape, layer)) return;
    raise(deadly_signal);
}

static struct model *open_model(const struct model_device *device, uint32_t ranks,
                                uint32_t redundant) {
    const struct way way = {LITE, ACTIVATIONS_F32, EXPERT_SUM_EXPERTS, .redundant = redundant};
    return open_way(&way, device, ranks,
                    (struct model_options){.kv_bytes = (uint64_t)1 << 20,
                                           .step_tokens_max = TOKENS,
                                           .step_rows_max = 1,
                                           .node_ranks = ranks ? NODE_RANKS : 0});
}

/* A prompt of this rank's own. */
static void make_plan(uint32_t vocab) {
    *plan = (struct step_plan){.row_count = 1, .token_count = TOKENS, .page_count = PAGES};
    record_set_head(plan, RECORD_RUN_STEP);
    assert_true(plan->record.bytes <= sizeof plan_memory);
    step_plan_rows(plan)[0] = (struct step_row){
        .form = TOKEN_PROMPT, .token_count = TOKENS, .page_count = PAGES, .logits_count = TOKENS};
    for (uint32_t i = 0; i < TOKENS; i++)
        step_plan_tokens(plan)[i] = (job_rank() * 131 + i * 17) % vocab;
    step_plan_pages(plan)[0].index = 0;
    plan->overlap = OVERLAP_SEQUENTIAL;
}

static void run(struct model *model, float *logits) {
    struct error error;
    struct model_probe probe = {.row = MODEL_NO_ROW};
    if (forward_run(model, plan, logits, &probe, &error) != STATUS_OK) fail_msg("%s", error.text);
}

static pid_t process_of(uint32_t rank) {
    pid_t all[16], own[16];
    assert_true(job_count() <= 16);
    for (uint32_t i = 0; i < job_count(); i++)
        own[i] = all[i] = getpid();
    job_all_to_all((const char *)own, (char *)all, sizeof *all);
    return all[rank];
}

TEST(those_that_live_go_on_when_a_rank_dies_among_groups) {
    uint32_t ranks = job_count();
    shared_state = 11;
    struct model *alone = open_model(&model_on_cpu, 0, 0);
    uint32_t experts = model_shape(alone)->experts, vocab = model_shape(alone)->vocab;
    struct model *there = open_model(&model_on_emulated, ranks, experts * (ranks - 1));
    const struct model_trace trace = {.context = there, .begin = begin_stage, .end = end_stage};
    size_t bytes = (size_t)TOKENS * vocab * sizeof(float);
    float *expected = malloc(bytes), *found = malloc(bytes);
    assert_true(expected && found);
    assert_int_equal(there->gpu->transport, GPU_VIA_COMM);
    there->trace = &trace;
    model_go_by_nodes(there, true);
    make_plan(vocab);
    run(alone, expected);
    run(there, found);
    assert_memory_equal(expected, found, bytes);
    assert_int_equal(exchange_nodes(there->micro_batches[0].exchange), ranks / NODE_RANKS);
    const enum stage staging[] = {ranks > 4 ? STAGE_MLP : STAGE_DISPATCH, STAGE_MLP, STAGE_MLP};
    for (uint32_t death = 0; death < DEATHS; death++) {
        uint32_t dies = ranks - 1 - death;
        pid_t process = process_of(dies);
        bool is_last = death == DEATHS - 1;
        if (job_rank() == dies) deadly = staging[death];
        if (is_last) deadly_signal = SIGSTOP;
        if (is_last && job_rank() == 0) begin_to_look(model_shape(there)->layers, process);
        deadly_layer = death == 2 ? model_shape(there)->layers - 1 : 0;
        run(there, found); /* means nothing */
        while (!job_poll())
            ;
        job_regroup();
        leave_out_the_dead(there);
        memset(found, 0xFF, bytes);
        run(there, found);
        assert_memory_equal(expected, found, bytes);
        assert_int_equal(exchange_nodes(there->micro_batches[0].exchange), 1);
    }
    if (job_rank() == 0) assert_true(seen_waiting >= LOOKS && seen_computing < LOOKS);
    job_barrier();
    model_close(there);
    model_close(alone);
    free(expected);
    free(found);
}

int main(int argc, char **argv) {
    on_ranks_deaths = DEATHS;
    return on_ranks(argv, "gpu_comm", test_cases, test_case_count);
}
