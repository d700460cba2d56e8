/* SPDX-License-Identifier: Apache-2.0
 * Accounts' files: whatever the text, it is read as a valid record or refused with a message that
 * names the file.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "contract/machine.h"
#include "contract/record_client.h"
#include "contract/record_ledger.h"
#include "host/ledger/accounts_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint8_t secret[SHA256_BYTES] = {1};
    struct record_accounts *record = NULL;
    struct error error = {0};
    struct bytes text = {(const char *)data, size};
    enum status status = accounts_file_parse(text, "f.yaml", secret, &record, &error);
    if (status)
        check(!record && !strncmp(error.text, "f.yaml", 6));
    else
        check(record_valid(record, record->record.bytes));
    free(record);
    return 0;
}
