/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/unit/handoff.h"

#include "base/check.h"
#include "serving/policy/kv_path.h"
#include "serving/unit/account.h"
#include "serving/unit/kv_offload.h"
#include "serving/unit/unit_request.h"

#define GIVE_UPS_MAX 8 /* limit of one call */

struct handoff {
    uint32_t task; /* enum submit_task */
    uint32_t first_block;
    struct kv_route route;
    /* [blocks of the prompt] named blocks, each leased until the transfer ends */
    struct page_id *sent;
    uint32_t sent_count;
    uint32_t whole_count; /* complete blocks of `sent`; the others are still being computed */
    /* [blocks of the prompt] equal blocks of other requests that are also leased, see
     * handoff_made */
    struct page_id *duplicates;
    uint32_t duplicate_count;
    bool open;            /* EXPECT or PUSH was sent, and no KV_DONE has arrived */
    bool arrived, failed; /* result of the ended transfer */
    bool continued;       /* the first tokens have arrived at continued_ns */
    int64_t continued_ns;
    /* while `open`: time at which to decide whether to wait on; MACHINE_NEVER: none */
    int64_t give_up_ns;
    bool doubted;  /* the transfer is predicted to take longer than the alternative (kv_path) */
    bool given_up; /* cancelled because the wait was long enough */
    bool leaving;  /* ends with `reason` when the transfer ends */
    enum finish_reason reason;
};

static uint32_t prompt_blocks(const struct unit_request *request) {
    return (uint32_t)divide_up(request->prompt_count, KV_BLOCK_TOKENS);
}

size_t handoff_bytes_max(const struct unit_options *options) {
    return handoff_plan_bytes_max(options) + record_bytes(RECORD_RESERVED, NULL) +
           record_bytes(RECORD_KV_CANCEL, NULL);
}

size_t handoff_plan_bytes_max(const struct unit_options *options) {
    uint32_t pages = (uint32_t)divide_up(options->context_tokens_max, KV_BLOCK_TOKENS);
    return record_bytes(RECORD_KV_PUSH, &(struct record_kv_push){.page_count = pages});
}

bool handoff_open(struct unit_request *request, const struct record_submit *submit) {
    if (submit->task == SUBMIT_ANSWER) return true;
    struct handoff *handoff = arena_take_zeroed(&request->arena, sizeof *handoff);
    if (!handoff) return false;
    handoff->task = submit->task;
    handoff->first_block = submit->first_block;
    handoff->route = submit->route;
    request->pushes = submit->task == SUBMIT_PREFILL;
    request->handoff = handoff;
    if (submit->task == SUBMIT_RESERVE) return true;
    size_t blocks = divide_up(submit->prompt_count, KV_BLOCK_TOKENS);
    handoff->sent = arena_take(&request->arena, 2 * blocks * sizeof *handoff->sent);
    if (!handoff->sent) return false;
    handoff->duplicates = handoff->sent + blocks;
    return true;
}

static void handoff_put_cancel(struct unit *unit, const struct unit_request *request) {
    unit_put(unit, RECORD_KV_CANCEL, &(struct record_kv_cancel){.request = request->id});
}

bool handoff_is_over(const struct unit_request *request) {
    const struct handoff *handoff = request->handoff;
    return !handoff || (handoff->task == SUBMIT_RESERVE && !handoff->open);
}

/* ---- the decode unit ---- */

/* Puts KV_EXPECT first: blocks that arrive before it are refused. */
static void put_expect(struct unit *unit, struct unit_request *request) {
    struct handoff *handoff = request->handoff;
    uint32_t first = request->page_count ? request->shared_count : 0;
    uint32_t count = prompt_blocks(request) - first;
    struct record_kv_expect *expect =
        unit_put(unit, RECORD_KV_EXPECT,
                 &(struct record_kv_expect){.request = request->id,
                                            .first_block = first,
                                            .token_count = request->prompt_count,
                                            .page_count = count});
    memcpy(expect->grant, handoff->route.grant, sizeof expect->grant);
    memcpy(kv_expect_pages(expect), request->pages + first, count * sizeof *request->pages);
    struct record_reserved *reserved = unit_put(unit, RECORD_RESERVED, NULL);
    reserved->request = request->id;
    reserved->first_block = first;
    handoff->open = true;
}

