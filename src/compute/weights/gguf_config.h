/* SPDX-License-Identifier: Apache-2.0
 * The metadata of a GGUF file as the config.json that it was converted from, so that one parser
 * (shape.c) checks both. Of llama.cpp's architectures it is `deepseek2`: DeepSeek V2 to V3.1,
 * Kimi K2, Moonlight, GLM-4.7-Flash. Pure. Keys: llama.cpp's conversion/deepseek.py and
 * src/models/deepseek2.cpp.
 */
#pragma once

#include "base/json_writer.h"
#include "compute/weights/gguf.h"

/* Writes the JSON. Fails for another architecture, for a file without the embedding, and for
 * missing keys; the error names file, key, expected and found in one line. */
enum status gguf_config_write(const struct gguf *gguf, struct json_writer *writer,
                              struct error *error);

/* Checks that the file is a model of the supported architecture. */
enum status gguf_config_check(const struct gguf *gguf, struct error *error);
