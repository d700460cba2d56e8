/* SPDX-License-Identifier: Apache-2.0
 * Random grammars against a slow reference: the texts of up to five letters that a grammar has, and
 * their beginnings, found by putting texts together until nothing is new. Where a text may go on,
 * where it may end, what masks hold and which token is forced must be the same everywhere.
 */
#include "matcher_cases.h"
#include "serving/grammar/rules/grammar_builder.h"

#define LETTERS 3 /* a, b, and a token that stands for itself */
#define LENGTH_MAX 5
#define TEXTS 364 /* of up to LENGTH_MAX letters: (3^6 - 1) / 2 */
#define RULES 4
#define ITEMS 4
#define ALTERNATIVES 3
#define TOKEN_LETTER 2
#define ORDINARY 30 /* tokens: all texts of up to four letters a, b */
#define ADDED 30    /* the token of that letter */
#define TOKENS 33
#define RANDOM_GRAMMARS 250

/* ---- texts as numbers: 0 is the empty one, t * 3 + letter + 1 the next ---- */

static uint32_t text_length(uint32_t text) {
    uint32_t length = 0;
    for (; text; text = (text - 1) / LETTERS)
        length++;
    return length;
}

static uint32_t find_join(uint32_t a, uint32_t b) {
    uint32_t letters[LENGTH_MAX], count = 0;
    if (text_length(a) + text_length(b) > LENGTH_MAX) return TEXTS;
    for (; b; b = (b - 1) / LETTERS)
        letters[count++] = (b - 1) % LETTERS;
    while (count)
        a = a * LETTERS + letters[--count] + 1;
    return a;
}

/* TEXTS: too long. */
static uint32_t text_join(uint32_t a, uint32_t b) {
    static uint16_t joins[TEXTS][TEXTS];
    if (!joins[TEXTS - 1][TEXTS - 1])
        for (uint32_t i = 0; i < TEXTS * TEXTS; i++)
            joins[i / TEXTS][i % TEXTS] = (uint16_t)find_join(i / TEXTS, i % TEXTS);
    return joins[a][b];
}

struct text_set {
    bool has[TEXTS];
    bool any; /* of whatever length */
};

static bool set_add(struct text_set *set, const struct text_set *other) {
    bool grown = other->any && !set->any;
    set->any |= other->any;
    for (uint32_t i = 0; i < TEXTS; i++) {
        grown |= other->has[i] && !set->has[i];
        set->has[i] |= other->has[i];
    }
    return grown;
}

static struct text_set set_join(const struct text_set *a, const struct text_set *b) {
    struct text_set out = {.any = a->any && b->any};
    for (uint32_t i = 0; i < TEXTS; i++)
        for (uint32_t j = 0; a->has[i] && j < TEXTS; j++) {
            if (!b->has[j]) continue;
            uint32_t both = text_join(i, j);
            if (both < TEXTS) out.has[both] = true;
        }
    return out;
}

/* ---- grammars ---- */

struct item {
    uint32_t letter; /* LETTERS and more: a rule */
    uint32_t min, max;
};

struct rule {
    uint32_t count;
    struct {
        uint32_t count;
        struct item items[ITEMS];
    } alternatives[ALTERNATIVES];
};

struct random_grammar {
    struct rule rules[RULES];
    struct text_set whole[RULES], begun[RULES];
};

static uint32_t draw(uint64_t *random, uint32_t count) {
    *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*random >> 33) % count;
}

static void draw_grammar(struct random_grammar *grammar, uint64_t *random) {
    static const uint32_t bounds[][2] = {
        {1, 1}, {1, 1}, {1, 1}, {0, 1}, {0, REGEX_UNBOUNDED}, {1, REGEX_UNBOUNDED}, {2, 3}, {0, 6}};
    *grammar = (struct random_grammar){0};
    for (uint32_t r = 0; r < RULES; r++) {
        struct rule *rule = &grammar->rules[r];
        rule->count = 1 + draw(random, ALTERNATIVES);
        for (uint32_t a = 0; a < rule->count; a++) {
            rule->alternatives[a].count = draw(random, ITEMS + 1);
            for (uint32_t i = 0; i < rule->alternatives[a].count; i++) {
                const uint32_t *bound = bounds[draw(random, ARRAY_COUNT(bounds))];
                uint32_t first = i == 0 && draw(random, 3) ? LETTERS : LETTERS + RULES;
                rule->alternatives[a].items[i] =
                    (struct item){draw(random, first), bound[0], bound[1]};
            }
        }
    }
}

