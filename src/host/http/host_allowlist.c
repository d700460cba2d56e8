/* SPDX-License-Identifier: Apache-2.0 */
#include "host/http/host_allowlist.h"

#include "base/format.h"

#define PORT_DIGITS_MAX 5

static bool host_allowlist_is_digit(char c) {
    return c >= '0' && c <= '9';
}

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

static bool host_allowlist_same(struct bytes a, struct bytes b) {
    if (a.count != b.count) return false;
    for (size_t i = 0; i < a.count; i++)
        if (lower(a.data[i]) != lower(b.data[i])) return false;
    return true;
}

static bool host_allowlist_is_name_character(char c) {
    return host_allowlist_is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'z') || c == '-' ||
           c == '.' || c == '_';
}

static bool is_address_character(char c) {
    return host_allowlist_is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'f') || c == ':' ||
           c == '.';
}

/* "example.com", "192.0.2.1" or "[2001:db8::1]". */
static bool host_allowlist_is_name(struct bytes text) {
    bool bracketed = text.count > 2 && text.data[0] == '[' && text.data[text.count - 1] == ']';
    if (bracketed) text = (struct bytes){text.data + 1, text.count - 2};
    for (size_t i = 0; i < text.count; i++)
        if (!(bracketed ? is_address_character : host_allowlist_is_name_character)(text.data[i]))
            return false;
    return text.count > 0;
}

struct authority {
    struct bytes name, port; /* port: empty for the default of the scheme */
};

/* "NAME" or "NAME:PORT". */
static bool read_authority(struct bytes text, struct authority *authority_out) {
    size_t digits = 0;
    while (digits < text.count && host_allowlist_is_digit(text.data[text.count - 1 - digits]))
        digits++;
    bool has_port = digits < text.count && text.data[text.count - 1 - digits] == ':' &&
                    digits <= PORT_DIGITS_MAX;
    struct bytes name = text, port = {"", 0};
    if (has_port) {
        name.count = text.count - digits - 1;
        port = (struct bytes){text.data + name.count + 1, digits};
    }
    *authority_out = (struct authority){name, port};
    return host_allowlist_is_name(name);
}

/* True for 127.0.0.0/8, as four decimal numbers: "127.0.0.1.a.example" is a name. */
static bool is_loopback_number(struct bytes name) {
    size_t at = 0;
    for (int part = 0; part < 4; part++) {
        size_t digits = 0, number = 0;
        if (part && (at == name.count || name.data[at++] != '.')) return false;
        for (; at < name.count && host_allowlist_is_digit(name.data[at]) && digits < 3;
             at++, digits++)
            number = number * 10 + (size_t)(name.data[at] - '0');
        if (digits == 0 || number > 255 || (part == 0 && number != 127)) return false;
    }
    return at == name.count;
}

static bool is_local_name(struct bytes name) {
    return host_allowlist_same(name, BYTES_LITERAL("localhost")) ||
           host_allowlist_same(name, BYTES_LITERAL("[::1]")) || is_loopback_number(name);
}

/* Gets the next item of a comma-separated list, without spaces around it. False: there is none. */
static bool take_item(const char **list, struct bytes *item_out) {
    const char *at = *list;
    if (!at || !*at) return false;
    while (*at == ' ')
        at++;
    size_t count = 0;
    while (at[count] && at[count] != ',')
        count++;
    *list = at + count + (at[count] == ',');
    while (count && at[count - 1] == ' ')
        count--;
    *item_out = (struct bytes){at, count};
    return true;
}

static bool host_allowlist_is_named(const struct host_allowlist *rules, struct bytes name) {
    struct bytes item;
    for (const char *list = rules->named; take_item(&list, &item);)
        if (item.count && host_allowlist_same(item, name)) return true;
    return false;
}

struct bytes host_allowlist_find_bad(const char *named) {
    struct bytes item;
    while (take_item(&named, &item))
        if (item.count && !host_allowlist_is_name(item)) return item;
    return (struct bytes){NULL, 0};
}

