/* SPDX-License-Identifier: Apache-2.0
 * Protects the promise that a checkpoint is checked before its first token: whatever is missing,
 * cut, misshapen or not a number is refused in one line that names file, tensor, expected and
 * found.
 */
#include <sys/stat.h>
#include <unistd.h>

#define TEST_OWN_MAIN
#include "test_case.h"

#include "base/check.h"
#include "base/format.h"
#include "base/number.h"
#include "compute/weights/checkpoint.h"
#include "compute/weights/named_shapes.h"
#include "config_text.h"
#include "sandbox.h"

#define TEST_IN_SANDBOX(name) TEST_AROUND(name, sandbox_make, sandbox_remove)

#define FP8                                                                                        \
    { "quantization_config", "{\"quant_method\": \"fp8\", \"weight_block_size\": [128, 128]}" }
#define MTP                                                                                        \
    { "num_nextn_predict_layers", "1" }
#define SINGLE "model.safetensors"
#define SECOND "model-00002-of-000003.safetensors"
#define THIRD "model-00003-of-000003.safetensors"
#define INDEX "model.safetensors.index.json"

static const char *source_root;

static struct checkpoint *opened(const char *directory, enum checkpoint_parts parts) {
    struct checkpoint *checkpoint;
    struct error error = {""};
    if (checkpoint_open(directory, parts, &checkpoint, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    return checkpoint;
}

/* Opens, expects a refusal whose one line names `file` in the directory and holds all the other
 * texts (which end with NULL). */
static void assert_refused(const char *directory, const char *file, ...) {
    struct checkpoint *untouched = (struct checkpoint *)(uintptr_t)1, *checkpoint = untouched;
    struct error error = {""};
    char path[600];
    va_list texts;
    assert_int_not_equal(checkpoint_open(directory, CHECKPOINT_WHOLE, &checkpoint, &error),
                         STATUS_OK);
    assert_ptr_equal(checkpoint, untouched);
    assert_null(strchr(error.text, '\n'));
    format_text(path, sizeof path, "%s%s%s", directory, file[0] ? "/" : "", file);
    if (strncmp(error.text, path, strlen(path)))
        fail_msg("'%s' does not begin with '%s'", error.text, path);
    va_start(texts, file);
    for (const char *text; (text = va_arg(texts, const char *));)
        if (!strstr(error.text, text)) fail_msg("'%s' lacks '%s'", error.text, text);
    va_end(texts);
}

static void write_fp8(const char *directory) {
    sandbox_write(directory, (struct random_checkpoint){.config = CONFIG(FP8)});
}

/* Overwrites bytes of a tensor's data in the single file. */
static void poke(const char *directory, const char *name, uint64_t offset, const void *data,
                 size_t bytes) {
    struct bytes content = sandbox_read(directory, SINGLE);
    char key[128];
    unsigned long long begin = 0;
    uint64_t header_bytes = 0;
    for (int i = 7; i >= 0; i--)
        header_bytes = header_bytes << 8 | (uint8_t)content.data[i];
    format_text(key, sizeof key, "\"%s\":", name);
    const char *place = strstr(content.data + 8, key);
    check(place);
    place = strstr(place, "data_offsets");
    check(place && sscanf(place, "data_offsets\":[%llu", &begin) == 1);
    memcpy((char *)(uintptr_t)content.data + 8 + header_bytes + begin + offset, data, bytes);
    sandbox_replace(directory, SINGLE, content);
    free((void *)(uintptr_t)content.data);
}

/* ---- what opens ---- */

TEST(committed_checkpoints_open) {
    static const char *const names[] = {
        "tests/golden/v3-fp8-odd-noq-g1-noyarn",   "tests/golden/v2lite-softmax-greedy-yarn",
        "tests/golden/v3-bf16-negbias-dense0-mtp", "tests/golden/v3-fp8-yarn-g8-mtp-sharded",
        "tests/golden/k2thinking-int4-g32",        "models/tiny-r1"};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        char path[1024];
        format_text(path, sizeof path, "%s/%s", source_root, names[i]);
        struct checkpoint *checkpoint = opened(path, CHECKPOINT_WHOLE);
        const struct shape *shape = checkpoint_shape(checkpoint);
        const struct tensor *embedding = checkpoint_tensor(checkpoint, "model.embed_tokens.weight");
        assert_int_equal(embedding->shape[0], shape->vocab);
        assert_int_equal(embedding->shape[1], shape->hidden);
        assert_int_equal(checkpoint_has_mtp(checkpoint), shape->mtp_layers > 0);
        assert_true(shape->eos_token_count == 1 && shape->eos_tokens[0] == 1);
        checkpoint_close(checkpoint);
    }
}

TEST_IN_SANDBOX(tensors_are_sorted_and_found) {
    sandbox_write(*cmocka_state,
                  (struct random_checkpoint){.config = CONFIG(FP8, MTP), .shards = 3});
    struct checkpoint *checkpoint = opened(*cmocka_state, CHECKPOINT_WHOLE);
    const uint32_t count = checkpoint_tensor_count(checkpoint);
    assert_true(count > 100);
    for (uint32_t i = 0; i < count; i++) {
        const struct tensor *tensor = checkpoint_tensor_at(checkpoint, i);
        if (i) assert_true(strcmp(checkpoint_tensor_at(checkpoint, i - 1)->name, tensor->name) < 0);
        assert_ptr_equal(checkpoint_tensor(checkpoint, tensor->name), tensor);
    }
    assert_null(checkpoint_tensor(checkpoint, "model.layers.0.mlp.gate.weight"));
    assert_null(checkpoint_tensor(checkpoint, ""));
    const struct tensor *norm = checkpoint_tensor(checkpoint, "model.norm.weight");
    assert_null(checkpoint_scale(checkpoint, norm));
    checkpoint_close(checkpoint);
}

TEST_IN_SANDBOX(extra_tensors_are_ignored) {
    write_fp8(*cmocka_state);
    sandbox_edit(*cmocka_state, SINGLE, "{\"__metadata__\":",
                 "{\"model.layers.0.self_attn.rotary_emb.inv_freq\":{\"dtype\":\"I64\","
                 "\"shape\":[0],\"data_offsets\":[0,0]},\"__metadata__\":");
    checkpoint_close(opened(*cmocka_state, CHECKPOINT_WHOLE));
}

TEST_IN_SANDBOX(a_tied_head_is_the_embedding) {
    sandbox_write(*cmocka_state,
                  (struct random_checkpoint){.config = CONFIG({"tie_word_embeddings", "true"})});
    struct checkpoint *checkpoint = opened(*cmocka_state, CHECKPOINT_WHOLE);
    const struct tensor *head = checkpoint_tensor(checkpoint, "lm_head.weight");
    assert_ptr_equal(head->data, checkpoint_tensor(checkpoint, "model.embed_tokens.weight")->data);
    checkpoint_close(checkpoint);
    /* A head that lies in the file all the same is not used. */
    sandbox_write(*cmocka_state, (struct random_checkpoint){.config = CONFIG_BASE});
    sandbox_replace(*cmocka_state, "config.json", CONFIG({"tie_word_embeddings", "true"}));
    checkpoint = opened(*cmocka_state, CHECKPOINT_WHOLE);
    head = checkpoint_tensor(checkpoint, "lm_head.weight");
    assert_ptr_equal(head->data, checkpoint_tensor(checkpoint, "model.embed_tokens.weight")->data);
    checkpoint_close(checkpoint);
}

TEST_IN_SANDBOX(generation_config_adds_stop_tokens) {
    write_fp8(*cmocka_state);
    sandbox_replace(*cmocka_state, "generation_config.json",
                    BYTES_LITERAL("{\"eos_token_id\": [1, 9]}"));
    struct checkpoint *checkpoint = opened(*cmocka_state, CHECKPOINT_WHOLE);
    assert_int_equal(checkpoint_shape(checkpoint)->eos_token_count, 2);
    assert_int_equal(checkpoint_shape(checkpoint)->eos_tokens[1], 9);
    checkpoint_close(checkpoint);
    sandbox_replace(*cmocka_state, "generation_config.json",
                    BYTES_LITERAL("{\"eos_token_id\": \"x\"}"));
    assert_refused(*cmocka_state, "generation_config.json", "eos_token_id", "found 'x'", NULL);
}

static void copy_golden(const char *directory, const char *file) {
    char path[1024];
    format_text(path, sizeof path, "%s/tests/golden/k2thinking-int4-g32", source_root);
    struct bytes content = sandbox_read(path, file);
    sandbox_replace(directory, file, content);
    free((void *)(uintptr_t)content.data);
}

#define EXPERT "model.layers.1.mlp.experts.3.up_proj.weight"

/* The published form: words of eight codes under a name of their own, and a scale for a group. */
TEST_IN_SANDBOX(codes_of_four_bits_stand_for_their_weight) {
    copy_golden(*cmocka_state, "config.json");
    copy_golden(*cmocka_state, SINGLE);
    struct checkpoint *checkpoint = opened(*cmocka_state, CHECKPOINT_WHOLE);
    const struct tensor *weight = checkpoint_tensor(checkpoint, EXPERT);
    const struct tensor *scale = checkpoint_scale(checkpoint, weight);
    assert_true(weight->type == TENSOR_INT4_32 && weight->dims == 2);
    assert_true(weight->shape[0] == 64 && weight->shape[1] == 128 && weight->bytes == 64 * 64);
    assert_true(scale->type == TENSOR_BF16 && scale->shape[0] == 64 && scale->shape[1] == 4);
    const uint32_t word = 0xF8210987u; /* from the lowest bits on: -1, 0, 1, -8, -7, -6, 0, 7 */
    static const float values[] = {-1, 0, 1, -8, -7, -6, 0, 7};
    float found[8];
    checkpoint_close(checkpoint);
    poke(*cmocka_state, EXPERT "_packed", 4, &word, sizeof word);
    checkpoint = opened(*cmocka_state, CHECKPOINT_WHOLE);
    tensor_to_float(checkpoint_tensor(checkpoint, EXPERT), 8, 8, found);
    assert_memory_equal(found, values, sizeof values);
    tensor_to_float(checkpoint_tensor(checkpoint, EXPERT), 11, 1, found);
    assert_true(found[0] == -8);
    checkpoint_close(checkpoint);
}

/* ---- what is refused ---- */

TEST_IN_SANDBOX(codes_of_four_bits_that_do_not_fit) {
    static const struct {
        const char *old, *new, *message;
    } rows[] = {
        {EXPERT "_scale\"", EXPERT "_skale\"",
         EXPERT
         "_scale': expected BF16 [64, 4] for its INT4 in groups of 32 weight, found no such"},
        {EXPERT "_packed\"", EXPERT "_pakked\"",
         EXPERT "': expected INT4 in groups of 32, BF16, F16 or F32 [64, 128], found no such"},
        {EXPERT "_packed\":{\"dtype\":\"I32\"", EXPERT "_packed\":{\"dtype\":\"F32\"",
         EXPERT "': expected INT4 in groups of 32, BF16, F16 or F32 [64, 128], found F32 [64, 16]"},
        {EXPERT "_packed\":{\"dtype\":\"I32\",\"shape\":[64,16]",
         EXPERT "_packed\":{\"dtype\":\"I32\",\"shape\":[16,64]",
         EXPERT "': expected INT4 in groups of 32, BF16, F16 or F32 [64, 128], found INT4 in "
                "groups of 32 [16, 512]"},
        {EXPERT "_scale\":{\"dtype\":\"BF16\"", EXPERT "_scale\":{\"dtype\":\"F16\"",
         EXPERT "_scale': expected BF16 [64, 4], found F16 [64, 4]"},
        {"lm_head.weight\"", EXPERT "\"",
         EXPERT "': expected one tensor, found it twice, as codes and as another type"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        copy_golden(*cmocka_state, "config.json");
        copy_golden(*cmocka_state, SINGLE);
        sandbox_edit(*cmocka_state, SINGLE, rows[i].old, rows[i].new);
        assert_refused(*cmocka_state, SINGLE, rows[i].message, NULL);
    }
}

TEST_IN_SANDBOX(what_is_no_checkpoint_is_refused) {
    assert_refused(*cmocka_state, "config.json", "not found", NULL);
    sandbox_replace(*cmocka_state, "config.json", CONFIG_BASE);
    assert_refused(*cmocka_state, "", "expected model.safetensors or model.safetensors.index.json",
                   NULL);
    sandbox_replace(*cmocka_state, SINGLE, (struct bytes){"", 0});
    assert_refused(*cmocka_state, SINGLE, "expected a safetensors file, found only 0 bytes", NULL);
    sandbox_replace(*cmocka_state, "config.json",
                    CONFIG({"architectures", "[\"LlamaForCausalLM\"]"}));
    assert_refused(*cmocka_state, "config.json", "architectures", "LlamaForCausalLM", NULL);
}

/* A FIFO that nobody writes to is refused, and not waited for. */
TEST_IN_SANDBOX(a_fifo_is_no_file) {
    static const char *const names[] = {"config.json", "generation_config.json", SINGLE, INDEX};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        char path[1024];
        sandbox_write(*cmocka_state, (struct random_checkpoint){.config = CONFIG_BASE});
        if (i == 3) sandbox_delete(*cmocka_state, SINGLE);
        format_text(path, sizeof path, "%s/%s", (const char *)*cmocka_state, names[i]);
        (void)unlink(path);
        assert_int_equal(mkfifo(path, 0600), 0);
        assert_refused(*cmocka_state, names[i], "expected a regular file, found a FIFO", NULL);
        assert_int_equal(unlink(path), 0);
    }
    sandbox_write(*cmocka_state, (struct random_checkpoint){.config = CONFIG_BASE, .shards = 3});
    char path[1024];
    format_text(path, sizeof path, "%s/%s", (const char *)*cmocka_state, SECOND);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_refused(*cmocka_state, SECOND, "expected a regular file, found a FIFO", NULL);
}

TEST_IN_SANDBOX(a_missing_tensor) {
    write_fp8(*cmocka_state);
    sandbox_edit(*cmocka_state, SINGLE, "\"model.norm.weight\"", "\"model.morn.weight\"");
    assert_refused(*cmocka_state, SINGLE, "tensor 'model.norm.weight'",
                   "expected BF16, F16 or F32 [24]", "found no such tensor", NULL);
    write_fp8(*cmocka_state);
    sandbox_edit(*cmocka_state, SINGLE, "\"model.layers.1.mlp.experts.3.up_proj.weight\"", "\"x\"");
    assert_refused(*cmocka_state, SINGLE, "tensor 'model.layers.1.mlp.experts.3.up_proj.weight'",
                   "expected F8_E4M3, BF16, F16 or F32 [10, 24]", "found no such tensor", NULL);
}

TEST_IN_SANDBOX(a_misshapen_tensor) {
    write_fp8(*cmocka_state);
    sandbox_replace(*cmocka_state, "config.json", CONFIG(FP8, {"vocab_size", "41"}));
    assert_refused(*cmocka_state, SINGLE, "tensor 'model.embed_tokens.weight'",
                   "expected BF16, F16 or F32 [41, 24]", "found BF16 [40, 24]", NULL);
    write_fp8(*cmocka_state);
    sandbox_edit(*cmocka_state, SINGLE, "\"shape\":[40,24]", "\"shape\":[2,20,24]");
    assert_refused(*cmocka_state, SINGLE, "tensor 'model.embed_tokens.weight'",
                   "found BF16 [2, 20, 24]", NULL);
    write_fp8(*cmocka_state);
    sandbox_edit(*cmocka_state, SINGLE, "\"shape\":[40,24]", "\"shape\":[24,40]");
    assert_refused(*cmocka_state, SINGLE, "expected BF16, F16 or F32 [40, 24], found BF16 [24, 40]",
                   NULL);
}

TEST_IN_SANDBOX(a_cut_file) {
    write_fp8(*cmocka_state);
    sandbox_cut(*cmocka_state, SINGLE, 1);
    assert_refused(*cmocka_state, SINGLE, "tensor 'lm_head.weight'",
                   "expected an end within the file's", "truncated", NULL);
    write_fp8(*cmocka_state);
    struct bytes whole = sandbox_read(*cmocka_state, SINGLE);
    sandbox_replace(*cmocka_state, SINGLE, (struct bytes){whole.data, 100});
    assert_refused(*cmocka_state, SINGLE, "expected a header of", "found 100 bytes in all", NULL);
    free((void *)(uintptr_t)whole.data);
}

TEST_IN_SANDBOX(an_offset_outside) {
    write_fp8(*cmocka_state);
    sandbox_edit(*cmocka_state, SINGLE, "\"data_offsets\":[0,1920]",
                 "\"data_offsets\":[99999999,100001919]");
    assert_refused(*cmocka_state, SINGLE, "tensor 'model.embed_tokens.weight'",
                   "data_offsets [99999999, 100001919]", "expected an end within the file's", NULL);
}

#define GATE "model.layers.0.mlp.gate_proj.weight"

TEST_IN_SANDBOX(a_type_we_cannot_use) {
    write_fp8(*cmocka_state);
    sandbox_edit(*cmocka_state, SINGLE, GATE "\":{\"dtype\":\"F8_E4M3\"",
                 GATE "\":{\"dtype\":\"F8_E5M2\"");
    assert_refused(*cmocka_state, SINGLE, "tensor '" GATE "'",
                   "expected F8_E4M3, BF16, F16 or F32 [20, 24], found F8_E5M2 [20, 24]", NULL);
    write_fp8(*cmocka_state);
    sandbox_edit(*cmocka_state, SINGLE, GATE "\":{\"dtype\":\"F8_E4M3\"",
                 GATE "\":{\"dtype\":\"I8\"");
    assert_refused(*cmocka_state, SINGLE, "tensor '" GATE "'", "found I8 [20, 24]", NULL);
    write_fp8(*cmocka_state);
    sandbox_edit(*cmocka_state, SINGLE, GATE "\":{\"dtype\":\"F8_E4M3\"",
                 GATE "\":{\"dtype\":\"Q8_0\"");
    assert_refused(*cmocka_state, SINGLE, "tensor '" GATE "'", "found 'Q8_0'", NULL);
    write_fp8(*cmocka_state); /* FP8 where the format has none */
    sandbox_edit(*cmocka_state, SINGLE, "\"BF16\",\"shape\":[40,24]",
                 "\"F8_E4M3\",\"shape\":[40,48]");
    assert_refused(*cmocka_state, SINGLE,
                   "expected BF16, F16 or F32 [40, 24], found F8_E4M3 [40, 48]", NULL);
    write_fp8(*cmocka_state);
    sandbox_replace(*cmocka_state, "config.json", CONFIG_BASE);
    assert_refused(*cmocka_state, SINGLE, "expected BF16, F16 or F32, found F8_E4M3",
                   "no quantization_config", NULL);
}

#define SCALE GATE "_scale_inv"

TEST_IN_SANDBOX(a_bad_scale) {
    static const float values[] = {NAN, INFINITY, -1.0f};
    static const char *const found[] = {"found nan at [0, 0]", "found inf at [0, 0]",
                                        "found -1 at [0, 0]"};
    for (size_t i = 0; i < ARRAY_COUNT(values); i++) {
        write_fp8(*cmocka_state);
        poke(*cmocka_state, SCALE, 0, &values[i], sizeof values[i]);
        assert_refused(*cmocka_state, SINGLE, "tensor '" SCALE "'",
                       "expected finite scales of 0 or more", found[i], NULL);
    }
    poke(*cmocka_state, SCALE, 0, &(const float){0}, sizeof(float)); /* an all-zero block */
    checkpoint_close(opened(*cmocka_state, CHECKPOINT_WHOLE));
    write_fp8(*cmocka_state);
    sandbox_edit(*cmocka_state, SINGLE, "\"" SCALE "\"", "\"x\"");
    assert_refused(*cmocka_state, SINGLE, "tensor '" SCALE "'", "expected F32 [1, 1]",
                   "found no such tensor", NULL);
    write_fp8(*cmocka_state);
    sandbox_edit(*cmocka_state, SINGLE, SCALE "\":{\"dtype\":\"F32\"",
                 SCALE "\":{\"dtype\":\"U32\"");
    assert_refused(*cmocka_state, SINGLE, "tensor '" SCALE "'",
                   "expected F32 [1, 1], found U32 [1, 1]", NULL);
    write_fp8(*cmocka_state);
    sandbox_edit(*cmocka_state, SINGLE, SCALE "\":{\"dtype\":\"F32\",\"shape\":[1,1]",
                 SCALE "\":{\"dtype\":\"F32\",\"shape\":[1]");
    assert_refused(*cmocka_state, SINGLE, "tensor '" SCALE "'",
                   "expected F32 [1, 1], found F32 [1]", NULL);
    write_fp8(*cmocka_state); /* BF16 scales are fine */
    sandbox_edit(*cmocka_state, SINGLE, SCALE "\":{\"dtype\":\"F32\",\"shape\":[1,1]",
                 SCALE "\":{\"dtype\":\"BF16\",\"shape\":[1,2]");
    assert_refused(*cmocka_state, SINGLE, "tensor '" SCALE "'", "found BF16 [1, 2]", NULL);
}

TEST_IN_SANDBOX(a_norm_or_bias_that_is_no_number) {
    static const uint16_t nan_bits = 0x7FC0;
    static const float infinity = INFINITY;
    write_fp8(*cmocka_state);
    poke(*cmocka_state, "model.norm.weight", 4, &nan_bits, sizeof nan_bits);
    assert_refused(*cmocka_state, SINGLE, "tensor 'model.norm.weight'", "expected finite values",
                   "found nan at [2]", NULL);
    write_fp8(*cmocka_state);
    poke(*cmocka_state, "model.layers.1.mlp.gate.e_score_correction_bias", 12, &infinity,
         sizeof infinity);
    assert_refused(*cmocka_state, SINGLE,
                   "tensor 'model.layers.1.mlp.gate.e_score_correction_bias'", "found inf at [3]",
                   NULL);
}

TEST_IN_SANDBOX(an_mtp_layer_is_whole_or_absent) {
    struct random_checkpoint plan = {.config = CONFIG(MTP), .without_mtp = true};
    sandbox_write(*cmocka_state, plan);
    struct checkpoint *checkpoint = opened(*cmocka_state, CHECKPOINT_WHOLE);
    assert_false(checkpoint_has_mtp(checkpoint));
    checkpoint_close(checkpoint);
    plan.without_mtp = false;
    sandbox_write(*cmocka_state, plan);
    sandbox_edit(*cmocka_state, SINGLE, "\"model.layers.2.enorm.weight\"", "\"x\"");
    assert_refused(*cmocka_state, SINGLE, "tensor 'model.layers.2.enorm.weight'",
                   "found no such tensor", NULL);
    sandbox_write(*cmocka_state, plan); /* its copies of embedding and head may be missing */
    sandbox_edit(*cmocka_state, SINGLE, "\"model.layers.2.embed_tokens.weight\"", "\"x\"");
    sandbox_edit(*cmocka_state, SINGLE, "\"model.layers.2.shared_head.head.weight\"", "\"y\"");
    checkpoint = opened(*cmocka_state, CHECKPOINT_WHOLE);
    assert_true(checkpoint_has_mtp(checkpoint));
    checkpoint_close(checkpoint);
}

/* ---- shards ---- */

static void write_shards(const char *directory) {
    sandbox_write(directory, (struct random_checkpoint){.config = CONFIG(FP8), .shards = 3});
}

TEST_IN_SANDBOX(a_shard_or_its_tensor_is_missing) {
    write_shards(*cmocka_state);
    sandbox_delete(*cmocka_state, SECOND);
    assert_refused(*cmocka_state, SECOND, "shard is missing", INDEX, NULL);
    write_shards(*cmocka_state);
    sandbox_edit(*cmocka_state, THIRD, "\"lm_head.weight\"", "\"x\"");
    assert_refused(*cmocka_state, THIRD, "tensor 'lm_head.weight'",
                   "expected in this file by " INDEX, "found no such tensor", NULL);
    write_shards(*cmocka_state);
    sandbox_edit(*cmocka_state, INDEX, "\"lm_head.weight\"", "\"x\"");
    assert_refused(*cmocka_state, THIRD, "tensor 'x'", "found no such tensor", NULL);
    write_shards(*cmocka_state);
    sandbox_edit(*cmocka_state, INDEX, ",\n\"lm_head.weight\":\"" THIRD "\"", "");
    assert_refused(*cmocka_state, INDEX, "tensor 'lm_head.weight'",
                   "expected BF16, F16 or F32 [40, 24]", "found no such tensor", NULL);
}

TEST_IN_SANDBOX(an_index_that_lies) {
    static const char *const names[] = {
        "\"../secret.safetensors\"", "\"/etc/passwd\"", "\"\"", "\"..\"", "7", "\"a\\u0000b\""};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        write_shards(*cmocka_state);
        sandbox_edit(*cmocka_state, INDEX, "\"" SECOND "\"", names[i]);
        assert_refused(*cmocka_state, INDEX, "weight_map: tensor '", "expected the name of a file",
                       NULL);
    }
    sandbox_replace(*cmocka_state, INDEX, BYTES_LITERAL("{\"weight_map\": []}"));
    assert_refused(*cmocka_state, INDEX, "weight_map: expected an object, found an array", NULL);
    sandbox_replace(*cmocka_state, INDEX, BYTES_LITERAL("{}"));
    assert_refused(*cmocka_state, INDEX, "weight_map: expected an object, found nothing", NULL);
    sandbox_replace(*cmocka_state, INDEX,
                    BYTES_LITERAL("{\"weight_map\": {\"a\\u0000b\": \"x\"}}"));
    assert_refused(*cmocka_state, INDEX, "a zero byte in the key", NULL);
    sandbox_replace(*cmocka_state, INDEX, BYTES_LITERAL("{\"weight_map\": {"));
    assert_refused(*cmocka_state, INDEX, "not valid JSON", NULL);
    sandbox_replace(*cmocka_state, INDEX, BYTES_LITERAL("{\"weight_map\": {}}"));
    assert_refused(*cmocka_state, INDEX, "tensor 'model.embed_tokens.weight'",
                   "found no such tensor", NULL);
}

