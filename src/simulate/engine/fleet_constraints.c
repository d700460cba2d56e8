/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/engine/fleet_constraints.h"

#include "base/check.h"
#include "base/tree.h"
#include "base/utf8.h"
#include "serving/grammar/matcher/matcher.h"
#include "serving/grammar/matcher/token_trie.h"
#include "simulate/engine/fleet_engine.h"
#include "simulate/engine/fleet_token_oracle.h"

/* ---- the constraints ---- */

#define LINKS "(ab[a-f]-){10,40}"
#define PLACES "[\"north\",\"northeast by east\",\"south by south-west\",\"west\"]"
#define LABEL                                                                                      \
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"minLength\":3,"          \
    "\"maxLength\":20},\"size\":{\"enum\":[\"small\",\"smallish\",\"large\"]},\"new\":{"           \
    "\"type\":\"boolean\"}},\"required\":[\"name\",\"size\",\"new\"],"                             \
    "\"additionalProperties\":false}"
#define WORDS "[ -~À-ž]{5,60}\\\\."

static const struct {
    const char *field, *value, *text;
} asked[FLEET_CONSTRAINTS] = {
    {"guided_regex", "\"" LINKS "\"", "{\"form\":{\"regex\":\"" LINKS "\"}}"},
    {"guided_choice", PLACES, "{\"form\":{\"choice\":" PLACES "}}"},
    {"guided_json", LABEL, "{\"form\":{\"schema\":" LABEL "}}"},
    {"guided_regex", "\"" WORDS "\"", "{\"form\":{\"regex\":\"" WORDS "\"}}"},
};

const char *fleet_constraints_field(uint32_t which) {
    return asked[which].field;
}

const char *fleet_constraints_value(uint32_t which) {
    return asked[which].value;
}

/* ---- opening ---- */

#define COMPILED_BYTES ((size_t)64 << 20) /* for all constraints; only a small part is touched */
#define SCRATCH_BYTES ((size_t)64 << 20)
#define MATCHER_BYTES ((size_t)3 << 20)

struct fleet_loan {
    struct fleet_loan *next; /* in the free list */
    void *memory;            /* MATCHER_BYTES */
    uint32_t which;
    struct matcher *matcher; /* NULL: not opened yet */
};

size_t fleet_constraints_bytes(void) {
    return sizeof(struct fleet_constraints) + COMPILED_BYTES + SCRATCH_BYTES +
           (FLEET_LOANS_MAX + 1) * (MATCHER_BYTES + 16) +
           FLEET_LOANS_MAX * sizeof(struct fleet_loan) + 256;
}

/* Builds the trie. Special tokens and parts of calls are added tokens, so no text contains them. */
static enum status build_trie(struct fleet_constraints *constraints, struct arena *arena,
                              struct arena *scratch) {
    struct bytes *tokens = arena_take_zeroed(arena, FLEET_VOCAB * sizeof *tokens);
    char *bytes = arena_take(arena, 256);
    if (!tokens || !bytes) return STATUS_NO_MEMORY;
    for (uint32_t byte = 0; byte < 256; byte++) {
        bytes[byte] = (char)byte;
        tokens[fleet_token_oracle_byte(bytes[byte])] = (struct bytes){&bytes[byte], 1};
    }
    enum status status = token_trie_build(arena, scratch, tokens, FLEET_VOCAB, &constraints->trie);
    check(status || constraints->trie->word_count <= FLEET_MASK_WORDS);
    return status;
}

static enum status fleet_constraints_compile(struct fleet_constraints *constraints, uint32_t which,
                                             struct arena *arena, struct arena *scratch) {
    struct fleet_compiled *to = &constraints->compiled[which];
    struct error error;
    enum status status = constraint_compile(arena, scratch, bytes_of(asked[which].text), NULL,
                                            &to->constraint, &error);
    if (!status)
        status = matcher_grammar_open(arena, to->constraint->form, constraints->trie, &to->grammar,
                                      &error);
    arena_clear(scratch);
    return status;
}

