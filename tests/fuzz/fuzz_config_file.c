/* SPDX-License-Identifier: Apache-2.0
 * Configuration files with rows of every type: whatever the text, it is read or refused with a
 * message.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "host/process/configuration/config_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct values {
    const char *model, *mode;
    uint64_t port, bytes, shuffle;
    double temperature;
    bool json;
};

#define AT(field) .offset = offsetof(struct values, field)

static const struct option rows[] = {
    {"model", OPTION_TEXT, NULL, "", AT(model)},
    {"mode", OPTION_CHOICE, NULL, "", AT(mode), .choices = "a|b"},
    {"port", OPTION_COUNT, NULL, "", AT(port), .maximum = 65535},
    {"kv-memory", OPTION_BYTES, NULL, "", AT(bytes)},
    {"temperature", OPTION_NUMBER, NULL, "", AT(temperature), .maximum = 2},
    {"json", OPTION_FLAG, NULL, "", AT(json)},
    {"experiment", OPTION_EXPERIMENT, NULL, "", .group = OPTION_GROUP_EXPERIMENTS},
    {"shuffle", OPTION_COUNT, NULL, "", AT(shuffle), .maximum = 9,
     .group = OPTION_GROUP_EXPERIMENTS},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct option_table table = {.command = "fuzz",
                                              .arguments = "",
                                              .description = "",
                                              .options = rows,
                                              .option_count = ARRAY_COUNT(rows)};
    struct values values = {0};
    struct error error = {0};
    struct bytes text = {(const char *)data, size};
    enum status status = config_file_parse(text, "f.yaml", &table, &values, &error);
    check(status == STATUS_OK || !strncmp(error.text, "f.yaml", 6));
    check(values.port <= 65535 && values.temperature >= 0 && values.temperature <= 2);
    check(values.shuffle <= 9);
    check(!values.mode || !strcmp(values.mode, "a") || !strcmp(values.mode, "b"));
    free((void *)(uintptr_t)values.model);
    free((void *)(uintptr_t)values.mode);
    return 0;
}
