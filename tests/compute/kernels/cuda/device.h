/* SPDX-License-Identifier: Apache-2.0
 * A device's memory for tests of emulated kernels: poisoned, named, and nothing beyond it.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compute/kernels/emulate/emulate.h"

/* Poisoned: all bits set, which is a NaN in every format. */
void *device_new(size_t bytes, const char *name);
void *device_new_copy(const void *from, size_t bytes, const char *name);
void device_free(void *memory);

/* Seeds that a test runs through: FATHOM_EMULATE_SEEDS of them, else 20. */
uint32_t device_seeds(void);

/* Fails the test with what was found, if anything was. */
void device_check(const struct emulate_report *report);
