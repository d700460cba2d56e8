/* SPDX-License-Identifier: Apache-2.0
 * Code shared by `generate`, `logits` and `bench model`: options for the model and its execution,
 * parsing of token ids, and opening a model with a progress display.
 */
#pragma once

#include "command/command.h"
#include "host/engine/solo.h"

/* The values of MODEL_RUN_OPTIONS; the first member of a program's values. */
struct model_run_values {
    const char *model;
    const char *device;
    const char *activations;
    const char *expert_sum;
    const char *cpu_mask;
    const char *schedule;
    const char *kv_rounding;
    uint64_t threads;
    bool force;
};

#define MODEL_RUN_STEP_TOKENS 512 /* of a step without a unit */

/* The warning for a model that has no end token. */
#define MODEL_RUN_ENDLESS                                                                          \
    "has no token that ends an answer: neither eos_token_id in config.json or "                    \
    "generation_config.json nor an eos_token of the tokenizer; answers end at their limits alone"

/* An option row. `member` of TYPE becomes the argument of engine_check_device. */
#define MODEL_RUN_DEVICE(TYPE, member)                                                             \
    OPTION_ROW("device", OPTION_TEXT, "cpu",                                                       \
               "device that computes: cpu or cuda (verified by emulation; not yet run on a GPU)",  \
               .offset = offsetof(TYPE, member))

/* Option rows for a table with values that start with struct model_run_values. */
#define MODEL_RUN_OPTIONS                                                                          \
    OPTION_ROW("model", OPTION_TEXT, NULL,                                                         \
               "directory of a checkpoint, or GGUF file (default: the model that comes with "      \
               "Fathom)",                                                                          \
               .offset = offsetof(struct model_run_values, model)),                                \
        MODEL_RUN_DEVICE(struct model_run_values, device),                                         \
        OPTION_ROW("force", OPTION_FLAG, NULL,                                                     \
                   "load the model even if it needs more memory than there is",                    \
                   .offset = offsetof(struct model_run_values, force)),                            \
        OPTION_ROW("threads", OPTION_COUNT, NULL,                                                  \
                   "threads of each process, no more than CPUs; 0: an equal share of the CPUs",    \
                   .offset = offsetof(struct model_run_values, threads), .maximum = 1024),         \
        OPTION_ROW("activations", OPTION_CHOICE, "bf16",                                           \
                   "rounding of activations: none (f32), BF16, groups of FP8, groups of FP8 with " \
                   "all else in F32, or BF16 with groups of INT8 for experts in four bits",        \
                   .offset = offsetof(struct model_run_values, activations),                       \
                   .choices = "f32|bf16|fp8|fp8-f32|int8", .group = OPTION_GROUP_TUNING),          \
        OPTION_ROW(                                                                                \
            "expert-sum", OPTION_CHOICE, "groups",                                                 \
            "order of the sum of a token's expert results: expert by expert, or by groups first, " \
            "so that ranks send one row for each group that they hold; the two round differently", \
            .offset = offsetof(struct model_run_values, expert_sum), .choices = "experts|groups",  \
            .group = OPTION_GROUP_TUNING),                                                         \
        OPTION_ROW(                                                                                \
            "kv-rounding", OPTION_CHOICE, "on",                                                    \
            "V4: KV rows rounded to the types that its training expects; off: for checking",       \
            .offset = offsetof(struct model_run_values, kv_rounding), .choices = "on|off",         \
            .group = OPTION_GROUP_TUNING),                                                         \
        OPTION_ROW("cpu-mask", OPTION_CHOICE, "auto", "highest instruction set to use",            \
                   .offset = offsetof(struct model_run_values, cpu_mask),                          \
                   .choices = KERNEL_LEVEL_CHOICES, .group = OPTION_GROUP_TUNING),                 \
        OPTION_ROW(                                                                                \
            "schedule", OPTION_CHOICE, "auto",                                                     \
            "order of a step's stages: all but sequential compute one of two, four, six or eight " \
            "micro-batches while the tokens of others travel between ranks; auto measures the "    \
            "fastest",                                                                             \
            .offset = offsetof(struct model_run_values, schedule),                                 \
            .choices =                                                                             \
                "auto|sequential|prefill-dual-batch|decode-five-stage|quad-batch|hexa-batch|"      \
                "octo-batch|decode-early",                                                         \
            .group = OPTION_GROUP_TUNING)

