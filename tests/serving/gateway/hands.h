/* SPDX-License-Identifier: Apache-2.0
 * Units played by hand, for tests of the gateway among several of them: token ids in and out, one
 * prompt of three tokens, an answer of six at most.
 */
#pragma once

#include "base/tree.h"
#include "world.h"

#define COMPLETIONS "/v1/completions"
#define SECOND ((int64_t)1000000000)

enum { VOCAB = 4096 };

static const uint32_t ids[] = {11, 12, 13, 14, 15, 16};

/* A record in a memory that the next one takes over. */
void *make(enum record_kind kind, const void *fixed);

struct world *open_empty(struct gateway_options gateway);
/* With units 1..units that do everything. */
struct world *open_with(uint32_t units, struct gateway_options gateway);
/* No request may be left. */
void close_empty(struct world *world);

/* The unit says so. */
void report(struct world *world, uint32_t unit, const void *record);
void say_hello(struct world *world, uint32_t unit, const char *numerics);
/* Of a checkpoint of that number; others' is 0. */
void say_model(struct world *world, uint32_t unit, uint8_t model);

/* Says hello with a vocabulary and a context of so many tokens. */
void say_sizes(struct world *world, uint32_t unit, uint32_t vocab, uint32_t context);
void report_reserved(struct world *world, uint32_t unit, struct request_id id);
/* Joins, and takes KV blocks. */
void join_with(struct world *world, uint32_t unit, enum unit_role role, const char *numerics);
void join(struct world *world, uint32_t unit);
/* A unit with this instance connects; the one that joined as N has the instance N. */
void join_again(struct world *world, uint32_t unit, uint64_t instance);
/* Joins as a unit for one task, which takes KV blocks at "unit:<number>". */
void join_as(struct world *world, uint32_t unit, enum unit_role role);
void lose(struct world *world, uint32_t unit);
void report_tokens(struct world *world, uint32_t unit, struct request_id id, uint32_t first,
                   const uint32_t *tokens, uint32_t count);
void *make_finished(struct request_id id, enum finish_reason reason, uint32_t count);
void report_finished(struct world *world, uint32_t unit, struct request_id id,
                     enum finish_reason reason, uint32_t count);
void report_load(struct world *world, uint32_t unit, uint32_t waiting, uint32_t running);

/* A client's completion request, with more members. */
uint32_t ask(struct world *world, const char *more);
/* The body of an answer that has ended, parsed, until the next call. */
const struct tree *read_body(const struct world *world, uint32_t client);
enum { EVENTS_MAX = 64 };
extern const struct tree *events[EVENTS_MAX];
extern uint32_t keep_alives;
/* Parses a whole stream, until the next call: comments, JSON events, and [DONE] at its end. Returns
 * how many events it has. */
uint32_t read_events(const struct world *world, uint32_t client);
/* Walks a path such as "choices.0.message.content". NULL: there is no such value. */
const struct tree *tree_path(const struct tree *value, const char *path);
void assert_text_at(const struct tree *root, const char *path, const char *expected);
void assert_number_at(const struct tree *root, const char *path, int64_t expected);
void assert_fraction_at(const struct tree *root, const char *path, double expected);
void assert_null_at(const struct tree *root, const char *path);
/* The client's answer has ended with that status, and has that part. */
void expect(const struct world *world, uint32_t client, uint32_t status, const char *part);
void assert_ids(struct world *world, uint32_t client, const uint32_t *tokens, size_t count);
void assert_refused(const struct world *world, uint32_t client, uint32_t status, const char *code);
