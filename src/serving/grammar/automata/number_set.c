/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/grammar/automata/number_set.h"

#include "base/check.h"
#include "serving/grammar/automata/automaton_builder.h"

#define EXPONENT_MAX 400
#define SPELT_DIGITS_MAX 1000

/* ---- decimals ---- */

static bool number_set_is_digit(struct bytes text, size_t at) {
    return at < text.count && text.data[at] >= '0' && text.data[at] <= '9';
}

/* Parses the rest of the text as an optional exponent. */
static enum status read_exponent(struct bytes text, size_t at, int *out) {
    *out = 0;
    if (at == text.count) return STATUS_OK;
    if (text.data[at] != 'e' && text.data[at] != 'E') return STATUS_INVALID;
    at++;
    bool negative = at < text.count && text.data[at] == '-';
    if (negative || (at < text.count && text.data[at] == '+')) at++;
    if (!number_set_is_digit(text, at)) return STATUS_INVALID;
    for (; number_set_is_digit(text, at); at++)
        if (*out <= 100 * EXPONENT_MAX) *out = *out * 10 + (text.data[at] - '0');
    if (negative) *out = -*out;
    return at == text.count ? STATUS_OK : STATUS_INVALID;
}

enum status number_set_decimal_read(struct bytes text, struct decimal *out) {
    struct decimal value = {.negative = text.count && text.data[0] == '-'};
    size_t at = value.negative, spelt = 0, zeros = 0, count = 0, behind_point = 0;
    int exponent = 0;
    bool point = false, fits = true;
    for (; number_set_is_digit(text, at) ||
           (at < text.count && text.data[at] == '.' && !point && spelt);
         at++) {
        if (text.data[at] == '.') {
            point = true;
            continue;
        }
        uint8_t digit = (uint8_t)(text.data[at] - '0');
        spelt++;
        behind_point += point;
        if (digit == 0 && count + zeros == 0) continue;
        zeros++; /* trailing zeros are dropped */
        if (digit == 0) continue;
        fits = fits && count + zeros <= DECIMAL_DIGITS_MAX;
        if (!fits) continue;
        memset(value.digits + count, 0, zeros);
        count += zeros;
        zeros = 0;
        value.digits[count - 1] = digit;
    }
    enum status status = spelt ? read_exponent(text, at, &exponent) : STATUS_INVALID;
    if (status) return status;
    if (!fits || spelt > SPELT_DIGITS_MAX) return STATUS_UNSUPPORTED;
    int scale = (int)behind_point - (int)zeros - exponent;
    if (count == 0) {
        value = (struct decimal){.digit_count = 1};
    } else {
        if (scale > EXPONENT_MAX || scale < -EXPONENT_MAX) return STATUS_UNSUPPORTED;
        value.digit_count = (uint8_t)count;
        value.scale = (int16_t)scale;
    }
    *out = value;
    return STATUS_OK;
}

static bool number_set_is_zero(const struct decimal *value) {
    return value->digits[0] == 0;
}

int number_set_decimal_compare(const struct decimal *a, const struct decimal *b) {
    if (a->negative != b->negative) return a->negative ? -1 : 1;
    int less = a->negative ? 1 : -1;
    if (number_set_is_zero(a) && number_set_is_zero(b)) return 0;
    if (number_set_is_zero(a) || number_set_is_zero(b)) return number_set_is_zero(a) ? less : -less;
    int tens_a = a->digit_count - a->scale, tens_b = b->digit_count - b->scale;
    if (tens_a != tens_b) return tens_a < tens_b ? less : -less;
    for (int i = 0; i < a->digit_count || i < b->digit_count; i++) {
        int digit_a = i < a->digit_count ? a->digits[i] : 0;
        int digit_b = i < b->digit_count ? b->digits[i] : 0;
        if (digit_a != digit_b) return digit_a < digit_b ? less : -less;
    }
    return 0;
}

/* ---- DFAs that compare a number with a bound ---- */

enum { CLASS_MINUS = 10, CLASS_PLUS, CLASS_POINT, CLASS_EXPONENT, CLASS_OTHER, CLASS_COUNT };

