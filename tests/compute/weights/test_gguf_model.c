/* SPDX-License-Identifier: Apache-2.0
 * Protects the promise that a GGUF file is a checkpoint like any other: the tensors of a folder and
 * those of the file that it was converted to have the same names, extents and values, whether kv_b
 * has one part or two and the model one file or several; and missing, misnamed or unusable files
 * are refused by their names.
 */
#include <sys/stat.h>
#include <unistd.h>

#define TEST_OWN_MAIN
#include "test_case.h"

#include "base/check.h"
#include "base/format.h"
#include "compute/weights/checkpoint.h"
#include "compute/weights/gguf_model.h"
#include "gguf_bytes.h"
#include "gguf_of.h"
#include "sandbox.h"

#define TEST_IN_SANDBOX(name) TEST_AROUND(name, sandbox_make, sandbox_remove)

static const char *source_root;
static char directory[1024], path[1024];
static struct error error;

static void convert(const char *sandbox, const char *name, const char *file, struct gguf_of plan) {
    format_text(directory, sizeof directory, "%s/tests/golden/%s", source_root, name);
    format_text(path, sizeof path, "%s/%s", sandbox, file);
    plan.directory = directory;
    plan.path = path;
    gguf_of_write(&plan);
}

static struct checkpoint *opened(const char *at) {
    struct checkpoint *checkpoint;
    if (checkpoint_open(at, CHECKPOINT_WHOLE, &checkpoint, &error)) fail_msg("%s", error.text);
    return checkpoint;
}

/* Compares all tensors that the shape has. */
struct comparison {
    const struct checkpoint *folder, *file;
    uint32_t count;
};

static enum status compare(void *context, const struct layout_tensor *wanted,
                           struct error *ignored) {
    struct comparison *comparison = context;
    const struct tensor *a = checkpoint_tensor(comparison->folder, wanted->name);
    const struct tensor *b = checkpoint_tensor(comparison->file, wanted->name);
    if (!a || !b) {
        assert_true(wanted->is_mtp && !b);
        return STATUS_OK;
    }
    const uint64_t count = wanted->rows * wanted->columns;
    float *left = malloc(count * sizeof *left), *right = malloc(count * sizeof *right);
    assert_true(left && right);
    assert_int_equal(b->dims, wanted->dims);
    tensor_to_float(a, 0, count, left);
    tensor_to_float(b, 0, count, right);
    if (memcmp(left, right, count * sizeof *left) != 0) fail_msg("%s differs", wanted->name);
    if (b->halves) { /* also some of its rows */
        const uint64_t first = wanted->rows / 3, rows = wanted->rows / 2;
        tensor_to_float(b, first * wanted->columns, rows * wanted->columns, right);
        assert_memory_equal(left + first * wanted->columns, right,
                            rows * wanted->columns * sizeof *left);
    }
    free(left);
    free(right);
    comparison->count++;
    return STATUS_OK;
}

static uint32_t compare_all(void) {
    struct comparison comparison = {opened(directory), opened(path), 0};
    assert_int_equal(
        layout_for_each(checkpoint_shape(comparison.folder), compare, &comparison, NULL),
        STATUS_OK);
    checkpoint_close((struct checkpoint *)(uintptr_t)comparison.folder);
    checkpoint_close((struct checkpoint *)(uintptr_t)comparison.file);
    return comparison.count;
}

TEST_IN_SANDBOX(a_file_has_the_tensors_of_its_folder) {
    convert(*cmocka_state, "v3-bf16-negbias-dense0-mtp", "m.gguf", (struct gguf_of){.mtp = true});
    assert_true(compare_all() > 60);
    struct checkpoint *checkpoint = opened(path);
    assert_true(checkpoint_has_mtp(checkpoint));
    checkpoint_close(checkpoint);
    convert(*cmocka_state, "v3-bf16-negbias-dense0-mtp", "m.gguf", (struct gguf_of){.parts = 0});
    assert_true(compare_all() > 50);
    convert(*cmocka_state, "moonlight-bf16-noq-e24", "m.gguf",
            (struct gguf_of){.whole_kv_b = true});
    assert_true(compare_all() > 50);
    convert(*cmocka_state, "glm47flash-bf16", "m.gguf", (struct gguf_of){.parts = 0});
    assert_true(compare_all() > 50);
}

TEST_IN_SANDBOX(identities_differ_by_type_and_by_form) {
    uint8_t ids[3][32];
    const char *const types[] = {"BF16", "F32", "Q8_0"};
    for (size_t i = 0; i < ARRAY_COUNT(types); i++) {
        convert(*cmocka_state, "moonlight-bf16-noq-e24", "m.gguf",
                (struct gguf_of){.type = types[i]});
        struct checkpoint *checkpoint = opened(path);
        checkpoint_identity(checkpoint, ids[i]);
        checkpoint_close(checkpoint);
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(ids[i], ids[k], 32);
    }
}

