/* SPDX-License-Identifier: Apache-2.0
 * Which variable each name of a template means: Jinja's rules of scope, by which it finds the
 * symbols of each frame first (idtracking in Jinja2) and only then looks names up. Filters and
 * tests that do not exist are found here, too.
 */
#pragma once

#include "serving/jinja/parse/jinja_tree.h"

bool jinja_scopes_resolve(struct jinja_machine *machine, struct jinja_program *program) MUST_USE;
