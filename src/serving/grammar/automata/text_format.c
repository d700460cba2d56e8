/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/grammar/automata/text_format.h"

#include "base/check.h"
#include "base/format.h"

#define PATTERN_BYTES_MAX 16384

/* RFC 3339, section 5.6. Only dates that exist match, including leap years. */
#define LEAP_YEAR "(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
#define DATE                                                                                       \
    "(?:\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)" \
    "|02-(?:0[1-9]|1\\d|2[0-8]))|" LEAP_YEAR "-02-29)"
#define HOUR "(?:[01]\\d|2[0-3])"
#define FRACTION "(?:\\.\\d+)?"
#define TIME HOUR ":[0-5]\\d:[0-5]\\d" FRACTION "(?:[zZ]|[+-]" HOUR ":[0-5]\\d)"

/* RFC 3339, appendix A. */
#define DURATION_TIME "T(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)?|\\d+S)"
#define DURATION_DATE "(?:\\d+Y(?:\\d+M(?:\\d+D)?)?|\\d+M(?:\\d+D)?|\\d+D)"
#define DURATION "P(?:\\d+W|" DURATION_TIME "|" DURATION_DATE "(?:" DURATION_TIME ")?)"

/* RFC 2673 (section 3.2) and RFC 4291 (section 2.2), as RFC 3986 writes them. */
#define OCTET "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define IPV4 OCTET "(?:\\." OCTET "){3}"
#define H16 "[0-9A-Fa-f]{1,4}"
#define LS32 "(?:" H16 ":" H16 "|" IPV4 ")"
#define IPV6                                                                                       \
    "(?:(?:" H16 ":){6}" LS32 "|::(?:" H16 ":){5}" LS32 "|(?:" H16 ")?::(?:" H16 ":){4}" LS32      \
    "|(?:" H16 "(?::" H16 ")?)?::(?:" H16 ":){3}" LS32 "|(?:" H16 "(?::" H16 "){0,2})?::(?:" H16   \
    ":){2}" LS32 "|(?:" H16 "(?::" H16 "){0,3})?::" H16 ":" LS32 "|(?:" H16 "(?::" H16             \
    "){0,4})?::" LS32 "|(?:" H16 "(?::" H16 "){0,5})?::" H16 "|(?:" H16 "(?::" H16 "){0,6})?::)"

/* RFC 1123 (section 2.1): labels of at most 63 bytes, 253 in all. Three shapes of names keep the
 * total below the limit and exclude only unusual names: 4 labels, 11 labels of 22 bytes, 31 of 7.
 * Labels xn--... are excluded, because a DFA cannot verify their punycode. */
#define LABEL(most) "(?![xX][nN]--)[A-Za-z0-9](?:[A-Za-z0-9-]{0," most "}[A-Za-z0-9])?"
#define HOSTNAME                                                                                   \
    "(?:" LABEL("61") "(?:\\." LABEL("61") "){0,2}(?:\\." LABEL("59") ")?|" LABEL(                 \
        "20") "(?:\\." LABEL("20") "){0,10}|" LABEL("5") "(?:\\." LABEL("5") "){0,30})"

/* RFC 5321, section 4.1.2. */
#define ATOM_BYTES "A-Za-z0-9!#$%&'*+/=?^_`{|}~\\-"
#define MAIL_LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define MAIL_LITERAL "|\\[(?:" IPV4 "|IPv6:" IPV6 ")\\]"
#define QUOTED "\"(?:[ !#-\\[\\]-~]|\\\\[ -~])*\""
#define EMAIL(literal)                                                                             \
    "(?:[" ATOM_BYTES "]+(?:\\.[" ATOM_BYTES "]+)*|" QUOTED ")@(?:" MAIL_LABEL "(?:\\." MAIL_LABEL \
    ")*" literal ")"
/* RFC 6531, section 3.3. Of the non-ASCII labels (RFC 5890), only those of ideographs, Hangul
 * syllables and kana match, because the rules for them do not depend on neighbouring characters. */
#define WIDE "\\u{80}-\\u{10FFFF}"
#define WIDE_LABEL "[\\u3041-\\u3096\\u30A1-\\u30FA\\u4E00-\\u9FFF\\uAC00-\\uD7A3]{1,14}"
#define IDN_LABEL "(?:" MAIL_LABEL "|" WIDE_LABEL ")"
#define IDN_EMAIL(literal)                                                                         \
    "(?:[" ATOM_BYTES WIDE "]+(?:\\.[" ATOM_BYTES WIDE "]+)*|\"(?:[ !#-\\[\\]-~" WIDE              \
    "]|\\\\[ -~])*\")@(?:" IDN_LABEL "(?:\\." IDN_LABEL ")*" literal ")"

