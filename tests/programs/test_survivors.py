#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_survivors.py FATHOM: ranks of a unit are killed while it streams, and the others go on without a restart:
the process of rank 0 stays the same, every answer is the very one that an undisturbed server gives, no request is
lost, and pages are all back. With replicas of all experts nothing is read; with fewer, what has none is read from the
checkpoint; with too few, the unit starts again and says what it would take. Prints how long streams stood still."""
import concurrent.futures
import os
import re
import signal
import time

from server import Server
from streams import ALL, Tokens, ask_all

GOES_ON = r"a rank died, the others go on without it rank=%d left=%d experts_read=(\d+) after_ms=(\d+)"


def wait_for_tokens(tokens, count, answers):
    while tokens.count() < count and not answers.done():
        time.sleep(0.001)


def lose(server, wanted, rank, left, name, stops=False):
    """Kills the rank among the answers; returns how many experts were read."""
    tokens = Tokens()
    pids = server.units()[0]
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answers = pool.submit(ask_all, server, tokens)
        wait_for_tokens(tokens, 60 + 40 * rank, answers)
        began = time.monotonic()
        if stops:
            os.kill(pids[rank], signal.SIGSTOP)
            time.sleep(0.05)
        os.kill(pids[rank], signal.SIGKILL)
        line = server.wait_for(GOES_ON % (rank, left))
        found = answers.result()
    print("%s: rank %d killed, %s experts read in %s ms, all streams together stood still for %.3f s at most" % (
        name, rank, line.group(1), line.group(2), tokens.longest_pause(began)), flush=True)
    assert found == wanted, [(a, b) for a, b in zip(found, wanted) if a != b][:1]
    assert server.units()[0][0] == pids[0]
    assert "starts again" not in server.said(), server.said()
    server.no_page_is_held()
    return int(line.group(1))


def all_have_replicas(wanted):
    server = Server("--ranks", "4", "--redundant-experts", "64", "--rebalance", "off")
    assert lose(server, wanted, 2, 3, "replicas of all") == 0
    lose(server, wanted, 1, 2, "then another", stops=True)
    assert ask_all(server, Tokens(), ALL[:4]) == wanted[:4]
    server.stop()


def some_are_read(wanted):
    server = Server("--ranks", "4", "--redundant-experts", "24")
    assert lose(server, wanted, 3, 3, "few replicas") > 0
    server.stop()


def idle_ones_notice(wanted):
    server = Server("--ranks", "3", "--redundant-experts", "32")
    pids = server.units()[0]
    server.wait_for("a unit is ready")
    os.kill(pids[2], signal.SIGKILL)
    server.wait_for(GOES_ON % (2, 2))
    assert ask_all(server, Tokens(), ALL[:4]) == wanted[:4]
    assert server.units()[0][0] == pids[0]
    server.stop()


def too_few_start_again(wanted):
    server = Server("--ranks", "4")
    server.wait_for("a unit is ready")
    os.kill(server.units()[0][1], signal.SIGKILL)
    line = server.wait_for(r"the unit cannot go on without a rank why=.*--redundant-experts (\d+)")
    server.wait_for(r"a rank died, its unit starts again job=1 rank=1 where=.*pid \d+")
    server.wait_for("is there again")
    assert ask_all(server, Tokens(), ALL[:4]) == wanted[:4]
    server.stop()
    again = Server("--ranks", "4", "--redundant-experts", line.group(1))
    again.wait_for("a unit is ready")
    os.kill(again.units()[0][1], signal.SIGKILL)
    again.wait_for(GOES_ON % (1, 3))
    again.stop()


def main():
    alone = Server("--mtp", "off")
    wanted = ask_all(alone, Tokens())
    alone.stop()
    all_have_replicas(wanted)
    some_are_read(wanted)
    idle_ones_notice(wanted)
    too_few_start_again(wanted)


main()
