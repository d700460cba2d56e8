#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_drain.py FATHOM: an operator drains the only unit and has it back: who asked meanwhile waits and is answered. A
server whose unit is drained ends when it is told to, and says so to who waits; an answer that runs is finished, as far
as --drain-timeout lets it."""
import concurrent.futures
import json
import signal
import urllib.error

from server import PATIENCE, Server, wait_until

QUESTION = {"messages": [{"role": "user", "content": "What is 4728 + 915?"}], "max_tokens": 24, "temperature": 0}


def answer(server, **more):
    """The message, or the error's status and code."""
    try:
        with server.open("/v1/chat/completions", {**QUESTION, **more}) as response:
            return json.load(response)["choices"][0]["message"]
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["error"]["code"]


def order(server, status=200, **wish):
    (unit,) = server.fleet()["units"]
    try:
        with server.open("/debug/fleet/drain", {"unit": unit["id"], **wish}) as response:
            code, said = response.status, json.load(response)
    except urllib.error.HTTPError as error:
        code, said = error.code, json.load(error)
    assert code == status, (code, said)
    return said


def begins(stream):
    """Whether an answer's first event comes; a busy server first writes comments that keep the connection alive."""
    return any(line.startswith(b"data: {") for line in stream)


def wait_until_queued(server, count):
    wait_until(lambda: server.fleet()["queue"] == count, server)


def main():
    server = Server("--cpu-mask", "c", "--threads", "1")
    wanted = answer(server)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for _ in range(2):
            assert order(server)["state"] == "draining"
        assert server.fleet()["units"][0]["state"] == "draining"
        waiting = pool.submit(answer, server)
        wait_until_queued(server, 1)
        assert "bakc" in order(server, 400, bakc=True)["error"]["message"]
        assert "rank" in order(server, 400, rank=0.5, back=True)["error"]["message"]
        assert server.fleet()["units"][0]["state"] == "draining"
        for _ in range(2):
            assert order(server, back=True)["state"] == "serving"
        assert waiting.result(PATIENCE) == wanted
        assert answer(server) == wanted

        stream = server.open("/v1/chat/completions", {**QUESTION, "stream": True, "max_tokens": 200, "ignore_eos": True})
        assert begins(stream)
        order(server)
        waiting = pool.submit(answer, server)
        wait_until_queued(server, 1)
        server.process.send_signal(signal.SIGTERM)
        assert waiting.result(PATIENCE) == (503, "draining")
        assert stream.read().endswith(b"data: [DONE]\n\n")  # begun before the end
        assert server.process.wait(PATIENCE) == 0, server.said()


def end_soon():
    server = Server("--cpu-mask", "c", "--threads", "1", "--drain-timeout", "0.001")
    with server.open("/v1/chat/completions",
                     {**QUESTION, "stream": True, "max_tokens": 1000, "ignore_eos": True}) as stream:
        assert begins(stream)
        server.process.send_signal(signal.SIGTERM)
        said = stream.read()
    assert b'"code":"draining"' in said, said[-300:]
    assert server.process.wait(PATIENCE) == 0, server.said()
    assert "wait_s=5" in server.said(), server.said()


main()
end_soon()
