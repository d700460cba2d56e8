/* SPDX-License-Identifier: Apache-2.0
 * The schema handed to libcyaml is built from the option table: every key is an optional string,
 * which options_set then reads as it reads a flag, so that file and flag can never differ in what
 * they accept.
 */
#include "host/process/config_file.h"

#include <cyaml/cyaml.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/file.h"
#include "host/process/yaml_complaint.h"

#define CONFIG_BYTES_MAX ((size_t)64 << 10)
#define CONFIG_KEYS_MAX 256

/* What options keep of a file's texts lives on with the process: here, who looks for leaks finds it. */
static char *volatile kept[CONFIG_KEYS_MAX];

/* One string field a row; field i lands in the i-th pointer of a plain array. */
static void build_fields(const struct option_table *table,
                         cyaml_schema_field_t fields[CONFIG_KEYS_MAX + 1]) {
    size_t count = 0;
    check(table->option_count <= CONFIG_KEYS_MAX);
    for (size_t i = 0; i < table->option_count; i++) {
        if (!strcmp(table->options[i].name, "config")) continue; /* a file does not name a file */
        fields[count++] = (cyaml_schema_field_t){
            .key = table->options[i].name,
            .data_offset = (uint32_t)(i * sizeof(char *)),
            .value = {.type = CYAML_STRING,
                      .flags = CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL,
                      .data_size = sizeof(char),
                      .string = {.min = 0, .max = CYAML_UNLIMITED}},
        };
    }
    fields[count] = (cyaml_schema_field_t)CYAML_FIELD_END;
}

static enum status explain(const struct yaml_complaint *complaint, cyaml_err_t failure,
                           const char *path, const struct option_table *table,
                           struct error *error) {
    if (failure == CYAML_ERR_OOM)
        return error_set(error, STATUS_NO_MEMORY, "%.200s: out of memory", path);
    if (failure == CYAML_ERR_INVALID_KEY) {
        const char *colon = strstr(complaint->what, ": ");
        const char *key = colon ? colon + 2 : complaint->what;
        const char *nearest = options_nearest(table, bytes_of(key));
        return error_set(error, STATUS_INVALID,
                         "%.200s: unknown key '%s'%s%s; `fathom %s --help` "
                         "lists the names",
                         path, key, nearest ? ", did you mean " : "", nearest ? nearest : "",
                         table->command);
    }
    return error_set(error, STATUS_INVALID,
                     "%.200s: %s%s; expected lines of 'name: value' with the names of `fathom %s "
                     "--help`",
                     path, complaint->what[0] ? complaint->what : cyaml_strerror(failure),
                     complaint->where, table->command);
}

/* Hands each text to its option. */
static enum status apply(const struct option_table *table, char **texts, const char *path,
                         void *values, struct error *error) {
    for (size_t i = 0; i < table->option_count; i++) {
        struct error cause;
        const struct option *option = &table->options[i];
        if (!texts[i]) continue;
        enum status status = options_set(table, option->name, texts[i], values, &cause);
        if (status != STATUS_OK) return error_set(error, status, "%.200s: %s", path, cause.text);
        bool keeps = option->type == OPTION_TEXT || option->type == OPTION_LIST ||
                     option->type == OPTION_CHOICE;
        if (!keeps) continue;
        kept[i] = texts[i];
        texts[i] = NULL;
    }
    return STATUS_OK;
}

enum status config_file_parse(struct bytes text, const char *path, const struct option_table *table,
                              void *values, struct error *error) {
    cyaml_schema_field_t fields[CONFIG_KEYS_MAX + 1];
    build_fields(table, fields);
    const cyaml_schema_value_t schema = {
        .type = CYAML_MAPPING,
        .flags = CYAML_FLAG_POINTER,
        .data_size = (uint32_t)(table->option_count * sizeof(char *)),
        .mapping = {.fields = fields},
    };
    struct yaml_complaint complaint = {0};
    const cyaml_config_t settings = yaml_complaint_settings(&complaint);
    char **texts = NULL;
    if (table->option_count == 0)
        return error_set(error, STATUS_INVALID, "%.200s: `fathom %s` has no options", path,
                         table->command);
    cyaml_err_t failure = cyaml_load_data((const uint8_t *)text.data, text.count, &settings,
                                          &schema, (cyaml_data_t **)&texts, NULL);
    if (failure != CYAML_OK) return explain(&complaint, failure, path, table, error);
    if (!texts) return STATUS_OK; /* an empty file */
    enum status status = apply(table, texts, path, values, error);
    cyaml_free(&settings, &schema, texts, 0);
    return status;
}

enum status config_file_read(const char *path, const struct option_table *table, void *values,
                             struct error *error) {
    struct bytes text;
    enum status status = file_take(path, CONFIG_BYTES_MAX, &text, error);
    if (status) return status;
    status = config_file_parse(text, path, table, values, error);
    free((void *)(uintptr_t)text.data);
    return status;
}
