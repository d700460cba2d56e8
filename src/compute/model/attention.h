/* SPDX-License-Identifier: Apache-2.0
 * A layer's attention on the CPU. compute/model/compute.h documents each function.
 */
#pragma once

#include "compute/model/pass.h"

void attention_begin(const struct pass *pass);
void attention_finish(const struct pass *pass);
void attention_write_rows(const struct pass *pass);
