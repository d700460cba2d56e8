/* SPDX-License-Identifier: Apache-2.0
 * Protects people who browse the web while a server runs on their machine: a page of another site
 * reaches nothing, however its name or its Origin is spelled.
 */
#include "host/http/host_allowlist.h"

#include "base/check.h"
#include "test_case.h"

static const struct host_allowlist local = {.is_local = true};

static struct bytes value(const char *text) {
    return text ? bytes_of(text) : (struct bytes){NULL, 0};
}

static void expect(const struct host_allowlist *rules, const char *host, const char *origin,
                   enum allow_verdict verdict) {
    if (host_allowlist_verify(rules, value(host), value(origin)) != verdict)
        fail_msg("Host '%s', Origin '%s': not %d", host ? host : "(none)",
                 origin ? origin : "(none)", (int)verdict);
}

TEST(only_this_machines_names_reach_a_local_listener) {
    static const char *const good[] = {"localhost",  "LocalHost:8000",  "127.0.0.1:8000",
                                       "127.0.0.1",  "127.255.3.4:1",   "[::1]",
                                       "[::1]:8000", "localhost:65535", "localhost:"};
    static const char *const bad[] = {"",
                                      ":8000",
                                      "evil.example",
                                      "evil.example:8000",
                                      "localhost.evil.example",
                                      "127.0.0.1.evil.example",
                                      "evil.localhost",
                                      "127.0.0.1@evil.example",
                                      "localhost@evil.example:8000",
                                      "evil.example#localhost",
                                      "0.0.0.0:8000",
                                      "128.0.0.1",
                                      "127.0.0",
                                      "127.0.0.256",
                                      "127.0.0.1.",
                                      "127.0.0.0001",
                                      "[::1",
                                      "::1",
                                      "[::2]:8000",
                                      "[::1]evil.example",
                                      "localhost:80a",
                                      "localhost:800000",
                                      "localhost localhost",
                                      "192.168.0.7:8000"};
    for (size_t i = 0; i < ARRAY_COUNT(good); i++)
        expect(&local, good[i], NULL, ALLOW_YES);
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++)
        expect(&local, bad[i], NULL, ALLOW_NOT_HOST);
    expect(&local, NULL, NULL, ALLOW_YES); /* no browser */
}

TEST(named_hosts_pass_beside_local_ones) {
    const struct host_allowlist named = {.is_local = true,
                                         .named = "a.example, B.example,,[fd00::1]"};
    expect(&named, "a.example", NULL, ALLOW_YES);
    expect(&named, "A.EXAMPLE:1234", NULL, ALLOW_YES);
    expect(&named, "b.example", NULL, ALLOW_YES);
    expect(&named, "[FD00::1]:80", NULL, ALLOW_YES);
    expect(&named, "localhost", NULL, ALLOW_YES);
    expect(&named, "c.a.example", NULL, ALLOW_NOT_HOST);
    expect(&named, "a.example,", NULL, ALLOW_NOT_HOST);
    expect(&named, "", NULL, ALLOW_NOT_HOST);
}

TEST(elsewhere_hosts_are_looked_at_where_they_are_named) {
    const struct host_allowlist open = {0}, named = {.named = "a.example"};
    expect(&open, "any.example", NULL, ALLOW_YES);
    expect(&open, "", NULL, ALLOW_YES);
    expect(&named, "any.example", NULL, ALLOW_NOT_HOST);
    expect(&named, "a.example:8000", NULL, ALLOW_YES);
    expect(&named, "127.0.0.1", NULL, ALLOW_YES);
    expect(&open, "any.example:8000", "http://any.example:8000", ALLOW_YES);
    expect(&open, "any.example:8000", "http://evil.example", ALLOW_NOT_ORIGIN);
}

TEST(pages_of_other_origins_are_refused) {
    static const char *const bad[] = {"http://evil.example",
                                      "https://evil.example:8000",
                                      "null",
                                      "",
                                      "file://",
                                      "http://",
                                      "http://localhost", /* another port: another server's */
                                      "http://localhost:3000",
                                      "http://127.0.0.1:8000", /* not the name asked for */
                                      "https://localhost",
                                      "http://localhost:8000/",
                                      "http://localhost:8000@evil.example",
                                      "http://localhost:8000.evil.example",
                                      "ftp://localhost:8000",
                                      "chrome-extension://localhost:8000",
                                      "http://localhost:8000 http://evil.example"};
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++)
        expect(&local, "localhost:8000", bad[i], ALLOW_NOT_ORIGIN);
    expect(&local, "localhost:8000", "http://localhost:8000", ALLOW_YES);
    expect(&local, "LOCALHOST:8000", "http://localhost:8000", ALLOW_YES);
    expect(&local, "localhost", "http://localhost", ALLOW_YES);
    expect(&local, "localhost:80", "http://localhost", ALLOW_YES);
    expect(&local, "localhost", "https://localhost:443", ALLOW_YES); /* behind a proxy for TLS */
    expect(&local, "[::1]:8000", "http://[::1]:8000", ALLOW_YES);
    expect(&local, NULL, "http://localhost", ALLOW_NOT_ORIGIN);
    expect(&local, "evil.example:8000", "http://evil.example:8000", ALLOW_NOT_HOST); /* rebinding */
}

