#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fairness.py FATHOM [options] [-- options of serve]: the cost of one account's flood for the others. A server of its
own, slow on purpose, with a database and ten accounts gets the same requests at the same times in three shapes, in
turn: the first account floods and the nine others send at a steady rate; all of it is spread evenly over the ten; the
nine alone, which is the floor. The time to the first token (TTFT) is from the connection to the first event of the
stream, and its percentiles are over the requests of a round. Each
request must be answered."""
import argparse
import asyncio
import json
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse

ACCOUNTS = 10
SLOW = ["--threads", "1", "--max-batch-rows", "4", "--queue", "1024", "--mtp", "off",
        "--no-prefix-cache", "--kv-memory", "64MiB", "--log-level", "warning"]


def options():
    own, rest = sys.argv[1:], []
    if "--" in own:
        own, rest = own[:own.index("--")], own[own.index("--") + 1:]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fathom")
    parser.add_argument("--flood", type=int, default=500, help="requests of the first account, all at once")
    parser.add_argument("--steady", type=int, default=270, help="requests of the nine others together")
    parser.add_argument("--load", type=float, default=0.5, help="of the nine, as a part of what the server can do")
    parser.add_argument("--prompt-tokens", type=int, default=48)
    parser.add_argument("--output-tokens", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(own), rest


class Request:
    def __init__(self, account, at_s):
        self.account, self.at_s = account, at_s
        self.is_steady = account != 0
        self.ttft_s = None


async def ask(wanted, url, key, request, begin_s, rolls):
    """Waits for its time, sends it, and notes when its first event has come; reads the stream to its end."""
    await asyncio.sleep(max(0.0, begin_s + request.at_s - time.monotonic()))
    body = json.dumps({"prompt": [rolls.randrange(300, 1500) for _ in range(wanted.prompt_tokens)], "stream": True,
                       "max_tokens": wanted.output_tokens, "ignore_eos": True}).encode()
    sent_s = time.monotonic()
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: %b\r\nConnection: close\r\nAuthorization: Bearer %b\r\n"
                 b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                 % (url.netloc.encode(), key.encode(), len(body)) + body)
    status = await reader.readline()
    assert b" 200 " in status, (status, await reader.read())
    rest = b""
    while b"\ndata: " not in rest:
        rest += (piece := await reader.read(65536))
        assert piece, rest
    request.ttft_s = time.monotonic() - sent_s
    while piece := await reader.read(65536):
        rest = rest[-64:] + piece
    assert b"[DONE]" in rest, rest
    writer.close()


def play(wanted, url, keys, requests, seed):
    """Seconds until all are answered."""
    async def all_of_them():
        rolls = random.Random(seed)
        begin_s = time.monotonic() + 0.1
        await asyncio.gather(*(ask(wanted, url, keys[request.account], request, begin_s, rolls)
                               for request in requests))
        return time.monotonic() - begin_s
    return asyncio.run(all_of_them())


def flood(wanted, rate):
    """One account floods, nine send at the rate together."""
    steady = [Request(1 + i % (ACCOUNTS - 1), i / rate) for i in range(wanted.steady)]
    return [Request(0, 0.0) for _ in range(wanted.flood)] + steady


def spread(requests):
    """The same at the same times, over all ten; who was steady is still known as such."""
    for i, request in enumerate(requests):
        request.account = i % ACCOUNTS
    return requests


def percentile(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(part * len(values)))]


def figures(requests):
    times = [1e3 * request.ttft_s for request in requests]
    return {"p50_ms": percentile(times, 0.5), "p99_ms": percentile(times, 0.99)}


def measure_rate(wanted, url, keys):
    """Requests a second that the server answers when it has enough to do."""
    few = [Request(i % ACCOUNTS, 0.0) for i in range(min(60, wanted.flood))]
    play(wanted, url, keys, few, 0)
    return len(few) / play(wanted, url, keys, few, 1)


def round_of(wanted, url, keys, rate, seed):
    shapes = {"flood": flood(wanted, rate), "even": spread(flood(wanted, rate)),
              "alone": [request for request in flood(wanted, rate) if request.is_steady]}
    for requests in shapes.values():
        play(wanted, url, keys, requests, seed)
    row = {"nine": figures([request for request in shapes["flood"] if request.is_steady]),
           "flood": figures([request for request in shapes["flood"] if not request.is_steady]),
           "even": figures(shapes["even"]), "alone": figures(shapes["alone"])}
    row["ratio"] = row["nine"]["p99_ms"] / row["even"]["p99_ms"]
    row["alone_ratio"] = row["nine"]["p99_ms"] / row["alone"]["p99_ms"]
    print(LINE % say(row), file=sys.stderr)
    return row


LINE = ("first token, p50 and p99: the nine during a flood %.0f, %.0f ms; all, spread evenly, %.0f, %.0f; the nine "
        "alone %.0f, %.0f; the flood itself %.0f, %.0f; p99 of the nine: %.2f of the even load's, %.2f of their own "
        "alone")


def say(row):
    return (*(row[who][part] for who in ("nine", "even", "alone", "flood") for part in ("p50_ms", "p99_ms")),
            row["ratio"], row["alone_ratio"])


def middle(rounds, *path):
    def value(row):
        for name in path:
            row = row[name]
        return row
    return statistics.median(value(row) for row in rounds)


def median_of(rounds):
    row = {who: {part: middle(rounds, who, part) for part in ("p50_ms", "p99_ms")}
           for who in ("nine", "even", "alone", "flood")}
    return {**row, "ratio": middle(rounds, "ratio"), "alone_ratio": middle(rounds, "alone_ratio")}


def make_accounts(fathom, database):
    return [subprocess.run([fathom, "account", "create", "account-%d" % i, "--database", database], check=True,
                           stdout=subprocess.PIPE, text=True).stdout.split()[-1] for i in range(ACCOUNTS)]


def main():
    wanted, serve = options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))  # so that the server ends, too
    with tempfile.TemporaryDirectory() as folder:
        database = folder + "/fathom.db"
        keys = make_accounts(wanted.fathom, database)
        server = subprocess.Popen([wanted.fathom, "serve", "--port", "0", "--database", database, *SLOW, *serve],
                                  stdout=subprocess.PIPE, text=True)
        try:
            url = urllib.parse.urlsplit(server.stdout.readline().removeprefix("listening on ").strip())
            rate = measure_rate(wanted, url, keys)
            print("%.1f requests a second" % rate, file=sys.stderr)
            rounds = [round_of(wanted, url, keys, wanted.load * rate, 10 + i) for i in range(wanted.rounds)]
        finally:
            server.kill()
    found = median_of(rounds)
    if wanted.json:
        print(json.dumps({"requests_per_second": rate, "rounds": rounds, "median": found}))
    else:
        print("median of %d rounds, %.0f requests a second at most: " % (len(rounds), rate) + LINE % say(found))


main()
