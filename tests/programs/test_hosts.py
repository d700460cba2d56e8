#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_hosts.py FATHOM HOSTS SLOTS [all]: a unit whose ranks are on several hosts (network namespaces, hosts.py) answers as
one process does. A rank is killed, an agent stopped and a cable pulled among answers, and with `all` a rank is stopped and
an agent, rank 0, a host and the first host are killed: each is seen, named in one line, and the unit started again, or, with
replicas, the rank alone; every answer is the same to the last token. Hosts that lack
something, or cannot be reached, are named before any rank is launched. Without root the hosts are names alone, and the
cable is left out."""
import concurrent.futures
import os
import re
import signal
import subprocess
import sys
import time

from hosts import Hosts, agent_of
from server import Server, fathom
from streams import Tokens, ask_all

WHOLE = sys.argv[4:] == ["all"]
REQUESTS = [{"question": "What is %d + %d?" % (17 * i, 29 * i + 5), "stream": True, "max_tokens": 100 if WHOLE else 30,
             "ignore_eos": WHOLE} for i in range(1, 5)]
RANK_TIMEOUT = str(0.5 * int(sys.argv[2]))  # the hosts share one machine
AGAIN = "is there again"
STOPPED = "the last host's agent stopped"


def disturb(server, wanted, harm, heal, line, name):
    """Waits until it is seen, heals it, and waits until all are there again."""
    seen, back = (len(re.findall(pattern, server.said())) for pattern in (line, AGAIN))
    tokens = Tokens()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answers = pool.submit(ask_all, server, tokens, REQUESTS)
        tokens.wait_for(12, answers)
        began = time.monotonic()
        harm()
        found = server.wait_for(line, seen + 1)
        detected = time.monotonic()
        heal()
        healed = time.monotonic()
        server.wait_for(AGAIN, back + 1)
        there = time.monotonic()
        assert answers.result() == wanted, name
    print("%s: seen after %.2f s, no token for %.2f s, there again %.2f s after it was healed; none of %d requests lost (%s)" % (
        name, detected - began, tokens.longest_pause(began), there - healed, len(wanted), found.group(0)), flush=True)
    server.no_page_is_held()


def nothing():
    pass


def serve(hosts, *options):
    return Server("--rank-timeout", RANK_TIMEOUT, *options, wrap=hosts.on("h0"))


def faults(hosts, ranks, rank):
    """Of the last host and of rank 0: how to do it, how to undo it, the line that tells of it, and its name."""
    last = hosts.names[-1]
    lost = "a host is lost, its unit starts again job=1 host=%s why=" % last
    yield (lambda: os.kill(rank(-1), signal.SIGKILL), nothing,
           "a rank died, its unit starts again job=1 rank=%d where=.%s" % (ranks - 1, last), "a rank of the last host killed")
    yield (lambda: os.kill(agent_of(rank(-1)), signal.SIGSTOP), nothing, lost + ".nothing was heard.*", STOPPED)
    if hosts.are_apart:
        yield lambda: hosts.pull(last), lambda: hosts.plug(last), "starts again job=1.*", "the last host's cable pulled"
    if WHOLE:
        yield (lambda: os.kill(rank(-1), signal.SIGSTOP), nothing,
               "a rank was not run, it is killed job=1 rank=%d " % (ranks - 1), "a rank of the last host stopped")
        yield lambda: os.kill(agent_of(rank(-1)), signal.SIGKILL), nothing, lost + ".*", "the last host's agent killed"
        yield (lambda: os.kill(rank(0), signal.SIGKILL), nothing, "a rank died, its unit starts again job=1 rank=0 ", "rank 0 killed")
    if WHOLE and hosts.are_apart:
        yield lambda: hosts.take_down(last), lambda: hosts.bring_up(last), lost + ".*", "the last host down"


def lose_things(hosts, slots, wanted):
    """With `all` each fault has a server of its own: a unit that has ended often waits ever longer."""
    ranks = len(hosts.names) * slots
    options = ["--ranks", str(ranks), *hosts.options(slots)]
    began = time.monotonic()
    server = serve(hosts, *options)
    print("%d hosts of %d ranks: ready after %.2f s" % (len(hosts.names), slots, time.monotonic() - began), flush=True)
    assert ask_all(server, Tokens(), REQUESTS) == wanted
    for harm, heal, line, name in faults(hosts, ranks, lambda at: server.units()[0][at]):
        disturb(server, wanted, harm, heal, line, name)
        assert name != STOPPED or "ended the unit's last agent on this host" in server.said(), server.said()
        if WHOLE:
            server.stop()
            server = serve(hosts, *options)
    server.stop()


def lose_ranks_with_replicas(hosts, slots, wanted):
    """The others go on, and the rank comes back."""
    rank = len(hosts.names) * slots - 1
    server = serve(hosts, "--ranks", str(rank + 1), "--redundant-experts", "64", *hosts.options(slots))
    for harm, name in ((signal.SIGKILL, "killed"), (signal.SIGSTOP, "stopped")):
        disturb(server, wanted, lambda: os.kill(server.units()[0][rank], harm), nothing,
                "a rank died, the others go on without it rank=%d .*" % rank, "with replicas, a rank of the last host " + name)
    assert "unit starts again" not in server.said(), server.said()
    server.stop()


def lose_the_first_host(hosts, slots, wanted):
    """That of rank 0, where the gateway is on another."""
    *others, first = hosts.names
    server = serve(hosts, "--ranks", str(len(hosts.names) * slots), *hosts.options(slots)[2:],
                   "--hosts", ",".join("%s:%d" % (name, slots) for name in [first] + others))
    disturb(server, wanted, lambda: hosts.take_down(first), lambda: hosts.bring_up(first),
            "a host is lost, its unit starts again job=1 host=%s why=.*" % first, "the first host down")
    server.stop()


def units_elsewhere(hosts, wanted):
    """No unit is where the gateway is: they connect to its address, with keys that came through the remote shell."""
    *_, last = hosts.names
    server = Server("--hosts", "%s:1" % last, *hosts.options(1)[2:], wrap=hosts.on("h0"))  # one rank, not here
    assert ask_all(server, Tokens(), REQUESTS) == wanted
    server.stop()
    server = Server("--prefill-units", "1", "--prefill-ranks", "2", "--decode-units", "1", "--decode-ranks", "1",
                    "--rank-timeout", RANK_TIMEOUT, *hosts.options(4)[2:], "--hosts", "%s:3" % last, wrap=hosts.on("h0"))
    assert ask_all(server, Tokens(), REQUESTS) == wanted
    assert "is connected address=tcp://" in server.said(), server.said()
    server.stop()


def run_unit(*options):
    """What a unit says that cannot be started."""
    done = subprocess.run([fathom, "unit", "--connect", "ipc:///nowhere", *options], check=False, capture_output=True,
                          text=True, timeout=300)
    assert done.returncode in (1, 2), (done.returncode, done.stderr)
    return done.stderr


def what_is_lacking_is_named(hosts):
    there = ["--hosts", "h0:1,h1:1", "--ranks", "2", "--remote-shell", hosts.shell]
    said = run_unit(*there, "--interface", "none0")
    assert len(re.findall("a host cannot run its ranks host=h[01] why=.interface none0 is not there", said)) == 2, said
    assert "starts a unit" not in said and "host h0: interface none0 is not there" in said.splitlines()[-1], said
    said = run_unit(*there, "--model", "/nowhere/m")
    assert "host=h1 why=\"/nowhere/m: no such folder; expected the folder of a checkpoint, with config.json\"" in said, said
    if hosts.are_apart:  # h1 does not reach h0, whose packets come
        hosts.ban("h1", "h0")
        said = run_unit(*there, "--interface", "net0")
        hosts.ban("h1", "h0", False)
        assert re.search("a host does not reach another host=h1 other=h0 address=10.89.0.1 port=", said), said
        assert "starts a unit" not in said and "host h1 does not reach host h0 at 10.89.0.1 over net0" in said, said
    said = run_unit("--hosts", "h0:1,h1:1", "--ranks", "3", "--remote-shell", hosts.shell)
    assert "the hosts have too few slots for the 3 ranks of unit 1" in said, said
    said = run_unit("--hosts", "h0:1,h1;x:1", "--ranks", "2")
    assert "is not a host's name" in said, said
    said = run_unit("--hosts", "h0:1,h1:1", "--ranks", "2", "--remote-shell", "echo Welcome to")
    assert re.search(r"what comes from there is no agent's: .*Welcome to h[01]", said), said


def main():
    hosts = Hosts(int(sys.argv[2]))
    if not hosts.are_apart:
        print("no network namespaces can be made here (that needs root, ip and veth): cables are left out")
    alone = Server()
    wanted = ask_all(alone, Tokens(), REQUESTS)
    alone.stop()
    what_is_lacking_is_named(hosts)
    hosts.enter("h0")
    units_elsewhere(hosts, wanted)
    slots = int(sys.argv[3])
    lose_things(hosts, slots, wanted)
    if WHOLE:
        lose_ranks_with_replicas(hosts, slots, wanted)
    if WHOLE and hosts.are_apart:
        lose_the_first_host(hosts, slots, wanted)


if __name__ == "__main__":
    main()
