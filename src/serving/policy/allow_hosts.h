/* SPDX-License-Identifier: Apache-2.0
 * Which web pages' requests a listener answers, by the headers Host and Origin, which a page cannot
 * choose. Two attacks on a server that only this machine can reach:
 *
 *   - DNS rebinding: a name of the attacker's first leads to his page and then to 127.0.0.1, so
 * that his page may read our answers. The Host says his name, so only names of this machine pass.
 *   - a page of another site sends requests whose answers it cannot read. Its Origin is not ours.
 *
 * On addresses that other machines reach, any name may be the server's own, and Host is looked at
 * only where names were given; Origin always. Pure: text in, a verdict out.
 */
#ifndef SERVING_POLICY_ALLOW_HOSTS_H
#define SERVING_POLICY_ALLOW_HOSTS_H

#include <stdbool.h>

#include "base/bytes.h"

struct allow_hosts {
    bool is_local;       /* the listener's address is a loopback one */
    const char *named;   /* hosts that pass beside local ones: "a.example,[fd00::1]"; NULL: none */
    const char *origins; /* that pass: "https://a.example,https://b.example", or "*"; NULL: none */
};

enum allow_verdict { ALLOW_YES, ALLOW_NOT_HOST, ALLOW_NOT_ORIGIN };

/* The values of the headers; data NULL: the header is not there. */
enum allow_verdict allow_hosts_judge(const struct allow_hosts *rules, struct bytes host,
                                     struct bytes origin);

/* The first of `named` that is no name of a host (it has a scheme, a port, a blank ...); empty: all
 * are. */
struct bytes allow_hosts_find_bad(const char *named);

/* The one of `origins` that lets this Origin in, "*" for whatever it is; data NULL: none does. */
struct bytes allow_hosts_find_origin(const struct allow_hosts *rules, struct bytes origin);

/* The first of `origins` that no browser says as its Origin, and that is not "*"; data NULL: all are good.
 * Browsers say "https://a.example", "http://[::1]:3000" or "null", compare it to the letter, and write
 * it in small ones, without a path. */
struct bytes allow_hosts_find_bad_origin(const char *origins);

#endif
