/* SPDX-License-Identifier: Apache-2.0
 * The one door to printf-style formatting into memory, so that the pure rooms (policy, cache, unit,
 * gateway, text) need not link stdio themselves. Always terminates; returns the bytes written,
 * without the terminator (a cut text is shorter than what was asked for).
 */
#ifndef BASE_FORMAT_H
#define BASE_FORMAT_H

#include <stdarg.h>
#include <stddef.h>

size_t format_text(char *out, size_t out_bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
size_t format_va(char *out, size_t out_bytes, const char *format, va_list arguments);

#endif