bool handoff_reserve(struct unit *unit, struct unit_request *request) {
    struct pages_hit hit = pages_look_up(unit, request);
    if (!unit_request_park(unit, request, &hit, request->prompt_count + 1)) return false;
    put_expect(unit, request);
    return true;
}

/* Continues the request after its blocks and first tokens have arrived, or after the transfer has
 * failed. */
static void handoff_go_on(struct unit *unit, struct unit_request *request, int64_t now_ns) {
    struct handoff *handoff = request->handoff;
    if (!handoff->continued || handoff->open) return;
    unit->plan_wanted = true;
    request_work(request)->transfer_ns = now_ns - request->arrived_ns;
    if (!handoff->arrived) {
        unit_request_wait_again(unit, request, now_ns);
        kv_offload_ask_while_written(unit, request);
        return;
    }
    bool one = request_known(request) == request->computed_count + 1;
    unit_request_go_on(unit, request, one ? UNIT_REQUEST_DECODE : UNIT_REQUEST_PREFILL);
    account_begins(request, now_ns);
}

/* Decides how long a request waits that has its first tokens and lacks only its blocks. Returns
 * false if it should not wait any longer. */
static bool wait_on(struct unit *unit, struct unit_request *request, int64_t now_ns) {
    struct handoff *handoff = request->handoff;
    struct kv_path_ask ask = {.under_way = true,
                              .doubted = handoff->doubted,
                              .waited_ns = now_ns - handoff->continued_ns,
                              .load = kv_offload_load_ask(unit, request, request->shared_count, 0)};
    struct kv_path_choice choice = kv_path_choose(&ask);
    if (choice.path != KV_PATH_WAIT) return false;
    handoff->give_up_ns = now_ns + choice.wait_ns;
    if (handoff->give_up_ns < unit->give_up_ns) unit->give_up_ns = handoff->give_up_ns;
    return true;
}

static uint32_t expected_blocks(const struct unit_request *request) {
    return prompt_blocks(request) - request->shared_count;
}

static void begin_wait(struct unit *unit, struct unit_request *request, int64_t now_ns) {
    struct load_ask without = kv_offload_load_ask(unit, request, request->shared_count, 0);
    request->handoff->doubted =
        kv_path_doubts(&unit->transfers, expected_blocks(request), &without);
    (void)wait_on(unit, request, now_ns);
}

void handoff_continue(struct unit *unit, struct unit_request *request,
                      const struct record_continue *record, int64_t now_ns) {
    struct handoff *handoff = request->handoff;
    if (!handoff || handoff->task != SUBMIT_RESERVE || handoff->leaving || handoff->continued)
        return; /* a repeat, or the request is ending */
    const uint32_t *tokens = continue_tokens(record);
    bool fits = record->token_count < request->new_tokens_max;
    for (uint32_t i = 0; fits && i < record->token_count; i++)
        fits = tokens[i] < unit->options.vocab_count;
    if (!fits) {
        handoff_leave(unit, request, FINISH_FAILED);
        return;
    }
    for (uint32_t i = 0; i < record->token_count; i++)
        request_add_token(request, tokens[i]);
    request->resumed_count = record->token_count;
    request->arrived_ns = now_ns;
    handoff->continued = true;
    handoff->continued_ns = now_ns;
    if (handoff->open) begin_wait(unit, request, now_ns);
    handoff_go_on(unit, request, now_ns);
}

/* ---- the prefill unit ---- */

static bool may_push(const struct unit_request *request) {
    return request->pushes && !request->handoff->failed;
}

/* Names the blocks before `end` that are not named yet. The last planned step computes those from
 * `whole` on. Also leases blocks that the other unit already has, because no block may stay cached
 * without its predecessors. */
