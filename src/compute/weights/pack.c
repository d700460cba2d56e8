/* SPDX-License-Identifier: Apache-2.0
 * Each job first copies its rows to its thread's buffer, as file offsets may be unaligned, and
 * checks the values. After a job its part of the mapping is dropped (MADV_DONTNEED). Pages that are
 * needed again come back from the page cache.
 */
#include "compute/weights/pack.h"

#include "base/check.h"
#include "base/number.h"
#include "compute/weights/ggml_block.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PACK_PIECE_BYTES ((size_t)4 << 20)
#define PACK_ROUND_JOBS 64 /* between two progress reports */

enum weight_type pack_type(const struct tensor *tensor) {
    static const enum weight_type of_blocks[] = {
        WEIGHT_Q4_0, /* Q4_0 */
        WEIGHT_F32,  /* Q4_1 */
        WEIGHT_Q8_0, /* Q5_0: its codes have eight bits in memory */
        WEIGHT_F32,  /* Q5_1 */
        WEIGHT_Q8_0, WEIGHT_Q4_K, WEIGHT_Q5_K, WEIGHT_Q6_K, WEIGHT_MXFP4,
    };
    if (ggml_block_is(tensor->type)) return of_blocks[tensor->type - TENSOR_Q4_0];
    if (tensor->type == TENSOR_E4M3) return WEIGHT_FP8;
    if (tensor->type >= TENSOR_INT4_32 && tensor->type <= TENSOR_MXFP4)
        return (enum weight_type)(WEIGHT_INT4_32 + (tensor->type - TENSOR_INT4_32));
    const bool halves = tensor->type == TENSOR_BF16 || tensor->type == TENSOR_E4M3_32;
    return halves ? WEIGHT_BF16 : WEIGHT_F32;
}

uint64_t pack_columns(const struct tensor *tensor) {
    return tensor->shape[tensor->dims - 1];
}

static size_t source_row_bytes(const struct pack_job *job) {
    uint64_t rows = job->tensor->dims == 2 ? job->tensor->shape[0] : 1;
    return rows ? job->tensor->bytes / rows : 0;
}

uint64_t pack_job_bytes(const struct pack_job *job) {
    return job->row_count * source_row_bytes(job);
}

/* Bytes of a fetched row in the thread's buffer. */
static size_t fetched_row_bytes(const struct pack_job *job) {
    return weight_type_bytes(job->type, pack_columns(job->tensor));
}

enum status pack_list_add(struct pack_list *list, const struct pack_job *whole,
                          struct error *error) {
    size_t row_bytes = fetched_row_bytes(whole);
    size_t kept_bytes = whole->form == PACK_ROWS ? whole->pitch : row_bytes;
    size_t piece_bytes = list->piece_bytes ? list->piece_bytes : PACK_PIECE_BYTES;
    uint32_t piece_rows = whole->row_count;
    if (whole->form != PACK_PANELS_TRANSPOSED && row_bytes * piece_rows > piece_bytes) {
        piece_rows = (uint32_t)(piece_bytes / row_bytes / MATMUL_PANEL * MATMUL_PANEL);
        if (piece_rows < MATMUL_PANEL) piece_rows = MATMUL_PANEL;
    }
    for (uint32_t row = 0; row < whole->row_count; row += piece_rows) {
        if (list->count == list->capacity) {
            uint32_t capacity = list->capacity ? 2 * list->capacity : 1024;
            struct pack_job *jobs = realloc(list->jobs, capacity * sizeof *jobs);
            if (!jobs) return error_set(error, STATUS_NO_MEMORY, "no memory to load the weights");
            list->jobs = jobs;
            list->capacity = capacity;
        }
        struct pack_job *job = &list->jobs[list->count++];
        *job = *whole;
        job->source_row += row;
        job->row_count = row + piece_rows < whole->row_count ? piece_rows : whole->row_count - row;
        if (whole->data) job->data = (char *)whole->data + row * kept_bytes;
        if (whole->scales)
            job->scales = (char *)whole->scales +
                          packed_scale_bytes(job->type, row, (uint32_t)pack_columns(job->tensor));
    }
    return STATUS_OK;
}

