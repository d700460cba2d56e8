#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_storm_clients.py FATHOM ABORTS: clients who harm a fleet of a unit for prompts and one for answers, beside
others who are served as if nothing were: so many leave at any moment of their request; some stop reading their
streams, for ever (they are cut off, and the gateway's memory is bounded) or for a while (they miss nothing). Every
answer is the very one of an undisturbed server, and in the end nothing is held by any rank."""
import concurrent.futures
import json
import os
import random
import socket
import sys
import time

from storm import PATIENCE, Broken, Fleet, Load, answer_alone, completion, make_prompt, make_requests

REQUESTS = make_requests(6)
GATEWAY_GROWTH_MAX = 64 << 20  # bytes, by readers who stopped: each may leave 256 KiB unread
chance = random.Random(17)


def send(fleet, request, window=None):
    """A socket on which the answer comes; `window`: bytes that it takes unread."""
    host, port = fleet.url.removeprefix("http://").rsplit(":", 1)
    connection = socket.socket()
    if window:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
    connection.settimeout(PATIENCE)
    connection.connect((host, int(port)))
    path, body = request
    data = json.dumps(body).encode()
    connection.sendall(b"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (
        path.encode(), host.encode(), len(data)) + data)
    return connection


# ---- who leave ----------------------------------------------------------------------------------

def make_abort():
    """A request that is longest in the queue, the prompt, the transfer or the answer; and when its client leaves."""
    kind = chance.randrange(4)
    prompt = make_prompt(chance, chance.choice((200, 600)) if kind < 3 else 40)
    return completion(prompt, 2 if kind < 2 else 100, stream=chance.random() < 0.7,
                      n=chance.choice((1, 1, 3))), chance.choice((0, 0.002, 0.02, 0.1, 0.2)) * chance.random()


def abort(fleet, request, seconds):
    connection = send(fleet, request)
    time.sleep(seconds)
    if seconds < 0.01:  # a reset; else a polite end
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    connection.close()


def clients_leave(fleet, wanted, aborts):
    with Load(fleet, REQUESTS, wanted) as load, concurrent.futures.ThreadPoolExecutor(12) as pool:
        for left in [pool.submit(abort, fleet, *make_abort()) for _ in range(aborts)]:
            left.result()
        load.more(10)
        print("%d clients left" % aborts, flush=True)
    fleet.nothing_is_left()


# ---- who stop reading ---------------------------------------------------------------------------

def read_text(connection):
    """The pieces of a stream, to its end."""
    with connection, connection.makefile("rb") as file:
        pieces = []
        for line in file:
            if line == b"data: [DONE]\n":
                return "".join(pieces)
            if line.startswith(b"data: {"):
                pieces += [choice["text"] for choice in json.loads(line[6:])["choices"]]
    raise Broken("".join(pieces), "the stream ended without its end")


def resident_bytes(process):
    with open("/proc/%d/statm" % process.process.pid, encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def wordy(tokens, seed):
    """An answer of many bytes: each token comes with twenty others."""
    return completion(make_prompt(random.Random(seed), 20), tokens, stream=True, temperature=0.9, seed=seed, n=4,
                      logprobs=20, ignore_eos=True)


def readers_stop(fleet, wanted, count, tokens, all_kept):
    """All_kept: their answers may fit into what is kept for them on the way, mostly by the kernel."""
    before = resident_bytes(fleet.gateway)
    with Load(fleet, REQUESTS, wanted) as load:
        stopped = [send(fleet, wordy(tokens, seed), window=4096) for seed in range(count)]
        load.more()
        grown = resident_bytes(fleet.gateway) - before
        print("%d clients stopped reading; the gateway grew by %.1f MiB" % (count, grown / 2**20), flush=True)
        assert grown < GATEWAY_GROWTH_MAX
    fleet.nothing_is_left()  # while they are still connected
    for connection in stopped:
        try:
            read_text(connection)
            assert all_kept, "all was kept for a reader who had stopped"
        except Broken:
            pass


def readers_pause(fleet, wanted):
    """Less than what is kept for a reader: it comes, however late."""
    request = completion(make_prompt(chance, 30), 200, stream=True, ignore_eos=True, temperature=0.9, seed=3)
    late = send(fleet, request, window=4096)
    at_once = read_text(send(fleet, request))
    with Load(fleet, REQUESTS, wanted) as load:
        load.more(20)
    assert read_text(late) == at_once
    fleet.nothing_is_left()


def main():
    wanted = answer_alone(REQUESTS)
    fleet = Fleet("--kv-send-rate", "8MiB")
    aborts = int(sys.argv[2])
    if aborts < 1000:
        readers_stop(fleet, wanted, 8, 100, True)
    else:
        readers_stop(fleet, wanted, 4, 1900, False)
    readers_pause(fleet, wanted)
    clients_leave(fleet, wanted, aborts)
    fleet.stop()


if __name__ == "__main__":
    main()