static void put_push(struct unit *unit, struct unit_request *request, uint32_t whole, uint32_t end,
                     bool last) {
    struct handoff *handoff = request->handoff;
    uint32_t first = handoff->sent_count;
    if (first < handoff->first_block) first = handoff->first_block;
    uint32_t count = end - first, reach = end * KV_BLOCK_TOKENS;
    struct record_kv_push *push =
        unit_put(unit, RECORD_KV_PUSH, &(struct record_kv_push){.page_count = count});
    push->request = request->id;
    push->route = handoff->route;
    push->first_block = first;
    push->token_count = reach < request->prompt_count ? reach : request->prompt_count;
    push->last = last;
    push->first = !handoff->open;
    push->making_count = end - (whole > first ? whole : first);
    push->step = push->making_count ? unit->step : 0;
    memcpy(kv_push_pages(push), request->pages + first, count * sizeof *request->pages);
    for (; handoff->sent_count < end; handoff->sent_count++) {
        handoff->sent[handoff->sent_count] = request->pages[handoff->sent_count];
        page_table_lease(&unit->pages, handoff->sent[handoff->sent_count]);
    }
    if (whole > handoff->whole_count) handoff->whole_count = whole;
    handoff->open = true;
}

/* True if the row may wait in the step for a load or a mask that may fail. It would then run again
 * and write its blocks again. */
static bool may_be_lost(const struct unit_request *request, uint32_t reach) {
    return kv_offload_is_loading(request) ||
           (request->constraint_bytes && reach >= request->prompt_count);
}

/* The number of complete prompt blocks after `tokens` leading tokens. The last block may be
 * partial, and is complete at the end of the prompt. */
static uint32_t blocks_until(const struct unit_request *request, uint32_t tokens) {
    return tokens < request->prompt_count ? tokens / KV_BLOCK_TOKENS : prompt_blocks(request);
}

void handoff_push(struct unit *unit, struct unit_request *request) {
    uint32_t reach = request->computed_count + request->row_tokens;
    uint32_t end = blocks_until(request, reach);
    if (!may_push(request) || may_be_lost(request, reach)) return;
    /* the row will run again */
    if (request->handoff->whole_count < request->handoff->sent_count) return;
    if (end > request->handoff->sent_count && end > request->handoff->first_block)
        put_push(unit, request, request->computed_count / KV_BLOCK_TOKENS, end, false);
}

void handoff_made(struct unit *unit, struct unit_request *request) {
    struct handoff *handoff = request->handoff;
    uint32_t made = blocks_until(request, request->computed_count);
    if (!may_push(request)) return;
    for (; handoff->whole_count < handoff->sent_count && handoff->whole_count < made;
         handoff->whole_count++) {
        struct page_id page = request->pages[handoff->whole_count];
        if (page.index == handoff->sent[handoff->whole_count].index) continue;
        page_table_lease(&unit->pages, page);
        handoff->duplicates[handoff->duplicate_count++] = page;
    }
}

void handoff_pass_on(struct unit *unit, struct unit_request *request) {
    uint32_t blocks = prompt_blocks(request);
    if (may_push(request)) put_push(unit, request, blocks, blocks, true);
    handoff_leave(unit, request, FINISH_HANDED_OVER);
}

void handoff_interrupt(struct unit *unit, struct unit_request *request) {
    struct handoff *handoff = request->handoff;
    if (!may_push(request) || handoff->whole_count == handoff->sent_count) return;
    handoff_put_cancel(unit, request);
    handoff->failed = true;
}

uint32_t handoff_sent_count(const struct unit_request *request) {
    const struct handoff *handoff = request->handoff;
    return handoff ? handoff->sent_count + handoff->duplicate_count : 0;
}

/* ---- ends ---- */

void handoff_leave(struct unit *unit, struct unit_request *request, enum finish_reason reason) {
    struct handoff *handoff = request->handoff;
    if (!handoff || !handoff->open) {
        check(handoff_sent_count(request) == 0);
        unit_request_end(unit, request, reason);
        return;
    }
    if (handoff->leaving && handoff->reason != FINISH_HANDED_OVER) return;
    if (!handoff->leaving) unit_request_leave(unit, request);
    if (reason != FINISH_HANDED_OVER) handoff_put_cancel(unit, request);
    handoff->leaving = true;
    handoff->reason = reason;
}

size_t handoff_give_up_bytes_max(void) {
    return GIVE_UPS_MAX * record_bytes(RECORD_KV_CANCEL, NULL);
}