static void refuse(const char *at, const char *name, const char *expected) {
    struct checkpoint *checkpoint;
    assert_int_not_equal(checkpoint_open(at, CHECKPOINT_WHOLE, &checkpoint, &error), STATUS_OK);
    assert_null(strchr(error.text, '\n'));
    if (!strstr(error.text, name) || !strstr(error.text, expected))
        fail_msg("'%s' lacks '%s' or '%s'", error.text, name, expected);
}

TEST_IN_SANDBOX(a_model_in_several_files) {
    char second[1024], third[1024];
    convert(*cmocka_state, "v2lite-softmax-greedy-yarn", "m-00001-of-00003.gguf",
            (struct gguf_of){.parts = 3});
    assert_true(compare_all() > 30);
    format_text(second, sizeof second, "%s/m-00002-of-00003.gguf", (char *)*cmocka_state);
    format_text(third, sizeof third, "%s/m-00003-of-00003.gguf", (char *)*cmocka_state);
    checkpoint_close(opened(second)); /* any of them is the model */
    struct bytes content = sandbox_read(*cmocka_state, "m-00003-of-00003.gguf");
    sandbox_delete(*cmocka_state, "m-00003-of-00003.gguf");
    refuse(path, "m-00003-of-00003.gguf", "not found, though the model has 3 files");
    sandbox_replace(*cmocka_state, "m-00003-of-00003.gguf", content);
    sandbox_replace(*cmocka_state, "m-00002-of-00003.gguf", content);
    refuse(path, "m-00002-of-00003.gguf", "split.no: expected 1, found 2");
    free((void *)(uintptr_t)content.data);
    content = sandbox_read(*cmocka_state, "m-00001-of-00003.gguf");
    sandbox_replace(*cmocka_state, "one.gguf", content);
    free((void *)(uintptr_t)content.data);
    format_text(path, sizeof path, "%s/one.gguf", (char *)*cmocka_state);
    refuse(path, "one.gguf", "split.count: expected 1, as the file's name says, found 3");
}

TEST_IN_SANDBOX(names_of_files) {
    char folder[1024];
    format_text(folder, sizeof folder, "%s/x.gguf", (char *)*cmocka_state);
    assert_true(gguf_model_is(folder)); /* absent */
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_false(gguf_model_is(folder));
    assert_int_equal(rmdir(folder), 0);
    assert_false(gguf_model_is("x.safetensors") || gguf_model_is(".gguf"));
    refuse(folder, "x.gguf", "");
}

/* Changes the type of a tensor in the header. */
static void retype(const char *sandbox, const char *tensor, uint32_t number) {
    struct bytes content = sandbox_read(sandbox, "m.gguf");
    char *at = memmem(content.data, content.count, tensor, strlen(tensor));
    assert_non_null(at);
    at += strlen(tensor);
    uint32_t dims;
    memcpy(&dims, at, sizeof dims);
    memcpy(at + 4 + 8 * dims, &number, sizeof number);
    sandbox_replace(sandbox, "m.gguf", content);
    free((void *)(uintptr_t)content.data);
}

TEST_IN_SANDBOX(types_that_are_not_supported_are_named) {
    convert(*cmocka_state, "moonlight-bf16-noq-e24", "m.gguf", (struct gguf_of){.parts = 0});
    retype(*cmocka_state, "blk.1.ffn_up_exps.weight", 16);
    refuse(path, "model.layers.1.mlp.experts.0.up_proj.weight", "found IQ2_XXS");
    convert(*cmocka_state, "moonlight-bf16-noq-e24", "m.gguf", (struct gguf_of){.parts = 0});
    retype(*cmocka_state, "blk.2.attn_v_b.weight", 10);
    refuse(path, "model.layers.2.self_attn.kv_b_proj.weight", "found Q2_K");
}

TEST_IN_SANDBOX(experts_are_as_many_as_the_metadata_say) {
    static const char key[] = "deepseek2.expert_count";
    convert(*cmocka_state, "moonlight-bf16-noq-e24", "m.gguf", (struct gguf_of){.parts = 0});
    struct bytes content = sandbox_read(*cmocka_state, "m.gguf");
    char *at = memmem(content.data, content.count, key, sizeof key - 1);
    assert_non_null(at);
    const uint32_t fewer = 20;
    memcpy(at + sizeof key - 1 + 4, &fewer, sizeof fewer); /* after the value's type */
    sandbox_replace(*cmocka_state, "m.gguf", content);
    free((void *)(uintptr_t)content.data);
    refuse(path, "_exps.weight", "expected 20 matrices, as expert_count says, found 24 x 1");
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    source_root = argv[1];
    return test_cases_run();
}
