/* SPDX-License-Identifier: Apache-2.0
 * Protects how NCCL is found. A build without it says so, and is not refused ranks on several
 * hosts; one with it loads the library when it is first wanted, or says what is missing and what
 * does without. Without a GPU a link cannot be opened, which is told in one line. What NCCL does
 * with GPUs was never seen (docs/gpu.md).
 */
#include "test_case.h"

#include "compute/device/device_nccl.h"

TEST(what_links_need_is_there_or_the_cure_is_reported) {
    struct error error;
    enum status status = device_nccl_load(&error);
#ifdef DEVICE_NCCL
    if (status == STATUS_OK) {
        assert_int_equal(device_nccl_load(&error), STATUS_OK); /* again */
        return;
    }
    assert_int_equal(status, STATUS_IO);
    assert_non_null(strstr(error.text, "libnccl.so.2"));
    assert_non_null(strstr(error.text, "--experiment device-rows=host"));
#else
    assert_int_equal(status, STATUS_UNSUPPORTED);
    assert_non_null(strstr(error.text, "no NCCL"));
#endif
}

TEST(a_link_that_cannot_be_opened_is_reported) {
    struct device_comm_id id = {{0}};
    struct device_comm *comm;
    struct error error;
    bool ready = false;
    if (device_nccl_load(&error) == STATUS_IO) return; /* no library: nobody calls what follows */
    enum status status = device_nccl_name(&id, &error);
    if (!status) status = device_nccl_open(&id, 1, 0, &comm, &error);
    if (!status) {
        do
            status = device_nccl_ready(comm, &ready, &error);
        while (!status && !ready);
        device_nccl_close(comm);
    }
    if (status)
        assert_true(strlen(error.text) > 0 && !strchr(error.text, '\n'));
    else
        assert_true(ready); /* there is a GPU */
}
