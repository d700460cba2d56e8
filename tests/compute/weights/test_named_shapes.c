/* SPDX-License-Identifier: Apache-2.0
 * Protects the named shapes: each is the model that its name says, in every form of weights that
 * its sizes allow, and can be cut to its first layers.
 */
#include "compute/weights/named_shapes.h"

#include "base/check.h"
#include "test_case.h"

static struct shape shape_of(const struct named_shape *named) {
    char config[NAMED_SHAPES_CONFIG_BYTES];
    size_t bytes = named_shapes_write_config(named, config);
    struct error error = {""};
    struct shape shape;
    assert_true(bytes > 0 && bytes < sizeof config - 1);
    if (shape_parse((struct bytes){config, bytes}, named->name, &shape, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    return shape;
}

/* Layers, heads and experts of the published models. */
TEST(each_name_is_that_model) {
    static const struct {
        const char *name;
        enum architecture architecture;
        enum named_weights weights;
        uint32_t layers, hidden, heads, experts, chosen, index_heads;
    } models[] = {
        {"v3", ARCHITECTURE_DEEPSEEK_V3, NAMED_WEIGHTS_FP8, 61, 7168, 128, 256, 8, 0},
        {"v3.2", ARCHITECTURE_DEEPSEEK_V32, NAMED_WEIGHTS_FP8, 61, 7168, 128, 256, 8, 64},
        {"v2-lite", ARCHITECTURE_DEEPSEEK_V2, NAMED_WEIGHTS_FP8, 27, 2048, 16, 64, 6, 0},
        {"k2", ARCHITECTURE_DEEPSEEK_V3, NAMED_WEIGHTS_INT4_32, 61, 7168, 64, 384, 8, 0},
        {"glm-5", ARCHITECTURE_GLM_MOE_DSA, NAMED_WEIGHTS_BF16, 78, 6144, 64, 256, 8, 32},
        {"moonlight", ARCHITECTURE_DEEPSEEK_V3, NAMED_WEIGHTS_BF16, 27, 2048, 16, 64, 6, 0},
        {"glm-4.7-flash", ARCHITECTURE_GLM4_MOE_LITE, NAMED_WEIGHTS_BF16, 47, 2048, 20, 64, 4, 0},
        {"dsv3b", ARCHITECTURE_DEEPSEEK_V3, NAMED_WEIGHTS_FP8, 8, 1024, 16, 64, 8, 0},
        {"tiny", ARCHITECTURE_DEEPSEEK_V3, NAMED_WEIGHTS_FP8, 3, 192, 4, 32, 8, 0},
    };
    for (size_t i = 0; i < ARRAY_COUNT(models); i++) {
        struct shape shape = shape_of(&(struct named_shape){.name = models[i].name});
        assert_int_equal(shape.architecture, models[i].architecture);
        assert_int_equal(named_shapes_weights_of(&shape), models[i].weights);
        assert_int_equal(shape.layers, models[i].layers);
        assert_int_equal(shape.hidden, models[i].hidden);
        assert_int_equal(shape.heads, models[i].heads);
        assert_int_equal(shape.experts, models[i].experts);
        assert_int_equal(shape.experts_per_token, models[i].chosen);
        assert_int_equal(shape.index_heads, models[i].index_heads);
        assert_int_equal(shape.mtp_layers, 0);
        assert_non_null(strstr(NAMED_SHAPES_CHOICES, models[i].name));
    }
}

TEST(weights_layers_and_mtp_are_chosen) {
    for (int weights = NAMED_WEIGHTS_FP8; weights < NAMED_WEIGHTS_COUNT; weights++) {
        struct shape shape = shape_of(
            &(struct named_shape){"k2", (enum named_weights)weights, .layers = 2, .mtp = true});
        assert_int_equal(named_shapes_weights_of(&shape), weights);
        assert_int_equal(shape.layers, 2);
        assert_int_equal(shape.mtp_layers, 1);
        assert_true(!shape_layer_is_moe(&shape, 0) && shape_layer_is_moe(&shape, 1));
    }
    char config[NAMED_SHAPES_CONFIG_BYTES];
    assert_int_equal(named_shapes_write_config(&(struct named_shape){.name = "huge"}, config), 0);
}

TEST(weights_have_the_names_of_options) {
    assert_int_equal(named_shapes_find_weights("auto"), NAMED_WEIGHTS_AUTO);
    assert_int_equal(named_shapes_find_weights("int4-g128"), NAMED_WEIGHTS_INT4_128);
    assert_int_equal(named_shapes_find_weights("mxfp4"), NAMED_WEIGHTS_MXFP4);
    assert_int_equal(named_shapes_find_weights("int4"), NAMED_WEIGHTS_COUNT);
}
