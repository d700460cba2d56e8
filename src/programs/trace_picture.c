/* SPDX-License-Identifier: Apache-2.0 */
#include "programs/trace_picture.h"

#include "base/number.h"
#include "host/process/own_file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define WIDTH 960
#define LEFT 84
#define ROW 34 /* from a row to the next */
#define BAR 24
#define TEXT_WIDTH 6.2 /* of a letter */

struct picture {
    double from_us, to_us;
    uint32_t micro_batches;
    FILE *file;
};

/* When lane a's ATTN-0 of a layer began in the last step; infinite: never. */
static double layer_begin(const struct picture_event *events, size_t count, uint32_t layer) {
    double last_us = INFINITY;
    for (size_t i = 0; i < count; i++)
        if (!events[i].travels && events[i].stage == STAGE_ATTENTION_0 &&
            events[i].micro_batch == 0 && events[i].layer == layer)
            last_us = events[i].at_us;
    return last_us;
}

static double last_end(const struct picture_event *events, size_t count) {
    double last_us = 0;
    for (size_t i = 0; i < count; i++)
        last_us = fmax(last_us, events[i].end_us);
    return last_us;
}

static double trace_picture_x_of(const struct picture *picture, double us) {
    return LEFT +
           (WIDTH - LEFT - 8) * (us - picture->from_us) / (picture->to_us - picture->from_us);
}

/* `name` where it fits, or `initial`, or nothing. */
static void draw_bar(const struct picture *picture, double from_us, double to_us, uint32_t row,
                     const char *class, const char *name, const char *initial) {
    double left = trace_picture_x_of(picture, max_double(from_us, picture->from_us));
    double width = trace_picture_x_of(picture, fmin(to_us, picture->to_us)) - left;
    double top = 24 + ROW * row;
    if (width <= 0) return;
    fprintf(picture->file,
            "<rect class=\"%s\" x=\"%.1f\" y=\"%.0f\" width=\"%.1f\" height=\"%d\"/>\n", class,
            left, top, width, BAR);
    if (width < TEXT_WIDTH * (double)strlen(name) + 4) name = initial;
    if (*name && width >= TEXT_WIDTH * (double)strlen(name))
        fprintf(picture->file, "<text x=\"%.1f\" y=\"%.0f\" text-anchor=\"middle\">%s</text>\n",
                left + width / 2, top + 16, name);
}

/* The first row is what was computed; each lane's transfers have a row of their own, since one's
 * waves and another's dispatch take turns on the link. */
static void draw_event(const struct picture *picture, const struct picture_event *event) {
    static const char *const initials[STAGE_COUNT] = {"0", "1", "D", "S", "M", "C"};
    char name[32], class[4];
    snprintf(name, sizeof name, "%s %c", overlap_stage_name(event->stage),
             'a' + (char)event->micro_batch);
    snprintf(class, sizeof class, "l%u", event->micro_batch % 2);
    double works_us = event->at_us + event->waited_us;
    uint32_t row = event->travels ? 1 + event->micro_batch : 0;
    draw_bar(picture, event->at_us, works_us, row, "w", "waits", "");
    draw_bar(picture, works_us, event->end_us, row, class, name, initials[event->stage]);
}

static void trace_picture_draw(const struct picture *picture, const struct picture_event *events,
                               size_t count) {
    FILE *file = picture->file;
    uint32_t height = 24 + ROW * (1 + picture->micro_batches) + 4;
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %u\" width=\"%d\" "
            "height=\"%u\">\n"
            "<style>text{font:11px sans-serif;fill:#1f2933}rect{stroke:#fff;stroke-width:.5}"
            ".l0{fill:#f6c177}.l1{fill:#8cb9e8}.w{fill:#e4e7eb}</style>\n"
            "<rect width=\"%d\" height=\"%u\" style=\"fill:#fff\"/>\n"
            "<text x=\"%d\" y=\"14\">one layer, %.2f ms; 0, 1, D, S, M, C: ATTN-0, ATTN-1, "
            "DISPATCH, SHARED, "
            "MLP, COMBINE; grey: waits</text>\n"
            "<text x=\"4\" y=\"40\">computes</text>\n",
            WIDTH, height, WIDTH, height, WIDTH, height, LEFT,
            (picture->to_us - picture->from_us) * 1e-3);
    for (uint32_t micro_batch = 0; micro_batch < picture->micro_batches; micro_batch++)
        fprintf(file, "<text x=\"4\" y=\"%u\">link, lane %c</text>\n", 40 + ROW * (micro_batch + 1),
                'a' + (char)micro_batch);
    for (size_t i = 0; i < count; i++)
        draw_event(picture, &events[i]);
    fprintf(file, "</svg>\n");
}

enum status trace_picture_write(const char *path, const struct picture_event *events, size_t count,
                                struct error *error) {
    struct picture picture = {.micro_batches = 0};
    uint32_t layers = 0;
    for (size_t i = 0; i < count; i++) {
        layers = max_u32(layers, events[i].layer + 1);
        picture.micro_batches = max_u32(picture.micro_batches, events[i].micro_batch + 1);
    }
    picture.from_us = layer_begin(events, count, layers / 2);
    picture.to_us = layers / 2 + 1 < layers ? layer_begin(events, count, layers / 2 + 1)
                                            : last_end(events, count);
    if (!(picture.from_us < picture.to_us))
        return error_set(error, STATUS_INVALID, "no stage of rank 0 to draw");
    picture.file = own_file_report(path);
    if (!picture.file)
        return error_set(error, STATUS_IO, "cannot write %.300s: %s", path, strerror(errno));
    trace_picture_draw(&picture, events, count);
    bool written = !ferror(picture.file);
    if (fclose(picture.file) == 0 && written) return STATUS_OK;
    return error_set(error, STATUS_IO, "cannot write all of %.300s: %s", path, strerror(errno));
}
