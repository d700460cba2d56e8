/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/weights/upload.h"

#include <stdlib.h>

struct upload_member {
    struct device_stream *stream;
    void *buffers[2];
    struct device_event *sent[2]; /* after each buffer's last copy */
    uint32_t next;                /* index of the next buffer */
};

struct upload {
    struct device *device;
    struct upload_member *members;
    uint32_t member_count;
};

static enum status open_member(struct device *device, size_t bytes, struct upload_member *member,
                               struct error *error) {
    enum status status = device_open_stream(device, &member->stream, error);
    for (uint32_t i = 0; i < 2 && !status; i++) {
        status = device_allocate_pinned(device, bytes, "a buffer for weights on their way",
                                        &member->buffers[i], error);
        if (status == STATUS_OK) status = device_open_event(device, &member->sent[i], error);
    }
    return status;
}

enum status upload_open(struct device *device, uint32_t members, size_t bytes,
                        struct upload **upload_out, struct error *error) {
    struct upload *upload = calloc(1, sizeof *upload);
    enum status status = STATUS_OK;
    if (upload) upload->members = calloc(members, sizeof *upload->members);
    if (!upload || !upload->members) {
        free(upload);
        return error_set(error, STATUS_NO_MEMORY, "no memory to load weights");
    }
    upload->device = device;
    upload->member_count = members;
    for (uint32_t i = 0; i < members && !status; i++)
        status = open_member(device, bytes, &upload->members[i], error);
    if (status != STATUS_OK) {
        upload_close(upload);
        return status;
    }
    *upload_out = upload;
    return STATUS_OK;
}

void upload_close(struct upload *upload) {
    if (!upload) return;
    upload_finish(upload, NULL);
    for (uint32_t i = 0; i < upload->member_count; i++)
        for (uint32_t k = 0; k < 2; k++)
            device_close_event(upload->device, upload->members[i].sent[k]);
    for (uint32_t i = 0; i < upload->member_count; i++) {
        for (uint32_t k = 0; k < 2; k++)
            device_release(upload->device, upload->members[i].buffers[k]);
        device_close_stream(upload->device, upload->members[i].stream);
    }
    free(upload->members);
    free(upload);
}

/* A device failure here is also reported by upload_finish. */
void *upload_room(struct upload *upload, uint32_t member) {
    struct upload_member *of = &upload->members[member];
    (void)device_synchronize_event(upload->device, of->sent[of->next], NULL);
    return of->buffers[of->next];
}

void upload_send(struct upload *upload, uint32_t member, const struct upload_rows *rows) {
    struct upload_member *of = &upload->members[member];
    struct device_copy copy = {.to = rows->to,
                               .from = of->buffers[of->next],
                               .to_pitch = rows->pitch,
                               .from_pitch = rows->row_bytes,
                               .row_bytes = rows->row_bytes,
                               .row_count = rows->row_count,
                               .direction = DEVICE_FROM_HOST};
    device_copy_rows(upload->device, of->stream, &copy);
    device_record(upload->device, of->sent[of->next], of->stream);
    of->next = !of->next;
}

enum status upload_finish(struct upload *upload, struct error *error) {
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < upload->member_count; i++) {
        enum status of =
            upload->members[i].stream
                ? device_synchronize_stream(upload->device, upload->members[i].stream, error)
                : STATUS_OK;
        if (of != STATUS_OK) status = of;
    }
    return status;
}
