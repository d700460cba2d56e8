/* SPDX-License-Identifier: Apache-2.0
 * DFAs for JSON Schema's keyword "format": date-time, date, time, duration, email, hostname, ipv4,
 * ipv6, uri, uri-reference, uuid, and the other formats of drafts 4 to 2020-12.
 */
#pragma once

#include "serving/grammar/automata/automaton.h"

enum text_format {
    TEXT_FORMAT_SUPPORTED,
    TEXT_FORMAT_UNSUPPORTED, /* defined by a draft, but not representable here */
    TEXT_FORMAT_UNKNOWN      /* not defined by any draft: an annotation only */
};

enum text_format text_format_find(struct bytes name);
/* True if the format's DFA accepts only a subset of the format. */
bool text_format_is_incomplete(struct bytes name, bool brief);
/* The DFA of a supported format, with label 1. `brief` selects the smaller DFA without IP-literal
 * hosts, which take most of the states of URIs and mail addresses. It is used together with
 * maxLength, which multiplies the states. */
enum status text_format_automaton_of_format(struct automaton_work *work, struct bytes name,
                                            bool brief, const struct automaton **out) MUST_USE;
