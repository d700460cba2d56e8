/* SPDX-License-Identifier: Apache-2.0
 * From a regular expression's tree to the automaton of the texts that it matches as a whole.
 */
#ifndef SERVING_GRAMMAR_AUTOMATA_REGEX_AUTOMATON_H
#define SERVING_GRAMMAR_AUTOMATA_REGEX_AUTOMATON_H

#include "serving/grammar/automata/automaton.h"
#include "serving/grammar/automata/regex_tree.h"

/* Makes the automaton of the part below `node`. STATUS_TOO_LARGE, STATUS_NO_MEMORY. */
enum status regex_automaton_make(struct automaton_work *work, const struct regex *regex,
                                 uint32_t node, const struct automaton **out) MUST_USE;

#endif
