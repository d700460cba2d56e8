/* SPDX-License-Identifier: Apache-2.0
 * The methods of values other than texts, and the lookup of all methods. Methods that would change
 * a list or dict are listed, because Jinja's sandbox hides them.
 */
#include "base/check.h"
#include "serving/jinja/values/routine.h"
#include "serving/jinja/values/text_methods.h"

#define UNSAFE(type, method)                                                                       \
    {                                                                                              \
        .name = method, .unsafe = true,                                                            \
        .refused = "access to attribute '" method "' of '" type "' object is unsafe."              \
    }

static bool dict_get(struct jinja_machine *machine, const struct call *call, struct value *out) {
    struct value *found = NULL;
    if (!value_dict_find(machine, call->subject.dict, &call->arguments[0], &found)) return false;
    *out = found ? *found : routine_given(call, 1) ? call->arguments[1] : value_none();
    return true;
}

/* keys, values, items */
static bool dict_view(struct jinja_machine *machine, const struct call *call, struct value *out) {
    (void)machine;
    char name = call->routine->name[0];
    *out = (struct value){.kind = VALUE_VIEW,
                          .detail = name == 'k'   ? VALUE_VIEW_KEYS
                                    : name == 'v' ? VALUE_VIEW_VALUES
                                                  : VALUE_VIEW_ITEMS,
                          .dict = call->subject.dict};
    return true;
}

#define REFUSED(method)                                                                            \
    { .name = method, .refused = "the method " method "() is not supported" }

static const struct routine list_rows[] = {
    REFUSED("index"),          REFUSED("count"),        REFUSED("copy"),
    UNSAFE("list", "append"),  UNSAFE("list", "clear"), UNSAFE("list", "extend"),
    UNSAFE("list", "insert"),  UNSAFE("list", "pop"),   UNSAFE("list", "remove"),
    UNSAFE("list", "reverse"), UNSAFE("list", "sort")};

#define TUPLE_ROWS 2 /* the first rows of the list's methods */

static const struct routine dict_rows[] = {
    {.name = "get",
     .run = dict_get,
     .parameters = {"key", "default"},
     .required = 1,
     .nameless = true},
    {.name = "items", .run = dict_view},
    {.name = "keys", .run = dict_view},
    {.name = "values", .run = dict_view},
    REFUSED("copy"),
    REFUSED("fromkeys"),
    UNSAFE("dict", "clear"),
    UNSAFE("dict", "pop"),
    UNSAFE("dict", "popitem"),
    UNSAFE("dict", "setdefault"),
    UNSAFE("dict", "update"),
};

const struct routine *methods_find(enum value_kind kind, struct bytes name) {
    switch (kind) {
    case VALUE_TEXT:
        return text_methods_find(name);
    case VALUE_LIST:
        return routine_find(list_rows, ARRAY_COUNT(list_rows), name);
    case VALUE_TUPLE:
        return routine_find(list_rows, TUPLE_ROWS, name);
    case VALUE_DICT:
        return routine_find(dict_rows, ARRAY_COUNT(dict_rows), name);
    default:
        return NULL;
    }
}
