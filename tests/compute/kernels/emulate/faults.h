/* SPDX-License-Identifier: Apache-2.0
 * For the emulator's tests: a small kernel with a fault planted is found by one check, under every
 * seed or within some.
 */
#pragma once

#include "../cuda/device.h"

#include "wrappers.h"

/* Launches the kernel with the fault. */
typedef void faults_launch(void *context, uint32_t fault);

/* The launch is sound under some seeds. */
void faults_check_sound(faults_launch *launch, void *context);
/* Each seed of some, or one of them (`rare`), ends in a report of this check that has `text` in
 * it. */
void faults_check_found(faults_launch *launch, void *context, uint32_t fault,
                        enum emulate_check check, bool rare, const char *text);