/* The texts of an item and the beginnings of them. */
static void find_item(const struct random_grammar *grammar, const struct item *item,
                      struct text_set *whole, struct text_set *begun) {
    struct text_set one = {.any = false}, start = one, power = {.has = {true}, .any = true};
    if (item->letter < LETTERS) {
        one.has[item->letter + 1] = one.any = true;
        start.has[0] = start.has[item->letter + 1] = start.any = true;
    } else {
        one = grammar->whole[item->letter - LETTERS];
        start = grammar->begun[item->letter - LETTERS];
    }
    *whole = *begun = (struct text_set){.any = false};
    begun->has[0] = begun->any = item->min == 0 || one.any;
    for (uint32_t i = 0; i <= item->max && i <= LENGTH_MAX + 2; i++) {
        struct text_set going = set_join(&power, &start);
        if (i >= item->min) (void)set_add(whole, &power);
        if (i < item->max) (void)set_add(begun, &going);
        (void)set_add(begun, &power);
        power = set_join(&power, &one);
    }
}

static bool find_rule(struct random_grammar *grammar, uint32_t r) {
    const struct rule *rule = &grammar->rules[r];
    bool grown = false;
    for (uint32_t a = 0; a < rule->count; a++) {
        struct text_set whole = {.has = {true}, .any = true}, begun = whole;
        for (uint32_t i = 0; i < rule->alternatives[a].count; i++) {
            struct text_set item, item_begun;
            find_item(grammar, &rule->alternatives[a].items[i], &item, &item_begun);
            struct text_set going = set_join(&whole, &item_begun);
            (void)set_add(&begun, &going);
            whole = set_join(&whole, &item);
        }
        if (!whole.any) continue;
        grown |= set_add(&grammar->whole[r], &whole);
        grown |= set_add(&grammar->begun[r], &begun);
    }
    return grown;
}

static void find_texts(struct random_grammar *grammar) {
    for (bool grown = true; grown;) {
        grown = false;
        for (uint32_t r = 0; r < RULES; r++)
            grown |= find_rule(grammar, r);
    }
}

/* Whether rule `from` may begin with rule `to`, by one step. */
static bool begins_with(const struct random_grammar *grammar, uint32_t from, uint32_t to) {
    const struct rule *rule = &grammar->rules[from];
    for (uint32_t a = 0; a < rule->count; a++) {
        bool lives = true, empty = true, found = false;
        for (uint32_t i = 0; i < rule->alternatives[a].count; i++) {
            const struct item *item = &rule->alternatives[a].items[i];
            struct text_set whole, begun;
            find_item(grammar, item, &whole, &begun);
            bool calls = item->letter >= LETTERS && grammar->whole[item->letter - LETTERS].any;
            found |= empty && calls && item->letter - LETTERS == to;
            lives &= whole.any;
            empty &= whole.has[0];
        }
        if (found && lives) return true;
    }
    return false;
}

/* Rules that the first one's texts are made of. */
static void find_used(const struct random_grammar *grammar, bool *used) {
    used[0] = true;
    for (uint32_t round = 0; round < RULES; round++)
        for (uint32_t r = 0; r < RULES; r++)
            for (uint32_t a = 0; used[r] && a < grammar->rules[r].count; a++) {
                bool lives = true;
                for (uint32_t i = 0; i < grammar->rules[r].alternatives[a].count; i++) {
                    struct text_set whole, begun;
                    find_item(grammar, &grammar->rules[r].alternatives[a].items[i], &whole, &begun);
                    lives &= whole.any;
                }
                for (uint32_t i = 0; lives && i < grammar->rules[r].alternatives[a].count; i++) {
                    uint32_t letter = grammar->rules[r].alternatives[a].items[i].letter;
                    if (letter >= LETTERS && grammar->whole[letter - LETTERS].any)
                        used[letter - LETTERS] = true;
                }
            }
}

