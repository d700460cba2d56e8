/* SPDX-License-Identifier: Apache-2.0
 * Protects recordings from being misread: what is whole is told as it was written, what is cut off
 * up to there, and what is damaged or foreign is refused.
 */
#include "host/process/recording/recording.h"

#include "contract/record_unit.h"
#include "test_case.h"

static _Alignas(8) char file[4096];
static size_t bytes;
static struct error error;

static void add(const void *data, size_t count) {
    assert_true(bytes + count <= sizeof file);
    memcpy(file + bytes, data, count);
    bytes += count;
}

static void add_chunk(enum recording_chunk_kind kind, uint32_t sequence, const void *payload,
                      size_t count) {
    struct recording_chunk chunk = recording_chunk_of(kind, sequence, payload, count);
    add(&chunk, sizeof chunk);
    add(payload, count);
}

/* A head, one chunk with a CANCEL that was given and one that was put out, and a step. */
static size_t write_file(bool ended) {
    static const char head[16] = "machine unit\n";
    struct {
        struct recording_entry entry;
        struct record_cancel given, put;
        struct recording_entry step;
    } calls = {
        .entry = {.bytes = sizeof calls.entry + 2 * sizeof calls.given,
                  .call = RECORDING_RECEIVE,
                  .given_bytes = sizeof calls.given,
                  .now_ns = 7},
        .given = {record_head(RECORD_CANCEL, sizeof calls.given), {1, 2, 3, 0}},
        .put = {record_head(RECORD_CANCEL, sizeof calls.put), {4, 5, 6, 0}},
        .step = {
            .bytes = sizeof calls.step, .call = RECORDING_STEP, .outbox_before = 32, .now_ns = 8}};
    struct recording_start start = {.version = RECORDING_VERSION, .record_version = RECORD_VERSION};
    uint64_t end = RECORDING_FULL;
    bytes = 0;
    memcpy(start.magic, RECORDING_MAGIC, sizeof start.magic);
    add(&start, sizeof start);
    add_chunk(RECORDING_HEAD, 0, head, sizeof head);
    size_t calls_at = bytes;
    add_chunk(RECORDING_ENTRIES, 1, &calls, sizeof calls);
    if (ended) add_chunk(RECORDING_END, 2, &end, sizeof end);
    return calls_at;
}

/* Reads to the end: its status; the number of entries. */
static enum status read_all(struct recording *recording, uint64_t *count_out) {
    const struct recording_entry *entry;
    enum status status = recording_open("it", file, bytes, recording, &error);
    *count_out = 0;
    while (!status) {
        status = recording_next(recording, "it", &entry, &error);
        if (!status && !entry) break;
        if (!status) ++*count_out;
    }
    return status;
}

TEST(what_is_written_is_reported) {
    struct recording recording;
    const struct recording_entry *entry;
    write_file(true);
    assert_int_equal(recording_open("it", file, bytes, &recording, &error), STATUS_OK);
    assert_true(bytes_equal(recording.head, BYTES_LITERAL("machine unit\n")));
    assert_int_equal(recording_next(&recording, "it", &entry, &error), STATUS_OK);
    assert_int_equal(entry->now_ns, 7);
    assert_int_equal(record_request(recording_given(entry)).high, 1);
    const struct record *put = recording_put(entry, NULL);
    assert_int_equal(record_request(put).high, 4);
    assert_null(recording_put(entry, put));
    assert_int_equal(recording_next(&recording, "it", &entry, &error), STATUS_OK);
    assert_null(recording_given(entry));
    assert_null(recording_put(entry, NULL));
    assert_int_equal(recording_next(&recording, "it", &entry, &error), STATUS_OK);
    assert_null(entry);
    assert_int_equal(recording.end, RECORDING_FULL);
    assert_int_equal(recording.entry_count, 2);
}

TEST(what_is_cut_off_is_reported_up_to_its_last_whole_chunk) {
    struct recording recording;
    uint64_t count;
    size_t calls_at = write_file(false), whole = bytes;
    assert_int_equal(read_all(&recording, &count), STATUS_OK);
    assert_int_equal(count, 2);
    assert_int_equal(recording.end, RECORDING_KILLED);
    for (bytes = calls_at; bytes < whole; bytes++) {
        assert_int_equal(read_all(&recording, &count), STATUS_OK);
        assert_int_equal(count, 0);
        assert_int_equal(recording.end, RECORDING_KILLED);
    }
    for (bytes = 0; bytes < calls_at; bytes++)
        assert_int_equal(read_all(&recording, &count), STATUS_INVALID);
}

TEST(every_byte_that_is_changed_is_found) {
    struct recording recording;
    uint64_t count;
    write_file(true);
    for (size_t i = 0; i < bytes; i++) {
        file[i] ^= 4;
        assert_int_equal(read_all(&recording, &count), STATUS_INVALID);
        file[i] ^= 4;
    }
    assert_int_equal(read_all(&recording, &count), STATUS_OK);
}

TEST(records_that_are_not_valid_are_refused_under_a_right_checksum) {
    struct recording recording;
    uint64_t count;
    size_t calls_at = write_file(true);
    struct recording_chunk *chunk = (struct recording_chunk *)(void *)(file + calls_at);
    struct recording_entry *entry = (struct recording_entry *)(chunk + 1);
    struct record *given = (struct record *)(entry + 1);
    given->kind = RECORD_KIND_COUNT;
    *chunk = recording_chunk_of(RECORDING_ENTRIES, 1, entry, chunk->bytes);
    assert_int_equal(read_all(&recording, &count), STATUS_INVALID);
    given->kind = RECORD_CANCEL;
    entry->given_bytes = 1 << 20;
    *chunk = recording_chunk_of(RECORDING_ENTRIES, 1, entry, chunk->bytes);
    assert_int_equal(read_all(&recording, &count), STATUS_INVALID);
    assert_int_equal(count, 0);
}
