/* SPDX-License-Identifier: Apache-2.0
 * Protects the schedules' meaning: whatever the table, each lane goes through every layer's stages
 * in order, once; a prompt that is split between lanes finds its earlier parts' KV rows; each
 * communication of a walk with two lanes has the other lane's work over it; and tables with an
 * urgency keep a link busy that takes as long as the computation.
 */
#include "contract/overlap.h"

#include "test_case.h"

#define LAYERS 5

struct event {
    enum stage stage;
    uint32_t micro_batch, layer;
};

static struct event events[LAYERS * OVERLAP_MICRO_BATCHES * STAGE_COUNT];

/* A world in virtual time: a layer takes each lane so long, and all lanes share one link, which
 * takes what was begun first. */
struct world {
    uint32_t layers, dense;        /* of the layers, the first ones without communication */
    uint32_t work_ns[STAGE_COUNT]; /* of all lanes together */
    uint32_t dispatch_ns, combine_ns;
};

static const struct world instant = {.layers = LAYERS};

/* Takes the place that may run; returns how long the rank waited. */
static uint64_t run_dynamic_order(const struct overlap *overlap, const struct world *world,
                                  struct event *out, uint64_t *end_out) {
    struct overlap_place places[OVERLAP_MICRO_BATCHES] = {{0}};
    uint64_t here_ns[OVERLAP_MICRO_BATCHES] = {0}, now = 0, link = 0, waited = 0;
    for (uint32_t left = overlap->micro_batch_count * world->layers * STAGE_COUNT; left > 0;
         left--) {
        uint32_t micro_batch;
        while ((micro_batch = overlap_next(overlap, world->layers, STAGE_ATTENTION_1, places)) ==
               overlap->micro_batch_count) {
            uint64_t first = UINT64_MAX;
            for (uint32_t i = 0; i < overlap->micro_batch_count; i++)
                if (places[i].waits && here_ns[i] < first) first = here_ns[i];
            assert_true(first != UINT64_MAX && first > now); /* else nothing could ever run */
            waited += first - now;
            now = first;
            for (uint32_t i = 0; i < overlap->micro_batch_count; i++)
                places[i].waits = here_ns[i] > now;
        }
        enum stage stage = places[micro_batch].stage;
        if (out) *out++ = (struct event){stage, micro_batch, places[micro_batch].layer};
        now += world->work_ns[stage] / overlap->micro_batch_count;
        bool sends = places[micro_batch].layer >= world->dense &&
                     (stage == STAGE_DISPATCH || stage == STAGE_MLP);
        uint32_t takes = stage == STAGE_DISPATCH ? world->dispatch_ns : world->combine_ns;
        if (sends)
            here_ns[micro_batch] = link =
                (link > now ? link : now) + takes / overlap->micro_batch_count;
        overlap_advance(&places[micro_batch]);
        for (uint32_t i = 0; i < overlap->micro_batch_count; i++) {
            bool awaits = places[i].stage == STAGE_MLP || places[i].stage == STAGE_COMBINE;
            places[i].waits = awaits && places[i].layer < world->layers && here_ns[i] > now;
        }
    }
    if (end_out) *end_out = now;
    return waited;
}

/* The walk as contract/overlap.h describes it. */
static uint32_t walk(enum overlap_kind kind) {
    const struct overlap *overlap = overlap_of(kind);
    uint32_t count = 0;
    if (overlap->dynamic_order) {
        run_dynamic_order(overlap, &instant, events, NULL);
        return LAYERS * overlap->micro_batch_count * STAGE_COUNT;
    }
    for (int layer = -1; layer < LAYERS; layer++)
        for (uint32_t i = 0; i < overlap->row_count; i++) {
            const struct overlap_row *row = &overlap->rows[i];
            int at = layer + row->ahead;
            if (at < 0 || at >= LAYERS) continue;
            assert_true(row->micro_batch < overlap->micro_batch_count);
            events[count++] = (struct event){row->stage, row->micro_batch, (uint32_t)at};
        }
    return count;
}

