/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/constraint_judge.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/sha256.h"
#include "host/process/lazy_memory.h"
#include "serving/constraint/constraint.h"

#define REMEMBERED 512 /* verdicts */

struct remembered {
    uint8_t text_sha256[SHA256_BYTES]; /* a verdict must not be forged by another text */
    uint64_t asked; /* when it was last asked for, by the judge's count; 0: free */
    enum constraint_verdict verdict;
    struct error error;
};

struct constraint_judge {
    const struct tokenizer *tokenizer;
    uint64_t asked, compiled;
    uint64_t clients[REMEMBERED]; /* that asked for each first */
    struct remembered remembered[REMEMBERED];
};

enum status constraint_judge_open(const struct tokenizer *tokenizer,
                                  struct constraint_judge **judge_out, struct error *error) {
    struct constraint_judge *judge = calloc(1, sizeof *judge);
    if (!judge) return error_set(error, STATUS_NO_MEMORY, "no memory for verdicts on constraints");
    judge->tokenizer = tokenizer;
    *judge_out = judge;
    return STATUS_OK;
}

void constraint_judge_close(struct constraint_judge *judge) {
    free(judge);
}

uint64_t constraint_judge_compiled(const struct constraint_judge *judge) {
    return judge->compiled;
}

static enum constraint_verdict verdict_of(enum status status) {
    switch (status) {
    case STATUS_OK:
        return CONSTRAINT_HOLDS;
    case STATUS_UNSUPPORTED:
        return CONSTRAINT_UNSUPPORTED;
    case STATUS_TOO_LARGE:
        return CONSTRAINT_TOO_LARGE;
    case STATUS_NO_MEMORY:
        return CONSTRAINT_NO_MEMORY;
    default:
        return CONSTRAINT_INVALID;
    }
}

/* What compiling touches is given back at once. */
static enum constraint_verdict compile(struct constraint_judge *judge, struct bytes text,
                                       struct error *error) {
    struct lazy_memory result = lazy_memory_take(CONSTRAINT_RESULT_BYTES);
    struct lazy_memory work = lazy_memory_take(CONSTRAINT_SCRATCH_BYTES);
    enum status status = STATUS_OK;
    if (!result.start || !work.start) {
        status = error_set(error, STATUS_NO_MEMORY, "there is no memory to compile the constraint");
    } else {
        struct arena arena, scratch;
        const struct constraint *constraint;
        arena_over(&arena, result.start, result.bytes);
        arena_over(&scratch, work.start, work.bytes);
        status = constraint_compile(&arena, &scratch, text, judge->tokenizer, &constraint, error);
    }
    lazy_memory_free(&result);
    lazy_memory_free(&work);
    judge->compiled++;
    return verdict_of(status);
}

/* The text's place, or else a free one; NULL: there is none. */
static struct remembered *find_place(struct constraint_judge *judge,
                                     const uint8_t text_sha256[SHA256_BYTES]) {
    struct remembered *empty = NULL;
    for (uint32_t i = 0; i < REMEMBERED; i++) {
        struct remembered *each = &judge->remembered[i];
        if (!each->asked)
            empty = each;
        else if (memcmp(each->text_sha256, text_sha256, SHA256_BYTES) == 0)
            return each;
    }
    return empty;
}

static uint32_t count_of(const struct constraint_judge *judge, uint64_t client) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < REMEMBERED; i++)
        count += judge->clients[i] == client;
    return count;
}

/* All places are taken. The client that has most of them loses the one that was asked for longest
 * ago; among clients that have as many, the longest ago of all. */
static struct remembered *forget_one(struct constraint_judge *judge) {
    uint32_t chosen = 0, most = 0;
    for (uint32_t i = 0; i < REMEMBERED; i++) {
        bool same = i > 0 && judge->clients[i] == judge->clients[chosen];
        uint32_t count = same ? most : count_of(judge, judge->clients[i]);
        bool older = judge->remembered[i].asked < judge->remembered[chosen].asked;
        if (count < most || (count == most && !older)) continue;
        chosen = i;
        most = count;
    }
    judge->remembered[chosen].asked = 0;
    return &judge->remembered[chosen];
}

enum constraint_verdict constraint_judge_ask(struct constraint_judge *judge, uint64_t client,
                                             struct bytes text, struct error *error) {
    uint8_t text_sha256[SHA256_BYTES];
    sha256_digest(text.data, text.count, text_sha256);
    struct remembered *place = find_place(judge, text_sha256);
    if (!place) place = forget_one(judge);
    if (!place->asked) {
        judge->clients[place - judge->remembered] = client;
        place->verdict = compile(judge, text, &place->error);
        if (place->verdict == CONSTRAINT_HOLDS) place->error.text[0] = '\0'; /* of what it tried */
        memcpy(place->text_sha256, text_sha256, SHA256_BYTES);
    }
    *error = place->error;
    /* Memory that is out now may be there later. */
    place->asked = place->verdict == CONSTRAINT_NO_MEMORY ? 0 : ++judge->asked;
    return place->verdict;
}