/* Labels: how the number in the text compares with the bound. */
enum { LESS = 1, EQUAL = 2, MORE = 3 };

struct number_builder {
    struct automaton_builder dfa;
    enum status status;
};

static enum status builder_open(struct number_builder *builder, struct automaton_work *work) {
    uint8_t classes[256];
    memset(classes, CLASS_OTHER, sizeof classes);
    for (int digit = 0; digit < 10; digit++)
        classes['0' + digit] = (uint8_t)digit;
    classes['-'] = CLASS_MINUS;
    classes['+'] = CLASS_PLUS;
    classes['.'] = CLASS_POINT;
    classes['e'] = classes['E'] = CLASS_EXPONENT;
    builder->status = automaton_builder_open(&builder->dfa, work, classes, CLASS_COUNT);
    return builder->status;
}

/* Adds a state. After a failure, which sets builder->status, returns the dead state. */
static uint32_t add(struct number_builder *builder, uint32_t label) {
    uint32_t state = 0;
    if (!builder->status) builder->status = automaton_builder_add(&builder->dfa, &state);
    if (builder->status) return 0;
    builder->dfa.labels[state] = label;
    return state;
}

static void lead(struct number_builder *builder, uint32_t from, int class, uint32_t to) {
    if (!builder->status) automaton_builder_row(&builder->dfa, from)[class] = to;
}

/* Adds transitions for the digits from `first` to `last`. */
static void lead_digits(struct number_builder *builder, uint32_t from, int first, int last,
                        uint32_t to) {
    for (int digit = first; digit <= last; digit++)
        lead(builder, from, digit, to);
}

/* Adds an accepting state with a loop on all digits. */
static uint32_t add_digits(struct number_builder *builder, uint32_t label) {
    uint32_t state = add(builder, label);
    lead_digits(builder, state, 0, 9, state);
    return state;
}

/* Compares the digits after the point with `digits`, which do not end with 0. Returns the state
 * right after the point, where at least one digit must follow. labels: for less, equal, more. */
static uint32_t add_fraction(struct number_builder *builder, const uint8_t *digits, int count,
                             const uint32_t *labels) {
    uint32_t less = add_digits(builder, labels[0]), more = add_digits(builder, labels[2]);
    uint32_t first = add(builder, 0), at = first;
    for (int i = 0; i < count; i++) {
        uint32_t next = add(builder, i + 1 < count ? labels[0] : labels[1]);
        lead_digits(builder, at, 0, digits[i] - 1, less);
        lead(builder, at, digits[i], next);
        lead_digits(builder, at, digits[i] + 1, 9, more);
        at = next;
    }
    uint32_t zeros = count ? at : add(builder, labels[1]);
    lead_digits(builder, zeros, 1, 9, more);
    lead(builder, zeros, 0, zeros);
    if (!count) {
        lead_digits(builder, at, 1, 9, more);
        lead(builder, at, 0, zeros);
    }
    return first;
}

/* Adds one or more digits after the point that do not affect the comparison. */
static uint32_t add_any_fraction(struct number_builder *builder, uint32_t label) {
    uint32_t first = add(builder, 0);
    lead_digits(builder, first, 0, 9, add_digits(builder, label));
    return first;
}

/* Compares numbers without sign and exponent, read from `start` on, with the magnitude of a decimal
 * other than 0. A state of the integer part stands for the number of digits read and their
 * comparison so far. */
