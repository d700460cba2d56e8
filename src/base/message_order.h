/* SPDX-License-Identifier: Apache-2.0
 * Reports to TSan the happens-before order that messages establish between threads. Accesses before
 * a send happen before the receipt of that message or of a later one that it caused. TSan cannot
 * see this order, because libzmq and UCX are not instrumented, and because the path between two
 * threads may lead through other processes. All messages share one order. Without TSan these
 * functions do nothing.
 */
#pragma once

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>

extern char message_order;
__attribute__((weak)) char message_order; /* one instance for all files that include this header */

static inline void message_order_sending(void) {
    __tsan_release(&message_order);
}

static inline void message_order_taking(void) {
    __tsan_acquire(&message_order);
}
#else
static inline void message_order_sending(void) {
}

static inline void message_order_taking(void) {
}
#endif
