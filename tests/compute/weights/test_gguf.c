/* SPDX-License-Identifier: Apache-2.0
 * Protects the reader of GGUF headers: every value and tensor is found where the format has it, and
 * whatever is cut, misplaced, doubled or too large is refused in one line that names it.
 */
#include "test_case.h"

#include "base/check.h"
#include "compute/weights/gguf.h"
#include "gguf_bytes.h"

static char memory[1 << 20];
static struct arena arena;
static struct error error;

static enum status parse(struct bytes file, struct gguf *out) {
    arena_over(&arena, memory, sizeof memory);
    error.text[0] = '\0';
    return gguf_read(file, "m.gguf", &arena, out, &error);
}

/* A file with a value of each kind and three tensors. */
static struct gguf_bytes small(void) {
    struct gguf_bytes file = {.version = 3};
    const uint64_t shape[] = {32, 2, 3};
    const uint8_t blocks[6 * 34] = {7};
    const float values[] = {1, 2, 3};
    gguf_bytes_count(&file, "n", 7);
    gguf_bytes_float(&file, "f", 0.5f);
    gguf_bytes_bool(&file, "b", true);
    gguf_bytes_text(&file, "t", "text");
    gguf_bytes_put(gguf_bytes_pair(&file, "i", GGUF_INT16), &(int16_t){-3}, 2);
    gguf_bytes_put(gguf_bytes_array(&file, "ids", GGUF_INT32, 2), (int32_t[]){4, -5}, 8);
    struct gguf_buffer *texts = gguf_bytes_array(&file, "texts", GGUF_STRING, 2);
    gguf_bytes_put_string(texts, bytes_of("one"));
    gguf_bytes_put_string(texts, bytes_of(""));
    gguf_bytes_tensor(&file, "experts", 8, 3, shape, blocks, sizeof blocks);
    gguf_bytes_tensor(&file, "vector", 0, 1, (uint64_t[]){3}, values, sizeof values);
    gguf_bytes_tensor(&file, "odd", 16, 1, (uint64_t[]){256}, blocks, 66);
    return file;
}

TEST(values_and_tensors_are_found) {
    struct gguf_bytes built = small();
    struct bytes file = gguf_bytes_end(&built), text;
    struct gguf gguf;
    uint64_t count;
    int64_t integer;
    double number;
    bool flag;
    size_t at = 0;
    assert_int_equal(parse(file, &gguf), STATUS_OK);
    assert_true(gguf_get_count(gguf_find(&gguf, "n"), &count) && count == 7);
    assert_true(gguf_get_number(gguf_find(&gguf, "f"), &number) && number == 0.5);
    assert_true(gguf_get_number(gguf_find(&gguf, "i"), &number) && number == -3);
    assert_false(gguf_get_count(gguf_find(&gguf, "i"), &count));
    assert_true(gguf_get_bool(gguf_find(&gguf, "b"), &flag) && flag);
    assert_true(gguf_get_string(gguf_find(&gguf, "t"), &text) && text.count == 4);
    assert_null(gguf_find(&gguf, "u"));
    assert_false(gguf_get_string(NULL, &text) || gguf_get_count(NULL, &count));
    assert_true(gguf_next_integer(gguf_find(&gguf, "ids"), &at, &integer) && integer == 4);
    assert_true(gguf_next_integer(gguf_find(&gguf, "ids"), &at, &integer) && integer == -5);
    assert_false(gguf_next_integer(gguf_find(&gguf, "ids"), &at, &integer));
    at = 0;
    assert_true(gguf_next_string(gguf_find(&gguf, "texts"), &at, &text) && text.count == 3);
    assert_true(gguf_next_string(gguf_find(&gguf, "texts"), &at, &text) && text.count == 0);
    assert_false(gguf_next_string(gguf_find(&gguf, "texts"), &at, &text));
    const struct gguf_tensor *experts = gguf_find_tensor(&gguf, "experts");
    assert_true(experts->type == TENSOR_Q8_0 && experts->dims == 3 && experts->bytes == 204);
    assert_true(experts->shape[0] == 32 && experts->shape[2] == 3 && experts->shape[3] == 1);
    assert_int_equal(*(const char *)experts->data, 7);
    const struct gguf_tensor *vector = gguf_find_tensor(&gguf, "vector");
    assert_true(vector->type == TENSOR_F32 && vector->bytes == 12);
    assert_int_equal(((const char *)vector->data - (const char *)experts->data), 224);
    assert_string_equal(gguf_find_tensor(&gguf, "odd")->type_name, "IQ2_XXS");
    assert_int_equal(gguf_find_tensor(&gguf, "odd")->type, TENSOR_TYPE_COUNT);
    free((void *)(uintptr_t)file.data);
}

