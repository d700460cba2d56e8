/* SPDX-License-Identifier: Apache-2.0
 * DeepSeek's published day as the day's tests take it: its hours' load, its nodes (decode units of
 * 18 nodes, prefill units of 4), its tokens.
 */
#pragma once

#include "simulate/simulator/day.h"

static const struct day_options published_day = {
    .load = {27015, 28483, 30441, 30930, 30441, 27798, 26819, 29560, 30734, 30832, 31028, 29756,
             21729, 18010, 13116, 8026,  6362,  6362,  8026,  13703, 23100, 29462, 30441, 29853},
    .steps = {{0, 9, 29},
              {12, 7, 23},
              {13.25, 6, 20},
              {14, 5, 17},
              {14.75, 4, 14},
              {15, 3, 11},
              {15.5, 2, 8},
              {18.5, 3, 11},
              {19, 4, 14},
              {19.5, 6, 20},
              {20, 7, 23},
              {20.5, 9, 29}},
    .step_count = 12,
    .input_tokens = 608e9,
    .output_tokens = 168e9,
    .moments = {.in_out = 3.62,
                .hit_share = 0.5625,
                .kv_mean = 4989,
                .prompt_cv = 1.2,
                .answer_cv = 1,
                .first_share = 0.3,
                .prompt_max = 65536,
                .answer_max = 16384},
    .settle_s = 1,
    .warm_s = 3,
    .measure_s = 10,
    .waiting_s = 2};