/* ---- inspection ---- */

TEST_IN_SANDBOX(inspects_without_shards) {
    write_shards(*cmocka_state);
    struct checkpoint *whole = opened(*cmocka_state, CHECKPOINT_WHOLE);
    sandbox_delete(*cmocka_state, SECOND);
    sandbox_delete(*cmocka_state, THIRD);
    struct checkpoint *parts = opened(*cmocka_state, CHECKPOINT_SHAPE_ONLY);
    const uint32_t count = checkpoint_tensor_count(whole);
    uint32_t absent = 0;
    assert_true(checkpoint_has_weights(whole) && !checkpoint_has_weights(parts));
    assert_int_equal(checkpoint_tensor_count(parts), count);
    for (uint32_t i = 0; i < count; i++) {
        const struct tensor *a = checkpoint_tensor_at(whole, i),
                            *b = checkpoint_tensor_at(parts, i);
        assert_string_equal(a->name, b->name);
        assert_int_equal(a->type, b->type);
        assert_int_equal(a->bytes, b->bytes);
        assert_int_equal(a->shape[0], b->shape[0]);
        assert_int_equal(a->shape[1], b->shape[1]);
        assert_string_equal(a->file, b->file);
        absent += b->data == NULL;
    }
    assert_true(absent > 0 && absent < count);
    checkpoint_close(whole);
    checkpoint_close(parts);
    /* An index that lacks a tensor is refused all the same. */
    sandbox_edit(*cmocka_state, INDEX, "\"lm_head.weight\"", "\"x\"");
    struct error error;
    assert_int_equal(checkpoint_open(*cmocka_state, CHECKPOINT_SHAPE_ONLY, &parts, &error),
                     STATUS_NOT_FOUND);
    assert_non_null(strstr(error.text, "tensor 'lm_head.weight'"));
}

