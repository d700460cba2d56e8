/* SPDX-License-Identifier: Apache-2.0
 * As many parts as there are threads are packed at once, so that small parts, too, occupy the team.
 * All threads compute their digests.
 */
#include "compute/weights/fill.h"

#include "base/check.h"

struct fill_round {
    struct fill *fill;
    uint32_t first;
};

static void finish_parts(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct fill_round *round = context;
    for (uint32_t i = round->first + first; i < round->first + first + count; i++) {
        const struct fill_part *part = &round->fill->parts[i];
        weights_file_fill(round->fill->file, part->place, part->first, part->bytes, part->what,
                          weights_file_digest(part->first, part->bytes));
    }
}

/* Returns true if this process must pack the part, false if another does or it is complete. */
static bool fill_claim(struct weights_file *file, struct pack_run *run, struct fill_part *part) {
    part->done = weights_file_holds(file, part->place) == part->what;
    if (!part->done && !weights_file_claim(file, part->place)) return false;
    if (!part->done &&
        weights_file_holds(file, part->place) == part->what) { /* another process was first */
        weights_file_give_back(file, part->place);
        part->done = true;
    }
    if (part->done)
        pack_run_skip(run, part->first_job, part->job_count);
    else
        weights_file_empty(file, part->place);
    return !part->done;
}

/* Packs the claimed parts [first, first + count). */
static enum status pack_parts(struct fill *fill, struct pack_run *run, uint32_t first,
                              uint32_t count, struct error *error) {
    struct fill_round round = {.fill = fill, .first = first};
    const struct fill_part *last = &fill->parts[first + count - 1];
    uint32_t job = fill->parts[first].first_job;
    enum status status = pack_run_jobs(run, job, last->first_job + last->job_count - job, error);
    for (uint32_t i = first; i < first + count; i++) {
        fill->parts[i].done = status == STATUS_OK;
        if (status != STATUS_OK && fill->file)
            weights_file_give_back(fill->file, fill->parts[i].place);
    }
    if (status == STATUS_OK && fill->file) team_run(run->team, finish_parts, &round, count, 1);
    return status;
}

enum status fill_some(struct fill *fill, struct pack_run *run, uint32_t *left_out,
                      struct error *error) {
    uint32_t at_once = team_threads(run->team), first = 0;
    enum status status = STATUS_OK;
    *left_out = 0;
    while (first < fill->part_count && status == STATUS_OK) {
        uint32_t count = 0;
        for (; count < at_once && first + count < fill->part_count; count++) {
            struct fill_part *part = &fill->parts[first + count];
            if (part->done || (fill->file && !fill_claim(fill->file, run, part))) break;
        }
        if (count) status = pack_parts(fill, run, first, count, error);
        first += count;
        if (count || first == fill->part_count) continue;
        if (!fill->parts[first].done) ++*left_out;
        first++;
    }
    return status;
}

enum status fill_all(struct fill *fill, struct pack_run *run, struct error *error) {
    uint32_t left_out;
    enum status status = fill_some(fill, run, &left_out, error);
    while (status == STATUS_OK && left_out) {
        uint32_t i = 0;
        while (fill->parts[i].done)
            i++;
        weights_file_wait(fill->file, fill->parts[i].place);
        status = fill_some(fill, run, &left_out, error);
    }
    return status;
}

struct check_of_parts {
    struct weights_file *file;
    uint32_t damaged;
};

static bool fill_is_sound(const struct weights_file *file, uint32_t part) {
    return weights_file_holds(file, part) == WEIGHTS_FILE_EMPTY || weights_file_verify(file, part);
}

static void verify_parts(void *context, uint32_t first, uint32_t count, uint32_t member) {
    struct check_of_parts *check = context;
    for (uint32_t i = first; i < first + count; i++) {
        if (fill_is_sound(check->file, i) || !weights_file_claim(check->file, i)) continue;
        if (!fill_is_sound(check->file,
                           i)) { /* checked again, now that no other process writes to it */
            weights_file_empty(check->file, i);
            __atomic_fetch_add(&check->damaged, 1, __ATOMIC_RELAXED);
        }
        weights_file_give_back(check->file, i);
    }
}

uint32_t fill_verify(struct weights_file *file, struct team *team) {
    struct check_of_parts parts = {.file = file};
    team_run(team, verify_parts, &parts, file->part_count, 1);
    return parts.damaged;
}
