#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_load.py FATHOM REQUESTS: a server under 64 clients, of whom every tenth leaves in the middle of its answer.
Afterwards nothing may be left behind: no page held, no request waiting, running or held, every request
accounted for; and the server ends when told to."""
import asyncio
import json
import os
import random
import re
import signal
import sys
import tempfile
import time

CLIENTS = 64
REQUESTS = int(sys.argv[2])  # a multiple of 10
PATIENCE = 900


async def start(fathom):
    errors = tempfile.TemporaryFile()
    server = await asyncio.create_subprocess_exec(
        fathom, "serve", "--port", "0", "--max-batch-rows", "24", "--kv-memory", "8MiB",
        stdout=asyncio.subprocess.PIPE, stderr=errors)
    line = (await asyncio.wait_for(server.stdout.readline(), PATIENCE)).decode()
    # A seek would move the place where the server writes.
    said = os.pread(errors.fileno(), os.fstat(errors.fileno()).st_size, 0).decode()
    assert line.startswith("listening on http://127.0.0.1:"), (line, said)
    admin = re.search(r"operator is listened to url=http://127\.0\.0\.1:(\d+)\n", said)
    return server, int(line.rsplit(":", 1)[1]), int(admin.group(1))


async def metrics(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
    text = (await reader.read()).decode()
    writer.close()
    lines = text.split("\r\n\r\n", 1)[1].splitlines()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1])
            for line in lines if not line.startswith("#")}


def request(number, leaves):
    chance = random.Random(number)
    body = {"messages": [{"role": "user", "content": "What is %d + %d?" % (number, chance.randrange(999))}],
            "stream": chance.random() < 0.8 or leaves, "seed": number, "max_tokens": 200}
    if leaves:
        body.update(ignore_eos=True, max_tokens=400)
    text = json.dumps(body)
    return ("POST /v1/chat/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text)).encode()


async def visit(port, number, leaves, seen):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request(number, leaves))
    if leaves:  # somewhere between the first byte and the middle of the answer
        await reader.read(1 + number * 37 % 4000)
        writer.transport.abort()
        seen["left"] += 1
        return
    answer = await reader.read()
    writer.close()
    assert b" 200 OK" in answer[:20], answer[:300]
    assert b'"finish_reason":"stop"' in answer or b'"finish_reason":"length"' in answer, answer[-500:]
    seen["answered"] += 1


async def client(port, numbers, seen):
    while numbers:
        number = numbers.pop()
        await visit(port, number, number % 10 == 3, seen)


async def main(fathom):
    server, port, admin = await start(fathom)
    try:
        await check(server, port, admin)
    finally:
        if server.returncode is None:
            server.kill()


async def check(server, port, admin):
    seen = {"answered": 0, "left": 0}
    numbers = list(range(REQUESTS))
    await asyncio.wait_for(
        asyncio.gather(*(client(port, numbers, seen) for _ in range(CLIENTS))), PATIENCE)
    left_over = ('fathom_kv_pages{state="held"}', "fathom_requests_running", "fathom_requests_waiting",
                 "fathom_requests_held")
    until = time.monotonic() + PATIENCE
    last = await metrics(admin)
    while any(last[name] for name in left_over):
        assert time.monotonic() < until, {name: last[name] for name in left_over}
        await asyncio.sleep(0.05)
        last = await metrics(admin)
    assert seen == {"answered": REQUESTS - REQUESTS // 10, "left": REQUESTS // 10}, seen
    pages = sum(last['fathom_kv_pages{state="%s"}' % state] for state in ("free", "cached"))
    assert pages == last["fathom_kv_pages_capacity"] > 0, last
    cancelled = last["fathom_requests_cancelled_total"]  # an answer may end before its client has left
    assert 0 < cancelled <= seen["left"], last
    ended = sum(value for name, value in last.items() if name.startswith("fathom_requests_ended_total"))
    assert ended == REQUESTS, last
    server.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(server.wait(), PATIENCE) == 0
    print("ok", seen, "steps", int(last["fathom_steps_total"]))


asyncio.run(main(sys.argv[1]))
