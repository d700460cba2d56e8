/* SPDX-License-Identifier: Apache-2.0
 * Schemas against texts that are known to fulfil them or not: for `./dev schemas`, whose driver is
 * check_schemas.py. Reads lines {"schema":...,"texts":[...]} ("form" instead of "schema": a form,
 * as of serving/grammar/rules/form.h), and for each writes
 * {"compile_ns":...,"status":"ok"|...,"error":"...","at":[bytes,...],"mask_worst_ns":...}: how far
 * each text was let through token by token, with the mask before each token; one more than its
 * bytes where it may end. The last line tells how long masks took. All times are processor time.
 *
 * usage: check_schemas TOKENIZER.JSON ROWS [slowly]
 *   slowly: each mask is compared with the one that trying each token gives
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/file.h"
#include "base/json_writer.h"
#include "base/tree.h"
#include "serving/grammar/matcher/matcher.h"
#include "serving/grammar/rules/form.h"

#define ARENA_BYTES ((size_t)1 << 30)
#define TEXT_BYTES_MAX ((size_t)1 << 22)
#define MASK_NS_MAX 10000000 /* longer ones count as this long */
#define MASK_STEP_NS 50

struct checker {
    struct tokenizer *tokenizer;
    struct tokenizer_scratch *encode;
    const struct token_trie *trie;
    struct arena parse, compile, scratch;
    uint32_t *ids;
    uint64_t *mask, *slow_mask;
    bool slowly;
    uint64_t mask_count, mask_ns, mask_worst_ns, token_count;
    uint64_t line_worst_ns; /* of this line's masks */
    uint32_t *spread;       /* [MASK_NS_MAX / MASK_STEP_NS + 1] masks that took so long */
};

/* Processor time, so that a busy machine tells the same. */
static int64_t spent_ns(void) {
    struct timespec spent;
    check(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent) == 0);
    return (int64_t)spent.tv_sec * 1000000000 + spent.tv_nsec;
}

static void open_arena(struct arena *arena, size_t bytes) {
    void *memory = malloc(bytes);
    check(memory);
    arena_over(arena, memory, bytes);
}

static void *must(void *memory) {
    check(memory);
    return memory;
}

static void checker_open(struct checker *checker, const char *path, uint32_t rows) {
    struct arena arena, scratch;
    struct error error = {""};
    FILE *file = fopen(path, "rb");
    char *json = must(malloc((size_t)64 << 20));
    if (!file) {
        fprintf(stderr, "check_schemas: cannot open %s\n", path);
        exit(1);
    }
    size_t count = fread(json, 1, (size_t)64 << 20, file);
    fclose(file);
    open_arena(&arena, (size_t)512 << 20);
    open_arena(&scratch, (size_t)1 << 30);
    enum status status = tokenizer_open(&arena, &scratch, (struct bytes){json, count}, path,
                                        &checker->tokenizer, &error);
    arena_clear(&scratch);
    if (status ||
        token_trie_of_tokenizer(&arena, &scratch, checker->tokenizer, rows, &checker->trie)) {
        fprintf(stderr, "check_schemas: %s\n", error.text);
        exit(1);
    }
    free(scratch.start);
    free(json);
    checker->encode = must(tokenizer_scratch_create(&arena, TEXT_BYTES_MAX));
    checker->ids = must(malloc(TEXT_BYTES_MAX * sizeof *checker->ids));
    checker->mask = must(malloc(checker->trie->word_count * sizeof(uint64_t)));
    checker->slow_mask = must(malloc(checker->trie->word_count * sizeof(uint64_t)));
    checker->spread = must(calloc(MASK_NS_MAX / MASK_STEP_NS + 1, sizeof(uint32_t)));
    open_arena(&checker->parse, ARENA_BYTES);
    open_arena(&checker->compile, ARENA_BYTES);
    open_arena(&checker->scratch, ARENA_BYTES);
}

static void fill_mask(struct checker *checker, struct matcher *matcher,
                      struct grammar_position at) {
    int64_t start = spent_ns();
    matcher_mask(matcher, at, checker->mask);
    uint64_t ns = (uint64_t)(spent_ns() - start);
    checker->mask_count++;
    checker->mask_ns += ns;
    if (ns > checker->line_worst_ns) checker->line_worst_ns = ns;
    if (ns > checker->mask_worst_ns) checker->mask_worst_ns = ns;
    checker->spread[(ns < MASK_NS_MAX ? ns : MASK_NS_MAX) / MASK_STEP_NS]++;
    if (!checker->slowly) return;
    matcher_mask_slowly(matcher, at, checker->slow_mask);
    for (uint32_t t = 0; t < checker->trie->token_count; t++) {
        bool fast = checker->mask[t / 64] >> t % 64 & 1;
        if (fast == (bool)(checker->slow_mask[t / 64] >> t % 64 & 1)) continue;
        struct bytes token = checker->trie->tokens[t];
        fprintf(stderr, "check_schemas: the mask %s token %" PRIu32 " '%.*s'\n",
                fast ? "wrongly holds" : "lacks", t, (int)token.count, token.data);
        exit(1);
    }
}

