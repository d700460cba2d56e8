/* SPDX-License-Identifier: Apache-2.0
 * Protects the counts that `fathom bench layer` divides by: operations and bytes of each part,
 * against figures worked out by hand for DeepSeek-V3, and that the parts of a layer are whole.
 */

#include "bench/layer_work.h"
#include "compute/weights/named_shapes.h"
#include "test_case.h"

static struct shape shape_of(const char *name) {
    char config[NAMED_SHAPES_CONFIG_BYTES];
    size_t bytes = named_shapes_write_config(&(struct named_shape){.name = name}, config);
    struct error error = {""};
    struct shape shape;
    if (shape_parse((struct bytes){config, bytes}, name, &shape, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    return shape;
}

/* DeepSeek's decode micro-batch. */
static struct layer_case decode_of(const struct shape *shape) {
    return (struct layer_case){.shape = shape,
                               .activations = ACTIVATIONS_FP8,
                               .tokens = 128,
                               .context = 4095,
                               .experts = 2,
                               .expert_rows = 512};
}

static void flop_is(const struct layer_case *layer, enum stage_part part, double flop) {
    assert_true(layer_work_of(layer, part).flop == flop);
}

TEST(products_are_counted) {
    struct shape shape = shape_of("v3");
    struct layer_case layer = decode_of(&shape);
    flop_is(&layer, PART_DOWN, 2.0 * 128 * 2112 * 7168);
    flop_is(&layer, PART_QUERY, 2.0 * 128 * 24576 * 1536);
    flop_is(&layer, PART_ABSORB_QUERY, 2.0 * 128 * 128 * 128 * 512);
    flop_is(&layer, PART_CORE, 2.0 * 128 * 128 * 4096 * (576 + 512));
    flop_is(&layer, PART_ABSORB_VALUE, 2.0 * 128 * 128 * 128 * 512);
    flop_is(&layer, PART_OUTPUT, 2.0 * 128 * 7168 * 16384);
    flop_is(&layer, PART_GATE, 2.0 * 128 * 256 * 7168);
    flop_is(&layer, PART_SHARED_UP, 2.0 * 128 * 4096 * 7168);
    flop_is(&layer, PART_SHARED_DOWN, 2.0 * 128 * 7168 * 2048);
    flop_is(&layer, PART_EXPERT_UP, 2.0 * 1024 * 4096 * 7168);
    flop_is(&layer, PART_EXPERT_DOWN, 2.0 * 1024 * 7168 * 2048);
    flop_is(&layer, PART_TOP_K, 0);
    layer.prompt = true;
    layer.tokens = 64;
    layer.context = 128;
    double attended = 64.0 * 128 + 64.0 * 65 / 2;
    flop_is(&layer, PART_CORE_PROMPT, 2 * attended * 128 * (192 + 128) + 2.0 * 192 * 32768 * 512);
}

TEST(kinds_of_products_are_reported_apart) {
    struct shape shape = shape_of("v3");
    struct layer_case layer = decode_of(&shape);
    assert_true(layer_work_of(&layer, PART_QUERY).flop_float == 0);
    assert_true(layer_work_of(&layer, PART_CORE).flop_float ==
                layer_work_of(&layer, PART_CORE).flop);
    assert_true(layer_work_of(&layer, PART_GATE).flop_float ==
                layer_work_of(&layer, PART_GATE).flop);
    layer.prompt = true;
    struct layer_work core = layer_work_of(&layer, PART_CORE_PROMPT);
    assert_true(core.flop_float < core.flop && core.flop_float > 0);
    layer.activations = ACTIVATIONS_F32;
    core = layer_work_of(&layer, PART_CORE_PROMPT);
    assert_true(core.flop_float == core.flop);
}

/* FP8 weights with a float scale a block of 128 x 128, rows of floats, BF16 latents. */
TEST(bytes_are_counted_once) {
    struct shape shape = shape_of("v3");
    struct layer_case layer = decode_of(&shape);
    double weights = 24576.0 * 1536 + 4.0 * 192 * 12;
    assert_true(layer_work_of(&layer, PART_QUERY).bytes == weights + 4.0 * 128 * (1536 + 24576));
    weights = 2112.0 * 7168 + 4.0 * (12 + 5) * 56;
    assert_true(layer_work_of(&layer, PART_DOWN).bytes == weights + 4.0 * 128 * (7168 + 2112));
    weights = 2 * (4096.0 * 7168 + 4.0 * 32 * 56);
    assert_true(layer_work_of(&layer, PART_EXPERT_UP).bytes ==
                weights + 4.0 * 1024 * (7168 + 4096));
    assert_true(layer_work_of(&layer, PART_CORE).bytes ==
                128.0 * 4096 * 1152 + 4.0 * 128 * 128 * (576 + 512));
    assert_true(layer_work_of(&layer, PART_SEND).bytes == 128 * (4.0 * 7168 + 7168 + 4.0 * 56));
    assert_true(layer_work_of(&layer, PART_COMBINE).bytes ==
                128.0 * 8 * 2 * 7168 + 4.0 * 128 * 7168);
    layer.activations = ACTIVATIONS_F32;
    assert_true(layer_work_of(&layer, PART_COMBINE).bytes ==
                128.0 * 8 * 4 * 7168 + 4.0 * 128 * 7168);
}

TEST(parts_run_where_the_engine_runs_them) {
    struct shape v3 = shape_of("v3"), lite = shape_of("v2-lite");
    struct layer_case layer = decode_of(&v3);
    assert_true(layer_work_runs(&layer, PART_CORE) && layer_work_runs(&layer, PART_QUERY));
    assert_false(layer_work_runs(&layer, PART_CORE_PROMPT) || layer_work_runs(&layer, PART_DENSE));
    layer.prompt = true;
    assert_false(layer_work_runs(&layer, PART_CORE) || layer_work_runs(&layer, PART_ABSORB_QUERY));
    layer.shape = &lite; /* q_proj stands where q_a would */
    assert_false(layer_work_runs(&layer, PART_QUERY));
    assert_true(layer_work_of(&layer, PART_QUERY).bytes == 0);
    flop_is(&layer, PART_DOWN, 2.0 * 128 * (16 * 192 + 576) * 2048);
    for (int part = 0; part < STAGE_PART_COUNT; part++)
        if (layer_work_runs(&layer, (enum stage_part)part))
            assert_true(layer_work_of(&layer, (enum stage_part)part).bytes > 0);
}

/* Codes of four bits and a BF16 scale for each group; all other weights are BF16. */
TEST(experts_in_four_bits_have_their_bytes) {
    struct shape shape = shape_of("k2");
    struct layer_case layer = decode_of(&shape);
    double weights = 2 * 4096.0 * 7168 * (0.5 + 2.0 / 32), rows = 4.0 * 1024 * (7168 + 4096);
    assert_true(layer_work_of(&layer, PART_EXPERT_UP).bytes == weights + rows);
    flop_is(&layer, PART_EXPERT_UP, 2.0 * 1024 * 4096 * 7168);
    assert_true(layer_work_of(&layer, PART_SHARED_DOWN).bytes ==
                2.0 * 7168 * 2048 + 4.0 * 128 * (7168 + 2048));
}

/* V3.2: 64 heads of 128 channels score all rows, with keys of 132 bytes; 2,048 are attended to. */
TEST(sparse_attention_costs_its_index_and_the_chosen_rows) {
    struct shape shape = shape_of("v3.2");
    struct layer_case layer = decode_of(&shape);
    layer.context = 2047; /* as in V3, but for the keys */
    assert_true(layer_work_runs(&layer, PART_INDEX_KEYS));
    assert_false(layer_work_runs(&layer, PART_INDEX_SCORE));
    flop_is(&layer, PART_CORE, 2.0 * 128 * 128 * 2048 * (576 + 512));
    layer.context = 32767;
    flop_is(&layer, PART_CORE, 2.0 * 128 * 128 * 2048 * (576 + 512));
    flop_is(&layer, PART_INDEX_SCORE, 2.0 * 128 * 32768 * 64 * 128);
    assert_true(layer_work_of(&layer, PART_INDEX_SCORE).bytes ==
                128.0 * 32768 * 132 + 4.0 * 128 * (64 * 128 + 32768));
    assert_true(layer_work_of(&layer, PART_CORE).bytes ==
                128.0 * 2048 * 1152 + 4.0 * 128 * 128 * (576 + 512));
    layer.prompt = true; /* 48 tokens attend to all rows, 16 to chosen ones */
    layer.tokens = 64;
    layer.context = 2000;
    double attended = 48.0 * 2000 + 48.0 * 49 / 2;
    flop_is(&layer, PART_CORE_PROMPT, 2 * attended * 128 * (192 + 128) + 2.0 * 2048 * 32768 * 512);
    flop_is(&layer, PART_CORE, 2.0 * 16 * 2048 * 128 * (576 + 512));
    flop_is(&layer, PART_INDEX_SCORE, 2.0 * (16 * 2048 + 16.0 * 17 / 2) * 64 * 128);
    layer.context = 2048;
    assert_false(layer_work_runs(&layer, PART_CORE_PROMPT));
}

/* The trace's kernels add up to what was published for a micro-batch without its communication. */
TEST(published_parts_add_up) {
    double decode = 0, sums = 0;
    for (int part = 0; part < STAGE_PART_COUNT; part++)
        decode += layer_work_published(false, (enum stage_part)part);
    for (const struct layer_sum *sum = layer_sums; sum->name[0]; sum++) {
        double parts = 0;
        for (int part = (int)sum->first; part <= (int)sum->last; part++)
            parts += layer_work_published(false, (enum stage_part)part);
        assert_true(parts == sum->decode_us);
        sums += parts;
    }
    assert_true(decode == sums);
    assert_true(decode == 388 + 19 + 128 + 34); /* attention, gate, routed, shared */
}
