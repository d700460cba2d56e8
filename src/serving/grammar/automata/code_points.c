/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/grammar/automata/code_points.h"

#include "base/check.h"
#include "serving/grammar/automata/automaton_builder.h"

enum status code_points_add(struct code_points *set, uint32_t first, uint32_t last) {
    enum status status = automaton_builder_room(set->work, set->work->scratch, &set->ranges,
                                                set->count, &set->capacity, sizeof *set->ranges);
    if (!status) set->ranges[set->count++] = (struct code_range){first, last};
    return status;
}

enum status code_points_add_all(struct code_points *set, const struct code_range *ranges,
                                size_t count) {
    enum status status = STATUS_OK;
    for (size_t i = 0; !status && i < count; i++)
        status = code_points_add(set, ranges[i].first, ranges[i].last);
    return status;
}

void code_points_order(struct code_points *set) {
    uint32_t kept = 0;
    automaton_builder_sort((uint32_t *)set->ranges, set->count, 2);
    for (size_t i = 0; i < set->count; i++) {
        struct code_range range = set->ranges[i];
        if (kept && range.first <= set->ranges[kept - 1].last + 1) {
            if (range.last > set->ranges[kept - 1].last) set->ranges[kept - 1].last = range.last;
        } else {
            set->ranges[kept++] = range;
        }
    }
    set->count = kept;
}

enum status code_points_complement(struct code_points *set, uint32_t from) {
    uint32_t next = 0;
    uint32_t kept = from;
    for (size_t i = from; i < set->count; i++) {
        struct code_range range = set->ranges[i];
        if (range.first > next) set->ranges[kept++] = (struct code_range){next, range.first - 1};
        next = range.last + 1;
    }
    set->count = kept;
    return next <= CODE_POINT_MAX ? code_points_add(set, next, CODE_POINT_MAX) : STATUS_OK;
}

/* ---- general categories ---- */

/* A group named by one letter has all categories that begin with it. LC is Cased_Letter. */
static const struct {
    const char *name, *long_name;
} categories[UNICODE_CATEGORIES] = {
    {"Lu", "Uppercase_Letter"},    {"Ll", "Lowercase_Letter"},  {"Lt", "Titlecase_Letter"},
    {"Lm", "Modifier_Letter"},     {"Lo", "Other_Letter"},      {"Mn", "Nonspacing_Mark"},
    {"Mc", "Spacing_Mark"},        {"Me", "Enclosing_Mark"},    {"Nd", "Decimal_Number"},
    {"Nl", "Letter_Number"},       {"No", "Other_Number"},      {"Pc", "Connector_Punctuation"},
    {"Pd", "Dash_Punctuation"},    {"Ps", "Open_Punctuation"},  {"Pe", "Close_Punctuation"},
    {"Pi", "Initial_Punctuation"}, {"Pf", "Final_Punctuation"}, {"Po", "Other_Punctuation"},
    {"Sm", "Math_Symbol"},         {"Sc", "Currency_Symbol"},   {"Sk", "Modifier_Symbol"},
    {"So", "Other_Symbol"},        {"Zs", "Space_Separator"},   {"Zl", "Line_Separator"},
    {"Zp", "Paragraph_Separator"}, {"Cc", "Control"},           {"Cf", "Format"},
    {"Cs", "Surrogate"},           {"Co", "Private_Use"},       {"Cn", "Unassigned"},
};

static const struct {
    const char *name, *members; /* a category, or the letter of a group */
} groups[] = {
    {"Letter", "L"},      {"Mark", "M"},   {"Combining_Mark", "M"}, {"Number", "N"},
    {"Punctuation", "P"}, {"punct", "P"},  {"Symbol", "S"},         {"Separator", "Z"},
    {"Other", "C"},       {"digit", "Nd"}, {"cntrl", "Cc"},
};

static uint32_t categories_of(struct bytes name) {
    uint32_t found = 0;
    for (size_t i = 0; i < ARRAY_COUNT(groups); i++)
        if (bytes_equal(name, bytes_of(groups[i].name))) name = bytes_of(groups[i].members);
    for (size_t i = 0; i < ARRAY_COUNT(categories); i++) {
        bool grouped = name.count == 1 && categories[i].name[0] == name.data[0];
        if (grouped || bytes_equal(name, bytes_of(categories[i].name)) ||
            bytes_equal(name, bytes_of(categories[i].long_name)))
            found |= 1u << i;
    }
    bool cased = bytes_equal(name, bytes_of("LC")) || bytes_equal(name, bytes_of("Cased_Letter"));
    return cased ? 7 : found; /* Lu, Ll and Lt */
}

enum status code_points_add_property(struct code_points *set, struct bytes name) {
    if (bytes_equal(name, bytes_of("Any"))) return code_points_add(set, 0, CODE_POINT_MAX);
    if (bytes_equal(name, bytes_of("ASCII"))) return code_points_add(set, 0, 0x7F);
    uint32_t wanted = categories_of(name);
    if (bytes_equal(name, bytes_of("Assigned"))) wanted = (1u << UNICODE_CN) - 1;
    if (!wanted) return STATUS_NOT_FOUND;
    enum status status = STATUS_OK;
    for (uint32_t first = 0, last; !status && first <= CODE_POINT_MAX; first = last + 1)
        if (wanted >> unicode_run(first, &last) & 1) status = code_points_add(set, first, last);
    return status;
}