static void number_set_add_plain(struct number_builder *builder, uint32_t start,
                                 const struct decimal *value, const uint32_t *labels) {
    int whole = value->digit_count - value->scale, count = whole > 0 ? whole : 1;
    int behind = value->scale > 0 ? value->scale : 0;
    uint8_t tail[EXPONENT_MAX + DECIMAL_DIGITS_MAX] = {0};
    for (int i = 0; i < behind; i++)
        if (whole + i >= 0) tail[i] = value->digits[whole + i];
    uint32_t points[3] = {add_any_fraction(builder, labels[0]),
                          add_fraction(builder, tail, behind, labels),
                          add_any_fraction(builder, labels[2])};
    uint32_t longer = add_digits(builder, labels[2]), at[3] = {0, start, 0};
    lead(builder, longer, CLASS_POINT, points[2]);
    for (int i = 0; i < count; i++) {
        int digit = whole > 0 && i < value->digit_count ? value->digits[i] : 0;
        bool last = i + 1 == count;
        uint32_t next[3];
        for (int c = 0; c < 3; c++) {
            next[c] = add(builder, labels[!last || (c == 1 && behind) ? 0 : c]);
            lead(builder, next[c], CLASS_POINT, points[last ? c : 0]);
            if (last) lead_digits(builder, next[c], 0, 9, longer);
        }
        for (int c = 0; i && c < 3; c += 2)
            lead_digits(builder, at[c], 0, 9, next[c]);
        lead_digits(builder, at[1], 0, digit - 1, next[0]);
        lead(builder, at[1], digit, next[1]);
        lead_digits(builder, at[1], digit + 1, 9, next[2]);
        memcpy(at, next, sizeof at);
    }
    int zero = whole <= 0; /* 1: the bound is below 1, so the fraction decides after "0" */
    uint32_t naught = add(builder, labels[0]); /* after a leading 0, no digit is allowed */
    lead(builder, naught, CLASS_POINT, points[zero]);
    lead(builder, start, 0, naught);
}

/* Adds an exponent that does not affect the comparison, because the number or the bound is zero. */
static uint32_t add_any_exponent(struct number_builder *builder, uint32_t label) {
    uint32_t first = add(builder, 0), sign = add(builder, 0), digits = add_digits(builder, label);
    lead(builder, first, CLASS_PLUS, sign);
    lead(builder, first, CLASS_MINUS, sign);
    lead_digits(builder, first, 0, 9, digits);
    lead_digits(builder, sign, 0, 9, digits);
    return first;
}

/* Compares numbers without sign, with any exponent, with zero. labels: for zero, more. */
static void add_against_zero(struct number_builder *builder, uint32_t start,
                             const uint32_t *labels) {
    uint32_t whole[2], point[2], tail[2];
    for (int c = 0; c < 2; c++) {
        uint32_t exponent = add_any_exponent(builder, labels[c]);
        whole[c] = add(builder, labels[c]);
        point[c] = add(builder, 0);
        tail[c] = add(builder, labels[c]);
        lead(builder, whole[c], CLASS_POINT, point[c]);
        lead(builder, whole[c], CLASS_EXPONENT, exponent);
        lead(builder, tail[c], CLASS_EXPONENT, exponent);
        lead(builder, point[c], 0, tail[c]);
        lead(builder, tail[c], 0, tail[c]);
    }
    for (int c = 0; c < 2; c++) {
        lead_digits(builder, point[c], 1, 9, tail[1]);
        lead_digits(builder, tail[c], 1, 9, tail[1]);
    }
    lead(builder, start, 0, whole[0]);
    lead_digits(builder, start, 1, 9, whole[1]);
    lead_digits(builder, whole[1], 0, 9, whole[1]);
}

/* Compares an exponent of one or two digits with `tens`; `equal` is the label if they are equal. */
static uint32_t add_exponent(struct number_builder *builder, int tens, uint32_t equal,
                             const uint32_t *labels) {
    const uint32_t ends[3] = {add(builder, labels[0]), add(builder, equal),
                              add(builder, labels[2])};
    uint32_t first = add(builder, 0);
    for (int sign = 1; sign >= -1; sign -= 2) {
        uint32_t signed_first = add(builder, 0);
        lead(builder, first, sign > 0 ? CLASS_PLUS : CLASS_MINUS, signed_first);
        for (int digit = 0; digit < 10; digit++) {
            int value = sign * digit;
            uint32_t one = add(builder, value < tens   ? labels[0]
                                        : value > tens ? labels[2]
                                                       : equal);
            lead(builder, signed_first, digit, one);
            if (sign > 0) lead(builder, first, digit, one);
            for (int second = 0; second < 10; second++) {
                value = sign * (10 * digit + second);
                lead(builder, one, second, ends[value < tens ? 0 : value > tens ? 2 : 1]);
            }
        }
    }
    return first;
}

