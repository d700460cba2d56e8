#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_kv_survivors.py FATHOM: ranks die whose KV pages have ways in and out, and the others go on without a restart:
with a KV storage, and with prompts in one unit and answers in another, where ranks of both die in the middle of
transfers. Every answer is the very one of a single process, no request is lost, pages are all back,
the dead ranks come back, and then blocks go to and from them again. Prints how long streams stood still, and how
many requests were handed over."""
import atexit
import concurrent.futures
import os
import signal
import sys
import tempfile

import streams
import test_survivors as survivors
from server import Server
from streams import ALL, Tokens, ask_all

# Several blocks, with common beginnings, beside short ones.
STORY = "The lantern keeper counted %s steps down to the sea and wrote the number into his book. "
for i in range(10):
    text = "".join(STORY % (7 * j % (90 + i // 3)) for j in range(6 + 3 * i))
    ALL.append({"question": text + "How many steps?", "stream": i % 2 == 0, "seed": i, "temperature": 0.7})
LONG = ALL[-10:] * 4


def open_server(*options):
    server = Server(*options)
    atexit.register(lambda: print(server.said(), file=sys.stderr))
    return server


def with_a_storage(wanted, *options):
    server = open_server("--ranks", "4", "--redundant-experts", "64", "--kv-memory", "16MiB", *options)
    name = "storage " + " ".join(option.lstrip("-") for option in options[::2])
    assert ask_all(server, Tokens()) == wanted  # it fills
    for count, rank in enumerate((2, 1, 2), 1):
        survivors.lose(server, wanted, rank, name, 1 + (count == 3))
    server.stop()


def handed(server):
    return server.fleet()["handed_over_total"]


def lose_apart(server, wanted, role, ranks, times=1):
    """Kills ranks of that unit while prompts travel, and waits until they are back and answers are as ever."""
    pids = server.units()
    unit = next(i for i, unit in enumerate(server.fleet()["units"]) if unit["role"] == role)
    job = ["prefill", "decode"].index(role) + 1
    tokens = Tokens()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answers = pool.submit(ask_all, server, tokens)
        long = [ALL.index(request) for request in LONG]
        before = handed(server)
        more = ask_all_beside(server, pids, unit, ranks, before)
        assert more == [wanted[i] for i in long], "long ones"
        assert answers.result() == wanted
    for rank in ranks:
        back = server.wait_for(r"a rank is there again job=%d rank=%d pid=(\d+)" % (job, rank), times)
        pids[unit][rank] = int(back.group(1))
    survivors.wait_for_units(server, pids)
    assert "its unit starts" not in server.said() and "starts again job" not in server.said(), server.said()
    server.no_page_is_held()
    before = handed(server)
    assert ask_all(server, Tokens(), LONG) == [wanted[i] for i in long]
    server.no_page_is_held()
    print("apart: ranks %s of the %s unit killed, afterwards %d of %d handed over" % (
        ranks, role, handed(server) - before, len(LONG)), flush=True)
    assert handed(server) - before > len(LONG) / 2


def ask_all_beside(server, pids, unit, ranks, before):
    """Asks the long ones, and kills as soon as some of them were handed over."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answers = pool.submit(ask_all, server, Tokens(), LONG)
        while handed(server) < before + 3 and not answers.done():
            pass
        for rank in ranks:
            os.kill(pids[unit][rank], signal.SIGKILL)
        return answers.result()


def apart(wanted, *options):
    server = open_server("--prefill-units", "1", "--prefill-ranks", "4", "--decode-units", "1", "--decode-ranks", "4",
                         "--redundant-experts", "128", *options)  # two of four may die together
    server.wait_for_units(2)
    assert ask_all(server, Tokens()) == wanted
    lose_apart(server, wanted, "prefill", [1])
    lose_apart(server, wanted, "decode", [2])
    lose_apart(server, wanted, "prefill", [1], 2)
    lose_apart(server, wanted, "decode", [1, 3])
    server.stop()


def main():
    alone = Server("--mtp", "off")
    wanted = ask_all(alone, Tokens())
    alone.stop()
    with tempfile.TemporaryDirectory() as directory:
        with_a_storage(wanted, "--kv-dir", directory, "--kv-disk", "64MiB")
        apart(wanted, "--kv-dir", directory, "--kv-disk", "64MiB")
    with_a_storage(wanted, "--kv-host", "32MiB")
    apart(wanted)


if __name__ == "__main__":
    main()