/* A file cut anywhere is refused, and never read beyond its end. */
TEST(a_cut_file_is_refused) {
    struct gguf_bytes built = small();
    struct bytes file = gguf_bytes_end(&built);
    struct gguf gguf;
    for (size_t count = 0; count < file.count; count++) {
        char *copy = malloc(count + 1); /* exactly so long, for sanitizers */
        memcpy(copy, file.data, count);
        enum status status = parse((struct bytes){copy, count}, &gguf);
        /* the last tensor's type has no known size */
        if (count + 128 < file.count) assert_int_not_equal(status, STATUS_OK);
        if (status) assert_non_null(strstr(error.text, "m.gguf"));
        free(copy);
    }
    free((void *)(uintptr_t)file.data);
}

static void refuse_bytes(struct bytes file, const char *expected) {
    struct gguf gguf;
    assert_int_not_equal(parse(file, &gguf), STATUS_OK);
    assert_null(strchr(error.text, '\n'));
    if (!strstr(error.text, expected)) fail_msg("'%s' lacks '%s'", error.text, expected);
}

static void refuse(struct gguf_bytes *built, const char *expected) {
    struct bytes file = gguf_bytes_end(built);
    refuse_bytes(file, expected);
    free((void *)(uintptr_t)file.data);
}

TEST(damaged_fronts_are_refused) {
    struct gguf_bytes file = small();
    refuse_bytes(BYTES_LITERAL("PK\3\4 something else"), "expected a GGUF file");
    file.version = 1;
    refuse(&file, "expected GGUF version 2 or 3, found 1");
    file = small();
    file.version = 0x03000000;
    refuse(&file, "(a big-endian file)");
    file = small();
    file.pair_count = 1u << 20;
    refuse(&file, "expected keys that fit the file");
    file = small();
    file.tensor_count = 1u << 30;
    refuse(&file, "expected tensors that fit the file");
}

TEST(damaged_metadata_is_refused) {
    struct gguf_bytes file = small();
    gguf_bytes_count(&file, "n", 8);
    refuse(&file, "key 'n': expected it once, found it twice");
    file = small();
    gguf_bytes_put_u32(gguf_bytes_pair(&file, "x", 13), 0);
    refuse(&file, "key 'x': expected a type of 0 to 12, found 13");
    file = small();
    gguf_bytes_put_u64(gguf_bytes_array(&file, "x", GGUF_ARRAY, 1), 0);
    refuse(&file, "and no array in an array");
    file = small();
    (void)gguf_bytes_array(&file, "x", GGUF_UINT64, UINT64_MAX / 4);
    refuse(&file, "found the file's end");
    file = small();
    gguf_bytes_count(&file, "a key\n", 8);
    refuse(&file, "expected 1 to 256 visible characters");
    file = small();
    gguf_bytes_count(&file, "general.alignment", 24);
    refuse(&file, "general.alignment: expected a power of two");
}

TEST(damaged_tensors_are_refused) {
    struct gguf_bytes file = small();
    const uint64_t large[] = {1ull << 32, 1ull << 31, 2};
    gguf_bytes_tensor(&file, "vector", 0, 1, (uint64_t[]){1}, "1234", 4);
    refuse(&file, "tensor 'vector': expected it once, found it twice");
    file = small();
    gguf_bytes_tensor(&file, "x", 0, 3, large, "", 0);
    refuse(&file, "tensor 'x': expected extents with a product below 2^63");
    file = small();
    gguf_bytes_tensor(&file, "x", 0, 0, large, "", 0);
    refuse(&file, "tensor 'x': expected 1 to 4 dimensions, found 0");
    file = small();
    gguf_bytes_tensor(&file, "x", 12, 2, (uint64_t[]){128, 2}, "", 0);
    refuse(&file, "tensor 'x': expected rows of a multiple of 256 values (Q4_K), found 128");
    file = small();
    gguf_bytes_tensor(&file, "x", 0, 1, (uint64_t[]){1024}, "1234", 4);
    refuse(&file, "tensor 'x': expected 4096 bytes at offset");
    file = small();
    gguf_bytes_tensor(&file, "x", 0, 1, (uint64_t[]){1}, "1234", 4);
    file.infos.data[file.infos.count - 8]++;
    refuse(&file, "tensor 'x': expected an offset at a multiple of the alignment");
    file = small();
    gguf_bytes_tensor(&file, "x", 0, 1, (uint64_t[]){1}, "1234", 4);
    memset(file.infos.data + file.infos.count - 8, 0, 8);
    refuse(&file, "expected to begin behind");
}
