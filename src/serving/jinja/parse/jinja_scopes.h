/* SPDX-License-Identifier: Apache-2.0
 * Name resolution by Jinja's scope rules: it first collects the symbols of each frame (idtracking
 * in Jinja2) and then binds each name to a variable. It also reports unknown filters and tests.
 */
#pragma once

#include "serving/jinja/parse/jinja_tree.h"

bool jinja_scopes_resolve(struct jinja_machine *machine, struct jinja_program *program) MUST_USE;
