/* SPDX-License-Identifier: Apache-2.0
 * The unit's part of a program: its options, the engines of its ranks and the unit machine. `fathom
 * serve` runs a unit in its own process; `fathom unit` connects one to gateways over the wire.
 */
#pragma once

#include "command/model_run.h"
#include "command/rank_job.h"
#include "host/engine/grammar_mask_worker.h"
#include "host/engine/step_thread.h"
#include "host/loop.h"
#include "host/process/lazy_memory.h"
#include "host/transfer/kv_ranks.h"
#include "programs/recorded_machine.h"
#include "serving/unit/rank_units.h"

struct unit_side_values {
    uint64_t kv_memory, max_context, max_batch_tokens, max_batch_rows, queue, tpot_stretch;
    double tpot_target_ms, prompt_patience, priority_seconds, step_ms_min;
    const char *rank_balance, *rank_binding, *rank_steps, *evict, *mtp, *rebalance;
    const char *kv_dir, *kv_load, *kv_overlap;
    uint64_t kv_disk, kv_host, kv_write_rate, kv_read_rate;
    double rebalance_seconds;
    bool prefix_cache, reuse_generated;
    const char *instance; /* the unit's name: UNIT_INSTANCE_DIGITS digits; NULL: none */
};

/* Rows for an option table of struct `owner` with a member struct unit_side_values `unit`. */
#define UNIT_SIDE_OPTIONS(owner)                                                                   \
    OPTION_ROW("kv-memory", OPTION_BYTES, "1GiB",                                                  \
               "memory for a unit's KV cache, of all its ranks together",                          \
               .offset = offsetof(owner, unit.kv_memory)),                                         \
        OPTION_ROW("max-context", OPTION_COUNT, NULL,                                              \
                   "maximum tokens of a prompt and its answer; 0: the limit of the model and the " \
                   "KV memory",                                                                    \
                   .offset = offsetof(owner, unit.max_context), .maximum = LIMIT_CONTEXT),         \
        OPTION_ROW("rebalance", OPTION_CHOICE, "on",                                               \
                   "move experts between ranks while serving, to balance their load; never "       \
                   "changes an answer",                                                            \
                   .offset = offsetof(owner, unit.rebalance), .choices = "on|off",                 \
                   .needs = RANK_JOB_NEEDED, .group = OPTION_GROUP_RANKS),                         \
        OPTION_ROW("rebalance-seconds", OPTION_NUMBER, "30",                                       \
                   "seconds between two checks of the experts' balance",                           \
                   .offset = offsetof(owner, unit.rebalance_seconds), .needs = RANK_JOB_NEEDED,    \
                   .minimum = 0.01, .maximum = 1e6, .group = OPTION_GROUP_RANKS),                  \
        OPTION_ROW("prefix-cache", OPTION_FLAG, "true",                                            \
                   "reuse the KV pages of earlier prompts and answers",                            \
                   .offset = offsetof(owner, unit.prefix_cache), .group = OPTION_GROUP_STORAGE),   \
        OPTION_ROW("reuse-generated", OPTION_FLAG, "true",                                         \
                   "reuse the KV pages of answers for later prompts, as in a chat; an answer may " \
                   "then differ in the last bit from one computed from scratch",                   \
                   .offset = offsetof(owner, unit.reuse_generated), .needs = "=prefix-cache",      \
                   .group = OPTION_GROUP_STORAGE),                                                 \
        OPTION_ROW("evict", OPTION_CHOICE, "least-recent",                                         \
                   "which cached KV pages are evicted first",                                      \
                   .offset = offsetof(owner, unit.evict), .choices = "least-recent|deepest",       \
                   .needs = "=prefix-cache", .group = OPTION_GROUP_STORAGE),                       \
        OPTION_ROW("kv-dir", OPTION_TEXT, NULL,                                                    \
                   "also store KV blocks in this directory, which outlives a restart; all ranks "  \
                   "and units may share it",                                                       \
                   .offset = offsetof(owner, unit.kv_dir), .needs = "=prefix-cache",               \
                   .group = OPTION_GROUP_STORAGE),                                                 \
        OPTION_ROW("kv-disk", OPTION_BYTES, "16GiB",                                               \
                   "maximum bytes of --kv-dir, other models' blocks included",                     \
                   .offset = offsetof(owner, unit.kv_disk), .needs = "kv-dir",                     \
                   .group = OPTION_GROUP_STORAGE),                                                 \
        OPTION_ROW("kv-host", OPTION_BYTES, NULL,                                                  \
                   "memory of a unit for KV blocks evicted from --kv-memory, in front of the "     \
                   "disk; its ranks share it equally",                                             \
                   .offset = offsetof(owner, unit.kv_host), .needs = "=prefix-cache",              \
                   .group = OPTION_GROUP_STORAGE),                                                 \
        OPTION_ROW("kv-write-rate", OPTION_BYTES, "256MiB",                                        \
                   "maximum bytes per second that a unit writes to --kv-dir, shared equally by "   \
                   "its ranks; 0: no limit",                                                       \
                   .offset = offsetof(owner, unit.kv_write_rate), .needs = "kv-dir",               \
                   .group = OPTION_GROUP_STORAGE),                                                 \
        OPTION_ROW("kv-read-rate", OPTION_BYTES, NULL,                                             \
                   "maximum bytes per second that a unit reads from --kv-dir; 0: no limit",        \
                   .offset = offsetof(owner, unit.kv_read_rate), .needs = "kv-dir",                \
                   .group = OPTION_GROUP_STORAGE),                                                 \
        OPTION_ROW("kv-load", OPTION_CHOICE, "auto",                                               \
                   "load KV blocks instead of computing them: if measured to be faster (auto), "   \
                   "always or never",                                                              \
                   .offset = offsetof(owner, unit.kv_load), .choices = "auto|always|never",        \
                   .needs = "kv-dir|kv-host|kv-listen|prefill-units",                              \
                   .group = OPTION_GROUP_STORAGE),                                                 \
        OPTION_ROW("kv-overlap", OPTION_CHOICE, "on",                                              \
                   "compute with each layer of a load as it arrives, unless that delays other "    \
                   "requests for long; off: wait for the whole load",                              \
                   .offset = offsetof(owner, unit.kv_overlap), .choices = "on|off",                \
                   .needs = "kv-dir|kv-host|kv-listen|prefill-units",                              \
                   .group = OPTION_GROUP_STORAGE),                                                 \
        OPTION_ROW("max-batch-tokens", OPTION_COUNT, "512",                                        \
                   "maximum tokens of a step on each rank; more speed up prompts and delay "       \
                   "running answers",                                                              \
                   .offset = offsetof(owner, unit.max_batch_tokens),                               \
                   .minimum = 2 * KV_BLOCK_TOKENS, .maximum = LIMIT_STEP_TOKENS,                   \
                   .group = OPTION_GROUP_TUNING),                                                  \
        OPTION_ROW(                                                                                \
            "max-batch-rows", OPTION_COUNT, "64",                                                  \
            "maximum running requests on each rank; at least 64 less than --max-batch-tokens",     \
            .offset = offsetof(owner, unit.max_batch_rows), .minimum = 1,                          \
            .maximum = LIMIT_STEP_ROWS, .group = OPTION_GROUP_TUNING),                             \
        OPTION_ROW("queue", OPTION_COUNT, "256",                                                   \
                   "maximum waiting requests; others are refused with Retry-After",                \
                   .offset = offsetof(owner, unit.queue), .maximum = LIMIT_UNIT_REQUESTS,          \
                   .group = OPTION_GROUP_TUNING),                                                  \
        OPTION_ROW("mtp", OPTION_CHOICE, "auto",                                                   \
                   "draft tokens with the model's MTP layer: if measured to be faster (auto), "    \
                   "always or never; never changes an answer",                                     \
                   .offset = offsetof(owner, unit.mtp), .choices = "auto|on|off",                  \
                   .group = OPTION_GROUP_TUNING),                                                  \
        OPTION_ROW("tpot-target-ms", OPTION_NUMBER, "0",                                           \
                   "target TPOT in milliseconds of running answers while prompts are computed; "   \
                   "0: by --tpot-stretch",                                                         \
                   .offset = offsetof(owner, unit.tpot_target_ms), .maximum = 1e6,                 \
                   .group = OPTION_GROUP_TUNING),                                                  \
        OPTION_ROW("tpot-stretch", OPTION_COUNT, "150",                                            \
                   "maximum TPOT of running answers while prompts are computed, in percent of "    \
                   "the usual one",                                                                \
                   .offset = offsetof(owner, unit.tpot_stretch), .needs = "=tpot-target-ms",       \
                   .minimum = 100, .maximum = 100000, .group = OPTION_GROUP_TUNING),               \
        OPTION_ROW("prompt-patience", OPTION_NUMBER, "1",                                          \
                   "seconds of waiting after which a prompt may exceed these limits",              \
                   .offset = offsetof(owner, unit.prompt_patience), .minimum = 0.001,              \
                   .maximum = 1e6, .group = OPTION_GROUP_TUNING),                                  \
        OPTION_ROW("priority-seconds", OPTION_NUMBER, "10",                                        \
                   "seconds of waiting that equal one step of priority",                           \
                   .offset = offsetof(owner, unit.priority_seconds), .minimum = 0.001,             \
                   .maximum = 1e6, .group = OPTION_GROUP_TUNING),                                  \
        OPTION_ROW("rank-balance", OPTION_CHOICE, "work",                                          \
                   "with ranks: which rank computes a request: the one that finishes it first "    \
                   "(work), or by a simpler policy",                                               \
                   .offset = offsetof(owner, unit.rank_balance),                                   \
                   .choices = "work|round-robin|least-requests|least-tokens|power-of-two",         \
                   .needs = RANK_JOB_NEEDED, .group = OPTION_GROUP_EXPERIMENTS),                   \
        OPTION_ROW("rank-binding", OPTION_CHOICE, "late",                                          \
                   "with ranks: when a request's rank is chosen: when a rank can take it (late), " \
                   "or on arrival, as always with rank-balance's simpler policies",                \
                   .offset = offsetof(owner, unit.rank_binding), .choices = "late|arrival",        \
                   .needs = RANK_JOB_NEEDED, .group = OPTION_GROUP_EXPERIMENTS),                   \
        OPTION_ROW("step-ms-min", OPTION_NUMBER, "0",                                              \
                   "minimum milliseconds of a step, to imitate a slower machine",                  \
                   .offset = offsetof(owner, unit.step_ms_min), .maximum = 1e6,                    \
                   .group = OPTION_GROUP_EXPERIMENTS),                                             \
        OPTION_ROW("rank-steps", OPTION_CHOICE, "levelled",                                        \
                   "with ranks: if prompts would make a rank's step longer than the others', "     \
                   "take fewer of their tokens (levelled), or all that fit (full)",                \
                   .offset = offsetof(owner, unit.rank_steps), .choices = "levelled|full",         \
                   .needs = RANK_JOB_NEEDED, .group = OPTION_GROUP_EXPERIMENTS)

