#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_ledger_served.py FATHOM: a server with a ledger: what answers' `usage` said is what the ledger has, at the price
of the name that was asked for; names that an account may not ask for are none, DeepSeek's two included; keys that
are made, revoked and out of money hold within a second; and after kill -9 in mid-load no answer that a client saw
whole is missing, none is there twice, and the proof finds no breach. A request of several prompts that one of them fails is
not free."""
import http.client
import json
import os
import sqlite3
import tempfile
import threading
import time
import urllib.error
import urllib.request

from command import run
from server import PATIENCE, Process, wait_until

PRICES = """
currency: USD
node_hour: 16
input_hit: 0.5
input_miss: 2
output: 4
models:
  - {name: large, input_hit: 1, input_miss: 8, output: 32}
  - name: deepseek-reasoner
    input_hit: 64
    input_miss: 64
    output: 64
    periods: [{from_hour: 0, to_hour: 24, input_hit: 3, input_miss: 5, output: 7}]
  - {name: unserved, input_hit: 99, input_miss: 99, output: 99}
"""
# What is asked for, and what a million of its hits, misses and output costs: now, and at list prices
NAMES = {"tiny-r1": ((0.5, 2, 4), (0.5, 2, 4)), "large": ((1, 8, 32), (1, 8, 32)),
         "default": ((0.5, 2, 4), (0.5, 2, 4)), "deepseek-reasoner": ((3, 5, 7), (64, 64, 64))}


class LedgerServer(Process):
    def __init__(self, folder):
        self.database = os.path.join(folder, "fathom.db")
        prices = os.path.join(folder, "prices.yaml")
        with open(prices, "w", encoding="utf-8") as file:
            file.write(PRICES)
        super().__init__("serve", "--port", "0", "--kv-memory", "16MiB", "--database", self.database, "--prices", prices,
                         "--served-name", "tiny-r1,large")
        self.wait_for_url()

    def ask(self, key, number, stream=False, model="tiny-r1"):
        """The answer's usage."""
        body = {"model": model, "prompt": "Count: %d, " % number, "max_tokens": 1 + number % 5, "temperature": 0,
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
    sums, amount, list_amount = [0, 0, 0, 0], 0, 0
    for number in range(16):
        model = list(NAMES)[number // 2 % 4]
        usage = server.ask(key, number % 7, number % 2, model)
        used = [usage[name] for name in ("prompt_cache_hit_tokens", "prompt_cache_miss_tokens", "completion_tokens")]
        sums = [a + b for a, b in zip(sums, [1, *used])]
        amount += sum(a * b for a, b in zip(used, NAMES[model][0])) * 1e-6
        list_amount += sum(a * b for a, b in zip(used, NAMES[model][1])) * 1e-6
    found = report(server)["accounts"]  # an answer that was seen is there
    assert len(found) == 1 and found[0]["account"] == "acme" and found[0]["currency"] == "USD", found
    assert [found[0][name] for name in ("requests", "hit_tokens", "miss_tokens", "output_tokens")] == sums, (found, sums)
    assert abs(found[0]["amount"] - amount) < 1e-12, (found, amount)
    assert abs(found[0]["list_amount"] - list_amount) < 1e-12 and list_amount > amount, (found, list_amount)
    with sqlite3.connect(server.database) as database:
        counts = dict(database.execute("SELECT model, count(*) FROM entries GROUP BY model").fetchall())
    database.close()
    assert counts == {"tiny-r1": 8, "large": 4, "deepseek-reasoner": 4}, counts
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


def check_models(server):
    """DeepSeek's two names are names like others: who may ask for some names has them if they are among those."""
    other = account(server, "create", "other", "--models", "large")
    wait_for_status(server, other, 200)
    names = ("large", "tiny-r1", "default", "deepseek-reasoner")
    assert [server.status(other, "/v1/models/" + name) for name in names] == [200, 404, 404, 404]
    for name in ("default", "deepseek-reasoner"):
        try:
            raise AssertionError(server.ask(other, 1, model=name))
        except urllib.error.HTTPError as error:
            assert error.code == 404, error
    account(server, "limit", "other", "--models", "deepseek-reasoner")
    begun = time.monotonic()
    while [server.status(other, "/v1/models/" + name) for name in names] != [404, 404, 404, 200]:
        assert time.monotonic() - begun < PATIENCE, server.said()
        time.sleep(0.05)
    assert server.ask(other, 1, model="deepseek-reasoner")["completion_tokens"]


def fail_by_echo(server, key, token):
    """Asks about short prompts and a long one of that token, and for a few tokens behind each; the 413's message."""
    body = {"model": "tiny-r1", "prompt": [[5, 6, 7, 8]] * 127 + [[token] * 1950], "echo": True, "logprobs": 3, "max_tokens": 20,
            "ignore_eos": True, "temperature": 1}
    try:
        with urllib.request.urlopen(urllib.request.Request(
                server.at("/v1/completions"), json.dumps(body).encode(),
                {"Content-Type": "application/json", "Authorization": "Bearer " + key}), timeout=PATIENCE) as answer:
            refusal = answer.read()
            assert refusal.startswith(b"\n"), refusal[:500]  # on a busy machine blank lines, which keep the connection alive, went ahead
    except urllib.error.HTTPError as error:
        assert error.code == 413, error
        refusal = error.read()
    return json.loads(refusal)["error"]["message"]


def check_failures(server):
    """A prompt whose log probabilities outgrow the answer is refused before it begins where that can be known: token 4089 has no
    text, and a long name. Where it cannot, the request pays for what was made for its other prompts: no failing prompt makes them free."""
    key = account(server, "create", "echoes")
    wait_for_status(server, key, 200)
    assert fail_by_echo(server, key, 4089).startswith("'prompt[127]': ")
    assert "echoes" not in [one["account"] for one in report(server)["accounts"]]
    assert "prompt[" not in fail_by_echo(server, key, 5)
    verify(server)
    found, begun = [], time.monotonic()
    while not found:
        assert time.monotonic() - begun < PATIENCE, server.said()
        found = [one for one in report(server)["accounts"] if one["account"] == "echoes"]
    with sqlite3.connect(server.database) as database:
        made, output, charged = database.execute("SELECT made, output, is_charged FROM entries WHERE choices = 128").fetchone()
    database.close()
    assert made >= output > 0 and charged == 1 and found[0]["output_tokens"] == output, (made, output, charged, found)
    verify(server)


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
        assert "all requests are refused before" in server.said()
        assert server.status("sk-" + "0" * 64) == 401
        key = account(server, "create", "acme")
        wait_for_status(server, key, 200)
        check_usage(server, key)
        check_changes(server, key)
        check_models(server)
        check_failures(server)
        wait_until(lambda: verify(server)["units_judged"], pause=0.2)  # reported every two seconds
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
