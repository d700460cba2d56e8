/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/constraint_validator.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/sha256.h"
#include "host/process/lazy_memory.h"
#include "serving/constraint/constraint.h"

#define REMEMBERED 512 /* cached verdicts */

struct remembered {
    uint8_t text_sha256[SHA256_BYTES]; /* a hash for which another text cannot be forged */
    uint64_t asked;                    /* number of the latest request for it; 0: free */
    enum constraint_verdict verdict;
    struct error error;
};

struct constraint_validator {
    const struct tokenizer *tokenizer;
    uint64_t asked, compiled;
    uint64_t clients[REMEMBERED]; /* the first client of each verdict */
    struct remembered remembered[REMEMBERED];
};

enum status constraint_validator_open(const struct tokenizer *tokenizer,
                                      struct constraint_validator **verify_out,
                                      struct error *error) {
    struct constraint_validator *verify = calloc(1, sizeof *verify);
    if (!verify) return error_set(error, STATUS_NO_MEMORY, "no memory for verdicts on constraints");
    verify->tokenizer = tokenizer;
    *verify_out = verify;
    return STATUS_OK;
}

void constraint_validator_close(struct constraint_validator *verify) {
    free(verify);
}

uint64_t constraint_validator_compiled(const struct constraint_validator *verify) {
    return verify->compiled;
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

/* Compiles a constraint. Returns the memory that it touched at once. */
static enum constraint_verdict constraint_validator_compile(struct constraint_validator *verify,
                                                            struct bytes text,
                                                            struct error *error) {
    struct lazy_memory result = lazy_memory_take(CONSTRAINT_RESULT_BYTES);
    struct lazy_memory work = lazy_memory_take(CONSTRAINT_SCRATCH_BYTES);
    enum status status = STATUS_OK;
    if (!result.start || !work.start) {
        status = error_set(error, STATUS_NO_MEMORY, "no memory to compile the constraint");
    } else {
        struct arena arena, scratch;
        const struct constraint *constraint;
        arena_over(&arena, result.start, result.bytes);
        arena_over(&scratch, work.start, work.bytes);
        status = constraint_compile(&arena, &scratch, text, verify->tokenizer, &constraint, error);
    }
    lazy_memory_free(&result);
    lazy_memory_free(&work);
    verify->compiled++;
    return verdict_of(status);
}

/* Finds the text's entry, or else a free one; NULL: neither. */
static struct remembered *constraint_validator_find_place(struct constraint_validator *verify,
                                                          const uint8_t text_sha256[SHA256_BYTES]) {
    struct remembered *empty = NULL;
    for (uint32_t i = 0; i < REMEMBERED; i++) {
        struct remembered *each = &verify->remembered[i];
        if (!each->asked)
            empty = each;
        else if (memcmp(each->text_sha256, text_sha256, SHA256_BYTES) == 0)
            return each;
    }
    return empty;
}

static uint32_t constraint_validator_count_of(const struct constraint_validator *verify,
                                              uint64_t client) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < REMEMBERED; i++)
        count += verify->clients[i] == client;
    return count;
}

/* Frees an entry of a full cache: the least recently used one of the client with most entries. If
 * several clients have the most, the least recently used one of theirs. */
static struct remembered *forget_one(struct constraint_validator *verify) {
    uint32_t chosen = 0, most = 0;
    for (uint32_t i = 0; i < REMEMBERED; i++) {
        bool same = i > 0 && verify->clients[i] == verify->clients[chosen];
        uint32_t count = same ? most : constraint_validator_count_of(verify, verify->clients[i]);
        bool older = verify->remembered[i].asked < verify->remembered[chosen].asked;
        if (count < most || (count == most && !older)) continue;
        chosen = i;
        most = count;
    }
    verify->remembered[chosen].asked = 0;
    return &verify->remembered[chosen];
}

enum constraint_verdict constraint_validator_ask(struct constraint_validator *verify,
                                                 uint64_t client, struct bytes text,
                                                 struct error *error) {
    uint8_t text_sha256[SHA256_BYTES];
    sha256_digest(text.data, text.count, text_sha256);
    struct remembered *place = constraint_validator_find_place(verify, text_sha256);
    if (!place) place = forget_one(verify);
    if (!place->asked) {
        verify->clients[place - verify->remembered] = client;
        place->verdict = constraint_validator_compile(verify, text, &place->error);
        if (place->verdict == CONSTRAINT_HOLDS)
            place->error.text[0] = '\0'; /* left from failed attempts */
        memcpy(place->text_sha256, text_sha256, SHA256_BYTES);
    }
    *error = place->error;
    /* A shortage of memory may be temporary, so its verdict is not cached. */
    place->asked = place->verdict == CONSTRAINT_NO_MEMORY ? 0 : ++verify->asked;
    return place->verdict;
}
