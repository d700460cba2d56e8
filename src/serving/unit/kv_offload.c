/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/unit/kv_offload.h"

#include "base/check.h"
#include "serving/policy/kv_path.h"
#include "serving/policy/load_in_step.h"
#include "serving/unit/account.h"
#include "serving/unit/unit_request.h"

#define LOADS_MAX 4      /* maximum of requests that one plan considers for loading */
#define ASKS_MAX 4       /* requests with ask_due that one plan handles */
#define COMPUTED_MAX 63  /* consecutive choices to compute, before one load to measure it again */
#define KEEPS_OF_A_ROW 2 /* one for its tokens and one for accepted drafts */
/* a storage in another process replies with KV_FOUND within this time, or not at all */
#define FOUND_WAIT_NS_MAX 1000000000

enum { DISK, HOST }; /* index of `rates` in struct kv_offload */

struct request_kv_offload { /* the stored blocks of one request, and its load */
    uint32_t key_count;     /* keys of the whole blocks before the last known token */
    uint32_t finds;         /* KV_FINDs without a KV_FOUND; only the last reply counts */
    int64_t answer_by_ns;   /* deadline for KV_FOUND; 0: not waiting yet */
    uint32_t found, host;   /* leading blocks in the storage, and in its memory */
    /* blocks in pages at the last choice; a new choice is made if there are fewer */
    uint32_t tried_hit;
    /* another unit computed the prompt and may still be storing its blocks */
    bool being_written;
    /* the next plan must call kv_offload_ask, but not before ask_again_ns */
    bool ask_due;
    int64_t ask_again_ns; /* 0: with the next plan */
    bool loading;         /* a KV_LOAD is in progress; the fields below are about it */
    uint32_t load_blocks; /* blocks to load */
    uint32_t ahead;       /* blocks of other requests that were being loaded when it began */
    bool first_start;     /* first start of the request, so the blocks were stored before it */
    /* a row waits for the load; computed_count already includes its blocks */
    bool in_step;
    struct record_kv_load *load; /* record in the outbox; valid only while the plan is made */
};

static uint32_t kv_offload_blocks_max(const struct unit_options *options) {
    return (uint32_t)divide_up(options->context_tokens_max, KV_BLOCK_TOKENS);
}

static size_t find_bytes_max(const struct unit_options *options) {
    return record_bytes(RECORD_KV_FIND,
                        &(struct record_kv_find){.key_count = kv_offload_blocks_max(options)});
}

size_t kv_offload_submit_bytes_max(const struct unit_options *options) {
    return options->kv_storage ? find_bytes_max(options) : 0;
}

size_t kv_offload_plan_bytes_max(const struct unit_options *options) {
    struct record_kv_load load = {.block_count = kv_offload_blocks_max(options)};
    return options->kv_storage ? ASKS_MAX * find_bytes_max(options) +
                                     LOADS_MAX * record_bytes(RECORD_KV_LOAD, &load)
                               : 0;
}

/* Each of a KV_PUT's two tails may need 8 more bytes for alignment. */
size_t kv_offload_step_bytes_max(const struct unit_options *options) {
    size_t keeps = KEEPS_OF_A_ROW * options->step_rows_max;
    size_t blocks = options->step_tokens_max / KV_BLOCK_TOKENS + keeps;
    size_t each = sizeof(struct block_key) + sizeof(struct page_id);
    if (!options->kv_storage) return 0;
    return record_bytes(RECORD_KV_PARK, NULL) + keeps * (record_bytes(RECORD_KV_PUT, NULL) + 16) +
           blocks * each;
}

/* Two allocations from the arena, each aligned to 16 bytes. */
size_t kv_offload_request_bytes_max(const struct unit_options *options) {
    if (!options->kv_storage) return 0;
    return sizeof(struct request_kv_offload) +
           kv_offload_blocks_max(options) * sizeof(struct block_key) + 32;
}

/* ---- queries of stored blocks ---- */

/* The request's state, allocated when first needed. NULL: nothing can be loaded from the
 * storage. */
static struct request_kv_offload *open_kv_offload(struct unit *unit, struct unit_request *request) {
    if (!unit->options.kv_storage || !unit->options.prefix_cache) return NULL;
    if (request->kv_offload || state_request_scores(request)) return request->kv_offload;
    uint64_t blocks = admit_pages(request_need(request));
    struct request_kv_offload *kv_offload = arena_take_zeroed(&request->arena, sizeof *kv_offload);
    struct block_key *keys = arena_take(&request->arena, blocks * sizeof *keys);
    if (!kv_offload || !keys) return NULL; /* out of memory: compute the blocks */
    request->keys = keys;
    return request->kv_offload = kv_offload;
}

