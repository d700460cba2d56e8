/* SPDX-License-Identifier: Apache-2.0
 * The vocabulary of a tokenizer.json, from which folded ids are made. Whatever the file is: an
 * error that names it, or an id below their number for each token.
 */
#include <string.h>

#include "base/check.h"
#include "compute/weights/engram_fold.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define VOCAB 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct engram_fold fold;
    struct error error = {""};
    const struct bytes text = {(const char *)data, size};
    if (engram_fold_read(text, "f.json", VOCAB, &fold, &error)) {
        check(!strncmp(error.text, "f.json:", 7));
        return 0;
    }
    check(fold.folded > 0 && fold.folded <= VOCAB);
    for (uint32_t i = 0; i < VOCAB; i++)
        check(fold.ids[i] < fold.folded);
    engram_fold_close(&fold);
    return 0;
}
