/* SPDX-License-Identifier: Apache-2.0
 * Protects what a fleet that is renewed stands on: records of the version before this one are
 * understood, and said so that a process of that version understands them. That version is frozen
 * here, as its own sources had it: the sizes of all that went between gateways and units, and the
 * checksums of examples (records.c) that were written by it.
 */
#include "contract/record_past.h"

#include "base/checksum.h"
#include "records.h"
#include "test_case.h"

/* A change that raises the version freezes this one here, in the place of 13. */
_Static_assert(RECORD_VERSION == 14, "the version before is 13, which is frozen below");

static const struct {
    uint16_t kind;
    const char *name;
    uint16_t bytes;
    uint16_t elements[RECORD_TAILS_MAX];
} frozen[] = {
    {5, "DRAIN", 32, {0}},          {20, "SUBMIT", 272, {4, 4, 8, 1, 1}},
    {21, "CANCEL", 32, {0}},        {22, "CONTINUE", 40, {4}},
    {23, "ROLE", 16, {0}},          {24, "UNIT_HELLO", 112, {80}},
    {25, "TOKENS", 48, {4, 8, 88}}, {26, "FINISHED", 128, {0}},
    {27, "UNIT_LOAD", 256, {32}},   {28, "RESERVED", 40, {0}},
    {29, "SCORES", 48, {8}},        {30, "EXPERTS", 1368, {0}},
};

static const struct {
    void *(*make)(void);
    uint32_t bytes;
    uint64_t checksum;
} examples[] = {
    {good_submit, 328, 0x40850675f8f58a66u},  {good_cancel, 32, 0x45215d422e37d942u},
    {good_drain, 32, 0x273ccf4a4206b804u},    {good_role, 16, 0x60c32607a749e0ccu},
    {good_hello, 272, 0x7e7dc11a787e5b0au},   {good_tokens, 192, 0x7ca45515b14e98b2u},
    {good_scores, 432, 0xae8f1658b21d0f8fu},  {good_finished, 128, 0x26dc2855e0c1ac29u},
    {good_load, 320, 0x37800a4b59b6f217u},    {good_continue, 48, 0x8f365c6e3ee15f53u},
    {good_reserved, 40, 0x897be6f54fa85705u}, {good_drain_of_rank, 32, 0x3f0ed05764eff807u},
};

static _Alignas(8) char then[4096], now[4096];

/* An example of version 13, into `then`; returns its bytes. */
static size_t write_then(size_t example) {
    return record_past_to_past(&record_past, examples[example].make(), then, sizeof then);
}

TEST(the_version_before_is_what_it_was) {
    uint64_t kinds = record_kinds(WAY_GATEWAY_TO_UNIT | WAY_UNIT_TO_GATEWAY);
    assert_int_equal(record_past.version, 13);
    for (size_t i = 0; i < ARRAY_COUNT(frozen); i++) {
        uint16_t kind = frozen[i].kind;
        assert_true(kinds >> kind & 1 && kind < record_past.kind_count);
        kinds &= ~((uint64_t)1 << kind);
        assert_string_equal(record_name(kind), frozen[i].name);
        size_t bytes = record_fixed_bytes((enum record_kind)kind);
        uint16_t elements[RECORD_TAILS_MAX] = {0};
        uint32_t tails = record_tail_count((enum record_kind)kind);
        for (uint32_t t = 0; t < tails; t++)
            elements[t] = record_forms[kind].tails[t].element_bytes;
        for (uint32_t f = 0; f < record_past.form_count; f++) {
            const struct record_past_form *form = &record_past.forms[f];
            if (form->kind != kind) continue;
            for (uint32_t g = 0; g < RECORD_PAST_GAPS; g++)
                bytes -= form->gaps[g].bytes;
            for (uint32_t t = 0; t < tails; t++)
                elements[t] = t >= tails - form->tails_added ? 0
                              : form->element_bytes[t]       ? form->element_bytes[t]
                                                             : elements[t];
        }
        assert_int_equal(bytes, frozen[i].bytes);
        assert_memory_equal(elements, frozen[i].elements, sizeof elements);
    }
    assert_int_equal(kinds & (((uint64_t)1 << record_past.kind_count) - 1), 0);
}

TEST(examples_are_the_bytes_that_it_said) {
    for (size_t i = 0; i < ARRAY_COUNT(examples); i++) {
        size_t bytes = write_then(i);
        assert_int_equal(bytes, examples[i].bytes);
        assert_true(checksum_of(then, bytes) == examples[i].checksum);
    }
}

TEST(they_come_back_as_they_are_now) {
    for (size_t i = 0; i < ARRAY_COUNT(examples); i++) {
        size_t bytes = write_then(i);
        const struct record *made = examples[i].make();
        memset(now, 'x', sizeof now);
        assert_int_equal(record_past_from_past(&record_past, then, bytes, now, sizeof now),
                         made->bytes);
        assert_memory_equal(now, made, made->bytes);
        assert_true(record_valid(now, made->bytes));
    }
}

