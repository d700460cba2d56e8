/* SPDX-License-Identifier: Apache-2.0 */
#include "host/fleet/launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"

void launcher_tag(const char *fleet, char tag_out[FLEET_TAG_DIGITS + 1]) {
    uint8_t digest[SHA256_BYTES];
    sha256_digest(fleet, strlen(fleet), digest);
    for (int i = 0; i < FLEET_TAG_DIGITS / 2; i++)
        snprintf(tag_out + 2 * i, 3, "%02x", digest[i]);
}

uint32_t launcher_number(const char *tag, const char *instance) {
    if (strlen(instance) != 2 * FLEET_TAG_DIGITS || strncmp(instance, tag, FLEET_TAG_DIGITS))
        return 0;
    return (uint32_t)strtoul(instance + FLEET_TAG_DIGITS, NULL, 16);
}