/* Compares numbers with a mantissa from 1 to 9.99... and an exponent. */
static void add_scientific(struct number_builder *builder, uint32_t start,
                           const struct decimal *value, const uint32_t *labels) {
    static const uint32_t compared[3] = {LESS, EQUAL, MORE};
    int tens = value->digit_count - value->scale - 1;
    uint32_t exponents[4] = {0};
    for (int c = 0; c < 3; c++)
        exponents[compared[c]] = add_exponent(builder, tens, labels[c], labels);
    uint32_t before = builder->dfa.state_count;
    uint32_t points[4] = {
        0, add_any_fraction(builder, LESS),
        add_fraction(builder, value->digits + 1, value->digit_count - 1, compared),
        add_any_fraction(builder, MORE)};
    for (int digit = 1; digit < 10; digit++) {
        int c = digit < value->digits[0] ? LESS : digit > value->digits[0] ? MORE : EQUAL;
        bool below = c == EQUAL && value->digit_count > 1;
        uint32_t whole = add(builder, (uint32_t)(below ? LESS : c));
        lead(builder, start, digit, whole);
        lead(builder, whole, CLASS_POINT, points[c]);
    }
    /* The label is the result of comparing the mantissa with the bound's mantissa. */
    for (uint32_t state = before; !builder->status && state < builder->dfa.state_count; state++) {
        uint32_t *label = &builder->dfa.labels[state];
        if (*label) lead(builder, state, CLASS_EXPONENT, exponents[*label]);
        *label = 0;
    }
}

/* Labels numbers by how they compare with the value. They have an exponent only if `scientific`.
 * Numbers of the other sign, and those compared with 0, may always have one. */
static enum status compare_some(struct automaton_work *work, const struct decimal *value,
                                bool scientific, const struct automaton **out) {
    static const uint32_t labels[2][3] = {{LESS, EQUAL, MORE}, {MORE, EQUAL, LESS}};
    struct number_builder builder;
    enum status status = builder_open(&builder, work);
    if (status) return status;
    uint32_t starts[2] = {add(&builder, 0), add(&builder, 0)};
    lead(&builder, starts[0], CLASS_MINUS, starts[1]);
    builder.dfa.start = starts[0];
    for (int side = 0; side < 2; side++) {
        const uint32_t other = side ? LESS : MORE,
                       against[2] = {number_set_is_zero(value) ? EQUAL : other, other};
        if (number_set_is_zero(value) || side != value->negative)
            add_against_zero(&builder, starts[side], against);
        else if (scientific)
            add_scientific(&builder, starts[side], value, labels[side]);
        else
            number_set_add_plain(&builder, starts[side], value, labels[side]);
    }
    status = builder.status;
    if (!status) status = automaton_builder_finish(&builder.dfa, out);
    arena_clear(work->scratch);
    return status;
}

/* The DFA of the numbers with a nonzero label. new_labels has the labels of numbers less than,
 * equal to and greater than the value. */
static enum status make_bound(struct automaton_work *work, const struct decimal *value,
                              const uint32_t *new_labels, const struct automaton **out) {
    const struct automaton *plain = NULL, *scientific = NULL;
    enum status status = compare_some(work, value, false, &plain);
    if (!status && !number_set_is_zero(value)) {
        status = compare_some(work, value, true, &scientific);
        if (!status) status = automaton_combine(work, AUTOMATON_OR, plain, scientific, &plain);
    }
    return status ? status : automaton_relabel(work, plain, new_labels, out);
}

/* ---- whole numbers and multiples ---- */

