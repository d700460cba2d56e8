#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_ledger_leavers.py FATHOM: clients who leave while their prompts are computed pay for what was computed until then: not
for the whole prompt, and, where other units make the answers, not for nothing. The proof finds no breach, and what units have
counted is what entries say."""
import json
import os
import socket
import sqlite3
import tempfile
import time

from command import run
from server import PATIENCE, Server

PROMPT = 1920  # tokens: several steps
SHAPES = ((), ("--prefill-units", "1", "--decode-units", "1"))


class Ledger:
    def __init__(self, path):
        self.path = path

    def entries(self):
        """Of those who left: the tokens of their prompts that were charged, and those that units told of."""
        with sqlite3.connect(self.path) as database:
            found = database.execute("SELECT hit + miss, device + host + disk + computed FROM entries"
                                     " WHERE http_status = 499").fetchall()
        database.close()
        return found

    def verify(self):
        return json.loads(run("ledger", "verify", "--json", self.path))


def ask(server, key, number):
    """A connection on which an answer to a prompt that is nobody else's is asked for."""
    body = json.dumps({"prompt": [5 + (i * 7 + number * 13) % 4000 for i in range(PROMPT)], "max_tokens": 1}).encode()
    connection = socket.create_connection(("127.0.0.1", int(server.url.rsplit(":", 1)[1])), PATIENCE)
    connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                       b"Authorization: Bearer %s\r\nContent-Length: %d\r\n\r\n" % (key.encode(), len(body)) + body)
    return connection


def leave_in_mid_prompt(server, key, ledger):
    """Clients leave ever later, until one was there for a part of its prompt."""
    begun = time.monotonic()
    with ask(server, key, 0) as connection:
        assert connection.recv(4096).startswith(b"HTTP/1.1 200 "), server.said()
    whole, number = time.monotonic() - begun, 0
    while not any(0 < obtained < PROMPT for _, obtained in ledger.entries()):
        number += 1
        assert time.monotonic() - begun < PATIENCE, (whole, ledger.entries(), server.said())
        with ask(server, key, number):
            time.sleep(whole * (number % 20) / 20)
        server.wait_for(r"access  ended request=", number + 1)


def check(folder, shape):
    path = os.path.join(folder, "fathom.db")
    key = run("account", "create", "acme", "--database", path).split()[-1]
    server, ledger = Server("--database", path, *shape), Ledger(path)
    leave_in_mid_prompt(server, key, ledger)
    server.stop()
    found = ledger.verify()
    assert found["breaches"] == 0 and found["units_judged"] == (2 if shape else 1), (found, server.said())
    assert all(charged == obtained for charged, obtained in ledger.entries()), ledger.entries()


def main():
    for shape in SHAPES:
        with tempfile.TemporaryDirectory() as folder:
            check(folder, shape)


main()
