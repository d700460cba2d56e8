/* SPDX-License-Identifier: Apache-2.0
 * Protects weights on their way to a device: rows arrive where they belong, with gaps between them
 * where the device's pitch leaves some, whatever order the copies run in; and a buffer is not
 * filled again before its bytes are gone, which the emulated device would report.
 */
#include "test_case.h"

#include "compute/emulated/device_emulated.h"
#include "compute/weights/upload.h"

#define MEMBERS 2
#define ROWS 6
#define ROW_BYTES 44
#define PITCH 48
#define PIECES 8

TEST(rows_arrive_under_every_seed) {
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct device_emulation emulation = {.seed = seed, .memory_bytes = 16 << 20};
        struct error error;
        struct device *device;
        struct device_stream *stream;
        struct upload *upload;
        void *there, *back;
        size_t bytes = (size_t)MEMBERS * PIECES * ROWS * PITCH;
        assert_int_equal(device_emulated_open(&emulation, &device, &error), STATUS_OK);
        assert_int_equal(device_open_stream(device, &stream, &error), STATUS_OK);
        assert_int_equal(device_allocate(device, bytes, "weights", &there, &error), STATUS_OK);
        assert_int_equal(device_allocate_pinned(device, bytes, "weights", &back, &error),
                         STATUS_OK);
        assert_int_equal(upload_open(device, MEMBERS, ROWS * ROW_BYTES, &upload, &error),
                         STATUS_OK);
        for (uint32_t piece = 0; piece < MEMBERS * PIECES; piece++) {
            uint32_t member = piece % MEMBERS;
            memset(upload_room(upload, member), (int)piece + 1, ROWS * ROW_BYTES);
            upload_send(upload, member,
                        &(struct upload_rows){.to = (char *)there + piece * ROWS * PITCH,
                                              .row_bytes = ROW_BYTES,
                                              .row_count = ROWS,
                                              .pitch = PITCH});
        }
        assert_int_equal(upload_finish(upload, &error), STATUS_OK);
        device_copy(device, stream, back, there, bytes, DEVICE_TO_HOST);
        assert_int_equal(device_synchronize_stream(device, stream, &error), STATUS_OK);
        for (size_t i = 0; i < bytes; i++) {
            uint8_t expected =
                i % PITCH < ROW_BYTES ? (uint8_t)(i / (ROWS * PITCH) + 1) : UINT8_MAX;
            assert_int_equal(((const uint8_t *)back)[i], expected);
        }
        upload_close(upload);
        device_release(device, there);
        device_release(device, back);
        device_close_stream(device, stream);
        device_close(device);
    }
}