/* Returns the directory of the given model, or of the one that comes with Fathom
 * (host/process/configuration/model_path.h). The text is never freed, and the next call changes
 * it. */
enum status model_run_directory(const char *given, const char **directory_out,
                                struct error *error) MUST_USE;

/* Reads the shape from config.json and generation_config.json alone. */
enum status model_run_shape(const char *directory, struct shape *shape_out,
                            struct error *error) MUST_USE;

/* Returns the given name of the model, or that of its directory (model_path_name). */
void model_run_name(const char *directory, const char *given, char name_out[static 256]);

/* Sets directory, activations, expert_sum, level and threads, and the check that the model fits
 * into memory (host/process/memory_fit.h), unless a device holds it. The directory's text is never
 * freed. A program calls it once. */
enum status model_run_options(const struct model_run_values *values, struct model_options *out,
                              struct error *error) MUST_USE;

/* The progress of loading a model. It is shown on a terminal if loading takes more than a second,
 * or logged at the start, at each stage, every ten seconds and at the end. */
struct model_run_progress {
    int64_t began_ns, reported_ns;
    enum load_stage stage; /* of the last report */
    uint64_t total_bytes;
    const char *directory;
    bool shown, logs;
};
/* For processes with a log. The log is used if stderr is not a terminal or the log is JSON. */
void model_run_progress_begin_logged(struct model_run_progress *progress,
                                     struct model_options *options);
void model_run_progress_end(struct model_run_progress *progress);

/* solo_open with a progress display. */
enum status model_run_open(struct solo_options *options, struct solo **solo_out,
                           struct error *error) MUST_USE;

/* Batch sizes (sequences per step) for a series of measurements: "1,4,16". */
#define MODEL_RUN_SIZES_MAX 16
struct model_run_sizes {
    uint32_t values[MODEL_RUN_SIZES_MAX]; /* [count], each in 1..LIMIT_STEP_ROWS */
    uint32_t count, largest;
};
/* Parses sizes. Error messages name `option`. */
enum status model_run_sizes_read(const char *option, const char *text,
                                 struct model_run_sizes *sizes_out, struct error *error) MUST_USE;
/* Parses sizes in the range least..most. */
enum status model_run_sizes_within(const char *option, const char *text, uint32_t least,
                                   uint32_t most, struct model_run_sizes *sizes_out,
                                   struct error *error) MUST_USE;

struct model_run_prompt {
    const uint32_t *tokens;
    uint32_t count;
    uint32_t done; /* tokens computed so far */
    uint32_t last; /* number of last positions that need logits; initially 1 */
};

/* Prompts for a solo. Prompt i is sequence i. */
struct model_run_prompts {
    struct model_run_prompt *list; /* [count] */
    uint32_t count, longest;
    uint32_t *tokens; /* memory of all tokens; NULL: owned by the caller */
};
/* Parses several prompts: "5,9;7,8,3". Call model_run_prompts_close also after an error. */
enum status model_run_prompts_read(const char *text, struct model_run_prompts *prompts,
                                   struct error *error) MUST_USE;
/* Makes a single prompt. The caller keeps ownership of its tokens. */
enum status model_run_prompts_one(const uint32_t *tokens, uint32_t count,
                                  struct model_run_prompts *prompts, struct error *error) MUST_USE;
void model_run_prompts_close(struct model_run_prompts *prompts);
/* Returns STATUS_INVALID with an error that names the first id outside the model's vocabulary, or
 * STATUS_UNSUPPORTED with one that names an id that stands for an image. */
enum status model_run_prompts_check(const struct model_run_prompts *prompts,
                                    const struct shape *shape, struct error *error) MUST_USE;
enum status model_run_tokens_check(const uint32_t *tokens, size_t count, const struct shape *shape,
                                   struct error *error) MUST_USE;

/* Makes the rows of the next prefill step: the next chunk of one prompt for each rank, at most
 * rows_max. Returns their number, or 0 if all prompts are computed. `chunk` is as in
 * solo_prefill. */
uint32_t model_run_prompts_step(const struct model_run_prompts *prompts, const struct solo *solo,
                                uint32_t chunk, struct solo_row *rows_out, uint32_t rows_max);
