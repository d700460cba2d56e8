#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_apart.py FATHOM PREFILL_RANKS DECODE_RANKS [REQUESTS]: prompts in some units, answers in others, their KV blocks in
between: every answer is the very one of a single process, short prompts and long ones, with a warm cache and a
cold one, with one unit of each kind and with two of several ranks; nearly all requests are handed over; pages are
all back. Then a prefill unit is killed in the middle of it, and a decode unit: no request is lost. REQUESTS: only
one unit of each kind and so many ranks, and only so many requests, for very many processes."""
import atexit
import json
import os
import signal
import sys

import streams
import test_faults as faults

PREFILL_RANKS, DECODE_RANKS = sys.argv[2], sys.argv[3]

# Several blocks, with common beginnings; the model's context is short.
STORY = "The lantern keeper counted %s steps down to the sea and wrote the number into his book. "
for i in range(10):
    text = "".join(STORY % (7 * j % (90 + i // 3)) for j in range(6 + 3 * i))
    streams.ALL.append({"question": text + "How many steps?", "stream": i % 2 == 0, "seed": i, "temperature": 0.7})


def serve_apart(wanted, *options):
    server = faults.Server(*options)
    atexit.register(lambda: print(server.said(), file=sys.stderr))
    server.wait_for_units(sum(int(n) for o, n in zip(options, options[1:]) if o.endswith("-units")))
    for path, said in ("/health", "ok"), ("/live", "live"):
        with server.open(path) as response:
            assert json.load(response) == {"status": said}
    before = server.fleet()["handed_over_total"]
    for cache in ("cold", "warm"):
        found = faults.ask_all(server, faults.Tokens())
        assert found == wanted, (options, cache, [(a, b) for a, b in zip(found, wanted) if a != b][:1])
    server.no_page_is_held()
    handed = server.fleet()["handed_over_total"] - before
    print("%s: %d of %d handed over" % (" ".join(options), handed, 2 * len(wanted)), flush=True)
    assert handed > len(wanted), handed
    return server


def main():
    if sys.argv[4:]:
        faults.Server.kv_memory = "1GiB"  # a request has to fit one of the ranks
        streams.ALL[:] = streams.ALL[::len(streams.ALL) // int(sys.argv[4])]
    alone = faults.Server()
    wanted = faults.ask_all(alone, faults.Tokens())
    alone.stop()
    if sys.argv[4:]:
        serve_apart(wanted, "--prefill-units", "1", "--prefill-ranks", PREFILL_RANKS, "--decode-units", "1",
                    "--decode-ranks", DECODE_RANKS, "--rank-timeout", "600").stop()  # they wait for CPUs, mostly
        return
    server = serve_apart(wanted, "--prefill-units", "1", "--decode-units", "1")
    for role in ("prefill", "decode"):
        faults.disturb(server, wanted, lambda: os.kill(server.first_pid(role), signal.SIGKILL),
                       "a unit ended, it starts again .*signal 9", "the %s unit killed" % role)
    server.stop()
    serve_apart(wanted, "--prefill-units", "2", "--prefill-ranks", PREFILL_RANKS, "--decode-units", "2",
                "--decode-ranks", DECODE_RANKS).stop()


main()