TEST(named_origins_pass) {
    const struct host_allowlist named = {.is_local = true, .named = "a.example"};
    const struct host_allowlist one = {.is_local = true, .origins = "https://b.example"};
    const struct host_allowlist any = {.is_local = true, .origins = "*"};
    const struct host_allowlist several = {.is_local = true,
                                           .origins = "https://b.example, http://c:3000,null"};
    expect(&named, "127.0.0.1:8000", "https://a.example", ALLOW_YES);
    expect(&named, "127.0.0.1:8000", "http://A.example:99", ALLOW_YES);
    expect(&named, "127.0.0.1:8000", "https://b.example", ALLOW_NOT_ORIGIN);
    expect(&one, "127.0.0.1:8000", "https://b.example", ALLOW_YES);
    expect(&one, "127.0.0.1:8000", "https://b.example:444", ALLOW_NOT_ORIGIN);
    expect(&one, "b.example", "https://b.example", ALLOW_NOT_HOST);
    expect(&several, "127.0.0.1:8000", "https://b.example", ALLOW_YES);
    expect(&several, "127.0.0.1:8000", "http://c:3000", ALLOW_YES);
    expect(&several, "127.0.0.1:8000", "null", ALLOW_YES);
    expect(&several, "127.0.0.1:8000", "https://b.example, http://c:3000", ALLOW_NOT_ORIGIN);
    expect(&several, "127.0.0.1:8000", "http://c", ALLOW_NOT_ORIGIN);
    expect(&any, "127.0.0.1:8000", "https://b.example", ALLOW_YES);
    expect(&any, "127.0.0.1:8000", "null", ALLOW_YES);
    expect(&any, "b.example", "https://b.example", ALLOW_NOT_HOST);
}

/* The answer names the page's own origin, and never another one of the list. */
TEST(it_finds_the_origin_that_is_let_in) {
    const struct host_allowlist several = {.origins = "https://b.example, http://c:3000"};
    const struct host_allowlist any = {.origins = "http://c,*"}, none = {.named = "b.example"};
    static const struct bytes asked = {"http://c:3000", 13}, other = {"http://d", 8};
    assert_true(bytes_equal(host_allowlist_find_origin(&several, asked), asked));
    assert_null(host_allowlist_find_origin(&several, other).data);
    assert_null(host_allowlist_find_origin(&several, (struct bytes){NULL, 0}).data);
    assert_true(bytes_equal(host_allowlist_find_origin(&any, other), BYTES_LITERAL("*")));
    assert_null(host_allowlist_find_origin(&none, BYTES_LITERAL("http://b.example")).data);
}

TEST(a_refused_origin_has_its_cure) {
    char text[HOST_ALLOWLIST_CURE_BYTES];
    assert_string_equal(host_allowlist_cure(BYTES_LITERAL("http://localhost:3000"), text),
                        "web pages of the origin http://localhost:3000 may not ask here; "
                        "--allow-origin http://localhost:3000 (or '*' for any) lets them use the "
                        "API");
    assert_null(strchr(host_allowlist_cure(BYTES_LITERAL("http://a\"b"), text), '"'));
    char longest[200];
    memset(longest, 'a', sizeof longest);
    memcpy(longest, "http://", 7);
    struct bytes origin = {longest, sizeof longest};
    assert_null(strstr(host_allowlist_cure(origin, text), "aaaa"));
}

TEST(it_finds_what_is_no_host) {
    static const char *const bad[] = {"http://a.example", "a.example:80", "*", "a b", "[::1", "ü"};
    assert_null(host_allowlist_find_bad(NULL).data);
    assert_null(host_allowlist_find_bad("a.example, b-c.example,[fd00::1],10.0.0.7,").data);
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++)
        assert_true(bytes_equal(host_allowlist_find_bad(bad[i]), bytes_of(bad[i])));
    assert_true(bytes_equal(host_allowlist_find_bad("a,b:1 ,c"), bytes_of("b:1")));
}

/* What is written into a header must be what a browser compares it with. */
TEST(an_origin_looks_like_one) {
    static const char *const good[] = {"*",
                                       "null",
                                       "https://a.example",
                                       "http://localhost:3000",
                                       "http://[2001:db8::1]:8080",
                                       "chrome-extension://abcdef",
                                       "app+x.y-1://a_b",
                                       "https://a.example,https://b.example",
                                       "https://a.example, null"};
    static const char *const bad[] = {"",
                                      "x y",
                                      "a.example",
                                      "https://",
                                      "://a",
                                      "https:/a.example",
                                      "https://a.example/",
                                      "https://a.example/path",
                                      "https://A.example",
                                      "HTTPS://a.example",
                                      "https://a.example:x",
                                      "https://a.example:123456",
                                      "https://me@a.example",
                                      "https://a.example https://b.example",
                                      "https://a.example,b.example",
                                      "https://a.example,,null",
                                      "https://a.example\r\nX-Evil: 1",
                                      "https://*.example",
                                      "1a://a"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (host_allowlist_find_bad_origin(good[i]).data) fail_msg("%s is no origin", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (!host_allowlist_find_bad_origin(bad[i]).data) fail_msg("%s is an origin", bad[i]);
    assert_true(bytes_equal(host_allowlist_find_bad_origin("null,b,c"), BYTES_LITERAL("b")));
}