void handoff_give_up(struct unit *unit, int64_t now_ns) {
    if (now_ns < unit->give_up_ns) return;
    uint32_t given_up = 0;
    unit->give_up_ns = MACHINE_NEVER;
    for (uint32_t slot = 0; slot < unit->slot_end; slot++) {
        struct unit_request *request = &unit->requests[slot];
        struct handoff *handoff = request->handoff;
        if (!handoff || !handoff->open || !handoff->continued || handoff->leaving) continue;
        bool due = handoff->give_up_ns <= now_ns;
        if (due && given_up < GIVE_UPS_MAX && !wait_on(unit, request, now_ns)) {
            handoff_put_cancel(unit, request);
            handoff->given_up = true;
            handoff->give_up_ns = MACHINE_NEVER;
            given_up++;
        }
        if (handoff->give_up_ns < unit->give_up_ns) unit->give_up_ns = handoff->give_up_ns;
    }
}

/* Adds the blocks that arrived from the other unit (all, or the first ones) to the prefix cache. */
static void take_blocks(struct unit *unit, struct unit_request *request,
                        const struct record_kv_done *record) {
    uint64_t tokens = ((uint64_t)request->shared_count + record->blocks) * KV_BLOCK_TOKENS;
    if (record->arrived || tokens > request->prompt_count) tokens = request->prompt_count;
    /* Without a prefix cache, some of the blocks alone are useless. */
    if (tokens < request->prompt_count && !unit->options.prefix_cache) return;
    account_obtained(request, ACCOUNT_TRANSFERRED, request->computed_count, (uint32_t)tokens);
    request->computed_count = (uint32_t)tokens;
    request->handoff->arrived = tokens == request->prompt_count;
    pages_share(unit, request);
}

/* Records how long the transfer was waited for. A transfer that was cancelled for another reason is
 * no measurement of the link. */
static void observe(struct unit *unit, const struct unit_request *request, bool arrived,
                    int64_t now_ns) {
    const struct handoff *handoff = request->handoff;
    if (!arrived && !handoff->given_up) return;
    int64_t waited_ns = handoff->continued ? now_ns - handoff->continued_ns : 0;
    kv_path_observe(&unit->transfers, expected_blocks(request), waited_ns, arrived,
                    handoff->doubted);
}

void handoff_done(struct unit *unit, struct unit_request *request,
                  const struct record_kv_done *record, int64_t now_ns) {
    struct handoff *handoff = request->handoff;
    check(handoff && handoff->open);
    handoff->open = false;
    handoff->failed = !record->arrived;
    page_table_release(&unit->pages, handoff->sent, handoff->sent_count);
    page_table_release(&unit->pages, handoff->duplicates, handoff->duplicate_count);
    handoff->sent_count = handoff->whole_count = handoff->duplicate_count = 0;
    /* free pages may let a waiting request start */
    unit->plan_wanted = unit->load_changed = true;
    if (handoff->leaving) {
        unit_request_end(unit, request, handoff->reason);
        return;
    }
    if (handoff->task != SUBMIT_RESERVE) return;
    observe(unit, request, record->arrived, now_ns);
    take_blocks(unit, request, record);
    unit->totals.transfers_arrived += handoff->arrived;
    unit->totals.transfers_failed += !handoff->arrived;
    handoff_go_on(unit, request, now_ns);
}

/* True if a request of an abandoned unit may end now, because it is in no step and no load writes
 * to its pages. */
static bool handoff_may_end(const struct unit_request *request) {
    return request->state != UNIT_REQUEST_FREE && !request->in_step &&
           !kv_offload_is_loading(request);
}

void handoff_end_all(struct unit *unit, size_t answer_bytes) {
    for (uint32_t slot = 0; slot < unit->slot_end; slot++) {
        struct unit_request *request = &unit->requests[slot];
        if (!handoff_may_end(request)) continue;
        if (!unit_can_put(unit, answer_bytes)) return;
        handoff_leave(unit, request, FINISH_FAILED);
    }
}

bool handoff_may_any_end(const struct unit *unit) {
    for (uint32_t slot = 0; slot < unit->slot_end; slot++) {
        const struct unit_request *request = &unit->requests[slot];
        if (handoff_may_end(request) && request->state != UNIT_REQUEST_LEAVING) return true;
    }
    return false;
}
