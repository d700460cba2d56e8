#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_links.py FATHOM: bad links between the hosts of a unit (network namespaces, hosts.py; what is bad about them is
relay.py's doing). Frames that are lost, a slow link and a long one end nothing. Two hosts that do not hear each other,
while the supervisor hears both, are named in one line, and the unit is there again once they do, however long that
takes, with replicas of all experts and without; where another unit is left, answers go on there meanwhile. Every answer
is that of one process to the last token, and no request is lost. Needs root."""
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
LONG = [{**request, "max_tokens": 100, "ignore_eos": True} for request in REQUESTS]
SEEN = "error supervisor .* starts? again job=%d.*"
SKIPPED = 77


def serve(hosts, *options):
    server = Server("--rank-timeout", str(TIMEOUT), *options, *hosts.options(SLOTS), wrap=hosts.on("h0"))
    server.wait_for("a unit is ready")
    return server


def bad_link(server, wanted, name, spoil, heal):
    """It costs time and nothing else."""
    spoil()
    tokens = Tokens()
    began = time.monotonic()
    assert ask_all(server, tokens, REQUESTS) == wanted, name
    ended = time.monotonic()
    heal()
    print("%s: answers after %.1f s, longest pause of all %.2f s" % (name, ended - began, tokens.longest_pause(began)), flush=True)
    server.no_page_is_held()
    assert "starts again" not in server.said(), server.said()


def cut(hosts, server, wanted, name, left, hold=0.0):
    """The last host and that one do not see each other for a while; the first, which has the supervisor, is told of
    both through the remote shell."""
    right = hosts.names[-1]
    seen, back = (len(re.findall(pattern, server.said())) for pattern in (SEEN % 1, "is there again"))
    tokens = Tokens()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answers = pool.submit(ask_all, server, tokens, LONG)
        tokens.wait_for(3, answers)
        began = time.monotonic()
        hosts.spoil(right, "cut", hosts.address(left))
        line = server.wait_for(SEEN % 1, seen + 1).group(0)
        found = time.monotonic()
        time.sleep(hold)
        hosts.spoil(right, "cut", "none")
        healed = time.monotonic()
        server.wait_for("is there again", back + 1)
        assert answers.result() == wanted, name
    after = tokens.first_after(healed)
    print("%s: seen after %.2f s, next token %.2f s after it was healed (%s)" % (
        name, found - began, after - healed if after else 0, line), flush=True)
    server.no_page_is_held()


def other_unit_goes_on(hosts, wanted):
    """The hosts of the second unit do not see each other, and that stays so."""
    *_, left, right = hosts.names
    server = serve(hosts, "--prefill-units", "1", "--prefill-ranks", str(SLOTS), "--decode-units", "1", "--decode-ranks", str(2 * SLOTS))
    server.wait_for_units(2)
    tokens = Tokens()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answers = pool.submit(ask_all, server, tokens, LONG)
        tokens.wait_for(3, answers)
        began = time.monotonic()
        hosts.spoil(right, "cut", hosts.address(left))
        server.wait_for(SEEN % 2)
        found = time.monotonic()
        assert answers.result() == wanted
    after = tokens.first_after(found)
    print("two hosts of another unit do not hear each other: seen after %.2f s, next token %.2f s after that, elsewhere" % (
        found - began, after - found if after else 0), flush=True)
    hosts.spoil(right, "cut", "none")
    server.stop()


def main():
    hosts = Hosts(3)
    if not hosts.are_apart:
        print("no network namespaces can be made here (that needs root, ip and veth): no link is made bad")
        sys.exit(SKIPPED)
    last, whole = hosts.names[-1], ["--ranks", str(3 * SLOTS)]
    alone = Server()
    wanted, longer = ask_all(alone, Tokens(), REQUESTS), ask_all(alone, Tokens(), LONG)
    alone.stop()
    hosts.enter("h0")
    hosts.lay_relay(last)
    server = serve(hosts, *whole)
    bad_link(server, wanted, "a good link", lambda: None, lambda: None)
    bad_link(server, wanted, "5 % of frames lost", lambda: hosts.spoil(last, "loss", 0.05), lambda: hosts.spoil(last, "loss", 0))
    bad_link(server, wanted, "1 Mbit/s", lambda: hosts.slow(last, "1mbit"), lambda: hosts.slow(last, None))
    bad_link(server, wanted, "200 ms of delay", lambda: hosts.spoil(last, "delay", 0.2), lambda: hosts.spoil(last, "delay", 0))
    cut(hosts, server, longer, "two hosts do not hear each other", "h1")
    cut(hosts, server, longer, "the same, for three time-outs more", "h1", 3 * TIMEOUT)
    cut(hosts, server, longer, "the last host and that of rank 0, for three more", "h0", 3 * TIMEOUT)
    server.stop()
    server = serve(hosts, *whole, "--redundant-experts", "64")
    cut(hosts, server, longer, "with replicas of all experts", "h1")
    server.stop()
    other_unit_goes_on(hosts, longer)


if __name__ == "__main__":
    main()