struct fleet_constraints *fleet_constraints_open(struct arena *arena) {
    struct fleet_constraints *constraints = arena_take_zeroed(arena, sizeof *constraints);
    void *memory = arena_take(arena, COMPILED_BYTES), *work = arena_take(arena, SCRATCH_BYTES);
    if (!constraints || !memory || !work) return NULL;
    struct arena lasting, scratch;
    arena_over(&lasting, memory, COMPILED_BYTES);
    arena_over(&scratch, work, SCRATCH_BYTES);
    constraints->loans = arena_take_zeroed(arena, FLEET_LOANS_MAX * sizeof *constraints->loans);
    constraints->own_memory = arena_take(arena, MATCHER_BYTES);
    if (!constraints->loans || !constraints->own_memory) return NULL;
    for (uint32_t i = 0; i < FLEET_LOANS_MAX; i++) {
        constraints->loans[i].memory = arena_take(arena, MATCHER_BYTES);
        if (!constraints->loans[i].memory) return NULL;
    }
    enum status status = build_trie(constraints, &lasting, &scratch);
    arena_clear(&scratch);
    for (uint32_t i = 0; i < FLEET_CONSTRAINTS && !status; i++)
        status = fleet_constraints_compile(constraints, i, &lasting, &scratch);
    check(status == STATUS_OK);
    return constraints;
}

/* ---- lending ---- */

void fleet_constraints_begin(struct fleet_constraints *constraints, uint64_t seed) {
    struct fleet_dice dice = {.seed = seed, .stream = 4};
    constraints->late_of = fleet_dice_below(&dice, 2) * (2 + fleet_dice_below(&dice, 30));
    constraints->looks_ahead = fleet_dice_below(&dice, 2);
    constraints->dice = dice;
    constraints->begun = constraints->late = constraints->forced = 0;
    constraints->loan_count = 0;
    constraints->free = NULL;
    for (uint32_t i = FLEET_LOANS_MAX; i-- > 0;) {
        constraints->loans[i].next = constraints->free;
        constraints->free = &constraints->loans[i];
    }
}

bool fleet_constraints_is_late(struct fleet_constraints *constraints) {
    bool late =
        constraints->late_of && fleet_dice_below(&constraints->dice, constraints->late_of) == 0;
    constraints->late += late;
    return late;
}

uint32_t fleet_constraints_wait(struct fleet_constraints *constraints) {
    return constraints->late_of ? fleet_dice_below(&constraints->dice, 4) : 0;
}

static struct matcher *open_matcher(struct fleet_constraints *constraints, uint32_t which,
                                    void *memory) {
    struct arena arena;
    struct matcher *matcher;
    arena_over(&arena, memory, MATCHER_BYTES);
    enum status status = matcher_open(&arena, constraints->compiled[which].grammar, &matcher);
    check(status == STATUS_OK);
    return matcher;
}

static struct constrained_loan *fleet_constraints_ask(void *context, struct bytes text,
                                                      uint64_t client) {
    struct fleet_constraints *constraints = context;
    struct fleet_loan *loan = constraints->free;
    uint32_t which = 0;
    (void)client; /* all constraints are compiled already */
    while (which < FLEET_CONSTRAINTS && !bytes_equal(text, bytes_of(asked[which].text)))
        which++;
    /* No slot has two loans, and there are no other constraints. */
    check(loan && which < FLEET_CONSTRAINTS);
    constraints->free = loan->next;
    constraints->loan_count++;
    constraints->begun++;
    loan->which = which;
    loan->matcher = NULL;
    return (struct constrained_loan *)(void *)loan;
}

static bool fleet_constraints_ready(void *context, struct constrained_loan *lent,
                                    const struct constraint **constraint_out,
                                    struct matcher **matcher_out) {
    struct fleet_constraints *constraints = context;
    struct fleet_loan *loan = (struct fleet_loan *)(void *)lent;
    if (!loan->matcher) loan->matcher = open_matcher(constraints, loan->which, loan->memory);
    *constraint_out = constraints->compiled[loan->which].constraint;
    *matcher_out = loan->matcher;
    return true;
}

