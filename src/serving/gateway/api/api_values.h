/* SPDX-License-Identifier: Apache-2.0
 * Readers for fields of api_field.h that need more than a kind and a range. Each takes a value that
 * is not null.
 */
#pragma once

#include "serving/gateway/api/api_reader.h"
#include "serving/gateway/api/api_request.h"

typedef bool api_values_reader(struct api_reader *reader, const struct tree *value,
                               struct api_request *out);

api_values_reader api_values_model, api_values_user_id, api_values_seed, api_values_top_k,
    api_values_biases, api_values_stop_tokens, api_values_stops, api_values_stream_options,
    api_values_modalities, api_values_documents;

/* Finds a model by name: "default" is the first one, and NAME:latest is NAME, as Ollama's clients
 * write it. NULL: there is none. */
const struct api_model *api_values_find_model(const struct api_model *models, size_t count,
                                              struct bytes name);

/* True for 1 to count_max characters of [a-zA-Z0-9_-]. */
bool api_values_is_name(struct bytes text, size_t count_max);

/* Reads the stop strings of a field with another name. */
bool api_values_stops_named(struct api_reader *reader, const char *name, const struct tree *value,
                            struct api_request *out);