struct unit_side {
    const struct model_run_values *run;
    const struct rank_job_values *job;
    const struct unit_side_values *values;
    struct rank_group *group;
    struct rebalancer *rebalancer;
    struct rank_units *units;
    const struct recorded_values *record;
    struct recorder *recorder; /* NULL: nothing is recorded */
    enum unit_role role;
    struct loop *loop;
    struct kv_ranks *kv_ranks; /* NULL: no KV blocks are transferred or stored */
    struct grammar_mask_worker *grammar_mask_worker; /* rank 0's */
    struct step_thread thread;
    int64_t *pids;
    struct lazy_memory memory;
    const char *directory; /* the checkpoint's */
};

/* Returns true, after printing an error, if options contradict each other. */
bool unit_side_misused(const struct unit_side_values *values, int *exit_code_out);

/* Refuses what a model of this form cannot do, by the name of what asks for it. */
enum status unit_side_check_form(const struct shape *shape, bool apart, uint64_t ranks,
                                 const struct unit_side_values *values, struct error *error);

/* Checks before weights are read that the model's configuration, --kv-memory and --max-context fit
 * one another. Sets the model's shape. */
enum status unit_side_check(const struct model_run_values *run,
                            const struct unit_side_values *values, uint64_t ranks,
                            struct shape *shape_out, struct error *error) MUST_USE;

