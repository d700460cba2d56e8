#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_links.py FATHOM [all]: bad links between the hosts of a unit (network namespaces, hosts.py). Two hosts that do not
hear each other, while the supervisor hears both, are named in one line within the time-out, and the unit is there
again soon after they do, whether or not experts have replicas. Frames that are lost, a slow link and a long one end
nothing. Every answer is that of one process to the last token, and no request is lost. Needs root."""
import concurrent.futures
import re
import sys
import time

from hosts import Hosts
from server import Server
from streams import Tokens, ask_all

SLOTS = 2
TIMEOUT = 2.0  # three hosts share one machine
REQUESTS = [{"question": "What is %d + %d?" % (17 * i, 29 * i + 5), "stream": True, "max_tokens": 24} for i in range(1, 5)]


def table(name, *cells):
    print("%-44s %s" % (name, "  ".join(cells)), flush=True)


def serve(hosts, *options):
    ranks = len(hosts.names) * SLOTS
    server = Server("--ranks", str(ranks), "--rank-timeout", str(TIMEOUT), *options, *hosts.options(SLOTS), wrap=hosts.on("h0"))
    server.wait_for("a unit is ready")
    return server


def partition(hosts, server, wanted, name):
    """The last two hosts do not see each other; the first, which has the supervisor, sees both."""
    *_, left, right = hosts.names
    cut = "two hosts do not hear each other, their unit starts again job=1 hosts=%s,%s silent_s=.*" % (left, right)
    seen, back = (len(re.findall(pattern, server.said())) for pattern in (cut, "is there again"))
    tokens = Tokens()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answers = pool.submit(ask_all, server, tokens, REQUESTS)
        while tokens.count() < 3:
            time.sleep(0.001)
        began = time.monotonic()
        hosts.spoil(right, "cut", hosts.address(left))
        server.wait_for(cut, seen + 1)
        found = time.monotonic()
        hosts.spoil(right, "cut", "none")
        healed = time.monotonic()
        server.wait_for("is there again", back + 1)
        there = time.monotonic()
        assert answers.result() == wanted, name
    after = tokens.first_after(there)
    table(name, "seen after %.2f s" % (found - began), "there again %.2f s after it was healed" % (there - healed),
          "next token %.2f s after that" % (after - there if after else 0))
    server.no_page_is_held()


def bad_link(server, wanted, name, spoil, heal):
    spoil()
    tokens = Tokens()
    began = time.monotonic()
    assert ask_all(server, tokens, REQUESTS) == wanted, name
    ended = time.monotonic()
    heal()
    table(name, "answers after %.1f s" % (ended - began), "longest pause %.2f s" % tokens.longest_pause(began))
    server.no_page_is_held()


def main():
    hosts = Hosts(3)
    if not hosts.are_apart:
        print("no network namespaces can be made here (that needs root, ip and veth): no link is made bad")
        sys.exit(77)
    whole = sys.argv[2:] == ["all"]
    alone = Server()
    wanted = ask_all(alone, Tokens(), REQUESTS)
    alone.stop()
    hosts.enter("h0")
    last = hosts.names[-1]
    hosts.lay_relay(last)
    server = serve(hosts)
    bad_link(server, wanted, "a good link", lambda: None, lambda: None)
    bad_link(server, wanted, "5 % of frames lost", lambda: hosts.spoil(last, "loss", 0.05), lambda: hosts.spoil(last, "loss", 0))
    bad_link(server, wanted, "10 Mbit/s", lambda: hosts.slow(last, "10mbit"), lambda: hosts.slow(last, None))
    bad_link(server, wanted, "200 ms of delay", lambda: hosts.spoil(last, "delay", 0.2), lambda: hosts.spoil(last, "delay", 0))
    assert "starts again" not in server.said(), server.said()
    partition(hosts, server, wanted, "two hosts do not see each other")
    server.stop()
    if whole:
        server = serve(hosts, "--redundant-experts", "64")
        partition(hosts, server, wanted, "the same, with replicas of all experts")
        server.stop()


if __name__ == "__main__":
    main()