static void fleet_constraints_give_back(void *context, struct constrained_loan *lent) {
    struct fleet_constraints *constraints = context;
    struct fleet_loan *loan = (struct fleet_loan *)(void *)lent;
    loan->next = constraints->free;
    constraints->free = loan;
    check(constraints->loan_count > 0);
    constraints->loan_count--;
}

struct constrained_lender fleet_constraints_lender(struct fleet_constraints *constraints) {
    return (struct constrained_lender){constraints, fleet_constraints_ask, fleet_constraints_ready,
                                       fleet_constraints_give_back};
}

struct constrained_answer *fleet_constraints_follow(struct fleet_constraints *constraints,
                                                    uint32_t which) {
    static const uint32_t stops[] = {FLEET_STOP_TOKEN};
    struct matcher *matcher = open_matcher(constraints, which, constraints->own_memory);
    constrained_answer_begin(&constraints->own, constraints->compiled[which].constraint, matcher,
                             stops, ARRAY_COUNT(stops));
    return &constraints->own;
}

/* ---- verification ---- */

static bool is_links(struct bytes text, struct arena *scratch) {
    (void)scratch;
    bool right = text.count % 4 == 0 && text.count >= 40 && text.count <= 160;
    for (size_t i = 0; i < text.count && right; i += 4)
        right = text.data[i] == 'a' && text.data[i + 1] == 'b' && text.data[i + 2] >= 'a' &&
                text.data[i + 2] <= 'f' && text.data[i + 3] == '-';
    return right;
}

static bool is_place(struct bytes text, struct arena *scratch) {
    const struct tree *places;
    struct bytes place;
    struct error error;
    enum status status = tree_parse(scratch, bytes_of(PLACES), "places", &places, &error);
    check(!status);
    for (size_t i = 0; i < tree_count(places); i++)
        if (tree_get_string(tree_at(places, i), &place) && bytes_equal(place, text)) return true;
    return false;
}

static bool is_label(struct bytes text, struct arena *scratch) {
    const struct tree *label, *value;
    struct tree_cursor cursor = {0};
    struct bytes key, name, size;
    struct error error;
    uint32_t members = 0;
    bool new;
    if (tree_parse(scratch, text, "label", &label, &error)) return false;
    while (tree_next_member(label, &cursor, &key, &value))
        members++;
    return members == 3 && tree_get_string(tree_member(label, "name"), &name) &&
           utf8_count(name) >= 3 && utf8_count(name) <= 20 &&
           tree_get_string(tree_member(label, "size"), &size) &&
           (bytes_equal(size, BYTES_LITERAL("small")) ||
            bytes_equal(size, BYTES_LITERAL("smallish")) ||
            bytes_equal(size, BYTES_LITERAL("large"))) &&
           tree_get_bool(tree_member(label, "new"), &new);
}

/* Letters of two bytes begin with 0xC3 to 0xC5. */
static bool is_words(struct bytes text, struct arena *scratch) {
    (void)scratch;
    bool right =
        utf8_count(text) >= 6 && utf8_count(text) <= 61 && text.data[text.count - 1] == '.';
    for (size_t i = 0; i < text.count && right; i++) {
        uint8_t byte = (uint8_t)text.data[i];
        bool pair = byte >= 0xC3 && byte <= 0xC5 && i + 1 < text.count &&
                    ((uint8_t)text.data[i + 1] & 0xC0) == 0x80;
        right = pair || (byte >= ' ' && byte <= '~');
        i += pair;
    }
    return right;
}

bool fleet_constraints_fulfilled(uint32_t which, const uint32_t *tokens, uint32_t count,
                                 struct arena *scratch) {
    bool (*const judges[FLEET_CONSTRAINTS])(struct bytes, struct arena *) = {is_links, is_place,
                                                                             is_label, is_words};
    char *text = arena_take(scratch, count + 1);
    check(text);
    for (uint32_t i = 0; i < count; i++)
        if (!fleet_token_oracle_is_byte(tokens[i], &text[i])) return false;
    bool right = judges[which]((struct bytes){text, count}, scratch);
    arena_clear(scratch);
    return right;
}