void kv_offload_ask(struct unit *unit, struct unit_request *request) {
    struct request_kv_offload *kv_offload = open_kv_offload(unit, request);
    if (!kv_offload) return;
    /* The last known token must be computed in any case. */
    kv_offload->key_count = (request_known(request) - 1) / KV_BLOCK_TOKENS;
    pages_set_keys(unit, request, kv_offload->key_count);
    kv_offload->found = kv_offload->host = 0;
    kv_offload->tried_hit = UINT32_MAX;
    kv_offload->ask_due = false;
    kv_offload->answer_by_ns = 0;
    if (kv_offload->key_count == 0) return;
    struct record_kv_find *find = unit_put(
        unit, RECORD_KV_FIND,
        &(struct record_kv_find){.request = request->id, .key_count = kv_offload->key_count});
    find->fresh = request->resumed_count > 0; /* another unit ran the request just now */
    memcpy(kv_find_keys(find), request->keys, kv_offload->key_count * sizeof *request->keys);
    kv_offload->finds++;
}

void kv_offload_ask_while_written(struct unit *unit, struct unit_request *request) {
    kv_offload_ask(unit, request);
    if (request->kv_offload) request->kv_offload->being_written = true;
}

void kv_offload_ask_later(struct unit *unit, struct unit_request *request) {
    struct request_kv_offload *kv_offload = open_kv_offload(unit, request);
    if (!kv_offload) return;
    kv_offload->found = kv_offload->host = 0;
    kv_offload->ask_due = true;
}

double kv_offload_fetch_tokens(const struct unit *unit, bool memory, uint32_t first,
                               uint32_t token_count) {
    const struct load_rate *rate = &unit->kv_offload.rates[memory ? HOST : DISK];
    uint64_t bytes = (uint64_t)(token_count / KV_BLOCK_TOKENS) * unit->options.page_bytes;
    double compute_ns = step_cost_run_ns(&unit->cost, first, token_count);
    bool loads = unit->options.kv_storage && unit->options.kv_choice != KV_CHOICE_COMPUTE;
    double load_ns = load_or_compute_rate_ns(rate, bytes);
    if (!loads || rate->count == 0 || load_ns >= compute_ns) return token_count;
    return token_count * load_ns / compute_ns;
}

/* Called when another unit has computed the prompt. If whole blocks of it are neither in pages nor
 * stored, a later plan asks again, as long as serving/policy/kv_path allows. */
static void ask_again_for_rest(struct unit *unit, struct unit_request *request, int64_t now_ns) {
    struct request_kv_offload *kv_offload = request->kv_offload;
    uint32_t whole = request->prompt_count / KV_BLOCK_TOKENS;
    uint32_t hit = pages_look_up(unit, request).block_count;
    uint32_t end = kv_offload->found > hit ? kv_offload->found : hit;
    if (whole <= end) return;
    struct kv_path_rest rest = {.waited_ns = now_ns - request->arrived_ns,
                                .rest_blocks = whole - end,
                                .load = kv_offload_load_ask(unit, request, hit, end - hit)};
    int64_t pause_ns = kv_path_ask_again_ns(&rest);
    kv_offload->ask_due = pause_ns > 0;
    kv_offload->ask_again_ns = now_ns + pause_ns;
}

void kv_offload_found(struct unit *unit, struct unit_request *request,
                      const struct record_kv_found *record, int64_t now_ns) {
    struct request_kv_offload *kv_offload = request->kv_offload;
    if (!kv_offload || kv_offload->finds == 0 || --kv_offload->finds > 0) return;
    uint32_t found =
        record->blocks < kv_offload->key_count ? record->blocks : kv_offload->key_count;
    if (!request->started) account_found(request, found * KV_BLOCK_TOKENS);
    if (request->state != UNIT_REQUEST_WAITING) return;
    unit->plan_wanted = true;        /* the plan waited for this */
    if (kv_offload->ask_due) return; /* the reply is outdated */
    kv_offload->found = found;
    kv_offload->host = record->host_blocks;
    if (kv_offload->being_written && unit->options.kv_choice != KV_CHOICE_COMPUTE)
        ask_again_for_rest(unit, request, now_ns);
}

