/* SPDX-License-Identifier: Apache-2.0 */
#include "programs/recorded_machine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/checksum.h"
#include "base/file.h"
#include "command/model_run.h"
#include "host/process/gguf_text.h"
#include "host/process/log/log.h"

#define TEXT_BYTES_MAX ((size_t)256 << 20) /* of a tokenizer's file */

/* The type of an options' field. */
enum field_type { FIELD_NUMBER, FIELD_TEXT, FIELD_BYTES };

struct option_field {
    const char *name;
    enum field_type type;
    size_t offset, bytes;
    uint64_t most; /* maximum of a number; 0: any */
};

#define NUMBER(of, member, most)                                                                   \
    {                                                                                              \
#member, FIELD_NUMBER, offsetof(struct of, member), sizeof(((struct of *)NULL)->member),   \
            most                                                                                   \
    }
#define TEXT(of, member)                                                                           \
    { #member, FIELD_TEXT, offsetof(struct of, member), sizeof(char *), 0 }
#define BYTES(of, member)                                                                          \
    { #member, FIELD_BYTES, offsetof(struct of, member), sizeof(((struct of *)NULL)->member), 0 }

#define MEMORY_MAX ((uint64_t)1 << 40)

/* Values behind pointers in the options have separate lines. */
static const struct option_field unit_fields[] = {
    NUMBER(unit_options, requests_max, 1 << 20),
    NUMBER(unit_options, page_count, 1 << 28),
    NUMBER(unit_options, context_tokens_max, LIMIT_CONTEXT),
    NUMBER(unit_options, step_rows_max, LIMIT_STEP_ROWS),
    NUMBER(unit_options, step_tokens_max, LIMIT_STEP_TOKENS),
    NUMBER(unit_options, chunk_tokens_max, 0),
    NUMBER(unit_options, vocab_count, LIMIT_VOCAB),
    NUMBER(unit_options, prefix_cache, 1),
    NUMBER(unit_options, reuse_generated, 1),
    NUMBER(unit_options, evict_rule, 0),
    NUMBER(unit_options, speculate, 0),
    NUMBER(unit_options, tpot_stretch_percent, 0),
    NUMBER(unit_options, tpot_target_ns, 0),
    NUMBER(unit_options, prompt_patience_ns, 0),
    NUMBER(unit_options, priority_ns, 0),
    NUMBER(unit_options, prompt_bytes, MEMORY_MAX),
    NUMBER(unit_options, outbox_bytes, RECORD_BYTES_MAX),
    NUMBER(unit_options, kv_storage, 1),
    NUMBER(unit_options, kv_choice, 0),
    NUMBER(unit_options, page_bytes, 0),
    NUMBER(unit_options, kv_load_parts, 0),
    TEXT(unit_options, numerics_id),
    NUMBER(unit_options, kv_memory_blocks, 1 << 28),
    NUMBER(unit_options, rank_balance, 0),
    NUMBER(unit_options, level_steps, 1),
    NUMBER(unit_options, bind_on_arrival, 1),
    NUMBER(unit_options, role, 0),
    NUMBER(unit_options, instance, 0),
};

static const struct option_field gateway_fields[] = {
    NUMBER(gateway_options, content_specials, 1),
    NUMBER(gateway_options, agent_habits, 1),
    TEXT(gateway_options, model_names),
    NUMBER(gateway_options, model_created, 0),
    TEXT(gateway_options, version),
    BYTES(gateway_options, sampling),
    BYTES(gateway_options, stop_tokens),
    NUMBER(gateway_options, stop_token_count, LIMIT_STOP_TOKENS),
    BYTES(gateway_options, frame),
    NUMBER(gateway_options, new_tokens_default, 0),
    NUMBER(gateway_options, requests_max, LIMIT_GATEWAY_REQUESTS),
    NUMBER(gateway_options, body_bytes_max, RECORD_BYTES_MAX),
    NUMBER(gateway_options, inline_text_bytes, RECORD_BYTES_MAX),
    NUMBER(gateway_options, tokenize_queue_bytes, MEMORY_MAX),
    NUMBER(gateway_options, request_bytes, MEMORY_MAX),
    NUMBER(gateway_options, outbox_bytes, RECORD_BYTES_MAX),
    NUMBER(gateway_options, prefix_blocks, 1 << 24),
    NUMBER(gateway_options, role_hold_ns, 0),
    NUMBER(gateway_options, keep_alive_ns, 0),
    NUMBER(gateway_options, unit_silence_ns, 0),
    NUMBER(gateway_options, unit_wait_ns, 0),
    NUMBER(gateway_options, queue_ns, 0),
    NUMBER(gateway_options, drain_ns, 0),
    NUMBER(gateway_options, settles, 1),
    NUMBER(gateway_options, ttft_limit_ns, 0),
    NUMBER(gateway_options, totals_ns, 0),
    NUMBER(gateway_options, kv_life_s, UINT32_MAX),
    NUMBER(gateway_options, vocab_count, LIMIT_VOCAB),
    NUMBER(gateway_options, image_token, LIMIT_VOCAB),
    BYTES(gateway_options, model_id),
};

/* ---- writing a head ---- */

struct head_text {
    FILE *file;
    char *text;
    size_t count;
    bool bad; /* a text contains a line break */
};

static bool head_open(struct head_text *head) {
    *head = (struct head_text){0};
    head->file = open_memstream(&head->text, &head->count);
    return head->file != NULL;
}

static void recorded_machine_write_number(struct head_text *head, const char *name,
                                          uint64_t value) {
    if (value) fprintf(head->file, "%s %" PRIu64 "\n", name, value);
}

static void recorded_machine_write_text(struct head_text *head, const char *name,
                                        const char *text) {
    if (!text) return;
    head->bad |= strchr(text, '\n') != NULL;
    fprintf(head->file, "%s %s\n", name, text);
}

static void write_bytes(struct head_text *head, const char *name, const void *data, size_t bytes) {
    if (!data || record_zeros(data, bytes)) return;
    fprintf(head->file, "%s ", name);
    for (size_t i = 0; i < bytes; i++)
        fprintf(head->file, "%02x", ((const uint8_t *)data)[i]);
    fputc('\n', head->file);
}

static void recorded_machine_write_fields(struct head_text *head, const struct option_field *fields,
                                          size_t count, const void *options) {
    for (size_t i = 0; i < count; i++) {
        const struct option_field *field = &fields[i];
        const char *at = (const char *)options + field->offset;
        uint64_t number = 0;
        if (field->type == FIELD_NUMBER) {
            memcpy(&number, at, field->bytes);
            recorded_machine_write_number(head, field->name, number);
        } else if (field->type == FIELD_TEXT) {
            recorded_machine_write_text(head, field->name, *(const char *const *)(const void *)at);
        } else {
            write_bytes(head, field->name, at, field->bytes);
        }
    }
}

/* Starts the recorder with the head, and frees the head. */
static enum status start(struct recorder *recorder, struct head_text *head, struct error *error) {
    enum status status = STATUS_OK;
    if (fclose(head->file) || !head->text)
        status = error_set(error, STATUS_NO_MEMORY, "no memory for --record");
    else if (head->bad)
        status = error_set(error, STATUS_INVALID, "--record: a name has a line's end in it");
    if (!status) status = recorder_start(recorder, (struct bytes){head->text, head->count}, error);
    free(head->text);
    return status;
}

static enum status open_recorder(const struct recorded_values *values, const char *name,
                                 uint32_t vocab_count, struct recorder **recorder_out,
                                 struct head_text *head, struct error *error) {
    struct recorder_options options = {.directory = values->directory,
                                       .name = name,
                                       .bytes_max = values->bytes,
                                       .is_gateway = strcmp(name, "gateway") == 0,
                                       .prompts = values->prompts,
                                       .vocab_count = vocab_count};
    enum status status = recorder_open(&options, recorder_out, error);
    if (status) return status;
    if (!head_open(head)) return error_set(error, STATUS_NO_MEMORY, "no memory for --record");
    recorded_machine_write_text(head, "machine", name);
    recorded_machine_write_text(head, "fathom", FATHOM_VERSION);
    return STATUS_OK;
}

enum status recorded_machine_unit(const struct recorded_values *values,
                                  const struct unit_options *options, uint32_t ranks,
                                  const char *model, struct recorder **recorder_out,
                                  struct error *error) {
    struct head_text head;
    *recorder_out = NULL;
    if (!values->directory) return STATUS_OK;
    enum status status =
        open_recorder(values, "unit", options->vocab_count, recorder_out, &head, error);
    if (status) return status;
    recorded_machine_write_text(&head, "model", model);
    recorded_machine_write_number(&head, "ranks", ranks);
    recorded_machine_write_fields(&head, unit_fields, ARRAY_COUNT(unit_fields), options);
    write_bytes(&head, "model_id", options->model_id, 32);
    write_bytes(&head, "pids", options->pids, ranks * sizeof *options->pids);
    write_bytes(&head, "kv_addresses", options->kv_addresses,
                ranks * sizeof *options->kv_addresses);
    write_bytes(&head, "experts", options->experts, sizeof *options->experts);
    return start(*recorder_out, &head, error);
}

/* The checksum of one of the model's text files, or of the file `directory` if `name` is empty; 0:
 * it is missing. */
static uint64_t sum_file(const char *directory, const char *name) {
    char path[4096];
    struct bytes text;
    struct error error;
    enum status status =
        *name ? gguf_text_take(directory, name, TEXT_BYTES_MAX, path, sizeof path, &text, &error)
              : file_take(directory, TEXT_BYTES_MAX, &text, &error);
    if (status) return 0;
    uint64_t sum = checksum_of(text.data, text.count);
    free((void *)(uintptr_t)text.data);
    return sum;
}

/* The checksum with which a replay checks that it has the same tokenizer and template. */
static uint64_t sum_texts(const char *directory, const char *chat_template) {
    uint64_t tokenizer = sum_file(directory, "tokenizer.json");
    const uint64_t sums[] = {tokenizer ? tokenizer : sum_file(directory, "tiktoken.model"),
                             sum_file(directory, "tokenizer_config.json"),
                             sum_file(directory, "special_tokens_map.json"),
                             sum_file(directory, "chat_template.jinja"),
                             chat_template ? sum_file(chat_template, "") : 0};
    return checksum_of(sums, sizeof sums);
}

enum status recorded_machine_gateway(const struct recorded_values *values,
                                     const struct gateway_options *options, const char *model,
                                     const struct template_choice *choice,
                                     struct recorder **recorder_out,
                                     struct record_accounts **accounts_out, struct error *error) {
    struct head_text head;
    *recorder_out = NULL;
    *accounts_out = NULL;
    if (!values->directory) return STATUS_OK;
    if (!values->prompts) {
        log_say(LOG_WARNING, "recording", "is not made of the gateway without --record-prompts");
        return STATUS_OK;
    }
    enum status status = open_recorder(values, "gateway", 0, recorder_out, &head, error);
    if (status) return status;
    recorded_machine_write_text(&head, "model", model);
    recorded_machine_write_text(&head, "chat_template", choice->chat_template);
    recorded_machine_write_number(&head, "brings_tools", choice->brings_tools);
    recorded_machine_write_number(&head, "texts", sum_texts(model, choice->chat_template));
    recorded_machine_write_fields(&head, gateway_fields, ARRAY_COUNT(gateway_fields), options);
    if (options->accounts) {
        size_t bytes = options->accounts->record.bytes;
        struct record_accounts *masked = malloc(bytes), *reported = malloc(bytes);
        check(masked && reported);
        memcpy(masked, options->accounts, bytes);
        recording_mask_salts(recorder_mask(*recorder_out), masked);
        memcpy(reported, masked, bytes);
        recording_mask_keys(recorder_mask(*recorder_out), reported);
        write_bytes(&head, "accounts", reported, bytes);
        free(reported);
        *accounts_out = masked;
    }
    return start(*recorder_out, &head, error);
}

/* ---- reading a head ---- */

/* Finds the value of a line. Returns false if there is none. */
static bool find(struct bytes head, const char *name, struct bytes *value_out) {
    size_t length = strlen(name);
    for (size_t at = 0; at < head.count;) {
        const char *line = head.data + at, *end = memchr(line, '\n', head.count - at);
        size_t count = end ? (size_t)(end - line) : head.count - at;
        at += count + 1;
        if (count <= length || memcmp(line, name, length) != 0 || line[length] != ' ') continue;
        *value_out = (struct bytes){line + length + 1, count - length - 1};
        return true;
    }
    return false;
}

static enum status bad_line(const char *name, struct error *error) {
    return error_set(error, STATUS_INVALID, "its head's line '%s' is wrong", name);
}

static enum status recorded_machine_read_number(struct bytes head, const char *name, size_t bytes,
                                                uint64_t most, void *out, struct error *error) {
    struct bytes value;
    uint64_t number = 0;
    if (!find(head, name, &value)) return STATUS_OK;
    for (size_t i = 0; i < value.count; i++) {
        unsigned digit = (unsigned)(value.data[i] - '0');
        if (digit > 9 || number > (UINT64_MAX - digit) / 10) return bad_line(name, error);
        number = number * 10 + digit;
    }
    if ((bytes < 8 && number >> 8 * bytes) || (most && number > most)) return bad_line(name, error);
    memcpy(out, &number, bytes);
    return STATUS_OK;
}

static int recorded_machine_digit_of(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* `out` [value.count / 2] */
static bool recorded_machine_read_hex(struct bytes value, uint8_t *out) {
    if (value.count % 2) return false;
    for (size_t i = 0; i < value.count; i += 2) {
        int high = recorded_machine_digit_of(value.data[i]),
            low = recorded_machine_digit_of(value.data[i + 1]);
        if (high < 0 || low < 0) return false;
        out[i / 2] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static void *keep_blob(struct recorded_machine *recorded, size_t bytes) {
    check(recorded->blob_count < ARRAY_COUNT(recorded->blobs));
    void *blob = calloc(1, bytes + 1);
    check(blob);
    return recorded->blobs[recorded->blob_count++] = blob;
}

/* Reads bytes. `bytes` 0: any number. *out stays NULL if there is no such line. */
static enum status read_blob(struct recorded_machine *recorded, struct bytes head, const char *name,
                             size_t bytes, const void **out, struct error *error) {
    struct bytes value;
    *out = NULL;
    if (!find(head, name, &value)) return STATUS_OK;
    uint8_t *blob = keep_blob(recorded, value.count / 2);
    if ((bytes && value.count != 2 * bytes) || !recorded_machine_read_hex(value, blob))
        return bad_line(name, error);
    *out = blob;
    return STATUS_OK;
}

static const char *recorded_machine_read_text(struct recorded_machine *recorded, struct bytes head,
                                              const char *name) {
    struct bytes value;
    if (!find(head, name, &value)) return NULL;
    char *text = keep_blob(recorded, value.count);
    memcpy(text, value.data, value.count);
    return text;
}

static enum status recorded_machine_read_field(struct recorded_machine *recorded, struct bytes head,
                                               const struct option_field *field, void *options,
                                               struct error *error) {
    char *at = (char *)options + field->offset;
    struct bytes value;
    if (field->type == FIELD_NUMBER)
        return recorded_machine_read_number(head, field->name, field->bytes, field->most, at,
                                            error);
    if (field->type == FIELD_TEXT)
        *(const char **)(void *)at = recorded_machine_read_text(recorded, head, field->name);
    else if (find(head, field->name, &value) &&
             (value.count != 2 * field->bytes || !recorded_machine_read_hex(value, (uint8_t *)at)))
        return bad_line(field->name, error);
    return STATUS_OK;
}

static enum status read_fields(struct recorded_machine *recorded, struct bytes head,
                               const struct option_field *fields, size_t count, void *options,
                               struct error *error) {
    enum status status = STATUS_OK;
    for (size_t i = 0; i < count && !status; i++)
        status = recorded_machine_read_field(recorded, head, &fields[i], options, error);
    return status;
}

/* ---- machines ---- */

static enum status recorded_machine_take_memory(struct recorded_machine *recorded, size_t bytes,
                                                struct arena *arena, struct error *error) {
    recorded->memory = lazy_memory_take(bytes);
    if (!recorded->memory.start)
        return error_set(error, STATUS_NO_MEMORY, "no memory for the machine");
    arena_over(arena, recorded->memory.start, bytes);
    return STATUS_OK;
}

static enum status recorded_machine_open_unit(struct bytes head, struct recorded_machine *out,
                                              struct error *error) {
    struct unit_options options = {0};
    uint32_t ranks = 0;
    struct rank_units *units;
    struct arena arena;
    const void *model_id, *pids, *addresses, *experts;
    enum status status =
        recorded_machine_read_number(head, "ranks", sizeof ranks, LIMIT_RANKS, &ranks, error);
    if (!status)
        status = read_fields(out, head, unit_fields, ARRAY_COUNT(unit_fields), &options, error);
    if (!status && (!ranks || !options.requests_max || !options.numerics_id))
        status = bad_line("ranks", error);
    if (!status) status = read_blob(out, head, "model_id", 32, &model_id, error);
    if (!status) status = read_blob(out, head, "pids", ranks * sizeof(int64_t), &pids, error);
    if (!status)
        status = read_blob(out, head, "kv_addresses", ranks * (size_t)KV_ADDRESS_BYTES, &addresses,
                           error);
    if (!status)
        status = read_blob(out, head, "experts", sizeof(struct record_experts), &experts, error);
    if (status) return status;
    options.model_id = model_id ? model_id : keep_blob(out, 32);
    options.pids = pids;
    options.kv_addresses = (const char(*)[KV_ADDRESS_BYTES])(uintptr_t)addresses;
    options.experts = experts;
    status = recorded_machine_take_memory(out, rank_units_memory_bytes(&options, ranks) + 64,
                                          &arena, error);
    if (!status) status = rank_units_create(&arena, &options, ranks, &units, error);
    if (!status) out->machine = rank_units_machine(units);
    return status;
}

static enum status recorded_machine_open_texts(struct bytes head, const char *model,
                                               struct recorded_machine *out, struct error *error) {
    uint64_t texts = 0, brings_tools = 0;
    struct shape shape;
    struct template_choice choice = {recorded_machine_read_text(out, head, "chat_template"), false};
    enum status status =
        recorded_machine_read_number(head, "texts", sizeof texts, 0, &texts, error);
    if (!status)
        status = recorded_machine_read_number(head, "brings_tools", sizeof brings_tools, 1,
                                              &brings_tools, error);
    choice.brings_tools = brings_tools;
    if (!status && texts != sum_texts(model, choice.chat_template))
        status = error_set(error, STATUS_INVALID,
                           "the texts of %s (tokenizer, chat template) are not those of the "
                           "recording; --model names another directory",
                           model);
    if (!status) status = model_run_shape(model, &shape, error);
    if (status) return status;
    return model_text_open(model, &shape, &choice, &out->text, error);
}

static enum status open_gateway(struct bytes head, const char *model, struct recorded_machine *out,
                                struct error *error) {
    struct gateway_options options = {0};
    struct gateway *gateway;
    struct arena arena;
    const void *accounts = NULL;
    struct bytes value;
    enum status status =
        read_fields(out, head, gateway_fields, ARRAY_COUNT(gateway_fields), &options, error);
    if (!status && (!options.requests_max || !options.model_names || !options.version))
        status = bad_line("requests_max", error);
    if (!status) status = read_blob(out, head, "accounts", 0, &accounts, error);
    if (!status && accounts && find(head, "accounts", &value) &&
        (!record_valid(accounts, value.count / 2) ||
         ((const struct record *)accounts)->kind != RECORD_ACCOUNTS))
        status = bad_line("accounts", error);
    if (!status) status = recorded_machine_open_texts(head, model, out, error);
    if (status) return status;
    options.tokenizer = out->text.tokenizer;
    options.chat_template = out->text.chat_template.present ? &out->text.chat_template : NULL;
    options.accounts = accounts;
    status = recorded_machine_take_memory(out, gateway_memory_bytes(&options) + 64, &arena, error);
    if (!status) status = gateway_create(&arena, &options, &gateway, error);
    if (!status) out->machine = gateway_machine(gateway);
    return status;
}

enum status recorded_machine_open(struct bytes head, const char *model,
                                  struct recorded_machine *out, struct error *error) {
    struct bytes kind = {0};
    const char *named = recorded_machine_read_text(out, head, "model");
    if (!find(head, "machine", &kind)) return bad_line("machine", error);
    out->is_gateway = bytes_equal(kind, BYTES_LITERAL("gateway"));
    if (!out->is_gateway && !bytes_equal(kind, BYTES_LITERAL("unit")))
        return bad_line("machine", error);
    if (!named) return bad_line("model", error);
    return out->is_gateway ? open_gateway(head, model ? model : named, out, error)
                           : recorded_machine_open_unit(head, out, error);
}

void recorded_machine_close(struct recorded_machine *recorded) {
    model_text_close(&recorded->text);
    lazy_memory_free(&recorded->memory);
    for (uint32_t i = 0; i < recorded->blob_count; i++)
        free(recorded->blobs[i]);
}