TEST_IN_SANDBOX(inspects_config_alone) {
    sandbox_replace(*cmocka_state, "config.json", CONFIG(MTP));
    struct checkpoint *checkpoint = opened(*cmocka_state, CHECKPOINT_SHAPE_ONLY);
    assert_int_equal(checkpoint_tensor_count(checkpoint), 0);
    assert_false(checkpoint_has_weights(checkpoint));
    assert_true(checkpoint_has_mtp(checkpoint));
    assert_null(checkpoint_tensor(checkpoint, "lm_head.weight"));
    checkpoint_close(checkpoint);
}

/* ---- identity ---- */

static void identify(const char *directory, uint64_t seed, struct bytes config, uint8_t out[32]) {
    sandbox_write(directory, (struct random_checkpoint){.config = config, .seed = seed});
    struct checkpoint *checkpoint = opened(directory, CHECKPOINT_WHOLE);
    checkpoint_identity(checkpoint, out);
    checkpoint_close(checkpoint);
}

/* Caches are keyed by it: another training, another shape or other keys must not share an identity.
 */
TEST_IN_SANDBOX(identity_reports_weights_apart) {
    uint8_t first[32], again[32], other[32];
    identify(*cmocka_state, 1, CONFIG(FP8), first);
    identify(*cmocka_state, 1, CONFIG(FP8), again);
    assert_memory_equal(first, again, 32);
    identify(*cmocka_state, 2, CONFIG(FP8), other);
    assert_memory_not_equal(first, other, 32);
    identify(*cmocka_state, 1, CONFIG(FP8, {"routed_scaling_factor", "3.0"}), other);
    assert_memory_not_equal(first, other, 32);
    char config[NAMED_SHAPES_CONFIG_BYTES];
    struct bytes tiny = {config,
                         named_shapes_write_config(&(struct named_shape){.name = "tiny"}, config)};
    identify(*cmocka_state, 1, tiny, first); /* larger than what is hashed whole */
    identify(*cmocka_state, 2, tiny, other);
    assert_memory_not_equal(first, other, 32);
}