void pack_list_free(struct pack_list *list) {
    free(list->jobs);
    *list = (struct pack_list){0};
}

/* True if all codes are finite. */
static bool codes_are_finite(const uint8_t *codes, size_t count) {
    uint8_t bad = 0;
    for (size_t i = 0; i < count; i++)
        bad |= (codes[i] & 0x7F) == 0x7F;
    return !bad;
}

static bool halves_are_finite(const uint16_t *values, size_t count) {
    uint16_t bad = 0;
    for (size_t i = 0; i < count; i++)
        bad |= (values[i] & 0x7F80) == 0x7F80;
    return !bad;
}

static bool floats_are_finite(const float *values, size_t count) {
    uint32_t bad = 0;
    for (size_t i = 0; i < count; i++)
        bad |= (float_bits(values[i]) & 0x7F800000u) == 0x7F800000u;
    return !bad;
}

static void apply_scales(const struct pack_job *job, float *values) {
    uint64_t cols = pack_columns(job->tensor), scale_cols = pack_columns(job->scale);
    const uint32_t own = weight_type_group(pack_type(job->tensor));
    const uint32_t block = job->tensor->type == TENSOR_E4M3_32 ? 32 : QUANT_GROUP;
    const uint32_t group = own ? own : block;
    for (uint32_t r = 0; r < job->row_count; r++) {
        uint64_t scale_row = (job->source_row + r) / (own ? 1 : block);
        for (uint64_t c = 0; c < cols; c += group) {
            float scale;
            tensor_to_float(job->scale, scale_row * scale_cols + c / group, 1, &scale);
            uint64_t end = c + group < cols ? c + group : cols;
            for (uint64_t i = c; i < end; i++)
                values[r * cols + i] *= scale;
        }
    }
}

/* Rounds floats to BF16 in place. */
static void round_floats(char *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        float value;
        memcpy(&value, values + i * sizeof value, sizeof value);
        uint16_t rounded = bf16_from_float(value);
        memcpy(values + i * sizeof rounded, &rounded, sizeof rounded);
    }
}

/* Copies the job's rows to `to`, converted to the job's type. Returns false if a value is not
 * finite. `to` has room for floats. */
static bool pack_fetch(const struct pack_job *job, void *to) {
    size_t count = job->row_count * pack_columns(job->tensor);
    const char *from = job->tensor->data;
    if (from) from += job->source_row * source_row_bytes(job);
    if (job->type == WEIGHT_FP8) {
        memcpy(to, from, count);
        return codes_are_finite(to, count);
    }
    if (weight_type_group(job->type)) {
        memcpy(to, from, count / 2);
        return true; /* every code is a number */
    }
    if (job->type == WEIGHT_BF16 && job->tensor->type == TENSOR_BF16 && !job->tensor->halves) {
        memcpy(to, from, count * sizeof(uint16_t));
        return halves_are_finite(to, count);
    }
    tensor_to_float(job->tensor, job->source_row * pack_columns(job->tensor), count, to);
    bool finite = floats_are_finite(to, count);
    if (job->scale) apply_scales(job, to);
    if (job->type == WEIGHT_BF16) round_floats(to, count);
    return finite;
}

static void transpose_elements(size_t element_bytes, const char *from, char *to, uint32_t rows,
                               uint32_t cols) {
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t c = 0; c < cols; c++)
            memcpy(to + ((size_t)c * rows + r) * element_bytes,
                   from + ((size_t)r * cols + c) * element_bytes, element_bytes);
}

/* True unless the block's scales are infinite or NaN. MXFP4's scale becomes BF16. */
static bool pack_take_block(const struct pack_job *job, const char *block, struct weight_super *super) {
    ggml_block_split(job->tensor->type, block, super);
    if (job->type != WEIGHT_MXFP4)
        return (super->d & 0x7C00) != 0x7C00 && (super->d_min & 0x7C00) != 0x7C00;
    const bool finite = super->d != 0xFF;
    super->d = bf16_from_float(ldexpf(1, super->d - 127));
    return finite;
}

