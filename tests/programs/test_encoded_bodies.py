#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_encoded_bodies.py FATHOM: a real server decodes bodies that come as gzip, deflate or zstd, in one piece or in
chunks; what is broken, cut off or encoded otherwise is refused as what it is. A bomb is refused while it unpacks: many
of them take no memory to speak of, on either listener, and the answers of others come."""
import concurrent.futures
import gzip
import http.client
import json
import os
import re
import zlib

from server import PATIENCE, Server

CHAT = "/v1/chat/completions"
QUESTION = json.dumps({"messages": [{"role": "user", "content": "Hello " * 60}], "max_tokens": 2}).encode()
SEEDS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fuzz/seeds/content_decoder")


def seed(name):
    """What zstd made, which Python cannot; the first byte is the fuzzer's."""
    with open(os.path.join(SEEDS, name), "rb") as file:
        return file.read()[1:]


def pack_twice(text):
    return gzip.compress(text[:50]) + gzip.compress(text[50:])


def ask(url, coding, body, path=CHAT):
    """(status, headers, body)"""
    client = http.client.HTTPConnection(url.split("//")[1], timeout=PATIENCE)
    headers = {"Content-Type": "application/json", "Content-Encoding": coding}
    client.request("POST", path, body, headers, encode_chunked=not isinstance(body, bytes))
    answer = client.getresponse()
    found = answer.status, answer.headers, json.loads(answer.read())
    client.close()
    return found


def expect(status, found):
    assert found[0] == status, (status, found[0], found[2])
    return found


def peak_bytes(server):
    with open("/proc/%d/status" % server.process.pid) as file:
        return int(re.search(r"VmHWM:\s+(\d+) kB", file.read()).group(1)) << 10


def main():
    # A sanitizer would keep what is freed, and the peak would say nothing.
    server = Server(wrap=["env", "ASAN_OPTIONS=quarantine_size_mb=1:" + os.environ.get("ASAN_OPTIONS", "")])
    packed = {"gzip": gzip.compress(QUESTION), "x-gzip": pack_twice(QUESTION), "deflate": zlib.compress(QUESTION),
              "zstd": seed("zstd"), "identity, GZIP": gzip.compress(QUESTION), "identity": QUESTION}
    for coding, body in packed.items():
        prompt = expect(200, ask(server.url, coding, body))[2]["usage"]["prompt_tokens"]
        pieces = (body[i:i + 7] for i in range(0, len(body), 7))
        assert expect(200, ask(server.url, coding, pieces))[2]["usage"]["prompt_tokens"] == prompt > 60
        if "identity" != coding:
            expect(400, ask(server.url, coding, body[:-3]))
            expect(400, ask(server.url, coding, body + b"rest"))
            expect(400, ask(server.url, coding, QUESTION))
    for coding in "br", "gzip, br", "gzip, gzip", "compress":
        _, headers, said = expect(415, ask(server.url, coding, packed["gzip"]))
        assert headers["Accept-Encoding"] == "gzip, deflate, zstd" and "Content-Encoding" in said["error"]["message"]

    zeros = bytes(256 << 20)
    bombs = {"gzip": gzip.compress(zeros), "deflate": zlib.compress(zeros, 9), "zstd": seed("zstd_bomb")}
    before = peak_bytes(server)
    for coding, bomb in bombs.items():
        for _ in range(20):
            expect(413, ask(server.url, coding, bomb))
            expect(413, ask(server.admin, coding, bomb, "/debug/fleet/drain"))
        expect(200, ask(server.url, "gzip", packed["gzip"]))
    with concurrent.futures.ThreadPoolExecutor(16) as pool:  # each waits for its turn, and none is late or lost
        both = [pool.submit(ask, server.url, *kind) for kind in list(bombs.items()) * 16 + [("gzip", packed["gzip"])] * 16]
        assert [found.result()[0] for found in both] == [413] * 48 + [200] * 16
    assert peak_bytes(server) < before + (64 << 20), (before, peak_bytes(server))
    server.stop()


main()
