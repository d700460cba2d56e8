/* SPDX-License-Identifier: Apache-2.0 */
#include "programs/wire_options.h"

#include <stdio.h>

#include "host/process/log/log.h"

/* A gateway listens on one address. A unit may connect to several gateways. */
static enum status check_addresses(const struct wire_values *values, bool listens,
                                   struct error *error) {
    char text[256];
    struct bytes rest = bytes_of(values->address), address;
    enum status status = STATUS_OK;
    if (listens)
        return wire_keys_check_address(values->address, values->key != NULL, values->plain, error);
    while (!status && wire_next_address(&rest, &address)) {
        snprintf(text, sizeof text, "%.*s", (int)address.count, address.data);
        status = wire_keys_check_address(text, values->key != NULL, values->plain, error);
    }
    return status;
}

enum status wire_options_read(struct wire_values *values, bool listens,
                              struct wire_options *options, struct error *error) {
    options->address = values->address;
    options->plain_anywhere = values->plain;
    if (values->plain && (values->key || values->peers))
        return error_set(error, STATUS_INVALID, "--wire-plain and keys are mutually exclusive");
    if (!values->key != !values->peers)
        return error_set(error, STATUS_INVALID, "--wire-key and %s need each other",
                         listens ? "--wire-allow" : "--wire-gateway");
    if (values->key) {
        enum status status = wire_keys_open(values->key, listens ? values->peers : NULL,
                                            listens ? NULL : values->peers, &values->keys, error);
        if (status) return status;
        options->keys = &values->keys;
    }
    enum status status = check_addresses(values, listens, error);
    if (!status && values->plain)
        log_say(LOG_WARNING, "wire", "is open to anyone who reaches it (--wire-plain) address=%s",
                values->address);
    return status;
}

void wire_options_close(struct wire_values *values) {
    wire_keys_close(&values->keys);
}
