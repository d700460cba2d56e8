#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A few clients with prompts of 8 MB stop nobody: each of them is told that it cannot fit, while streams go on, of
one answer and of sixteen, none is cut off, and /health says 200 all the time. A body of 700,000 keys is refused, too."""
import http.client
import json
import threading

from server import PATIENCE, Server

POSTERS = 8
TEXT = 8_000_000
server = Server()
host = server.url.removeprefix("http://")
over = threading.Event()
failures, chunks = [], [0, 0]


def post(body):
    connection = http.client.HTTPConnection(host, timeout=PATIENCE)
    connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
    return connection.getresponse()


def thread(function, *arguments):
    def run():
        try:
            function(*arguments)
        except BaseException as failure:  # told by the main thread
            failures.append(failure)
            over.set()
    one = threading.Thread(target=run)
    one.start()
    return one


def stream(index, n):
    """One after the other; each ends as it should."""
    while not over.is_set():
        answer = post(json.dumps({"prompt": "Once upon a time", "stream": True, "n": n, "max_tokens": 100,
                                  "ignore_eos": True}))
        assert answer.status == 200, answer.read()
        for line in answer:
            chunks[index] += line.startswith(b"data: {")
        assert line == b"\n" and answer.isclosed(), line  # http.client raises when a chunked answer is cut


def ask_for_health():
    while not over.is_set():
        with server.open("/health") as answer:
            assert answer.status == 200  # others raise


def be_refused():
    answer = post(b'{"prompt":"' + b"x" * TEXT + b'"}')
    error = json.load(answer)["error"]
    assert answer.status == 400 and error["code"] == "context_length_exceeded", (answer.status, error)
    assert "However, the request has at least " in error["message"], error


others = [thread(stream, 0, 1), thread(stream, 1, 16), thread(ask_for_health)]
before = None
while not over.is_set():
    if before is None and min(chunks) > 0:  # both streams are under way
        before = list(chunks)
    for poster in [thread(be_refused) for _ in range(POSTERS)]:
        poster.join()
    if before and all(now > then + 20 for now, then in zip(chunks, before)):
        break
over.set()
for other in others:
    other.join()
assert not failures, failures

many = post(b'{"prompt":"a","x":{' + b",".join(b'"%x":0' % i for i in range(700_000)) + b"}}")
error = json.load(many)["error"]
assert many.status == 413 and "more than 65536 keys" in error["message"], error
ids = post(json.dumps({"prompt": [7] * 2000, "max_tokens": 1}))
assert ids.status == 200, ids.read()
server.stop()
print("ok")
