/* SPDX-License-Identifier: Apache-2.0
 * Conversion of records from and to the previous version, for peers of the previous release: a
 * fleet is upgraded one process at a time. The wire (host/wire) converts records that it receives
 * and sends, so machines use only the current version.
 *
 * A new version may change a record between gateways and units only as follows, so that the
 * previous version can still be served:
 *
 *   - A field is added to the fixed struct, at any place. It is zero in records from the previous
 *     version, so zero must mean the previous behaviour.
 *   - An element of a tail grows at its end, with the same rule.
 *   - A tail is added after the others, and its count is an added field.
 *   - A kind is added at the end of enum record_kind. It is not sent to peers that lack it.
 *
 * A new value of an existing field is not covered: it must not be sent to a peer of the previous
 * version. A commit that raises RECORD_VERSION replaces the contents of `record_past` with the new
 * differences, and freezes the former version in tests/contract/test_record_past.c.
 */
#pragma once

#include "contract/record.h"

#define RECORD_PAST_GAPS 4

struct record_gap { /* added fields of the fixed struct */
    uint16_t offset, bytes;
};

struct record_past_form { /* a kind that has changed */
    uint16_t kind;
    uint16_t tails_added;                     /* number of added tails, the last ones */
    struct record_gap gaps[RECORD_PAST_GAPS]; /* ascending; unused ones last */
    uint16_t element_bytes[RECORD_TAILS_MAX]; /* former size of a tail's element; 0: unchanged */
};

struct record_past {
    uint16_t version;
    uint16_t kind_count;                  /* kinds from this number on are new */
    const struct record_past_form *forms; /* [form_count] other kinds are unchanged */
    uint32_t form_count;
};

/* The differences between RECORD_VERSION - 1 and RECORD_VERSION. */
extern const struct record_past record_past;

/* Converts a record of the previous version to the current one. `bytes` is untrusted. Writes to
 * `out` (aligned to 8, `room` bytes) and returns the number of bytes, or 0 if the input is no
 * record or `out` is too small. The caller must check the result with record_valid. */
size_t record_past_from_past(const struct record_past *past, const void *bytes, size_t count,
                             void *out, size_t room);

/* Converts a valid record to the previous version and returns its size. Returns 0 if that
 * version has no such kind (do not send it), or if `out` is too small; `room` >= record->bytes
 * is enough. */
size_t record_past_to_past(const struct record_past *past, const struct record *record, void *out,
                           size_t room);
