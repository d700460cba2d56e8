/* SPDX-License-Identifier: Apache-2.0
 * Decides from which web pages a listener accepts requests, by the headers Host and Origin, which a
 * page cannot choose. It prevents two attacks on a server that only this machine can reach:
 *
 *   - DNS rebinding: a name of the attacker first resolves to the attacker's server and then to
 *     127.0.0.1, so that the page can read this server's answers. The Host header has the
 *     attacker's name, so only names of this machine are accepted.
 *   - A page of another site sends requests and cannot read the answers. Its Origin is foreign.
 *
 * On addresses that other machines can reach, any name may be the server's own. There, Host is
 * checked only if names are configured. Origin is always checked. Pure: text in, a verdict out.
 */
#pragma once

#include <stdbool.h>

#include "base/bytes.h"

struct host_allowlist {
    bool is_local; /* bound to a loopback address */
    /* hosts accepted in addition to local ones: "a.example,[fd00::1]"; NULL: none */
    const char *named;
    /* accepted origins: "https://a.example,https://b.example", or "*"; NULL: none */
    const char *origins;
};

enum allow_verdict { ALLOW_YES, ALLOW_NOT_HOST, ALLOW_NOT_ORIGIN };

/* Checks the values of the headers; data NULL: the header is absent. */
enum allow_verdict host_allowlist_verify(const struct host_allowlist *rules, struct bytes host,
                                         struct bytes origin);

/* The first item of `named` that is not a host name (it has a scheme, a port, a space ...); empty
 * if all are valid. */
struct bytes host_allowlist_find_bad(const char *named);

/* The item of `origins` that allows this Origin, or "*"; data NULL if none does. */
struct bytes host_allowlist_find_origin(const struct host_allowlist *rules, struct bytes origin);

/* The first item of `origins` that is not "*" and that no browser can send as its Origin; data NULL
 * if all are valid. Browsers send "https://a.example", "http://[::1]:3000" or "null", in lower case
 * and without a path. The comparison is exact. */
struct bytes host_allowlist_find_bad_origin(const char *origins);

#define HOST_ALLOWLIST_ORIGIN_BYTES 100 /* a longer Origin is not quoted */
#define HOST_ALLOWLIST_CURE_BYTES 384

/* Says which option lets pages of a refused Origin in: plain text for a log and for JSON.
 * Returns `out` or a literal. */
const char *host_allowlist_cure(struct bytes origin, char out[HOST_ALLOWLIST_CURE_BYTES]);