static uint32_t place(uint32_t count, enum stage stage, uint32_t micro_batch, uint32_t layer) {
    uint32_t found = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++)
        if (events[i].stage == stage && events[i].micro_batch == micro_batch &&
            events[i].layer == layer) {
            assert_int_equal(found, UINT32_MAX); /* once */
            found = i;
        }
    assert_int_not_equal(found, UINT32_MAX);
    return found;
}

TEST(micro_batches_keep_their_order) {
    for (int kind = 0; kind < OVERLAP_KIND_COUNT; kind++) {
        uint32_t count = walk(kind), micro_batches = overlap_of(kind)->micro_batch_count;
        assert_int_equal(count, LAYERS * micro_batches * STAGE_COUNT);
        for (uint32_t micro_batch = 0; micro_batch < micro_batches; micro_batch++) {
            uint32_t last = 0;
            for (uint32_t layer = 0; layer < LAYERS; layer++)
                for (int stage = 0; stage < STAGE_COUNT; stage++) {
                    uint32_t at = place(count, stage, micro_batch, layer);
                    assert_true(at >= last);
                    last = at;
                }
        }
    }
}

TEST(later_micro_batches_find_earlier_ones_rows) {
    for (int kind = 0; kind < OVERLAP_KIND_COUNT; kind++) {
        uint32_t count = walk(kind);
        for (uint32_t layer = 0; layer < LAYERS; layer++)
            for (uint32_t micro_batch = 1; micro_batch < overlap_of(kind)->micro_batch_count;
                 micro_batch++)
                for (uint32_t before = 0; before < micro_batch; before++)
                    assert_true(place(count, STAGE_ATTENTION_0, before, layer) <
                                place(count, STAGE_ATTENTION_1, micro_batch, layer));
    }
}

/* Also while one before it waits for its results, and whatever is more urgent. */
TEST(attention_waits_for_all_micro_batches_before) {
    const struct overlap *overlap = overlap_of(OVERLAP_OCTO_BATCH);
    struct overlap_place places[OVERLAP_MICRO_BATCHES];
    for (uint32_t i = 0; i < OVERLAP_MICRO_BATCHES; i++)
        places[i] = (struct overlap_place){.layer = 1, .stage = STAGE_ATTENTION_1};
    places[0] = (struct overlap_place){.layer = 0, .stage = STAGE_COMBINE, .waits = true};
    places[1] = (struct overlap_place){.layer = 1, .stage = STAGE_ATTENTION_0};
    assert_int_equal(overlap_next(overlap, LAYERS, STAGE_ATTENTION_1, places), 1);
    overlap_advance(&places[1]); /* now none can run: lane 0 has not written its rows */
    assert_int_equal(overlap_next(overlap, LAYERS, STAGE_ATTENTION_1, places),
                     overlap->micro_batch_count);
    places[0].waits = false;
    assert_int_equal(overlap_next(overlap, LAYERS, STAGE_ATTENTION_1, places), 0);
}

/* An indexer reads the keys of all lanes before it. */
TEST(a_choice_waits_for_all_micro_batches_before) {
    const struct overlap *overlap = overlap_of(OVERLAP_OCTO_BATCH);
    struct overlap_place places[OVERLAP_MICRO_BATCHES];
    for (uint32_t i = 0; i < OVERLAP_MICRO_BATCHES; i++)
        places[i] = (struct overlap_place){.layer = 1, .stage = STAGE_ATTENTION_0};
    places[0] = (struct overlap_place){.layer = 0, .stage = STAGE_COMBINE, .waits = true};
    assert_int_equal(overlap_next(overlap, LAYERS, STAGE_ATTENTION_0, places),
                     overlap->micro_batch_count);
    places[0].waits = false;
    assert_int_equal(overlap_next(overlap, LAYERS, STAGE_ATTENTION_0, places), 0);
    overlap_advance(&places[0]);
    overlap_advance(&places[0]); /* lane 1 can run, but not those behind it */
    places[0].waits = places[1].waits = true;
    assert_int_equal(overlap_next(overlap, LAYERS, STAGE_ATTENTION_0, places),
                     overlap->micro_batch_count);
    places[1].waits = false;
    assert_int_equal(overlap_next(overlap, LAYERS, STAGE_ATTENTION_0, places), 1);
}

