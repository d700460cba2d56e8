/* SPDX-License-Identifier: Apache-2.0
 * Protects the formats: every one that a draft defines is known, and what it takes is what its RFC
 * takes, as far as text_format.h says.
 */
#include "automata.h"
#include "serving/grammar/automata/text_format.h"

static const struct automaton *format_of(const char *name) {
    const struct automaton *automaton = NULL;
    assert_int_equal(text_format_find(bytes_of(name)), TEXT_FORMAT_SUPPORTED);
    assert_int_equal(
        text_format_automaton_of_format(test_work(), bytes_of(name), false, &automaton), STATUS_OK);
    return automaton;
}

/* `texts` are separated by blanks. */
static void check_texts(const char *name, const char *texts, bool in) {
    const struct automaton *automaton = format_of(name);
    while (*texts) {
        struct bytes text = {texts, strcspn(texts, " ")};
        if (automaton_accepts(automaton, text, NULL) != in)
            fail_msg("%s: %.*s", name, (int)text.count, text.data);
        texts += text.count + (texts[text.count] == ' ');
    }
}

TEST(it_knows_the_formats_of_the_drafts) {
    static const char *const unknown[] = {"int32",        "color", "host-name",
                                          "utc-millisec", "",      "Date"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        assert_int_equal(text_format_find(bytes_of(unknown[i])), TEXT_FORMAT_UNKNOWN);
    assert_int_equal(text_format_find(bytes_of("regex")), TEXT_FORMAT_UNSUPPORTED);
    assert_int_equal(text_format_find(bytes_of("idn-hostname")), TEXT_FORMAT_UNSUPPORTED);
}

static bool day_exists(int year, int month, int day) {
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    if (month < 1 || month > 12 || day < 1) return false;
    return day <= days[month - 1] + (leap && month == 2);
}

TEST(it_knows_every_day_that_exists) {
    const struct automaton *automaton = format_of("date");
    for (int year = 0; year<10000; year += year % 100> 4 && year % 100 < 96 ? 7 : 1)
        for (int month = 0; month < 14; month++)
            for (int day = 0; day < 33; day++) {
                char text[40];
                snprintf(text, sizeof text, "%04d-%02d-%02d", year, month, day);
                if (test_label(automaton, text) != day_exists(year, month, day))
                    fail_msg("%s", text);
            }
}

/* A leap second is at 23:59 of UTC, whatever the offset. */
TEST(it_knows_leap_seconds_by_their_offset) {
    const struct automaton *automaton = format_of("time");
    for (int local = 14; local < 1440; local += 15)
        for (int offset = -1425; offset < 1440; offset += 15) {
            char text[32];
            int minutes = offset < 0 ? -offset : offset;
            snprintf(text, sizeof text, "%02d:%02d:60%c%02d:%02d", local / 60, local % 60,
                     offset < 0 ? '-' : '+', minutes / 60, minutes % 60);
            bool expected = (local - offset + 2880) % 1440 == 1439;
            if (test_label(automaton, text) != expected) fail_msg("%s", text);
        }
}

TEST(it_takes_what_the_rfcs_take) {
    check_texts("date-time",
                "1963-06-19T08:30:06.283185Z 1985-04-12t23:20:50z "
                "1998-12-31T15:59:60.123-08:00 1937-01-01T12:00:27.87+00:20",
                true);
    check_texts("duration", "P4DT12H30M5S P4Y PT0S P2W P1M2D PT1H2M P01D", true);
    check_texts("email",
                "joe.bloggs@example.com te~st@example.com \"joe..bloggs\"@example.com "
                "joe@[127.0.0.1] joe@[IPv6:::1]",
                true);
    check_texts("idn-email", "\xEC\x8B\xA4@\xEC\x8B\xA4.\xED\x85\x8C \xC3\xA9@example.com", true);
    check_texts("hostname", "www.example.com a--b.com 1host a", true);
    check_texts("ipv4", "0.0.0.0 192.168.0.1 255.255.255.255", true);
    check_texts("ipv6", ":: ::1 1:2:3:4:5:6:7:8 1::d6:192.168.0.1 d6:: 1:d6::42", true);
    check_texts("uri",
                "http://foo.bar/?q=Test%20URL#a mailto:a@b urn:a:b ldap://[2001:db8::7]/c "
                "file:/etc/hosts http://[V1.fe]",
                true);
    check_texts("uri-reference", "abc /abc #f //a/b ?q=1 ./this:that http://a", true);
    check_texts("iri", "http://\xC6\x92.\xC3\x9F/?\xE2\x88\x82#\xCF\x80", true);
    check_texts("iri-reference", "\xC3\xA2 #\xC3\xA4", true);
    check_texts("uri-template", "a/{term:1}/{term} {+var} {x,y*} {%41} a'b", true);
    check_texts("uuid", "2EB8AA08-aa98-11EA-b4aa-73B441D16380", true);
    check_texts("json-pointer", "/foo/bar~0/baz~1/%a / //", true);
    check_texts("relative-json-pointer", "0# 1 2/0/baz 120/foo", true);
}

TEST(it_takes_nothing_else) {
    check_texts("date-time",
                "1998-12-31T23:58:60Z 1990-02-31T15:59:59Z 1990-12-31T24:00:00Z "
                "2013-350T01:01:01 1963-06-19 1985-04-12T23:20:50+01",
                false);
    check_texts("time", "12:00:00 24:00:00Z 22:59:60Z 01:02:03+24:00 8:30:06Z", false);
    check_texts("duration", "P PT P1YT P1Y2D PT1H2S P2S P1Y2W PT0.5S", false);
    check_texts("email", "2962 .a@b a.@b a..b@c a@b@c @b a@ a@[127.0.0.300] a@b=c", false);
    check_texts("hostname", "-a a- a..b .a a. a_b xn--x", false);
    check_texts("ipv4", "256.0.0.1 1.2.3 1.2.3.4.5 01.2.3.4 1.2.3.", false);
    check_texts("ipv6", "12345:: 1::2::3 1:2:3:4:5:6:7 ::1%eth 1:2:3:4:5:6:7:8:9 :1", false);
    check_texts("uri", "/abc abc //a http://a:b/c http://a/%6G http://a/^ 1a:b http:/[::1]", false);
    check_texts("uri-reference", "\\a #a\\b /%zz 1:b //a@b@c", false);
    check_texts("iri", "/abc http://2001:0db8:85a3::7334", false);
    check_texts("uri-template", "{} {a {a,,b} {v:0} {v:10000} a}", false);
    check_texts("uuid", "2eb8aa08-aa98-11ea-b4aa-73b441d1638 2eb8aa08aa9811eab4aa73b441d16380",
                false);
    check_texts("json-pointer", "a #/a /~ /~2", false);
    check_texts("relative-json-pointer", "01 -1 /a 0## 1#/a", false);
}

TEST(a_brief_format_leaves_out_ip_literals_alone) {
    static const struct {
        const char *name, *in, *out;
    } cases[] = {
        {"uri", "http://1.2.3.4:80/a?b#c", "http://[::1]/"},
        {"uri-reference", "//a@b/c", "//[::1]/"},
        {"iri", "http://\xC6\x92.\xC3\x9F/", "http://[::1]/"},
        {"iri-reference", "\xC3\xA2", "//[::1]"},
        {"email", "a.b@c.de", "a@[127.0.0.1]"},
        {"idn-email", "a@\xEC\x8B\xA4.kr", "a@[127.0.0.1]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct automaton *automaton = format_of(cases[i].name); /* gone with the next one */
        uint32_t whole_count = automaton->state_count;
        assert_true(automaton_accepts(automaton, bytes_of(cases[i].in), NULL));
        assert_true(automaton_accepts(automaton, bytes_of(cases[i].out), NULL));
        assert_int_equal(
            text_format_automaton_of_format(test_work(), bytes_of(cases[i].name), true, &automaton),
            STATUS_OK);
        assert_true(automaton_accepts(automaton, bytes_of(cases[i].in), NULL));
        assert_false(automaton_accepts(automaton, bytes_of(cases[i].out), NULL));
        assert_true(automaton->state_count < whole_count);
    }
}

TEST(it_counts_the_bytes_of_host_names) {
    const struct automaton *automaton = format_of("hostname");
    char label[65];
    memset(label, 'a', 64);
    label[63] = '\0';
    assert_int_equal(test_label(automaton, label), 1);
    memcpy(label + 63, "a", 2);
    assert_int_equal(test_label(automaton, label), 0);
    /* The longest of its shapes do not pass 253 bytes. */
    uint32_t state_now = automaton->start;
    for (int i = 0; i < 254; i++) {
        uint32_t letter = automaton_step(automaton, state_now, 'a');
        state_now = letter ? letter : automaton_step(automaton, state_now, '.');
    }
    assert_int_equal(state_now, 0);
}
