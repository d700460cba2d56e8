/* SPDX-License-Identifier: Apache-2.0
 * What a message orders among our threads, told to TSan: what was written or read before a message was
 * sent is over for who took it, or took one that followed from it. TSan cannot know, since libzmq and
 * UCX come without instrumentation, and since the way from one thread of a process to another may lead
 * through other processes. All messages together are one order for it. Without TSan this is nothing.
 */
#ifndef BASE_MESSAGE_ORDER_H
#define BASE_MESSAGE_ORDER_H

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>

extern char message_order;
__attribute__((weak)) char message_order; /* one for all who include this */

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

#endif