/* A gateway of the version before cannot read PROGRESS, and no process of that version sends it. */
TEST(a_new_kind_is_left_out) {
    assert_int_equal(record_past_to_past(&record_past, good_progress(), then, sizeof then), 0);
    struct record_progress *progress = good_progress();
    progress->record.version = 13;
    assert_int_equal(
        record_past_from_past(&record_past, progress, progress->record.bytes, now, sizeof now), 0);
}

/* Bytes from outside: each is read within its bounds (in memory of just that size), and what is cut
 * or claims too much is none. */
TEST(what_is_no_record_is_refused) {
    for (size_t i = 0; i < ARRAY_COUNT(examples); i++) {
        size_t whole = write_then(i);
        for (size_t bytes = 0; bytes < whole; bytes++) {
            char *cut = malloc(bytes + 1);
            memcpy(cut, then, bytes);
            assert_int_equal(record_past_from_past(&record_past, cut, bytes, now, sizeof now), 0);
            if (bytes >= sizeof(struct record)) /* it says itself that it is so short */
                ((struct record *)(void *)cut)->bytes = (uint32_t)bytes;
            size_t made = record_past_from_past(&record_past, cut, bytes, now, sizeof now);
            assert_true(made == 0 || made <= sizeof now);
            free(cut);
        }
        for (size_t bit = 0; bit < whole * 8; bit++) {
            then[bit / 8] ^= (char)(1 << bit % 8);
            size_t made = record_past_from_past(&record_past, then, whole, now, sizeof now);
            if (made) (void)record_valid(now, made);
            then[bit / 8] ^= (char)(1 << bit % 8);
        }
        for (size_t room = 0; room < examples[i].bytes; room++)
            assert_int_equal(record_past_from_past(&record_past, then, whole, now, room), 0);
    }
    struct record now_head = record_head(RECORD_CANCEL, sizeof(struct record_cancel));
    memset(then, 0, sizeof then);
    memcpy(then, &now_head, sizeof now_head); /* of the present version */
    assert_int_equal(
        record_past_from_past(&record_past, then, sizeof(struct record_cancel), now, sizeof now),
        0);
}

/* All that the header allows, in a past that never was. */
static const struct record_past_form invented_forms[] = {
    {.kind = RECORD_UNIT_HELLO,
     .gaps = {{offsetof(struct record_unit_hello, vocab_count), 8},
              {offsetof(struct record_unit_hello, instance), 8}},
     .element_bytes = {24}},
    {.kind = RECORD_SUBMIT,
     .tails_added = 2,
     .gaps = {{offsetof(struct record_submit, constraint_bytes), 8}}},
};
static const struct record_past invented = {.version = 12,
                                            .kind_count = RECORD_SCORES,
                                            .forms = invented_forms,
                                            .form_count = ARRAY_COUNT(invented_forms)};

TEST(fields_elements_tails_and_kinds_may_come) {
    struct record_unit_hello *hello = good_hello();
    memset(hello->model_id, 7, sizeof hello->model_id);
    hello->instance = 5;
    strcpy(hello_ranks(hello)[1].kv_address, "address");
    size_t bytes = record_past_to_past(&invented, &hello->record, then, sizeof then);
    assert_int_equal(bytes, sizeof *hello - 16 + 2 * 24);
    assert_memory_equal(then + offsetof(struct record_unit_hello, model_id) - 16, hello->model_id,
                        32);
    assert_int_equal(record_past_from_past(&invented, then, bytes, now, sizeof now),
                     hello->record.bytes);
    const struct record_unit_hello *again = (const void *)now;
    assert_memory_equal(again->model_id, hello->model_id, 32);
    assert_true(again->vocab_count == 0 && again->context_tokens_max == 0 && again->instance == 0);
    assert_true(again->role == hello->role && again->page_count == hello->page_count);
    assert_true(hello_ranks(again)[1].pid == 1234 && hello_ranks(again)[0].page_count == 4);
    assert_memory_equal(hello_ranks(again)[1].kv_address, "address", 8);

    const struct record_submit *submit = good_submit();
    size_t whole = submit->record.bytes;
    bytes = record_past_to_past(&invented, &submit->record, then, sizeof then);
    assert_true(bytes > 0 && bytes < whole);
    size_t made = record_past_from_past(&invented, then, bytes, now, sizeof now);
    const struct record_submit *came = (const void *)now;
    assert_true(record_valid(now, made));
    assert_true(came->constraint_bytes == 0 && came->name_bytes == 0);
    assert_memory_equal(submit_tokens(came), submit_tokens(submit), record_tail_bytes(submit, 0));
    assert_memory_equal(submit_biases(came), submit_biases(submit), record_tail_bytes(submit, 2));

    assert_int_equal(record_past_to_past(&invented, good_scores(), then, sizeof then), 0);
    bytes = record_past_to_past(&record_past, good_scores(), then, sizeof then);
    assert_int_equal(record_past_from_past(&invented, then, bytes, now, sizeof now), 0);
}
