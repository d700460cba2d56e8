/* SPDX-License-Identifier: Apache-2.0
 * Two bodies: the driver's, found through the runtime so that nothing links libcuda; and the
 * emulator's, which uses the form as the map. Both keep the maps they make: a map follows from its
 * form alone, so it holds as long as the process, and a step's launches ask for the same ones as
 * the step before.
 */
#include "base/hash.h"
#include "compute/kernels/cuda/gpu.cuh"

#include <pthread.h>
#include <string.h>

#ifdef __CUDACC__

#include <cuda.h>
#include <cudaTypedefs.h>

static PFN_cuTensorMapEncodeTiled_v12000 encoder(void) {
    static PFN_cuTensorMapEncodeTiled_v12000 found;
    cudaDriverEntryPointQueryResult result;
    void *entry = nullptr;
    if (!found && cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000,
                                                   cudaEnableDefault, &result) == cudaSuccess)
        found = (PFN_cuTensorMapEncodeTiled_v12000)entry;
    return found;
}

static bool encode(struct tensor_map *map_out, const struct tensor_map_form *form) {
    static const CUtensorMapDataType types[] = {CU_TENSOR_MAP_DATA_TYPE_UINT8,
                                                CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                                                CU_TENSOR_MAP_DATA_TYPE_FLOAT32};
    cuuint64_t size[TENSOR_MAP_DIMENSIONS], pitch[TENSOR_MAP_DIMENSIONS];
    cuuint32_t box[TENSOR_MAP_DIMENSIONS], step[TENSOR_MAP_DIMENSIONS];
    for (uint32_t i = 0; i < form->dimensions; i++) {
        size[i] = form->size[i];
        box[i] = form->box[i];
        step[i] = 1;
        if (i) pitch[i - 1] = form->pitch[i - 1];
    }
    PFN_cuTensorMapEncodeTiled_v12000 driver = encoder();
    return driver && driver((CUtensorMap *)map_out, types[form->type], form->dimensions,
                            (void *)(uintptr_t)form->base, size, pitch, box, step,
                            CU_TENSOR_MAP_INTERLEAVE_NONE,
                            form->swizzle ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
                            CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                            CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

#else

static bool encode(struct tensor_map *map_out, const struct tensor_map_form *form) {
    static const uint16_t bytes[] = {1, 2, 4};
    struct emulate_map map = {};
    static_assert(sizeof map <= sizeof *map_out, "the emulator's map fits into the machine's");
    map.mark = EMULATE_MAP_MARK;
    map.base = form->base;
    map.element_bytes = bytes[form->type];
    map.dimensions = (uint16_t)form->dimensions;
    map.swizzle = form->swizzle;
    bool fits = form->dimensions && form->dimensions <= TENSOR_MAP_DIMENSIONS &&
                (uintptr_t)form->base % 16 == 0 && form->box[0] * map.element_bytes % 16 == 0 &&
                !(form->swizzle && form->box[0] * map.element_bytes > 128);
    for (uint32_t i = 0; fits && i < form->dimensions; i++) {
        map.size[i] = form->size[i];
        map.box[i] = form->box[i];
        fits = form->size[i] && form->box[i] && form->box[i] <= 256;
        if (i + 1 == form->dimensions) break;
        map.pitch[i] = form->pitch[i];
        fits = fits && form->pitch[i] % 16 == 0;
    }
    if (fits) memcpy(map_out, &map, sizeof map);
    return fits;
}

#endif

/* ---- maps that were made ---- */

#define KEPT_MAPS 4096u /* of V3, a step of one size asks for some 1,500 */

struct kept_map {
    struct tensor_map_form form; /* of no dimension: the place is free */
    struct tensor_map map;
};

static struct kept_map kept_maps[KEPT_MAPS];
static pthread_mutex_t maps_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t encoded_count;

/* A copy of the form with zeros in its padding. */
static struct tensor_map_form clean(const struct tensor_map_form *form) {
    struct tensor_map_form key;
    memset((void *)&key, 0, sizeof key);
    key.base = form->base;
    key.type = form->type;
    key.dimensions = form->dimensions;
    key.swizzle = form->swizzle;
    for (uint32_t i = 0; i < form->dimensions && i < TENSOR_MAP_DIMENSIONS; i++) {
        key.size[i] = form->size[i];
        key.box[i] = form->box[i];
        if (i) key.pitch[i - 1] = form->pitch[i - 1];
    }
    return key;
}

static uint32_t place_of(const struct tensor_map_form *key) {
    return (uint32_t)(hash_bytes(0, key, sizeof *key) % KEPT_MAPS);
}

bool tensor_map_make(struct tensor_map *map_out, const struct tensor_map_form *form) {
    struct tensor_map_form key = clean(form);
    struct kept_map *kept = &kept_maps[place_of(&key)];
    pthread_mutex_lock(&maps_lock);
    bool made =
        key.dimensions && !memcmp((const void *)&kept->form, (const void *)&key, sizeof key);
    if (!made) {
        made = encode(&kept->map, form);
        kept->form = key;
        if (!made) kept->form.dimensions = 0;
        encoded_count++;
    }
    if (made) *map_out = kept->map;
    pthread_mutex_unlock(&maps_lock);
    return made;
}

uint64_t tensor_map_encoded(void) {
    pthread_mutex_lock(&maps_lock);
    uint64_t count = encoded_count;
    pthread_mutex_unlock(&maps_lock);
    return count;
}

bool tensor_map_make_matrix(struct tensor_map *map_out, const void *base, enum map_element type,
                            uint32_t columns, uint32_t rows, uint64_t pitch, uint32_t box_columns,
                            uint32_t box_rows) {
    struct tensor_map_form form = {};
    form.base = base;
    form.type = type;
    form.dimensions = 2;
    form.size[0] = columns;
    form.size[1] = rows;
    form.box[0] = box_columns;
    form.box[1] = box_rows;
    form.pitch[0] = pitch;
    form.swizzle = true;
    return tensor_map_make(map_out, &form);
}
