/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/yaml_complaint.h"

#include <string.h>

#include "base/format.h"

static void keep(cyaml_log_t level, void *context, const char *format, va_list arguments) {
    struct yaml_complaint *complaint = context;
    char line[160];
    (void)level;
    size_t count = format_va(line, sizeof line, format, arguments);
    if (count && line[count - 1] == '\n') line[count - 1] = '\0';
    if (!strncmp(line, "Load: Backtrace", 15)) return;
    if (!strncmp(line, "  in ", 5) && !complaint->where[0])
        format_text(complaint->where, sizeof complaint->where, " %.90s", line + 2);
    else if (!strncmp(line, "Load: ", 6) && !complaint->what[0])
        format_text(complaint->what, sizeof complaint->what, "%s", line + 6);
}

cyaml_config_t yaml_complaint_settings(struct yaml_complaint *complaint) {
    return (cyaml_config_t){.log_fn = keep,
                            .log_ctx = complaint,
                            .log_level = CYAML_LOG_ERROR,
                            .mem_fn = cyaml_mem,
                            .flags = CYAML_CFG_NO_ALIAS};
}