int64_t kv_offload_answer_by_ns(struct unit *unit, struct unit_request *request, int64_t now_ns) {
    struct request_kv_offload *kv_offload = request->kv_offload;
    if (!kv_offload || request->state != UNIT_REQUEST_WAITING ||
        unit->options.kv_choice == KV_CHOICE_COMPUTE)
        return 0;
    if (kv_offload->finds == 0) return kv_offload->ask_due ? kv_offload->ask_again_ns : 0;
    if (unit->options.kv_choice == KV_CHOICE_LOAD) return MACHINE_NEVER;
    if (!kv_offload->answer_by_ns) kv_offload->answer_by_ns = now_ns + FOUND_WAIT_NS_MAX;
    return kv_offload->answer_by_ns;
}

/* ---- loading ---- */

/* The storage level that determines the rate of a load: the level with most of its blocks. */
static int kv_offload_of(uint32_t blocks, uint32_t host_blocks) {
    return 2 * host_blocks > blocks ? HOST : DISK;
}

struct load_ask kv_offload_load_ask(const struct unit *unit, const struct unit_request *request,
                                    uint32_t first_block, uint32_t stored_blocks) {
    const struct unit_options *options = &unit->options;
    const struct request_kv_offload *kv_offload = request->kv_offload;
    return (struct load_ask){
        .rate = &unit->kv_offload
                     .rates[kv_offload ? kv_offload_of(kv_offload->found, kv_offload->host) : DISK],
        .cost = &unit->cost,
        .first_block = first_block,
        .block_count = stored_blocks,
        .prompt_tokens = request_known(request),
        .chunk_tokens_max = options->chunk_tokens_max < options->step_tokens_max
                                ? options->chunk_tokens_max
                                : options->step_tokens_max,
        .block_bytes = options->page_bytes,
    };
}

/* The number of blocks to load after those of `hit`, which are in pages. */
static uint32_t choose_blocks(struct unit *unit, const struct unit_request *request,
                              const struct pages_hit *hit) {
    const struct request_kv_offload *kv_offload = request->kv_offload;
    uint32_t count =
        kv_offload->found > hit->block_count ? kv_offload->found - hit->block_count : 0;
    bool other_forms =
        hit->block_count > 0 && /* found by pages_look_up by its text */
        !block_key_equal(&unit->tree.nodes[hit->node].key, &request->keys[hit->block_count - 1]);
    if (count == 0 || other_forms || unit->options.kv_choice == KV_CHOICE_COMPUTE) return 0;
    if (unit->options.kv_choice == KV_CHOICE_LOAD) return count;
    struct kv_path_ask ask = {.load = kv_offload_load_ask(unit, request, hit->block_count, count)};
    if (unit_running_count(unit) == 0 && unit->counts[UNIT_REQUEST_WAITING] == 1 && !unit->others)
        ask.load.layers = unit->options.kv_load_parts;
    struct kv_path_choice choice = kv_path_choose(&ask);
    if (choice.path == KV_PATH_LOAD) {
        unit->kv_offload.computed_instead = 0;
        return choice.load.load_blocks;
    }
    if (++unit->kv_offload.computed_instead <= COMPUTED_MAX) return 0;
    unit->kv_offload.computed_instead = 0;
    return count;
}

static uint32_t kv_offload_slot_of(const struct unit *unit, const struct unit_request *request) {
    return (uint32_t)(request - unit->requests);
}

static void kv_offload_put_load(struct unit *unit, struct unit_request *request, uint32_t first,
                                uint32_t count) {
    struct record_kv_load *load =
        unit_put(unit, RECORD_KV_LOAD,
                 &(struct record_kv_load){.request = request->id,
                                          .first_block = first,
                                          .block_count = count,
                                          .slot = kv_offload_slot_of(unit, request)});
    memcpy(kv_load_keys(load), request->keys + first, count * sizeof *request->keys);
    memcpy(kv_load_pages(load), request->pages + first, count * sizeof *request->pages);
    request->kv_offload->load_blocks = count;
    request->kv_offload->load = load;
    request->kv_offload->ahead = unit->kv_offload.loading_blocks;
    request->kv_offload->loading = true;
    unit->kv_offload.loading_blocks += count;
}

/* Parks the request with all its pages, and loads `count` blocks after those of `hit`. Returns
 * false if there are too few pages, in which case later requests cannot be parked either. */
static bool kv_offload_begin_load(struct unit *unit, struct unit_request *request,
                                  const struct pages_hit *hit, uint32_t count) {
    bool first_start = !request->started;
    if (!unit_request_park(unit, request, hit, request_known(request))) return false;
    request->kv_offload->first_start = first_start;
    kv_offload_put_load(unit, request, hit->block_count, count);
    return true;
}

