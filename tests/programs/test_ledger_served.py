#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_ledger_served.py FATHOM: a server with a ledger: what answers' `usage` said is what the ledger has, at the price of
the file; keys that are made, revoked and out of money hold within a second; and after kill -9 in mid-load no answer that a
client saw whole is missing, none is there twice, and the proof finds no breach."""
import http.client
import json
import os
import sqlite3
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

from command import run
from server import PATIENCE, Process

PRICES = "currency: USD\nnode_hour: 16\ninput_hit: 0.5\ninput_miss: 2\noutput: 4\n"


class LedgerServer(Process):
    def __init__(self, folder):
        self.database = os.path.join(folder, "fathom.db")
        prices = os.path.join(folder, "prices.yaml")
        with open(prices, "w", encoding="utf-8") as file:
            file.write(PRICES)
        super().__init__("serve", "--port", "0", "--kv-memory", "16MiB", "--database", self.database, "--prices", prices)
        self.wait_for_url()

    def ask(self, key, number, stream=False):
        """The answer's usage."""
        body = {"prompt": "Count: %d, " % number, "max_tokens": 1 + number % 5, "temperature": 0,
                "stream": bool(stream)}
        if stream:
            body["stream_options"] = {"include_usage": True}
        with urllib.request.urlopen(urllib.request.Request(
                self.at("/v1/completions"), json.dumps(body).encode(),
                {"Content-Type": "application/json", "Authorization": "Bearer " + key}), timeout=PATIENCE) as answer:
            text = answer.read().decode()
        if not stream:
            return json.loads(text)["usage"]
        assert text.endswith("data: [DONE]\n\n"), text
        return [json.loads(line[6:])["usage"] for line in text.splitlines() if line.startswith("data: {")][-1]

    def status(self, key, path="/v1/models"):
        try:
            with urllib.request.urlopen(urllib.request.Request(
                    self.at(path), None, {"Authorization": "Bearer " + key}), timeout=PATIENCE):
                return 200
        except urllib.error.HTTPError as error:
            return error.code


def account(server, *arguments):
    return run("account", *arguments, "--database", server.database).strip()


def report(server):
    return json.loads(run("ledger", "report", "--json", server.database))


def verify(server):
    done = json.loads(run("ledger", "verify", "--json", server.database))
    assert done["breaches"] == 0, done
    return done


def wait_for_status(server, key, wanted):
    begun = time.monotonic()
    while server.status(key) != wanted:
        assert time.monotonic() - begun < PATIENCE, (wanted, server.said())
        time.sleep(0.05)


def check_usage(server, key):
    sums = [0, 0, 0, 0]
    for number in range(12):
        usage = server.ask(key, number % 7, stream=number % 2)
        sums[0] += 1
        sums[1] += usage["prompt_cache_hit_tokens"]
        sums[2] += usage["prompt_cache_miss_tokens"]
        sums[3] += usage["completion_tokens"]
    found = report(server)["accounts"]  # an answer that was seen is there
    assert len(found) == 1 and found[0]["account"] == "acme" and found[0]["currency"] == "USD", found
    assert [found[0][name] for name in ("requests", "hit_tokens", "miss_tokens", "output_tokens")] == sums, (found, sums)
    assert abs(found[0]["amount"] - (sums[1] * 0.5 + sums[2] * 2 + sums[3] * 4) * 1e-6) < 1e-12, (found, sums)
    verify(server)


def check_changes(server, key):
    other = account(server, "key", "acme")
    wait_for_status(server, other, 200)
    digest = json.loads(account(server, "show", "acme", "--json"))["accounts"][0]["keys"][1]["sha256"]
    account(server, "revoke", "acme", "--key", digest[:12])
    wait_for_status(server, other, 401)
    assert server.status(key) == 200
    lab = account(server, "create", "lab")
    wait_for_status(server, lab, 200)
    account(server, "revoke", "lab")
    wait_for_status(server, lab, 401)


def load(server, key, seen, number):
    """Asks until the server is gone; notes what came whole."""
    while True:
        try:
            usage = server.ask(key, number, stream=number % 2)
            seen.append(usage["completion_tokens"])
        except (OSError, AssertionError, ValueError, http.client.HTTPException):
            return
        number += 4


def check_kills(folder, server, key):
    for round_number in range(3):
        before = report(server)["accounts"][0]
        seen = [[] for _ in range(4)]
        threads = [threading.Thread(target=load, args=(server, key, seen[i], i)) for i in range(4)]
        for thread in threads:
            thread.start()
        while sum(map(len, seen)) < 8 + 5 * round_number:
            time.sleep(0.002)
        server.kill()
        for thread in threads:
            thread.join()
        after = report(server)["accounts"][0]
        whole, tokens = sum(map(len, seen)), sum(map(sum, seen))
        assert whole <= after["requests"] - before["requests"] <= whole + 4, (whole, before, after)
        assert tokens <= after["output_tokens"] - before["output_tokens"] <= tokens + 4 * 5, (tokens, before, after)
        verify(server)
        server = LedgerServer(folder)
    return server


def main():
    with tempfile.TemporaryDirectory() as folder:
        server = LedgerServer(folder)
        assert "nobody may ask before" in server.said()
        assert server.status("sk-" + "0" * 64) == 401
        key = account(server, "create", "acme")
        wait_for_status(server, key, 200)
        check_usage(server, key)
        check_changes(server, key)
        until = time.monotonic() + PATIENCE
        while not (found := verify(server))["units_judged"]:  # told every two seconds
            assert time.monotonic() < until, found
            time.sleep(0.2)
        server = check_kills(folder, server, key)
        server.ask(key, 3)
        server.stop()
        found = verify(server)
        with sqlite3.connect(server.database) as database:
            ended = database.execute("SELECT count(*) FROM gateways WHERE ended IS NOT NULL").fetchone()
        database.close()
        assert ended == (1,) and found["entries"] > 20, (ended, found)
        said = server.said()
        assert "sk-" not in said and key[3:] not in said


main()