/* The most requests that a rank holds, waiting and running. */
uint32_t unit_side_requests(const struct unit_side_values *values, uint64_t ranks);

/* The options of one rank's share of the unit's KV storage, divided among `ranks` ranks. */
struct kv_store_options unit_side_storage(const struct unit_side_values *values, uint64_t ranks);

/* Sets the KV pages in `kv` to those of the rank's model, which must outlive `kv`. */
void unit_side_name_pages(struct kv_ranks_options *kv, const struct engine *engine);

/* Sets the options of the model on each rank. */
enum status unit_side_options(const struct model_run_values *run, const struct rank_job_values *job,
                              const struct unit_side_values *values,
                              struct model_options *options_out, struct error *error) MUST_USE;

/* Opens the worker that computes grammar masks for one of `ranks` ranks. */
enum status unit_side_open_grammar_mask_worker(const struct model_run_values *run,
                                               const struct unit_side_values *values,
                                               uint64_t ranks, const struct engine *engine,
                                               struct grammar_mask_worker **grammar_mask_worker_out,
                                               struct error *error) MUST_USE;

/* Loads the model on all ranks and creates the unit, for prefill, decode, or both. Uses only host,
 * control, seconds_max and bytes_per_second of `kv`. The values must outlive `side`. */
enum status unit_side_open(struct unit_side *side, const struct model_run_values *run,
                           const struct rank_job_values *job, const struct unit_side_values *values,
                           const struct recorded_values *record, enum unit_role role,
                           const struct kv_ranks_options *kv, struct loop *loop,
                           struct error *error) MUST_USE;
/* Ends transfers and the KV storage. Call it before the loop closes. */
void unit_side_leave(struct unit_side *side);
/* Also allowed on a zeroed struct, and after unit_side_open failed. */
void unit_side_close(struct unit_side *side);

/* Fills in the unit, its engine and their context. */
void unit_side_join(struct unit_side *side, struct loop_parts *parts);

/* Logs the model and its limits. */
void unit_side_say(const struct unit_side *side, const char *name);