static bool is_scheme_character(char c) {
    return host_allowlist_is_digit(c) || (c >= 'a' && c <= 'z') || c == '+' || c == '-' || c == '.';
}

static bool is_origin(struct bytes origin) {
    struct authority authority;
    if (bytes_equal(origin, BYTES_LITERAL("*")) || bytes_equal(origin, BYTES_LITERAL("null")))
        return true;
    for (size_t i = 0; i < origin.count; i++)
        if (lower(origin.data[i]) != origin.data[i]) return false;
    size_t at = 0;
    while (at < origin.count && is_scheme_character(origin.data[at]))
        at++;
    struct bytes rest = {origin.data + at, origin.count - at};
    if (at == 0 || host_allowlist_is_digit(origin.data[0]) ||
        !bytes_start_with(rest, BYTES_LITERAL("://")))
        return false;
    return read_authority((struct bytes){rest.data + 3, rest.count - 3}, &authority);
}

struct bytes host_allowlist_find_bad_origin(const char *origins) {
    struct bytes item = {origins, 0};
    if (!*origins) return item;
    while (take_item(&origins, &item))
        if (!is_origin(item)) return item;
    return (struct bytes){NULL, 0};
}

struct bytes host_allowlist_find_origin(const struct host_allowlist *rules, struct bytes origin) {
    struct bytes item;
    for (const char *list = rules->origins; take_item(&list, &item);)
        if (bytes_equal(item, BYTES_LITERAL("*")) ||
            (origin.data && host_allowlist_same(item, origin)))
            return item;
    return (struct bytes){NULL, 0};
}

static bool host_passes(const struct host_allowlist *rules, struct bytes host) {
    struct authority authority;
    if (!rules->is_local && !rules->named) return true;
    if (!host.data) return true; /* HTTP/1.0, which browsers do not use */
    return read_authority(host, &authority) &&
           (is_local_name(authority.name) || host_allowlist_is_named(rules, authority.name));
}

/* The port as browsers write it: empty if it is the scheme's default. */
static struct bytes reported_port(struct bytes port, const char *own) {
    return bytes_equal(port, bytes_of(own)) ? BYTES_LITERAL("") : port;
}

static bool origin_passes(const struct host_allowlist *rules, struct bytes host,
                          struct bytes origin) {
    if (!origin.data) return true;
    if (host_allowlist_find_origin(rules, origin).data) return true;
    bool plain = bytes_start_with(origin, BYTES_LITERAL("http://"));
    if (!plain && !bytes_start_with(origin, BYTES_LITERAL("https://"))) return false;
    size_t scheme_bytes = plain ? 7 : 8;
    struct authority own, other;
    if (!read_authority((struct bytes){origin.data + scheme_bytes, origin.count - scheme_bytes},
                        &other))
        return false;
    if (host_allowlist_is_named(rules, other.name)) return true;
    const char *port = plain ? "80" : "443";
    return host.data && read_authority(host, &own) && host_allowlist_same(own.name, other.name) &&
           bytes_equal(reported_port(own.port, port), reported_port(other.port, port));
}

enum allow_verdict host_allowlist_verify(const struct host_allowlist *rules, struct bytes host,
                                         struct bytes origin) {
    if (!host_passes(rules, host)) return ALLOW_NOT_HOST;
    return origin_passes(rules, host, origin) ? ALLOW_YES : ALLOW_NOT_ORIGIN;
}

const char *host_allowlist_cure(struct bytes origin, char out[HOST_ALLOWLIST_CURE_BYTES]) {
    int count = (int)origin.count;
    if (origin.count > HOST_ALLOWLIST_ORIGIN_BYTES || !is_origin(origin))
        return "web pages of this Origin may not ask here; --allow-host or --allow-origin lets "
               "them";
    format_text(out, HOST_ALLOWLIST_CURE_BYTES,
                "web pages of the origin %.*s may not ask here; --allow-origin %.*s (or '*' for "
                "any) lets them use the API",
                count, origin.data, count, origin.data);
    return out;
}
