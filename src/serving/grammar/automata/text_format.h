/* SPDX-License-Identifier: Apache-2.0
 * JSON Schema's formats of strings as automata: date-time, date, time, duration, email, hostname,
 * ipv4, ipv6, uri, uri-reference, uuid, and the others that drafts 4 to 2020-12 define.
 */
#ifndef SERVING_GRAMMAR_AUTOMATA_TEXT_FORMAT_H
#define SERVING_GRAMMAR_AUTOMATA_TEXT_FORMAT_H

#include "serving/grammar/automata/automaton.h"

enum text_format {
    TEXT_FORMAT_SUPPORTED,
    TEXT_FORMAT_UNSUPPORTED, /* a dfa defines it, but no automaton of ours holds it */
    TEXT_FORMAT_UNKNOWN      /* no dfa defines it: it says something to people alone */
};

enum text_format text_format_find(struct bytes name);
/* Whether texts of the format are left out that it has, as its automaton could not hold them
 * all. */
bool text_format_is_incomplete(struct bytes name, bool brief);
/* Makes the automaton of a supported format, with label 1. `brief`: its length is limited
 * (maxLength), so hosts that are IP literals may be left out, which take most states of URIs and
 * mail addresses. */
enum status text_format_automaton_of_format(struct automaton_work *work, struct bytes name,
                                            bool brief, const struct automaton **out) MUST_USE;

#endif