/* Bytes let through; more than the text has: it may end. */
static size_t run_text(struct checker *checker, struct grammar *grammar, struct bytes text) {
    struct matcher *matcher = NULL;
    size_t count = 0, at = 0;
    check(!tokenizer_encode(checker->tokenizer, checker->encode, text, plain_text_everywhere,
                            checker->ids, TEXT_BYTES_MAX, &count));
    check(!matcher_open(&checker->compile, grammar, &matcher));
    struct grammar_position position = matcher_begin(matcher);
    for (size_t i = 0; i < count; i++) {
        uint32_t token = checker->ids[i];
        fill_mask(checker, matcher, position);
        bool held = checker->mask[token / 64] >> token % 64 & 1;
        position = matcher_push_token(matcher, position, token);
        if (held != (position.number != 0)) {
            fprintf(stderr, "check_schemas: mask and push disagree at byte %zu: '%.*s'\n", at,
                    (int)(text.count - at < 40 ? text.count - at : 40), text.data + at);
            exit(1);
        }
        if (!position.number || !matcher_compact(matcher, &position)) return at;
        at += tokenizer_token_bytes(checker->tokenizer, token).count;
        checker->token_count++;
    }
    fill_mask(checker, matcher, position);
    return at + matcher_may_end(matcher, position);
}

/* Of a line's schema; `line` has it, or a form. */
static enum status compile(struct checker *checker, const struct tree *line,
                           struct grammar **grammar, struct error *error) {
    const struct grammar_program *program = NULL;
    const struct tree *form = tree_member(line, "form");
    struct tree *made = tree_make_object(&checker->parse);
    if (!form) check(tree_set(&checker->parse, made, "schema", tree_member(line, "schema")));
    if (!form) check(tree_set(&checker->parse, made, "any_spelling", tree_make_bool(true)));
    enum status status = form_compile(&checker->compile, &checker->scratch, form ? form : made,
                                      checker->tokenizer, &schema_limits_usual, &program, error);
    if (!status)
        status = matcher_grammar_open(&checker->compile, program, checker->trie, grammar, error);
    return status;
}

static void check_line(struct checker *checker, struct bytes line) {
    const struct tree *root = NULL;
    struct error error = {""};
    struct grammar *grammar = NULL;
    char quoted[2048];
    arena_clear(&checker->parse);
    arena_clear(&checker->compile);
    checker->line_worst_ns = 0;
    if (tree_parse(&checker->parse, line, "line", &root, &error)) {
        printf("{\"compile_ns\":0,\"status\":\"unreadable\",\"error\":\"\"}\n");
        return;
    }
    int64_t start = spent_ns();
    enum status status = compile(checker, root, &grammar, &error);
    int64_t ns = spent_ns() - start;
    struct json_writer writer = {quoted, sizeof quoted, 0};
    json_writer_string(&writer, bytes_of(error.text));
    printf("{\"compile_ns\":%" PRId64 ",\"status\":\"%s\",\"error\":%.*s,\"at\":[", ns,
           status ? status_name(status) : "ok", (int)writer.count, quoted);
    struct arena kept = checker->compile;
    const struct tree *texts = tree_member(root, "texts");
    for (size_t i = 0; !status && i < tree_count(texts); i++) {
        struct bytes text;
        check(tree_get_string(tree_at(texts, i), &text));
        checker->compile = kept;
        size_t at = run_text(checker, grammar, text);
        printf("%s%zu", i ? "," : "", at);
    }
    printf("],\"mask_worst_ns\":%" PRIu64 "}\n", checker->line_worst_ns);
    fflush(stdout);
}

static uint64_t at_share(const struct checker *checker, double share) {
    uint64_t wanted = (uint64_t)(share * (double)checker->mask_count), count = 0;
    for (uint32_t i = 0; i <= MASK_NS_MAX / MASK_STEP_NS; i++) {
        count += checker->spread[i];
        if (count > wanted) return ((uint64_t)i + 1) * MASK_STEP_NS;
    }
    return checker->mask_worst_ns;
}

int main(int argc, char **argv) {
    static struct checker checker;
    char *line = NULL;
    size_t room = 0;
    ssize_t count;
    if (argc < 3) {
        fprintf(stderr, "usage: check_schemas TOKENIZER.JSON ROWS [slowly]\n");
        return 2;
    }
    checker.slowly = argc > 3;
    checker_open(&checker, argv[1], (uint32_t)strtoul(argv[2], NULL, 10));
    while ((count = getline(&line, &room, stdin)) > 0)
        check_line(&checker, (struct bytes){line, (size_t)count});
    printf("{\"masks\":%" PRIu64 ",\"tokens\":%" PRIu64 ",\"mean_ns\":%.0f,\"p50_ns\":%" PRIu64
           ",\"p99_ns\":%" PRIu64 ",\"worst_ns\":%" PRIu64 "}\n",
           checker.mask_count, checker.token_count,
           checker.mask_count ? (double)checker.mask_ns / (double)checker.mask_count : 0.0,
           at_share(&checker, 0.5), at_share(&checker, 0.99), checker.mask_worst_ns);
    free(line);
    return 0;
}
