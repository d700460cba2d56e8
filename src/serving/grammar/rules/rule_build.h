/* SPDX-License-Identifier: Apache-2.0
 * From rules in the making to a program: what no finite text fulfils is cut off, small rules that do
 * not recur are put in the place of their calls, each rule that is left becomes an automaton.
 */
#ifndef SERVING_GRAMMAR_RULES_RULE_BUILD_H
#define SERVING_GRAMMAR_RULES_RULE_BUILD_H

#include "serving/grammar/rules/rule_draft.h"

/* The program of the rule `root`. Everything of it lies in `arena`; the values are of `shapes`. What
 * is needed on the way lies in the arenas of the draft's work. STATUS_INVALID: a rule begins with
 * itself, or no text fulfils the root; STATUS_TOO_LARGE; STATUS_NO_MEMORY. Messages name a rule and
 * its line. */
enum status rule_build(struct arena *arena, struct rule_draft *draft, uint32_t root,
                       const struct shape_program *shapes, const struct grammar_program **out,
                       struct error *error) MUST_USE;

#endif
