/* SPDX-License-Identifier: Apache-2.0
 * Recordings of gateway and unit machines (host/process/recording/recorder.h), and their replay:
 * the options of --record, and a recording's head, which describes how its machine was created.
 * The head is text: one line "name value" per field of the machine's options. Bytes are in
 * hexadecimal digits. Fields that are zero or NULL have no line.
 */
#pragma once

#include "base/options.h"
#include "host/process/lazy_memory.h"
#include "host/process/model_text.h"
#include "host/process/recording/recorder.h"
#include "serving/gateway/gateway.h"
#include "serving/unit/rank_units.h"

struct recorded_values {
    const char *directory; /* NULL: nothing is recorded */
    uint64_t bytes;
    bool prompts;
};

/* Rows for an option table of struct `owner` with a member struct recorded_values `record`. */
#define RECORDED_OPTIONS(owner)                                                                    \
    OPTION_ROW("record", OPTION_TEXT, NULL,                                                        \
               "a folder for recordings of all machines' input and output, for `fathom replay`. "  \
               "API keys, salts and tokens are replaced, so gateways are recorded only with "      \
               "--record-prompts, units always",                                                   \
               .offset = offsetof(owner, record.directory), .group = OPTION_GROUP_TUNING),         \
        OPTION_ROW("record-bytes", OPTION_BYTES, "1GiB",                                           \
                   "maximum size of each file in --record; a recording ends when it reaches it",   \
                   .offset = offsetof(owner, record.bytes), .needs = "record",                     \
                   .group = OPTION_GROUP_TUNING),                                                  \
        OPTION_ROW("record-prompts", OPTION_FLAG, NULL,                                            \
                   "write prompts and answers into --record unchanged, and record gateways, too, " \
                   "whose replay needs them",                                                      \
                   .offset = offsetof(owner, record.prompts), .needs = "record",                   \
                   .group = OPTION_GROUP_TUNING)

/* The recorder of a unit with that many ranks; NULL without --record. `model`: the model's name. */
enum status recorded_machine_unit(const struct recorded_values *values,
                                  const struct unit_options *options, uint32_t ranks,
                                  const char *model, struct recorder **recorder_out,
                                  struct error *error) MUST_USE;

/* The recorder of a gateway. If prompts are not to be recorded, it is NULL, too, and a line is
 * logged. Call this first and create the gateway with *accounts_out, which has the recording's
 * salts (NULL: no accounts). The caller frees it. `model`: the directory of tokenizer and chat
 * template. */
enum status recorded_machine_gateway(const struct recorded_values *values,
                                     const struct gateway_options *options, const char *model,
                                     const struct template_choice *choice,
                                     struct recorder **recorder_out,
                                     struct record_accounts **accounts_out,
                                     struct error *error) MUST_USE;

/* A machine created again from a recording. */
struct recorded_machine {
    bool is_gateway;
    struct machine machine;
    struct lazy_memory memory;
    struct model_text text;
    void *blobs[8]; /* memory of its options */
    uint32_t blob_count;
};

/* Creates the machine that a recording's head describes. `model` NULL: the directory in the head.
 * `out` must be zeroed before the call, and closed even after a failure. */
enum status recorded_machine_open(struct bytes head, const char *model,
                                  struct recorded_machine *out, struct error *error) MUST_USE;
void recorded_machine_close(struct recorded_machine *recorded);
