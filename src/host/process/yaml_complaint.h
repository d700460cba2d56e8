/* SPDX-License-Identifier: Apache-2.0
 * What libcyaml says of a text that it does not take: only its log tells, so the log is caught. The
 * first two things it complains of: what is wrong, and where ("in mapping field …", with the line).
 */
#ifndef HOST_PROCESS_YAML_COMPLAINT_H
#define HOST_PROCESS_YAML_COMPLAINT_H

#include <cyaml/cyaml.h>

struct yaml_complaint {
    char what[160];
    char where[96]; /* with a blank in front; or empty */
};

/* How texts from outside are read: no aliases, and what is wrong with them goes to `complaint`,
 * which is zeroed and must live as long. */
cyaml_config_t yaml_complaint_settings(struct yaml_complaint *complaint);

#endif