/* Asks for waiting requests with ask_due. Returns true if it sent any query. */
static bool kv_offload_ask_again(struct unit *unit, uint32_t count) {
    uint32_t asked = 0;
    for (uint32_t i = 0; i < count && asked < ASKS_MAX; i++) {
        const struct schedule_item *item = &unit->scratch.items[unit->scratch.order[i]];
        struct unit_request *request = &unit->requests[item->slot];
        if (item->phase != SCHEDULE_WAITING || !request->kv_offload ||
            !request->kv_offload->ask_due)
            continue;
        kv_offload_ask(unit, request);
        asked++;
    }
    return asked > 0;
}

/* PARKED -> PREFILL. The row may run during the load, and the engine waits for each layer. */
static void join_step(struct unit *unit, struct unit_request *request) {
    request->kv_offload->in_step = true;
    request->kv_offload->load->in_step = 1;
    request->computed_count += request->kv_offload->load_blocks * KV_BLOCK_TOKENS;
    unit_request_go_on(unit, request, UNIT_REQUEST_PREFILL);
}

bool kv_offload_may_wait(const struct unit *unit, const struct unit_request *request,
                         double step_ns) {
    const struct request_kv_offload *kv_offload = request->kv_offload;
    const struct load_rate *rate =
        &unit->kv_offload.rates[kv_offload_of(kv_offload->found, kv_offload->host)];
    struct load_in_step_ask ask = {
        .measured = rate->count > 0,
        .latency_ns = rate->latency_ns,
        .load_ns = load_or_compute_rate_ns(rate, (kv_offload->ahead + kv_offload->load_blocks) *
                                                     unit->options.page_bytes),
        .parts = unit->options.kv_load_parts,
        .step_ns = step_ns,
        .others = unit->others || unit_active_count(unit) > 1,
    };
    return load_in_step(&ask).joins;
}

/* PREFILL -> PARKED: undoes join_step. */
static void leave_step(struct unit *unit, struct unit_request *request) {
    request->kv_offload->in_step = false;
    request->computed_count -= request->kv_offload->load_blocks * KV_BLOCK_TOKENS;
    unit_request_park_again(unit, request);
}

void kv_offload_leave_step(struct unit *unit, struct unit_request *request) {
    request->kv_offload->load->in_step = 0;
    leave_step(unit, request);
}

bool kv_offload_load(struct unit *unit, uint32_t count, struct unit_request **in_step_out) {
    struct unit_request *first = NULL;
    uint32_t looked_up = 0;
    bool asked = kv_offload_ask_again(unit, count);
    for (uint32_t i = 0; i < count && looked_up < LOADS_MAX; i++) {
        const struct schedule_item *item = &unit->scratch.items[unit->scratch.order[i]];
        struct unit_request *request = &unit->requests[item->slot];
        struct request_kv_offload *kv_offload = request->kv_offload;
        if (item->phase != SCHEDULE_WAITING || !kv_offload || kv_offload->found == 0) continue;
        looked_up++;
        struct pages_hit hit = pages_look_up(unit, request);
        if (hit.block_count >= kv_offload->tried_hit) continue; /* already decided */
        uint32_t blocks = choose_blocks(unit, request, &hit);
        if (blocks && !kv_offload_begin_load(unit, request, &hit, blocks)) break;
        kv_offload->tried_hit = hit.block_count;
        if (blocks && !first) first = request;
    }
    if (first && unit->options.kv_load_parts > 1) {
        join_step(unit, first);
        *in_step_out = first;
    }
    return first || asked;
}

bool kv_offload_is_loading(const struct unit_request *request) {
    return request->kv_offload && request->kv_offload->loading;
}

bool kv_offload_is_asked(const struct unit_request *request) {
    return kv_offload_is_loading(request) ||
           (request->kv_offload && request->kv_offload->finds > 0);
}

/* Handles the end of a load. Loaded blocks count as computed, and are shared. */
static void kv_offload_take_end(struct unit *unit, struct unit_request *request,
                                const struct load_end *end) {
    struct request_kv_offload *kv_offload = request->kv_offload;
    int from = kv_offload_of(end->blocks, end->host_blocks);
    uint32_t host_tokens = end->host_blocks * KV_BLOCK_TOKENS;
    uint32_t tokens = end->blocks * KV_BLOCK_TOKENS;
    check(kv_offload->loading && end->blocks <= kv_offload->load_blocks);
    kv_offload->loading = false;
    unit->kv_offload.loading_blocks -= kv_offload->load_blocks;
    load_or_compute_rate_observe(&unit->kv_offload.rates[from],
                                 end->blocks * unit->options.page_bytes, end->ns);
    unit->totals.loaded_host_tokens += host_tokens;
    unit->totals.loaded_disk_tokens += tokens - host_tokens;
    uint32_t first = request->computed_count, behind = first + tokens;
    if (kv_offload->first_start && end->blocks < kv_offload->load_blocks)
        account_missed(request, behind);
    /* The report does not say which blocks were in memory; assume the last ones. */
    account_obtained(request, ACCOUNT_DISK, first, behind - host_tokens);
    account_obtained(request, ACCOUNT_HOST, behind - host_tokens, behind);
    if (request->work.queue_ns < 0) request_work(request)->load_ns += end->ns;
    request->computed_count = behind;
    if (tokens) pages_share(unit, request);
    request->fresh = true;
}

