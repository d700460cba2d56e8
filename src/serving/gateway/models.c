/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/models.h"

#include <string.h>

#include "base/check.h"
#include "base/utf8.h"
#include "serving/gateway/api/api_values.h"

static bool models_is_there(const struct models *models, struct bytes name) {
    for (uint32_t i = 0; i < models->count; i++)
        if (bytes_equal(models->names[i].name, name)) return true;
    return false;
}

static enum status add(struct models *models, struct bytes name, struct error *error) {
    bool is_any = bytes_equal(name, BYTES_LITERAL("*"));
    if (name.count == 0 || name.count > MODELS_NAME_BYTES_MAX)
        return error_set(error, STATUS_INVALID,
                         "gateway: a model's name has %zu bytes, must have 1 to %d", name.count,
                         MODELS_NAME_BYTES_MAX);
    if (utf8_valid_prefix(name) != name.count)
        return error_set(error, STATUS_INVALID, "gateway: a model's name is not valid UTF-8");
    if (is_any ? models->any : models_is_there(models, name))
        return error_set(error, STATUS_INVALID, "gateway: the model's name '%.*s' is given twice",
                         (int)name.count, name.data);
    models->any |= is_any;
    if (is_any) return STATUS_OK;
    if (models->count == MODELS_SERVED_MAX)
        return error_set(error, STATUS_INVALID, "gateway: the model has more than %d names",
                         MODELS_SERVED_MAX);
    models->names[models->count++] = (struct api_model){.name = name};
    return STATUS_OK;
}

static void models_add_alias(struct models *models, const char *name, enum chat_thinking thinking) {
    if (models_is_there(models, bytes_of(name)))
        return; /* a served name keeps its own thinking mode */
    models->names[models->count++] = (struct api_model){bytes_of(name), thinking};
}

enum chat_thought models_thought(const struct chat_template *chat_template) {
    return chat_template && chat_template->present ? chat_template->thought : CHAT_THOUGHT_NEVER;
}

enum status models_open(struct models *models, struct bytes names, enum chat_thought thought,
                        struct error *error) {
    *models = (struct models){0};
    for (size_t from = 0, to; from <= names.count; from = to + 1) {
        to = from;
        while (to < names.count && names.data[to] != ',')
            to++;
        enum status status = add(models, (struct bytes){names.data + from, to - from}, error);
        if (status) return status;
    }
    if (models->count == 0)
        return error_set(error, STATUS_INVALID,
                         "gateway: the model needs a name for its answers besides '*'");
    bool switched = thought == CHAT_THOUGHT_SWITCHED;
    if (thought != CHAT_THOUGHT_ALWAYS)
        models_add_alias(models, "deepseek-chat",
                         switched ? CHAT_THINKING_OFF : CHAT_THINKING_DEFAULT);
    if (thought != CHAT_THOUGHT_NEVER)
        models_add_alias(models, "deepseek-reasoner",
                         switched ? CHAT_THINKING_ON : CHAT_THINKING_DEFAULT);
    return STATUS_OK;
}

void models_list(const struct models *models, char out[static MODELS_LIST_BYTES]) {
    size_t count = 0;
    for (uint32_t i = 0; i < models->count; i++) {
        struct bytes name = models->names[i].name;
        if (i) out[count++] = ',';
        memcpy(out + count, name.data, name.count);
        count += name.count;
    }
    out[count] = 0;
}

const struct api_model *models_find(const struct models *models, struct bytes name) {
    const struct api_model *found = api_values_find_model(models->names, models->count, name);
    bool fits = name.count > 0 && name.count <= MODELS_NAME_BYTES_MAX &&
                utf8_valid_prefix(name) == name.count;
    return !found && models->any && fits ? &models->names[0] : found;
}

bool models_allow(const struct models *models, uint64_t denied, uint32_t index,
                  struct api_error *error) {
    struct bytes name = models->names[index].name;
    if (!(denied >> index & 1)) return true;
    return api_error_set(error, 404, "model", "model_not_found",
                         "The model '%.*s' does not exist, or you do not have access to it.",
                         name.count < 100 ? (int)name.count : 100, name.data);
}
