/* SPDX-License-Identifier: Apache-2.0
 * Protects against files that lie: whatever a header claims, no tensor reaches outside the file,
 * and the refusal names file, tensor, expected and found in one line.
 */
#define TEST_OWN_MAIN
#include "test_case.h"

#include "base/check.h"
#include "base/format.h"
#include "compute/weights/safetensors.h"

#define MEMORY_BYTES ((size_t)4 << 20)

static char *memory;
static struct error error;

/* A file with that header and `data_bytes` of data, in a block of exactly its size (so that a
 * checker of addresses sees any byte read beyond it). The caller frees file.data. */
static struct bytes file_of(const char *header, size_t data_bytes) {
    const size_t length = strlen(header), bytes = 8 + length + data_bytes;
    uint8_t *file = malloc(bytes);
    for (int i = 0; i < 8; i++)
        file[i] = (uint8_t)(length >> (8 * i));
    memcpy(file + 8, header, length);
    for (size_t i = 0; i < data_bytes; i++)
        file[8 + length + i] = (uint8_t)i;
    return (struct bytes){(char *)file, bytes};
}

static enum status read_file(struct bytes file, struct safetensors *out) {
    struct arena arena;
    arena_over(&arena, memory, MEMORY_BYTES);
    error.text[0] = '\0';
    return safetensors_read(file, "m.safetensors", &arena, out, &error);
}

TEST(every_part_is_read) {
    struct safetensors found;
    struct bytes file =
        file_of("{\"__metadata__\":{\"format\":\"pt\"},"
                "\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[8,32]},"
                "\"a\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[0,8]},"
                "\"none\":{\"dtype\":\"F16\",\"shape\":[0,5],\"data_offsets\":[4,4]},"
                "\"one\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[33,41]},"
                "\"q\":{\"dtype\":\"F8_E4M3\",\"shape\":[1],\"data_offsets\":[32,33]}}  ",
                50);
    assert_int_equal(read_file(file, &found), STATUS_OK);
    assert_int_equal(found.count, 5);
    assert_string_equal(found.entries[0].name, "b");
    assert_int_equal(found.entries[0].type, TENSOR_F32);
    assert_int_equal(found.entries[0].dims, 2);
    assert_int_equal(found.entries[0].shape[1], 3);
    assert_int_equal(found.entries[0].bytes, 24);
    assert_int_equal(*(const uint8_t *)found.entries[0].data, 8);
    assert_int_equal(found.entries[2].bytes, 0);
    assert_int_equal(found.entries[3].type, TENSOR_TYPE_COUNT);
    assert_string_equal(found.entries[3].type_name, "I64");
    assert_int_equal(found.entries[4].type, TENSOR_E4M3);
    assert_int_equal(*(const uint8_t *)found.entries[4].data, 32);
    free((void *)(uintptr_t)file.data);
}

#define ONE(dtype, shape, offsets)                                                                 \
    "{\"w\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

static const struct {
    const char *header;
    size_t data_bytes;
    const char *message;
} bad[] = {
    {ONE("\"F32\"", "[2,2]", "[0,16]"), 15,
     "m.safetensors: tensor 'w': data_offsets [0, 16]: expected an end within the file's 15 bytes "
     "of "
     "data: the file is truncated"},
    {ONE("\"F32\"", "[2,2]", "[100,116]"), 32,
     "tensor 'w': data_offsets [100, 116]: expected an end"},
    {ONE("\"F32\"", "[2,2]", "[0,9223372036854775807]"), 32, "expected an end within"},
    {ONE("\"F32\"", "[2,2]", "[0,8]"), 32,
     "tensor 'w': expected 16 bytes for F32 [2, 2], found data_offsets [0, 8] (8 bytes)"},
    {ONE("\"F32\"", "[2,2]", "[16,0]"), 32, "expected [begin, end] with 0 <= begin <= end"},
    {ONE("\"F32\"", "[2,2]", "[-16,0]"), 32, "found [-16, 0]"},
    {ONE("\"F32\"", "[2,2]", "[0]"), 32, "expected [begin, end]"},
    {ONE("\"F32\"", "[2,2]", "[0,16.0]"), 32, "expected [begin, end]"},
    {ONE("\"F32\"", "[4294967296,4294967296]", "[0,0]"), 32, "sizes with a product that fits"},
    {ONE("\"F32\"", "[-1]", "[0,4]"), 32, "found -1 in place 0"},
    {ONE("\"F32\"", "\"2,2\"", "[0,16]"), 32, "shape: expected a list of at most 8 sizes"},
    {ONE("\"F32\"", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 32, "found a longer one"},
    {ONE("\"Q4_0\"", "[4]", "[0,16]"), 32,
     "m.safetensors: tensor 'w': dtype: expected BF16, F16, F32 or F8_E4M3, found 'Q4_0'"},
    {ONE("7", "[4]", "[0,16]"), 32, "dtype: expected BF16, F16, F32 or F8_E4M3, found 'nothing'"},
    {ONE("\"a\\nb\"", "[4]", "[0,16]"), 32, "found 'a?b'"},
    {"{\"w\":{}}", 32, "dtype: expected"},
    {"{\"w\":7}", 32, "tensor 'w': expected an object, found an integer"},
    {"{\"w\\u0000x\":{}}", 32, "a zero byte in the key \"w\\u0000x\""},
    {"{\"w\\nx\":7}", 32, "tensor 'w?x': expected an object"},
    {"[1]", 32, "header: expected an object, found an array"},
    {"{\"w\":", 32, "not valid JSON"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
     32, "duplicate"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}",
     32, "tensor 'b': expected to begin behind 'a', found 4 bytes that both claim"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[20],\"data_offsets\":[0,20]},"
     "\"e\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[5,5]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[10,12]}}",
     32, "tensor 'b': expected to begin behind 'a'"},
};