/* The DFA of integers: digits after the point are zeros, or an exponent shifts all of them. */
static enum status number_set_make_whole(struct automaton_work *work,
                                         const struct automaton **out) {
    static const char pattern[] =
        "-?(0|[1-9][0-9]*)((\\.0+)?([eE]\\+?[0-9]+)?|[.]"
        "([0-9]0*[eE]\\+?0*([1-9]|[1-9][0-9]+)|[0-9]{2}0*[eE]\\+?0*([2-9]|[1-9][0-9]+)|"
        "[0-9]{3}0*[eE]\\+?0*([3-9]|[1-9][0-9]+)|[0-9]{4}0*[eE]\\+?0*([4-9]|[1-9][0-9]+)|"
        "[0-9]{5}0*[eE]\\+?0*([5-9]|[1-9][0-9]+)|[0-9]{6}0*[eE]\\+?0*([6-9]|[1-9][0-9]+)|"
        "[0-9]{7}0*[eE]\\+?0*([7-9]|[1-9][0-9]+)|[0-9]{8}0*[eE]\\+?0*([89]|[1-9][0-9]+)|"
        "[0-9]{1,9}0*[eE]\\+?0*(9|[1-9][0-9]+)|[0-9]{10,16}0*[eE]\\+?0*(1[6-9]|[2-9][0-9])))";
    return automaton_of_regex(work, BYTES_LITERAL(pattern), out, NULL);
}

static enum status make_any(struct automaton_work *work, const struct automaton **out) {
    static const char pattern[] = "-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?";
    return automaton_of_regex(work, BYTES_LITERAL(pattern), out, NULL);
}

/* Matches multiples of unit * 10^-scale. A state stands for the remainder modulo unit of the digits
 * read so far, and for the number of those after the point. Digits beyond the scale'th must be
 * 0. */
struct remainders {
    struct number_builder builder;
    uint32_t unit, scale;
    /* first states of the integer part [unit], "0" [1], and the fraction [scale + 2][unit] */
    uint32_t whole, naught, behind;
};

static uint32_t accepts_remainder(const struct remainders *remainders, uint64_t rest,
                                  uint32_t digits_left) {
    for (uint32_t i = 0; i < digits_left && rest; i++)
        rest = rest * 10 % remainders->unit;
    return rest == 0;
}

static void add_remainder_states(struct remainders *remainders) {
    struct number_builder *builder = &remainders->builder;
    uint32_t unit = remainders->unit, scale = remainders->scale;
    remainders->whole = builder->dfa.state_count;
    for (uint32_t rest = 0; rest < unit; rest++)
        (void)add(builder, accepts_remainder(remainders, rest, scale));
    remainders->naught = add(builder, 1);
    /* Digits after the point: 0 (does not accept), 1 to scale, more than scale. */
    remainders->behind = builder->dfa.state_count;
    for (uint32_t digits = 0; digits <= scale + 1; digits++)
        for (uint32_t rest = 0; rest < unit; rest++)
            (void)add(builder, digits && accepts_remainder(remainders, rest,
                                                           digits > scale ? 0 : scale - digits));
}

static void add_remainder_steps(struct remainders *remainders, uint32_t start, uint32_t minus) {
    struct number_builder *builder = &remainders->builder;
    uint32_t unit = remainders->unit, scale = remainders->scale;
    lead(builder, start, CLASS_MINUS, minus);
    for (int i = 0; i < 2; i++) {
        lead(builder, i ? minus : start, 0, remainders->naught);
        for (int digit = 1; digit < 10; digit++)
            lead(builder, i ? minus : start, digit, remainders->whole + (uint32_t)digit % unit);
    }
    lead(builder, remainders->naught, CLASS_POINT, remainders->behind);
    for (uint32_t rest = 0; rest < unit; rest++) {
        lead(builder, remainders->whole + rest, CLASS_POINT, remainders->behind + rest);
        for (uint32_t digit = 0; digit < 10; digit++) {
            uint32_t next = (uint32_t)(((uint64_t)rest * 10 + digit) % unit);
            lead(builder, remainders->whole + rest, (int)digit, remainders->whole + next);
            for (uint32_t digits = 0; digits < scale; digits++)
                lead(builder, remainders->behind + digits * unit + rest, (int)digit,
                     remainders->behind + (digits + 1) * unit + next);
        }
        for (uint32_t digits = scale; digits <= scale + 1; digits++)
            lead(builder, remainders->behind + digits * unit + rest, 0,
                 remainders->behind + (scale + 1) * unit + rest);
    }
}