static bool recurs_left(const struct random_grammar *grammar) {
    bool reach[RULES][RULES], used[RULES] = {false};
    find_used(grammar, used);
    for (uint32_t i = 0; i < RULES; i++)
        for (uint32_t j = 0; j < RULES; j++)
            reach[i][j] = begins_with(grammar, i, j);
    for (uint32_t k = 0; k < RULES; k++)
        for (uint32_t i = 0; i < RULES; i++)
            for (uint32_t j = 0; j < RULES; j++)
                reach[i][j] |= reach[i][k] && reach[k][j];
    for (uint32_t i = 0; i < RULES; i++)
        if (used[i] && reach[i][i]) return true;
    return false;
}

/* ---- the same, built ---- */

static char memory[4 * MATCHER_CASE_BYTES];

static uint32_t build_item(struct grammar_builder *draft, const struct item *item) {
    uint32_t node, letter = 'a' + item->letter;
    if (item->letter >= LETTERS)
        assert_false(grammar_builder_reference(draft, item->letter - LETTERS, &node));
    else if (item->letter == TOKEN_LETTER)
        assert_false(grammar_builder_symbol(draft, RULE_TOKEN, ADDED, &node));
    else
        assert_false(
            regex_tree_add_set(&draft->tree, &(struct code_range){letter, letter}, 1, &node));
    if (item->min != 1 || item->max != 1)
        assert_false(grammar_builder_repeat(draft, node, item->min, item->max, &node));
    return node;
}

static enum status build(const struct random_grammar *grammar, struct arena *arena,
                         const struct grammar_program **out, struct error *error) {
    static const struct shape_program shapes;
    static const char *const names[RULES] = {"root", "x", "y", "z"};
    struct arena kept, passing;
    struct automaton_work work = {&kept, &passing, 20000, 20000000};
    struct grammar_builder draft;
    grammar_builder_open(&draft, &work);
    arena_over(&kept, memory + MATCHER_CASE_BYTES, MATCHER_CASE_BYTES);
    arena_over(&passing, memory + 2 * MATCHER_CASE_BYTES, MATCHER_CASE_BYTES);
    for (uint32_t r = 0; r < RULES; r++) {
        uint32_t number;
        struct builder_rule rule = {.name = bytes_of(names[r]), .line = r + 1};
        assert_false(grammar_builder_add_rule(&draft, &rule, &number));
    }
    for (uint32_t r = 0; r < RULES; r++) {
        const struct rule *rule = &grammar->rules[r];
        uint32_t node, base = (uint32_t)draft.tree.waiting_count;
        for (uint32_t a = 0; a < rule->count; a++) {
            uint32_t first = (uint32_t)draft.tree.waiting_count;
            for (uint32_t i = 0; i < rule->alternatives[a].count; i++) {
                node = build_item(&draft, &rule->alternatives[a].items[i]);
                assert_false(regex_tree_wait(&draft.tree, node));
            }
            assert_false(regex_tree_gather(&draft.tree, REGEX_SEQUENCE, first, &node));
            assert_false(regex_tree_wait(&draft.tree, node));
        }
        assert_false(regex_tree_gather(&draft.tree, REGEX_ALTERNATE, base, &draft.rules[r].body));
    }
    return grammar_compile(arena, &draft, 0, &shapes, out, error);
}

/* ---- comparing ---- */

static char token_texts[TOKENS][5] = {[31] = "c", [32] = "bc"};

/* Token t is the number t + 2 in binary behind its first digit, with a for 0 and b for 1. */
static void spell_tokens(void) {
    for (uint32_t t = 0; t < ORDINARY; t++) {
        uint32_t digits = t + 2, count = 31 - (uint32_t)__builtin_clz(digits);
        for (uint32_t i = 0; i < count; i++)
            token_texts[t][i] = digits >> (count - 1 - i) & 1 ? 'b' : 'a';
    }
}

struct compared {
    const struct random_grammar *grammar;
    struct matcher *matcher;
    const struct token_trie *trie;
    uint64_t seed;
};

