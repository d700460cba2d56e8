/* SPDX-License-Identifier: Apache-2.0
 * Ollama's API: /api/chat and /api/generate. A generate request is a conversation of its 'system'
 * and 'prompt'. Both stream by default.
 */
#pragma once

#include "serving/gateway/api/dialect.h"

extern const struct dialect ollama_chat_dialect, ollama_generate_dialect;
