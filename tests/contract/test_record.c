/* SPDX-License-Identifier: Apache-2.0
 * record_valid stands between bytes from outside and code that trusts them. For each kind: a good
 * one is accepted; every cut, every longer or shorter claim is refused. The table says of each kind
 * how it is laid out and who says it to whom.
 *
 * test_record DIRECTORY writes the good ones that a wire carries as seeds of fuzz_record.c:
 * tests/fuzz/seeds/record, after a record's layout has changed.
 */
#include "records.h"

#define TEST_OWN_MAIN
#include "test_case.h"

/* There is a good example of every kind, so that no kind goes untested. */
TEST(every_kind_has_a_valid_form) {
    assert_int_equal(good_records_count, RECORD_KIND_COUNT - 1);
    bool seen[RECORD_KIND_COUNT] = {false};
    for (size_t i = 0; i < good_records_count; i++) {
        struct record *record = good_records[i]();
        assert_true(record_valid(record, record->bytes));
        seen[record->kind] = true;
    }
    for (int kind = 1; kind < RECORD_KIND_COUNT; kind++)
        assert_true(seen[kind]);
}

TEST(cut_or_stretched_records_are_refused) {
    for (size_t i = 0; i < good_records_count; i++) {
        struct record *record = good_records[i]();
        uint32_t bytes = record->bytes;
        for (uint32_t cut = 0; cut < bytes; cut++) {
            assert_false(record_valid(record, cut));
            record->bytes = cut; /* a record that lies about itself */
            assert_false(record_valid(record, cut));
            record->bytes = bytes;
        }
        record->bytes = bytes + 8;
        memset(records_memory + bytes, 0, 8);
        assert_false(record_valid(record, bytes + 8));
        record->bytes = bytes;
        record->version++;
        assert_false(record_valid(record, bytes));
        record->version--;
        record->kind = RECORD_KIND_COUNT;
        assert_false(record_valid(record, bytes));
        record->kind = RECORD_NONE;
        assert_false(record_valid(record, bytes));
    }
}

/* The table's own test: what a count claims must be there. Some of these wrap in 32 bits. */
TEST(counts_that_claim_too_much_are_refused) {
    static const uint32_t claims[] = {UINT32_MAX, 0x80000000, 0x40000001, 4096};
    for (size_t i = 0; i < good_records_count; i++)
        for (size_t claim = 0; claim < ARRAY_COUNT(claims); claim++) {
            struct record *record = good_records[i]();
            const struct record_tail_form *tail = record_forms[record->kind].tails;
            for (; tail->element_bytes; tail++) {
                record = good_records[i]();
                memcpy((char *)record + tail->field, &claims[claim], sizeof claims[claim]);
                assert_false(record_valid(record, record->bytes));
            }
        }
}

/* The rows of the table: each kind has one, under its own name, with a struct that begins as a
 * record and somebody who says it. */
TEST(every_kind_has_a_form) {
    for (int kind = 1; kind < RECORD_KIND_COUNT; kind++) {
        const struct record_form *form = &record_forms[kind];
        assert_non_null(form->name);
        assert_string_equal(record_name((uint16_t)kind), form->name);
        assert_true(form->bytes >= sizeof(struct record) && form->ways != 0);
        for (int other = 1; other < kind; other++)
            assert_string_not_equal(record_forms[other].name, form->name);
        for (const struct record_tail_form *tail = form->tails; tail->element_bytes; tail++)
            assert_true(tail->field >= sizeof(struct record) && tail->field < form->bytes);
    }
    assert_string_equal(record_name(RECORD_SUBMIT), "SUBMIT");
    assert_string_equal(record_name(RECORD_NONE), record_name(RECORD_KIND_COUNT));
    assert_false(record_goes(RECORD_NONE, UINT32_MAX) ||
                 record_goes(RECORD_KIND_COUNT, UINT32_MAX));
}

/* A way's set of kinds is what a wire lets in. */
TEST(ways_are_sets_of_kinds) {
    uint64_t in = record_kinds(WAY_CARRIER_TO_UNIT | WAY_RANK_TO_RANK_0);
    assert_true(record_goes(RECORD_KV_HELLO, WAY_STORAGE_TO_UNIT)); /* of one that is back */
    assert_true(in == ((uint64_t)1 << RECORD_KV_DONE | (uint64_t)1 << RECORD_KV_HELLO));
    assert_true(record_goes(RECORD_DRAIN, WAY_GATEWAY_TO_UNIT));
    assert_false(record_goes(RECORD_DRAIN, WAY_UNIT_TO_GATEWAY));
    assert_true(record_kinds(0) == 0);
}

/* Whatever the bytes, the answer comes without a fault (run under sanitizers). */
TEST(random_bytes_do_no_harm) {
    uint32_t accepted = 0;
    for (uint32_t turn = 0; turn < 20000; turn++) {
        struct record *record = good_records[turn % good_records_count]();
        uint32_t bytes = record->bytes;
        for (uint32_t change = 0; change < 1 + turn % 3; change++) {
            uint32_t at = 8 + (uint32_t)(random_uniform(turn, change, 0) * (bytes - 8));
            if (at < bytes)
                records_memory[at] = (char)(uint8_t)(random_uniform(turn, change, 1) * 256);
        }
        accepted += record_valid(record, bytes);
    }
    assert_true(accepted > 0 && accepted < 20000);
}

/* ---- seeds ---- */

static void write_seed(const char *directory, const char *name, size_t count,
                       void *(*const makers[])(void)) {
    char path[256];
    snprintf(path, sizeof path, "%.200s/%.40s", directory, name);
    FILE *file = fopen(path, "wb");
    check(file);
    for (size_t i = 0; i < count; i++) {
        struct record *record = makers[i]();
        check(fwrite(record, 1, record->bytes, file) == record->bytes);
    }
    check(fclose(file) == 0);
}

/* About the request that the fuzzer's gateway has. */
static void *asked(void *record) {
    ((struct record_about *)record)->request = (struct request_id){.high = 1, .low = 2};
    return record;
}

static void *asked_submit(void) {
    return asked(good_submit());
}

static void *asked_cancel(void) {
    return asked(good_cancel());
}

static void *asked_tokens(void) {
    return asked(good_tokens());
}

static void *asked_finished(void) {
    struct record_finished *finished = asked(good_finished());
    finished->output_tokens = 2;
    return finished;
}

static void write_seeds(const char *directory) {
    const uint32_t ways = WAY_UNIT_TO_GATEWAY | WAY_GATEWAY_TO_UNIT;
    for (size_t i = 0; i < good_records_count; i++) {
        const struct record *record = good_records[i]();
        if (!record_goes(record->kind, ways)) continue;
        write_seed(directory, record_name(record->kind), 1, &good_records[i]);
    }
    write_seed(directory, "answer", 2, (void *(*const[])(void)){asked_tokens, asked_finished});
    write_seed(directory, "left", 3,
               (void *(*const[])(void)){asked_submit, asked_cancel, good_drain});
}

int main(int count, char **arguments) {
    if (count == 2) {
        write_seeds(arguments[1]);
        return 0;
    }
    return test_cases_run();
}
