/* SPDX-License-Identifier: Apache-2.0
 * How often a test does what it does many times: under TSan, where each time takes ten times as
 * long, less often. For repetition alone; what must be looked at once is looked at everywhere.
 */
#pragma once

#if defined(__SANITIZE_THREAD__)
#define test_times(many, under_tsan) (under_tsan)
#else
#define test_times(many, under_tsan) (many)
#endif
