/* SPDX-License-Identifier: Apache-2.0
 * What libcyaml says of a text that it does not take: only its log tells, so the log is caught. The
 * first two things it complains of: what is wrong, and where ("in mapping field …", with the line).
 */
#ifndef HOST_YAML_COMPLAINT_H
#define HOST_YAML_COMPLAINT_H

#include <cyaml/cyaml.h>

struct yaml_complaint {
    char what[160];
    char where[96]; /* with a blank in front; or empty */
};

/* A cyaml_log_fn_t for CYAML_LOG_ERROR; its context is a zeroed struct yaml_complaint. */
void yaml_complaint_keep(cyaml_log_t level, void *context, const char *format, va_list arguments);

#endif