/* Packs blocks as codes and scales, from the file. */
static bool pack_blocks(const struct pack_job *job) {
    struct weight_super supers[MATMUL_PANEL];
    const enum tensor_type type = job->tensor->type;
    const uint32_t cols = (uint32_t)pack_columns(job->tensor), values = ggml_block_values(type);
    const size_t row_bytes = source_row_bytes(job), block_bytes = ggml_block_bytes(type);
    const char *from = (const char *)job->tensor->data + job->source_row * row_bytes;
    bool finite = true;
    for (uint32_t row = 0; row < job->row_count; row += MATMUL_PANEL) {
        char *panel = (char *)job->data + weight_type_bytes(job->type, (size_t)row * cols);
        char *scales = (char *)job->scales + packed_scale_bytes(job->type, row, cols);
        const uint32_t rows =
            job->row_count - row < MATMUL_PANEL ? job->row_count - row : MATMUL_PANEL;
        memset(supers, 0, sizeof supers); /* rows that fill up the last panel */
        for (uint32_t s = 0; s < cols / values; s++) {
            for (uint32_t r = 0; r < rows; r++)
                finite &=
                    pack_take_block(job, from + (row + r) * row_bytes + s * block_bytes, &supers[r]);
            matmul_pack_super(job->type, supers, s, panel, scales);
        }
    }
    return finite;
}

static void drop_mapped(const struct pack_job *job) {
    if (!job->tensor->data) return; /* halves: their pages stay until memory is short */
    size_t page = (size_t)sysconf(_SC_PAGESIZE), row_bytes = source_row_bytes(job);
    uintptr_t start = (uintptr_t)job->tensor->data + job->source_row * row_bytes;
    uintptr_t end = start + job->row_count * row_bytes;
    start = round_up(start, page);
    end = end / page * page;
    if (end > start) madvise((void *)start, end - start, MADV_DONTNEED);
}

/* Sends the fetched rows unchanged to the device. */
static bool send_job(const struct pack_job *job, struct upload *upload, uint32_t member) {
    bool finite = pack_fetch(job, upload_room(upload, member));
    size_t bytes = fetched_row_bytes(job);
    struct upload_rows rows = {.to = job->data,
                               .row_bytes = bytes,
                               .row_count = job->row_count,
                               .pitch = job->form == PACK_ROWS ? job->pitch : bytes};
    upload_send(upload, member, &rows);
    drop_mapped(job);
    return finite;
}

static bool pack_run_job(const struct pack_job *job, char *buffer) {
    uint32_t cols = (uint32_t)pack_columns(job->tensor);
    size_t bytes = job->row_count * fetched_row_bytes(job);
    if (job->scales) {
        bool good = pack_blocks(job);
        drop_mapped(job);
        return good;
    }
    bool finite = pack_fetch(job, buffer);
    switch (job->form) {
    case PACK_PANELS:
        matmul_pack(job->type, buffer, job->row_count, cols, 0, job->row_count, job->data);
        break;
    case PACK_PANELS_TRANSPOSED:
        transpose_elements(weight_type_bytes(job->type, 1), buffer, buffer + bytes, job->row_count,
                           cols);
        matmul_pack(job->type, buffer + bytes, cols, job->row_count, 0, cols, job->data);
        break;
    case PACK_FLOATS:
        memcpy(job->data, buffer, bytes);
        break;
    case PACK_ROWS:
        for (uint32_t row = 0; row < job->row_count; row++)
            memcpy((char *)job->data + row * job->pitch, buffer + row * fetched_row_bytes(job),
                   fetched_row_bytes(job));
        break;
    case PACK_SCAN:
        break;
    }
    drop_mapped(job);
    return finite;
}

static void pack_run_jobs_each(void *context, uint32_t first, uint32_t count, uint32_t member) {
    struct pack_run *run = context;
    for (uint32_t i = run->first_job + first; i < run->first_job + first + count; i++) {
        const struct pack_job *job = &run->list->jobs[i];
        if (run->upload ? send_job(job, run->upload, member)
                        : pack_run_job(job, run->buffers + member * run->buffer_bytes))
            continue;
        if (i < run->bad_jobs[member]) run->bad_jobs[member] = i;
    }
}

