/* SPDX-License-Identifier: Apache-2.0
 * Protects what a report says: the check, the kernel, its block and thread, and the file and line
 * of the access or of the wrapper's call.
 */
#include "test_case.h"

#include "faults.h"

/* The line of wrappers.cu that has this text. */
static int line_of(const char *text) {
    FILE *file = fopen(WRAPPERS_SOURCE, "r");
    char line[200];
    int number = 0, found = 0;
    assert_non_null(file);
    while (!found && fgets(line, sizeof line, file)) {
        number++;
        if (strstr(line, text)) found = number;
    }
    fclose(file);
    assert_true(found);
    return found;
}

static void check_report(const struct emulate_report *report, const char *check, const char *text,
                         const char *who) {
    char begin[120];
    snprintf(begin, sizeof begin, "%s: wrappers.cu:%d: ", check, line_of(text));
    if (strncmp(report->text, begin, strlen(begin)) || !strstr(report->text, who))
        fail_msg("expected '%s' and '%s', found '%s'", begin, who, report->text);
}

TEST(a_report_names_the_place) {
    struct emulate_report report = {0};
    uint32_t *in = device_new(1024, "in"), *out = device_new(4 * 512, "out");
    memset(in, 0, 1024);
    emulate_collect(&report);
    wrappers_memory(NULL, in, out, 2, MEMORY_BEYOND_SHARED);
    check_report(&report, "bounds", "room[THREADS] = 1", "memory, block ");
    assert_non_null(strstr(report.text, "thread 5: writes shared+0x200"));
    report = (struct emulate_report){0};
    wrappers_together(NULL, in, out, TOGETHER_NO_SUCH_BARRIER);
    check_report(&report, "barrier", "gpu_sync_some(", "together, block 0,0, thread ");
    emulate_collect(NULL);
    device_free(in);
    device_free(out);
}
