/* SPDX-License-Identifier: Apache-2.0
 * What a form was compiled to (form.h), before a vocabulary is known. It never changes, so that
 * threads may share it.
 */
#ifndef SERVING_GRAMMAR_GRAMMAR_PROGRAM_H
#define SERVING_GRAMMAR_GRAMMAR_PROGRAM_H

#include "serving/grammar/value_shape.h"

struct grammar_program {
    const struct shape_program *shapes;
};

#endif