static uint32_t lowest_bad_job(const struct pack_run *run, uint32_t threads) {
    uint32_t lowest = UINT32_MAX;
    for (uint32_t i = 0; i < threads; i++)
        if (run->bad_jobs[i] < lowest) lowest = run->bad_jobs[i];
    return lowest;
}

static enum status pack_bad_value(const struct pack_job *job, struct error *error) {
    const struct tensor *tensor = job->tensor;
    return error_set(
        error, STATUS_CORRUPT,
        "%s: tensor %s, rows %llu to %llu: a value is NaN or infinite, expected finite "
        "numbers; the file is damaged, fetch it again",
        tensor->file, tensor->name, (unsigned long long)job->source_row,
        (unsigned long long)(job->source_row + job->row_count - 1));
}

enum status pack_run_open(struct pack_run *run, const struct pack_list *list, struct team *team,
                          const struct load_progress *progress, struct error *error) {
    uint32_t threads = team_threads(team);
    *run = (struct pack_run){.list = list, .team = team, .progress = progress};
    for (uint32_t i = 0; i < list->count; i++) {
        size_t bytes = 2 * list->jobs[i].row_count * fetched_row_bytes(&list->jobs[i]);
        if (bytes > run->buffer_bytes)
            run->buffer_bytes = bytes; /* 2: for transposing, for rounding floats */
        run->total_bytes += pack_job_bytes(&list->jobs[i]);
    }
    run->buffer_bytes = round_up(run->buffer_bytes + 1, 4096);
    run->bad_jobs = malloc(threads * sizeof *run->bad_jobs);
    if (list->device) {
        enum status status =
            upload_open(list->device, threads, run->buffer_bytes, &run->upload, error);
        if (status != STATUS_OK) return status;
    } else {
        run->buffers = aligned_alloc(4096, run->buffer_bytes * threads);
    }
    if ((!run->buffers && !run->upload) || !run->bad_jobs)
        return error_set(error, STATUS_NO_MEMORY, "no memory for %zu bytes of loading buffers",
                         run->buffer_bytes * threads);
    memset(run->bad_jobs, 0xFF, threads * sizeof *run->bad_jobs);
    return STATUS_OK;
}

enum status pack_run_finish(struct pack_run *run, struct error *error) {
    return run->upload ? upload_finish(run->upload, error) : STATUS_OK;
}

void pack_run_close(struct pack_run *run) {
    upload_close(run->upload);
    free(run->buffers);
    free(run->bad_jobs);
    *run = (struct pack_run){.list = NULL};
}

static uint64_t pack_count_bytes(const struct pack_run *run, uint32_t first, uint32_t count) {
    uint64_t bytes = 0;
    for (uint32_t i = first; i < first + count; i++)
        bytes += pack_job_bytes(&run->list->jobs[i]);
    return bytes;
}

void pack_run_skip(struct pack_run *run, uint32_t first, uint32_t count) {
    run->done_bytes += pack_count_bytes(run, first, count);
    load_progress_report(run->progress, LOAD_WEIGHTS, run->done_bytes, run->total_bytes);
}

enum status pack_run_jobs(struct pack_run *run, uint32_t first, uint32_t count,
                          struct error *error) {
    check(first <= run->list->count && count <= run->list->count - first);
    for (uint32_t end = first + count; first < end; first += count) {
        count = end - first < PACK_ROUND_JOBS ? end - first : PACK_ROUND_JOBS;
        run->first_job = first;
        team_run(run->team, pack_run_jobs_each, run, count, 1);
        uint32_t bad_job = lowest_bad_job(run, team_threads(run->team));
        if (bad_job != UINT32_MAX) return pack_bad_value(&run->list->jobs[bad_job], error);
        run->read_bytes += pack_count_bytes(run, first, count);
        pack_run_skip(run, first, count);
    }
    return STATUS_OK;
}
