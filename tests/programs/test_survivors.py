#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_survivors.py FATHOM: ranks of a unit are killed while it streams, and the others go on without a restart:
the process of rank 0 stays the same, every answer is the very one that an undisturbed server gives, no request is
lost, and pages are all back. The dead rank comes back as another process, again and again, also when it dies on its
way, and the answers stay the same. With replicas of all experts nothing is read by those who live; with fewer, what
has none is read from the checkpoint; with too few, the unit starts again and says what it would take. Prints how long
streams stood still, and when the rank was back."""
import concurrent.futures
import os
import signal
import time

from server import Server, wait_until
from streams import ALL, Tokens, ask_all

BACK = r"a rank is there again job=1 rank=%d pid=(\d+) after_s=(\S+)"
GOES_ON = r"a rank died, the others go on without it rank=%d left=%d experts_read=(\d+) after_ms=(\d+)"


def lose(server, wanted, rank, name, count=1, harm=lambda pid: os.kill(pid, signal.SIGKILL)):
    """Harms the rank among the answers, for the count-th time; returns how many experts were read."""
    tokens = Tokens()
    pids = server.units()[0]
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answers = pool.submit(ask_all, server, tokens)
        tokens.wait_for(60 + 40 * rank, answers)
        began = time.monotonic()
        harm(pids[rank])
        line = server.wait_for(GOES_ON % (rank, len(pids) - 1), count)
        back = server.wait_for(BACK % rank, count)
        found = answers.result()
    print("%s: rank %d, %s experts read in %s ms, all streams together stood still for %.3f s at most, back after %s s" % (
        name, rank, line.group(1), line.group(2), tokens.longest_pause(began), back.group(2)), flush=True)
    assert found == wanted, [(a, b) for a, b in zip(found, wanted) if a != b][:1]
    pids[rank] = int(back.group(1))
    wait_for_units(server, [pids])
    assert "starts again job=1 how" not in server.said() and "its unit starts" not in server.said(), server.said()
    server.no_page_is_held()
    return int(line.group(1))


def wait_for_units(server, pids):
    """The gateway knows these processes, and no other."""
    wait_until(lambda: server.units() == pids, found=lambda: (server.units(), pids, server.said()))


def all_have_replicas(wanted):
    """While all live, rows go by nodes: the dead rank was a relay, too, and is one again when it is back."""
    server = Server("--ranks", "4", "--redundant-experts", "64", "--rebalance", "off", "--experiment",
                    "ranks-per-node=2,levels=two")

    def stand_still(pid):
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.05)
        os.kill(pid, signal.SIGKILL)

    assert lose(server, wanted, 2, "replicas of all") == 0
    assert lose(server, wanted, 1, "then another", harm=stand_still) == 0
    assert lose(server, wanted, 2, "the first once more", 2) == 0
    two_at_once(server, wanted)
    server.stop()


def two_at_once(server, wanted):
    """Two ranks die together, and one of them again on its way back, which is told."""
    pids = server.units()[0]
    for rank in (1, 3):
        os.kill(pids[rank], signal.SIGKILL)
    again = server.process_of_rank(3, b"FATHOM_RETURNS=1")
    os.kill(again, signal.SIGKILL)
    assert ask_all(server, Tokens(), ALL[:4]) == wanted[:4]
    server.wait_for(BACK % 1, 2)
    server.wait_for("a rank is there again job=1 rank=3 pid=(?!%d )" % again)  # which may have been on its way no more
    assert pids[0] == server.units()[0][0]
    assert ask_all(server, Tokens(), ALL[:4]) == wanted[:4]
    server.no_page_is_held()


def some_are_read(wanted):
    server = Server("--ranks", "4", "--redundant-experts", "24")
    assert lose(server, wanted, 3, "few replicas") > 0
    server.stop()


def one_that_stands_still_is_killed(wanted):
    server = Server("--ranks", "4", "--redundant-experts", "64", "--rank-timeout", "0.5")
    lose(server, wanted, 2, "stands still", harm=lambda pid: os.kill(pid, signal.SIGSTOP))
    server.wait_for("a rank was not run, it is killed job=1 rank=2")
    server.stop()


def idle_ones_notice(wanted):
    server = Server("--ranks", "3", "--redundant-experts", "32")
    pids = server.units()[0]
    server.wait_for("a unit is ready")
    os.kill(pids[2], signal.SIGKILL)
    server.wait_for(GOES_ON % (2, 2))
    server.wait_for(BACK % 2)
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
    one_that_stands_still_is_killed(wanted)
    idle_ones_notice(wanted)
    too_few_start_again(wanted)


if __name__ == "__main__":
    main()