void kv_offload_loaded(struct unit *unit, struct unit_request *request,
                       const struct record_kv_loaded *record, int64_t now_ns) {
    check(request->kv_offload && !request->kv_offload->in_step);
    kv_offload_take_end(unit, request, &record->end);
    unit->plan_wanted = true;
    unit_request_go_on(unit, request, UNIT_REQUEST_PREFILL);
    if (!request->cancelled) account_begins(request, now_ns);
}

bool kv_offload_step_done(struct unit *unit, struct unit_request *request,
                          const struct step_result_row *row) {
    struct request_kv_offload *kv_offload = request->kv_offload;
    bool ended = row && row->load_ended;
    bool counts = ended && !row->lost && row->load_end.blocks == kv_offload->load_blocks;
    check(kv_offload->in_step);
    if (counts)
        unit->totals.loads_in_step++;
    else
        unit->totals.loads_in_step_lost++;
    if (!ended) {
        unit_put(unit, RECORD_KV_PARK,
                 &(struct record_kv_park){.request = request->id,
                                          .slot = kv_offload_slot_of(unit, request)});
        leave_step(unit, request);
        return false;
    }
    kv_offload->in_step = false;
    request->computed_count -= kv_offload->load_blocks * KV_BLOCK_TOKENS;
    kv_offload_take_end(unit, request, &row->load_end);
    if (counts) request->fresh = false; /* the row has run */
    return counts;
}

/* ---- storing blocks ---- */

/* A lease on a block implies leases on those before it, which are the request's first pages. */
static void lease_chain(struct unit *unit, const struct unit_request *request) {
    for (uint32_t i = 0; i < request->shared_count; i++)
        page_table_lease(&unit->pages, request->pages[i]);
    unit->kv_offload.keep_leases += request->shared_count;
}

/* Releases a block and all before it. The request may have ended. */
static void release_chain(struct unit *unit, uint32_t node) {
    while (node != PREFIX_NONE) {
        struct page_id page = {node};
        node = unit->tree.nodes[node].parent;
        page_table_release(&unit->pages, &page, 1);
        unit->kv_offload.keep_leases--;
    }
}

void kv_offload_put(struct unit *unit, const struct unit_request *request, uint32_t first_block) {
    uint32_t count = request->shared_count - first_block;
    if (!unit->options.kv_storage || count == 0) return;
    const struct prefix_node *nodes = unit->tree.nodes;
    struct record_kv_put *keep =
        unit_put(unit, RECORD_KV_PUT,
                 &(struct record_kv_put){
                     .first_block = first_block, .block_count = count, .last_page = request->node});
    struct block_key *keys = kv_keep_keys(keep);
    struct page_id *pages = kv_keep_pages(keep);
    if (first_block) keys[0] = nodes[request->pages[first_block - 1].index].key;
    for (uint32_t i = 0; i < count; i++) {
        pages[i] = request->pages[first_block + i];
        keys[1 + i] = nodes[pages[i].index].key;
    }
    lease_chain(unit, request);
    unit->kv_offload.keeping_count++;
    unit->totals.kept_blocks += count; /* minus those that KV_STORED reports as dropped */
}

void kv_offload_stored(struct unit *unit, const struct record_kv_stored *record) {
    check(unit->kv_offload.keeping_count > 0);
    unit->kv_offload.keeping_count--;
    unit->totals.kept_blocks -= record->dropped;
    unit->totals.dropped_blocks += record->dropped;
    unit->kv_offload.read_only = !record->writable;
    release_chain(unit, record->last_page);
    /* free pages may let a waiting request start */
    unit->plan_wanted = unit->load_changed = true;
}

uint32_t kv_offload_storage_state(const struct unit *unit) {
    if (!unit->options.kv_storage) return KV_STORAGE_NONE;
    return unit->kv_offload.read_only ? KV_STORAGE_READ_ONLY : KV_STORAGE_ON;
}
