/* SPDX-License-Identifier: Apache-2.0
 * Records of the previous version, for peers of the previous release: a fleet is upgraded one
 * process at a time. The wire (host/wire) translates them on receipt and on sending, so machines
 * know only the present form.
 *
 * What a version may change of a record that goes between gateways and units, for the one before to be
 * understood:
 *
 *   - fields are added to the fixed struct, at its end or between others; where a record comes without
 *     them they are zero, so zero has to mean what was meant before;
 *   - an element of a tail grows at its end, likewise;
 *   - tails are added behind the others, with their counts among the fields that are added;
 *   - kinds are added at the end of enum record_kind. They are not sent to who does not know them.
 *
 * A new value of a field that was there is no such change: it must not be said to a process of the
 * version before. Who raises RECORD_VERSION writes what has changed into `record_past`, in the place of
 * what was there, and freezes the former version in tests/contract/test_record_past.c.
 */
#ifndef CONTRACT_RECORD_PAST_H
#define CONTRACT_RECORD_PAST_H

#include "contract/record.h"

#define RECORD_PAST_GAPS 4

struct record_gap { /* fields of the fixed struct that were not there */
    uint16_t offset, bytes;
};

struct record_past_form { /* of a kind that has changed */
    uint16_t kind;
    uint16_t tails_added;                     /* so many of the last ones were not there */
    struct record_gap gaps[RECORD_PAST_GAPS]; /* ascending; those without bytes come last */
    uint16_t element_bytes[RECORD_TAILS_MAX]; /* of a tail's element then; 0: as now */
};

struct record_past {
    uint16_t version;
    uint16_t kind_count;                  /* kinds from here on were not there */
    const struct record_past_form *forms; /* [form_count] others are as they were */
    uint32_t form_count;
};

/* RECORD_VERSION - 1. */
extern const struct record_past record_past;

/* Writes the present form of a record of that version, of `count` bytes, which may be anything, into
 * `out` (aligned to 8, `room` bytes). Returns its bytes; 0: it is none, or there is no room. The caller
 * asks record_valid what it holds. */
size_t record_past_from_past(const struct record_past *past, const void *bytes, size_t count,
                             void *out, size_t room);

/* Writes a valid record in the form of that version. Returns its bytes. Returns 0 if that version
 * has no such record (do not send it) or there is no room, which `room` >= its bytes excludes. */
size_t record_past_to_past(const struct record_past *past, const struct record *record, void *out,
                           size_t room);

#endif