/* What a token adds to a text; TEXTS: no letters, or too many. */
static uint32_t text_with(uint32_t text, uint32_t token) {
    if (token == ADDED) return text_join(text, TOKEN_LETTER + 1);
    for (const char *at = token_texts[token]; *at && text < TEXTS; at++)
        text = *at == 'c' ? TEXTS : text_join(text, (uint32_t)(*at - 'a') + 1);
    return text;
}

static void compare_place(const struct compared *all, struct grammar_position at, uint32_t text) {
    const struct text_set *begun = &all->grammar->begun[0], *whole = &all->grammar->whole[0];
    uint64_t fast = 0, slow = 0;
    uint32_t forced = 0, token_count = TOKENS;
    if ((at.number != 0) != begun->has[text] ||
        (at.number && matcher_may_end(all->matcher, at) != whole->has[text]))
        fail_msg("seed %u: text %u", (unsigned)all->seed, text);
    if (!at.number) return;
    matcher_mask(all->matcher, at, &fast);
    matcher_mask_slowly(all->matcher, at, &slow);
    assert_int_equal(fast, slow);
    bool is_forced = matcher_forced_token(all->matcher, at, &forced);
    for (uint32_t t = 0; t < token_count; t++) {
        uint32_t with = text_with(text, t);
        bool held = fast >> t & 1;
        if (text_length(text) + (t == ADDED ? 1 : strlen(token_texts[t])) > LENGTH_MAX) continue;
        if (held != (with < TEXTS && begun->has[with]))
            fail_msg("seed %u: text %u, token %u", (unsigned)all->seed, text, t);
        assert_true(!is_forced || held == (t == forced));
        if (with < TEXTS && held && t > 1) {
            struct grammar_position to = matcher_push_token(all->matcher, at, t);
            assert_true(to.number && matcher_may_end(all->matcher, to) == whole->has[with]);
        }
    }
    assert_false(is_forced && whole->has[text]);
}

static void compare_all(struct compared *all, struct grammar_position at, uint32_t text) {
    compare_place(all, at, text);
    if (!at.number || text_length(text) == LENGTH_MAX) return;
    for (uint32_t letter = 0; letter < LETTERS; letter++)
        compare_all(all,
                    matcher_push_token(all->matcher, at, letter == TOKEN_LETTER ? ADDED : letter),
                    text * LETTERS + letter + 1);
}

/* Whether there was something to compare. */
static bool compare_grammar(uint64_t seed) {
    static struct random_grammar grammar;
    struct bytes tokens[TOKENS];
    struct arena arena, scratch;
    struct error error = {""};
    const struct grammar_program *program = NULL;
    struct compared all = {.grammar = &grammar, .seed = seed};
    struct grammar *opened = NULL;
    uint64_t random = seed * 2 + 1;
    spell_tokens();
    for (uint32_t t = 0; t < TOKENS; t++)
        tokens[t] = bytes_of(token_texts[t]);
    arena_over(&arena, memory, MATCHER_CASE_BYTES);
    arena_over(&scratch, memory + 3 * MATCHER_CASE_BYTES, MATCHER_CASE_BYTES);
    draw_grammar(&grammar, &random);
    find_texts(&grammar);
    enum status status = build(&grammar, &arena, &program, &error);
    bool refused = !grammar.whole[0].any || recurs_left(&grammar);
    if ((status == STATUS_INVALID) != refused)
        fail_msg("seed %u: %s", (unsigned)seed, status ? error.text : "wrongly taken");
    if (refused) return false;
    assert_int_equal(status, STATUS_OK);
    assert_false(token_trie_build(&arena, &scratch, tokens, TOKENS, &all.trie));
    assert_false(matcher_grammar_open(&arena, program, all.trie, &opened, &error));
    assert_false(matcher_open(&arena, opened, &all.matcher));
    compare_all(&all, matcher_begin(all.matcher), 0);
    return true;
}

TEST(random_grammars_let_through_what_their_texts_are) {
    uint32_t compared = 0;
    for (uint64_t seed = 0; seed < RANDOM_GRAMMARS; seed++)
        compared += compare_grammar(seed);
    assert_true(compared > RANDOM_GRAMMARS / 4);
}
