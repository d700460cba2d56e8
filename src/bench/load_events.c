/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/load_events.h"

#include <stdlib.h>

static enum status load_events_append(char **memory, size_t *count, size_t *room,
                                      struct bytes text) {
    if (text.count > LOAD_EVENTS_DATA_MAX - *count) return STATUS_TOO_LARGE;
    if (*count + text.count > *room) {
        size_t wanted = 2 * (*count + text.count) + 256;
        char *grown = realloc(*memory, wanted);
        if (!grown) return STATUS_NO_MEMORY;
        *memory = grown;
        *room = wanted;
    }
    if (text.count) memcpy(*memory + *count, text.data, text.count);
    *count += text.count;
    return STATUS_OK;
}

static enum status add_data(struct load_events *events, struct bytes value) {
    enum status status = STATUS_OK;
    if (events->has_data)
        status = load_events_append(&events->data, &events->data_count, &events->data_room,
                                    BYTES_LITERAL("\n"));
    events->has_data = true;
    if (status) return status;
    return load_events_append(&events->data, &events->data_count, &events->data_room, value);
}

static enum status load_events_take_line(struct load_events *events, load_events_taker *taker,
                                         void *context) {
    struct bytes line = {events->line, events->line_count}, field = BYTES_LITERAL("data");
    events->line_count = 0;
    if (line.count == 0) {
        if (events->has_data)
            taker(context,
                  (struct bytes){events->data_count ? events->data : "", events->data_count});
        events->has_data = false;
        events->data_count = 0;
        return STATUS_OK;
    }
    if (line.data[0] == ':' && events->comment)
        events->comment(context, (struct bytes){line.data + 1, line.count - 1});
    if (!bytes_start_with(line, field)) return STATUS_OK;
    line = (struct bytes){line.data + 4, line.count - 4};
    if (line.count && line.data[0] != ':') return STATUS_OK; /* a longer field name */
    size_t skipped = line.count == 0 ? 0 : line.count > 1 && line.data[1] == ' ' ? 2 : 1;
    return add_data(events, (struct bytes){line.data + skipped, line.count - skipped});
}

enum status load_events_push(struct load_events *events, struct bytes text,
                             load_events_taker *taker, void *context) {
    while (text.count) {
        if (events->after_cr && text.data[0] == '\n') {
            text = (struct bytes){text.data + 1, text.count - 1};
            events->after_cr = false;
            continue;
        }
        events->after_cr = false;
        size_t bytes = 0;
        while (bytes < text.count && text.data[bytes] != '\n' && text.data[bytes] != '\r')
            bytes++;
        enum status status =
            load_events_append(&events->line, &events->line_count, &events->line_room,
                               (struct bytes){text.data, bytes});
        if (status) return status;
        if (bytes == text.count) return STATUS_OK;
        events->after_cr = text.data[bytes] == '\r';
        text = (struct bytes){text.data + bytes + 1, text.count - bytes - 1};
        status = load_events_take_line(events, taker, context);
        if (status) return status;
    }
    return STATUS_OK;
}

void load_events_reset(struct load_events *events) {
    events->line_count = events->data_count = 0;
    events->has_data = events->after_cr = false;
}

void load_events_free(struct load_events *events) {
    free(events->line);
    free(events->data);
    *events = (struct load_events){0};
}