int main(int argc, char **argv) {
    check(argc == 2);
    source_root = argv[1];
    return test_cases_run();
}

struct stages {
    uint64_t reports[3], last[3], total[3]; /* by enum load_stage */
};

static void count_stage(void *context, enum load_stage stage, uint64_t done, uint64_t total) {
    struct stages *stages = context;
    assert_true(done <= total && (!stages->reports[stage] || done > stages->last[stage]));
    stages->reports[stage]++;
    stages->last[stage] = done;
    stages->total[stage] = total;
}

TEST_IN_SANDBOX(progress_is_reported_from_the_first_shard) {
    struct stages stages = {.reports = {0}};
    const struct load_progress progress = {count_stage, &stages};
    struct checkpoint *checkpoint;
    sandbox_write(*cmocka_state, (struct random_checkpoint){.config = CONFIG(FP8), .shards = 3});
    assert_int_equal(checkpoint_open_reporting(*cmocka_state, CHECKPOINT_UNVERIFIED, &progress,
                                               &checkpoint, NULL),
                     STATUS_OK);
    assert_int_equal(stages.reports[LOAD_HEADERS], 3);
    assert_int_equal(stages.total[LOAD_HEADERS], 3);
    assert_int_equal(stages.reports[LOAD_SCALES], 0);
    assert_int_equal(checkpoint_verify(checkpoint, &progress, NULL), STATUS_OK);
    assert_int_equal(stages.total[LOAD_SCALES], checkpoint_tensor_count(checkpoint));
    uint64_t once = stages.reports[LOAD_SCALES];
    assert_true(once > 0);
    assert_int_equal(checkpoint_verify(checkpoint, &progress, NULL), STATUS_OK);
    assert_int_equal(stages.reports[LOAD_SCALES], once); /* they are not checked again */
    checkpoint_close(checkpoint);
}