/* RFC 3986, appendix A, and RFC 3987, section 2.2. `more` and `private` are the additional
 * characters of IRIs. */
#define PERCENT "%[0-9A-Fa-f]{2}"
#define PLAIN "A-Za-z0-9._~!$&'()*+,;="
#define SCHEME "[A-Za-z][A-Za-z0-9+.-]*"
#define IP_LITERAL "\\[(?:" IPV6 "|[vV][0-9A-Fa-f]+\\.[" PLAIN ":-]+)\\]|"
#define AUTHORITY(literal, more)                                                                   \
    "(?:(?:[" PLAIN more ":-]|" PERCENT ")*@)?(?:" literal "(?:[" PLAIN more "-]|" PERCENT         \
    ")*)(?::\\d*)?"
#define SEGMENT(more) "(?:[" PLAIN more ":@-]|" PERCENT ")"
#define PATH(more) "(?:/" SEGMENT(more) "*)*"
#define ABSOLUTE(more) "/(?:" SEGMENT(more) "+" PATH(more) ")?"
#define TAIL(more, private)                                                                        \
    "(?:\\?(?:[" PLAIN more private ":@/?-]|" PERCENT ")*)?(?:#(?:[" PLAIN more ":@/?-]|" PERCENT  \
                                    ")*)?"
#define URI(literal, more, private)                                                                \
    SCHEME ":(?://" AUTHORITY(literal, more)                                                       \
        PATH(more) "|" ABSOLUTE(more) "|" SEGMENT(more) "+" PATH(more) "|)" TAIL(more, private)
#define RELATIVE(literal, more, private)                                                           \
    "(?://" AUTHORITY(literal, more)                                                               \
        PATH(more) "|" ABSOLUTE(more) "|(?:[" PLAIN more "@-]|" PERCENT                            \
                                      ")+" PATH(more) "|)" TAIL(more, private)
#define UCS                                                                                        \
    "\\u00A0-\\uD7FF\\uF900-\\uFDCF\\uFDF0-\\uFFEF\\u{10000}-\\u{1FFFD}\\u{20000}-\\u{2FFFD}"      \
    "\\u{30000}-\\u{3FFFD}\\u{40000}-\\u{4FFFD}\\u{50000}-\\u{5FFFD}\\u{60000}-\\u{6FFFD}"         \
    "\\u{70000}-\\u{7FFFD}\\u{80000}-\\u{8FFFD}\\u{90000}-\\u{9FFFD}\\u{A0000}-\\u{AFFFD}"         \
    "\\u{B0000}-\\u{BFFFD}\\u{C0000}-\\u{CFFFD}\\u{D0000}-\\u{DFFFD}\\u{E1000}-\\u{EFFFD}"
#define PRIVATE "\\uE000-\\uF8FF\\u{F0000}-\\u{FFFFD}\\u{100000}-\\u{10FFFD}"

/* RFC 6570, section 2, with the erratum about the apostrophe. */
#define TEMPLATE_LITERAL "(?:[!#$&'()*+,./0-9:;=?@A-Z\\[\\]_a-z~" UCS PRIVATE "-]|" PERCENT ")"
#define TEMPLATE_NAME "(?:\\w|" PERCENT ")(?:\\.?(?:\\w|" PERCENT "))*(?::[1-9]\\d{0,3}|\\*)?"
#define TEMPLATE                                                                                   \
    "(?:" TEMPLATE_LITERAL "|\\{[+#./;?&]?" TEMPLATE_NAME "(?:," TEMPLATE_NAME ")*\\})*"

#define POINTER "(?:/(?:[^/~]|~[01])*)*" /* RFC 6901, section 3 */