/* A prompt of DeepSeek's shares on a link that takes as long as the computation: what cannot be
 * hidden is what the first lane computes before it sends, and what the last one waits for. */
TEST(a_link_as_slow_as_the_work_is_hidden) {
    struct world world = {.layers = 61,
                          .dense = 3,
                          .work_ns = {75000, 710000, 11000, 35000, 227000, 19000},
                          .dispatch_ns = 203000,
                          .combine_ns = 928000};
    uint64_t comm = 58ull * (world.dispatch_ns + world.combine_ns), end;
    assert_true(run_dynamic_order(overlap_of(OVERLAP_HEXA_BATCH), &world, NULL, &end) < comm / 10);
    assert_true(end < comm * 10 / 9);
    world.layers = 4; /* a quarter of the work comes before all communication */
    world.dense = 1;
    world.combine_ns = 1233000;
    comm = 3ull * (world.dispatch_ns + world.combine_ns);
    uint64_t hexa = run_dynamic_order(overlap_of(OVERLAP_HEXA_BATCH), &world, NULL, NULL);
    uint64_t octo = run_dynamic_order(overlap_of(OVERLAP_OCTO_BATCH), &world, NULL, NULL);
    assert_true(octo < hexa && octo < comm * 2 / 10);
}

static bool is_work(enum stage stage) {
    return stage != STAGE_DISPATCH && stage != STAGE_COMBINE;
}

/* Between begin and wait; the first and the last layer have no neighbour for one of theirs. */
TEST(communication_is_covered) {
    for (int kind = OVERLAP_SEQUENTIAL + 1; kind < OVERLAP_KIND_COUNT; kind++) {
        if (overlap_of(kind)->dynamic_order) continue;
        uint32_t count = walk(kind);
        for (uint32_t layer = 1; layer + 1 < LAYERS; layer++)
            for (uint32_t micro_batch = 0; micro_batch < 2; micro_batch++) {
                uint32_t begins[2] = {place(count, STAGE_DISPATCH, micro_batch, layer),
                                      place(count, STAGE_MLP, micro_batch, layer)};
                uint32_t ends[2] = {place(count, STAGE_MLP, micro_batch, layer),
                                    place(count, STAGE_COMBINE, micro_batch, layer)};
                for (int i = 0; i < 2; i++) {
                    uint32_t others = 0;
                    for (uint32_t at = begins[i] + 1; at < ends[i]; at++)
                        others +=
                            events[at].micro_batch != micro_batch && is_work(events[at].stage);
                    assert_true(others > 0);
                }
            }
    }
}

TEST(only_the_five_stage_tables_begin_attention_early) {
    for (int kind = 0; kind < OVERLAP_KIND_COUNT; kind++)
        for (uint32_t tokens = 0; tokens < 200; tokens++) {
            uint32_t early = overlap_early(overlap_of((enum overlap_kind)kind), tokens);
            assert_true(early <= tokens);
            if (kind != OVERLAP_DECODE_FIVE_STAGE && kind != OVERLAP_DECODE_EARLY)
                assert_int_equal(early, 0);
        }
    assert_int_equal(overlap_early(overlap_of(OVERLAP_DECODE_FIVE_STAGE), 3), 0);
    assert_int_equal(overlap_early(overlap_of(OVERLAP_DECODE_FIVE_STAGE), 64), 8);
    assert_int_equal(overlap_early(overlap_of(OVERLAP_DECODE_EARLY), 64), 24);
}

TEST(names_are_given) {
    for (int kind = 0; kind < OVERLAP_KIND_COUNT; kind++)
        assert_non_null(overlap_name(kind));
    for (int stage = 0; stage < STAGE_COUNT; stage++)
        assert_non_null(overlap_stage_name(stage));
}