static enum status make_multiples(struct automaton_work *work, const struct decimal *multiple,
                                  const struct automaton **out) {
    struct remainders remainders = {.scale = multiple->scale > 0 ? (uint32_t)multiple->scale : 0};
    uint64_t unit = 0, states = 0;
    for (int i = 0; i < multiple->digit_count - (multiple->scale < 0 ? multiple->scale : 0); i++) {
        unit = unit * 10 + (i < multiple->digit_count ? multiple->digits[i] : 0);
        states = unit * (remainders.scale + 3) + 4;
        if (states > work->states_max) return STATUS_UNSUPPORTED;
    }
    if (unit == 0) return STATUS_UNSUPPORTED;
    remainders.unit = (uint32_t)unit;
    enum status status = builder_open(&remainders.builder, work);
    if (status) return status;
    uint32_t start = add(&remainders.builder, 0), minus = add(&remainders.builder, 0);
    remainders.builder.dfa.start = start;
    add_remainder_states(&remainders);
    add_remainder_steps(&remainders, start, minus);
    status = remainders.builder.status;
    if (!status) status = automaton_builder_finish(&remainders.builder.dfa, out);
    arena_clear(work->scratch);
    return status;
}

/* ---- sets ---- */

static enum status number_set_narrow(struct automaton_work *work, enum status status,
                                     const struct automaton *part, const struct automaton **set) {
    if (status) return status;
    if (*set) return automaton_combine(work, AUTOMATON_AND, *set, part, set);
    *set = part;
    return STATUS_OK;
}

enum status number_set_automaton_of_numbers(struct automaton_work *work,
                                            const struct number_set *set,
                                            const struct automaton **out) {
    const struct automaton *all = NULL, *part = NULL;
    enum status status = STATUS_OK;
    if (set->has_min) {
        const uint32_t labels[3] = {0, !set->min_excluded, 1};
        status = make_bound(work, &set->min, labels, &part);
        status = number_set_narrow(work, status, part, &all);
    }
    if (!status && set->has_max) {
        const uint32_t labels[3] = {1, !set->max_excluded, 0};
        status = make_bound(work, &set->max, labels, &part);
        status = number_set_narrow(work, status, part, &all);
    }
    const struct decimal *multiple = &set->multiple;
    bool by_one = set->has_multiple && multiple->digit_count == 1 && multiple->digits[0] == 1 &&
                  multiple->scale == 0;
    if (!status && set->has_multiple && !by_one) {
        status = make_multiples(work, multiple, &part);
        status = number_set_narrow(work, status, part, &all);
    }
    if (!status && (by_one || (set->whole && !(set->has_multiple && multiple->scale <= 0)))) {
        status = number_set_make_whole(work, &part);
        status = number_set_narrow(work, status, part, &all);
    }
    if (!status && !all) status = make_any(work, &all);
    if (!status) *out = all;
    return status;
}

enum status number_set_automaton_of_number(struct automaton_work *work, const struct decimal *value,
                                           const struct automaton **out) {
    static const uint32_t labels[3] = {0, 1, 0};
    return make_bound(work, value, labels, out);
}

/* ---- spellings ---- */

#define SPELT_FRACTION "(\\.[0-9]+)?"
#define SPELT_LONG "([eE](-[0-9]{1,3}|\\+?([0-9]{1,2}|[12][0-9]{2}|30[0-7])))?"
#define SPELT_SHORT "([eE](-[0-9]{1,3}|\\+?[0-9]{1,2}))?"

/* 308 nines are below the largest double. To stay below it, exponents have at most two digits after
 * a mantissa of more than one integer digit, and are excluded after more than 208 digits. */
enum status number_set_automaton_of_spellings(struct automaton_work *work, bool whole,
                                              const struct automaton **out) {
    static const char pattern[] =
        "-?(0" SPELT_FRACTION SPELT_LONG "|[1-9](" SPELT_FRACTION SPELT_LONG
        "|[0-9]{1,207}" SPELT_FRACTION SPELT_SHORT "|[0-9]{208,307}" SPELT_FRACTION "))";
    if (whole) return automaton_of_regex(work, BYTES_LITERAL("0|-?[1-9][0-9]{0,307}"), out, NULL);
    return automaton_of_regex(work, BYTES_LITERAL(pattern), out, NULL);
}