TEST(what_lies_is_refused) {
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        struct safetensors found = {.count = 77};
        struct bytes file = file_of(bad[i].header, bad[i].data_bytes);
        assert_int_not_equal(read_file(file, &found), STATUS_OK);
        assert_int_equal(found.count, 77);
        assert_null(strchr(error.text, '\n'));
        if (!strstr(error.text, "m.safetensors") || !strstr(error.text, bad[i].message))
            fail_msg("'%s' lacks '%s'", error.text, bad[i].message);
        free((void *)(uintptr_t)file.data);
    }
}

/* A file cut anywhere is refused, never read beyond its end. */
TEST(every_cut_is_refused) {
    struct bytes file = file_of(ONE("\"F32\"", "[2,2]", "[0,16]"), 16);
    struct safetensors found;
    for (size_t bytes = 0; bytes < file.count; bytes++) {
        char *part = malloc(bytes + !bytes);
        memcpy(part, file.data, bytes);
        assert_int_not_equal(read_file((struct bytes){part, bytes}, &found), STATUS_OK);
        free(part);
    }
    assert_int_equal(read_file(file, &found), STATUS_OK);
    free((void *)(uintptr_t)file.data);
}

TEST(header_lengths_are_bounded) {
    uint64_t bytes = 0;
    char file[16] = "\xff\xff\xff\xff\xff\xff\xff\xff{}";
    assert_int_equal(safetensors_header_bytes((struct bytes){file, 16}, "m", &bytes, &error),
                     STATUS_CORRUPT);
    assert_non_null(strstr(error.text, "found a length of 18446744073709551615"));
    memset(file, 0, 8);
    file[0] = 9;
    assert_int_equal(safetensors_header_bytes((struct bytes){file, 16}, "m", &bytes, &error),
                     STATUS_CORRUPT);
    assert_string_equal(error.text,
                        "m: expected a header of 9 bytes, found 16 bytes in all: the file "
                        "is truncated, fetch it again");
    file[0] = 8;
    assert_int_equal(safetensors_header_bytes((struct bytes){file, 16}, "m", &bytes, &error),
                     STATUS_OK);
    assert_int_equal(bytes, 8);
}

/* Too small an arena is a refusal, at whatever point it runs out. */
TEST(little_memory_is_refused) {
    struct bytes file = file_of(ONE("\"F32\"", "[2,2]", "[0,16]"), 16);
    struct safetensors found;
    bool fits = false;
    for (size_t bytes = 0; bytes < 16384; bytes += 16) {
        struct arena arena;
        arena_over(&arena, memory, bytes);
        enum status status = safetensors_read(file, "m", &arena, &found, &error);
        assert_true(status == STATUS_OK || (!fits && status == STATUS_NO_MEMORY));
        fits = status == STATUS_OK;
    }
    assert_true(fits);
    free((void *)(uintptr_t)file.data);
}

int main(void) {
    memory = malloc(MEMORY_BYTES);
    check(memory);
    int failed = test_cases_run();
    free(memory);
    return failed;
}