static const struct {
    const char *name, *pattern; /* NULL: not supported */
    const char *time;           /* a time without leap seconds that follows; NULL: none */
    const char *brief;          /* fewer states, without IP-literal hosts; NULL: same as pattern */
} formats[] = {
    {"date-time", DATE "[tT]", TIME, NULL},
    {"time", "", TIME, NULL},
    {"date", DATE, NULL, NULL},
    {"duration", DURATION, NULL, NULL},
    {"email", EMAIL(MAIL_LITERAL), NULL, EMAIL("")},
    {"idn-email", IDN_EMAIL(MAIL_LITERAL), NULL, IDN_EMAIL("")},
    {"hostname", HOSTNAME, NULL, NULL},
    {"idn-hostname", NULL, NULL, NULL},
    {"ipv4", IPV4, NULL, NULL},
    {"ipv6", IPV6, NULL, NULL},
    {"uri", URI(IP_LITERAL, "", ""), NULL, URI("", "", "")},
    {"uri-reference", URI(IP_LITERAL, "", "") "|" RELATIVE(IP_LITERAL, "", ""), NULL,
     URI("", "", "") "|" RELATIVE("", "", "")},
    {"iri", URI(IP_LITERAL, UCS, PRIVATE), NULL, URI("", UCS, PRIVATE)},
    {"iri-reference", URI(IP_LITERAL, UCS, PRIVATE) "|" RELATIVE(IP_LITERAL, UCS, PRIVATE), NULL,
     URI("", UCS, PRIVATE) "|" RELATIVE("", UCS, PRIVATE)},
    {"uri-template", TEMPLATE, NULL, NULL},
    {"uuid", "[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}", NULL,
     NULL}, /* RFC 4122, section 3 */
    {"json-pointer", POINTER, NULL, NULL},
    /* draft-handrews-relative-json-pointer-01, section 3 */
    {"relative-json-pointer", "(?:0|[1-9]\\d*)(?:#|" POINTER ")", NULL, NULL},
    {"regex", NULL, NULL, NULL},
};

static size_t find(struct bytes name) {
    size_t i = 0;
    while (i < ARRAY_COUNT(formats) && !bytes_equal(name, bytes_of(formats[i].name)))
        i++;
    return i;
}

enum text_format text_format_find(struct bytes name) {
    size_t i = find(name);
    if (i == ARRAY_COUNT(formats)) return TEXT_FORMAT_UNKNOWN;
    return formats[i].pattern ? TEXT_FORMAT_SUPPORTED : TEXT_FORMAT_UNSUPPORTED;
}

bool text_format_is_incomplete(struct bytes name, bool brief) {
    size_t i = find(name);
    return bytes_equal(name, BYTES_LITERAL("hostname")) ||
           bytes_equal(name, BYTES_LITERAL("idn-email")) ||
           (brief && i < ARRAY_COUNT(formats) && formats[i].brief);
}

/* Leap seconds end a UTC day. Writes the local times of that moment in the zones at multiples of 15
 * minutes from UTC, as alternatives. Each time has two possible offsets. */
static size_t write_leap_seconds(char *out, size_t capacity) {
    size_t count = 0;
    for (int quarter = 0; quarter < 96; quarter++) {
        int local = 15 * quarter + 14, ahead = (local + 1) % 1440, behind = 1439 - local;
        count += format_text(out + count, capacity - count,
                             "%s%02d:%02d:60" FRACTION "(?:\\+%02d:%02d|-%02d:%02d%s)",
                             quarter ? "|" : "", local / 60, local % 60, ahead / 60, ahead % 60,
                             behind / 60, behind % 60, behind ? "" : "|[zZ]");
    }
    return count;
}

enum status text_format_automaton_of_format(struct automaton_work *work, struct bytes name,
                                            bool brief, const struct automaton **out) {
    size_t i = find(name), count = 0;
    check(i < ARRAY_COUNT(formats) && formats[i].pattern);
    char pattern[PATTERN_BYTES_MAX];
    bool is_brief = brief && formats[i].brief;
    count = format_text(pattern, PATTERN_BYTES_MAX, "^(?:%s",
                        is_brief ? formats[i].brief : formats[i].pattern);
    if (formats[i].time) {
        count += format_text(pattern + count, PATTERN_BYTES_MAX - count, "(?:%s|", formats[i].time);
        count += write_leap_seconds(pattern + count, PATTERN_BYTES_MAX - count);
        count += format_text(pattern + count, PATTERN_BYTES_MAX - count, ")");
    }
    count += format_text(pattern + count, PATTERN_BYTES_MAX - count, ")$");
    check(count < PATTERN_BYTES_MAX - 1);
    return automaton_of_pattern(work, (struct bytes){pattern, count}, out, NULL);
}
