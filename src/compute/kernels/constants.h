/* SPDX-License-Identifier: Apache-2.0
 * Constants that every body of a kernel shares, on any machine.
 */
#pragma once

/* exp(x) = p(r) * 2^n with n = round(x / ln 2), r = x - n ln 2 (ln 2 in two parts), |r| <= 0.347,
 * and p the Taylor polynomial of degree 7 by Horner's rule with fma: its remainder is below 6e-9
 * relative, a tenth of an ulp. Adding 1.5 * 2^23 rounds to the nearest integer and leaves it in the
 * low bits. */
#define EXP_LOWEST (-87.3f)
#define EXP_HIGHEST 88.7f
#define EXP_LOG2E 0x1.715476p+0f
#define EXP_ROUNDER 0x1.8p23f
#define EXP_LN2_HIGH 0x1.62e4p-1f
#define EXP_LN2_LOW 0x1.7f7d1cp-20f
#define EXP_C7 (1.0f / 5040)
#define EXP_C6 (1.0f / 720)
#define EXP_C5 (1.0f / 120)
#define EXP_C4 (1.0f / 24)
#define EXP_C3 (1.0f / 6)

/* act_quant: the smallest |x|max that a group is taken to have, and the largest E4M3 value. */
#define QUANT_FLOOR 1e-4f
#define INT8_FLOOR 0x1p-100f
#define INT8_MAX_CODE 127.0f
#define INT8_ROUNDER 0x1.8p23f /* its ulp is 1 */
#define E4M3_MAX 448.0f
#define E4M3_NORMAL_MIN 0x1p-6f
#define E4M3_SUBNORMAL_ROUNDER 0x1.8p14f /* its ulp is 2^-9, the subnormal grid */
