/* SPDX-License-Identifier: Apache-2.0
 * Where the keys of prompts' runs are (mla_prompt.h): places, one run's behind another's, and the
 * rows of the cache that they stand for.
 */
#pragma once

#include "compute/kernels/cuda/gpu.cuh"
#include "compute/kernels/cuda/mla_prompt.h"

#define PAGE_ROWS 64u

GPU_DEVICE uint32_t tiles_of(uint32_t count) {
    return (count + MLA_PROMPT_TILE - 1) / MLA_PROMPT_TILE;
}

GPU_DEVICE uint32_t keys_of(const struct mla_prompt_runs *runs, const struct mla_prompt_run *run) {
    return runs->kv_index[run->first + run->count - 1] + 1;
}

/* The row of the cache at a place; null: there is no key. */
GPU_DEVICE const char *find_row(const struct mla_prompt_runs *runs,
                                const struct mla_prompt_rows *rows, uint32_t place) {
    for (uint32_t i = 0; i < runs->count; i++) {
        struct mla_prompt_run run = runs->runs[i];
        uint32_t keys = keys_of(runs, &run), places = tiles_of(keys) * MLA_PROMPT_TILE;
        if (place >= places) {
            place -= places;
            continue;
        }
        if (place < run.kv_first || place >= keys) return nullptr;
        uint32_t page = runs->pages[run.first_page + place / PAGE_ROWS];
        return rows->memory + page * rows->page_bytes + rows->slice_at +
               place % PAGE_ROWS * rows->row_bytes;
    }
    return nullptr;
}
