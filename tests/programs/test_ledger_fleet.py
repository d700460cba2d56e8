#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_ledger_fleet.py FATHOM GOLDEN [REQUESTS] [SEED]: two gateways with one ledger on one port, two units, sixteen clients of
eight accounts, and kill -9 of gateways (in which the ledger's writer lives) and units at random moments. Each answer that a
client saw whole is in the ledger once, under its own id, with the tokens and the key that the client knows; what nobody saw
whole is at most one answer for each broken connection; sums are those of the entries, and the counters of units agree, before
the kills and behind them. `./dev books` runs many requests."""
import http.client
import json
import os
import random
import sqlite3
import sys
import tempfile
import threading
import time

from command import run
from server import PATIENCE, Process, wait_until

PRICES = "currency: USD\nnode_hour: 16\ninput_hit: 0.5\ninput_miss: 2\noutput: 4\n"
NANOS = (500, 2000, 4000)  # of a token: hit, miss, output
ACCOUNTS, CLIENTS = 8, 16
UNSAID_END_SECONDS = 10  # src/host/ledger/ledger_verify.c
CUTS = ((0,), (1,), (0,), (1,), (2,), (3,), (0, 2), (0, 1), (2, 3), (0, 1, 2, 3))  # gateways are 0 and 1, units 2 and 3


class Fleet:
    def __init__(self, folder):
        self.folder, self.database = folder, os.path.join(folder, "fathom.db")
        self.addresses = ["ipc://" + os.path.join(folder, name) for name in ("a", "b")]
        with open(os.path.join(folder, "prices.yaml"), "w", encoding="utf-8") as file:
            file.write(PRICES)
        self.keys = [run("account", "create", "account-%d" % number, "--database", self.database).strip()
                     for number in range(ACCOUNTS)]
        self.kills, self.last_kill, self.port = 0, 0, "0"
        self.processes = [self.gateway(0)]
        self.port = self.processes[0].url.rsplit(":", 1)[1]
        self.processes += [self.gateway(1), self.unit(), self.unit()]

    def gateway(self, number):
        process = Process("gateway", "--listen", self.addresses[number], "--port", self.port, "--admin-port", "0",
                          "--share-port", "--database", self.database, "--prices",
                          os.path.join(self.folder, "prices.yaml"))
        process.wait_for_url()
        return process

    def unit(self):
        return Process("unit", "--connect", ",".join(self.addresses), "--kv-memory", "16MiB", "--mtp", "off")

    def kill(self, numbers):
        """These at once; others take their places."""
        for number in numbers:
            self.processes[number].process.kill()
        for number in numbers:
            self.processes[number].kill()
            self.processes[number].forget()
        for number in numbers:
            self.processes[number] = self.gateway(number) if number < 2 else self.unit()
        self.kills, self.last_kill = self.kills + len(numbers), time.monotonic()

    def renew_units(self):
        """Other ones, for which no gateway that was killed can have done anything."""
        for number in (2, 3):
            self.processes[number].wait_for("gateway  is connected")  # before it serves, SIGTERM ends it without a word
            self.processes[number].stop()
            self.processes[number].forget()
        time.sleep(max(0, self.last_kill + UNSAID_END_SECONDS + 1 - time.monotonic()))
        for number in (2, 3):
            self.processes[number] = self.unit()

    def await_write(self):
        """Until the writer has just written into its log."""
        log, until = self.database + "-wal", time.monotonic() + 0.2
        before = os.stat(log).st_mtime_ns
        while os.stat(log).st_mtime_ns == before and time.monotonic() < until:
            pass


class Client(threading.Thread):
    """Asks one thing after the other on one connection, and makes another one when a gateway goes."""

    def __init__(self, load, number):
        super().__init__(daemon=True)
        self.load, self.number, self.connection = load, number, None

    def answer(self, key, number, stream):
        """The whole answer's id, hit, miss and output tokens."""
        if not self.connection:
            self.connection = http.client.HTTPConnection("127.0.0.1", int(self.load.fleet.port), timeout=PATIENCE)
        body = {"prompt": "%d and then: " % (number % 1000), "max_tokens": 1 + number % (40 if number % 10 == 0 else 4),
                "temperature": 0, "stream": stream}
        if stream:
            body["stream_options"] = {"include_usage": True}
        self.connection.request("POST", "/v1/completions", json.dumps(body), {
            "Content-Type": "application/json", "Authorization": "Bearer " + key})
        answer = self.connection.getresponse()
        text = answer.read().decode()
        if answer.status != 200:  # no unit was there for too long
            raise ValueError(text)
        if stream:
            if not text.endswith("data: [DONE]\n\n"):
                raise ValueError("no whole stream")
            text = [line[6:] for line in text.splitlines() if line.startswith("data: {")][-1]
        last = json.loads(text)
        if "error" in last:
            raise ValueError(last)
        usage = last["usage"]
        return (last["id"].split("-")[1], usage["prompt_cache_hit_tokens"], usage["prompt_cache_miss_tokens"],
                usage["completion_tokens"])

    def begin_anew(self):
        if self.connection:
            self.connection.close()
        self.connection = None
        time.sleep(0.01)

    def run(self):
        number = self.number
        while not self.load.ending:
            account = number % ACCOUNTS
            try:
                self.load.whole.append((account, *self.answer(self.load.fleet.keys[account], number, number // 3 % 2 == 1)))
            except ConnectionRefusedError:  # nobody has heard of it
                self.load.refused.append(number)
                self.begin_anew()
            except (OSError, ValueError, http.client.HTTPException):
                self.load.broken.append(number)
                self.begin_anew()
            number += CLIENTS + 1


class Load:
    def __init__(self, fleet, before=None):
        self.fleet, self.ending = fleet, False
        self.whole, self.broken, self.refused = (before.whole, before.broken, before.refused) if before else ([], [], [])
        self.clients = [Client(self, number) for number in range(CLIENTS)]
        for client in self.clients:
            client.start()

    def wait_for(self, count):
        wait_until(lambda: len(self.whole) >= count, found=lambda: (len(self.whole), len(self.broken)))

    def end(self):
        self.ending = True
        for client in self.clients:
            client.join()


def verify(fleet):
    found = json.loads(run("ledger", "verify", "--json", fleet.database))
    assert found["breaches"] == 0, found
    return found


def cost(tokens):
    return sum(price * count for price, count in zip(NANOS, tokens))


def check_answers(fleet, load):
    """What clients saw against the entries, one by one."""
    database = sqlite3.connect(fleet.database)
    rows = database.execute("SELECT printf('%016x%016x', high, low), a.name, sha256, hit, miss, output, amount, is_charged"
                            " FROM entries e JOIN accounts a ON a.id = e.account JOIN keys k ON k.id = e.key").fetchall()
    count = database.execute("SELECT count(*) FROM entries").fetchone()[0]
    database.close()
    entries = {row[0]: row[1:] for row in rows}
    assert len(entries) == len(rows) == count, (len(entries), len(rows), count)
    names = ["account-%d" % number for number in range(ACCOUNTS)]
    keys = {name: {row[2] for row in rows if row[1] == name} for name in names}
    assert all(len(found) <= 1 for found in keys.values()), keys
    for account, name, *tokens in load.whole:
        wanted = (names[account], *tokens, cost(tokens), 1)
        found = entries[name]
        assert (found[0], *found[2:]) == wanted, (name, wanted, found)
    assert len({answer[1] for answer in load.whole}) == len(load.whole)
    assert count - len(load.whole) <= len(load.broken), (count, len(load.whole), len(load.broken))
    report = {row["account"]: row for row in json.loads(run("ledger", "report", "--json", fleet.database))["accounts"]}
    for name in names:
        charged = [row[3:7] for row in rows if row[1] == name and row[7]]
        sums = [len(charged)] + [sum(row[i] for row in charged) for i in range(3)]
        found = [report[name][field] for field in ("requests", "hit_tokens", "miss_tokens", "output_tokens")]
        assert sums == found and abs(report[name]["amount"] - sum(row[3] for row in charged) * 1e-9) < 1e-6, (sums, found)
    return count


def wait_for_judged(fleet, count):
    wait_until(lambda: verify(fleet)["units_judged"] >= count, pause=0.2)


def kill_until(load, requests, rolls):
    fleet, cuts, said = load.fleet, 0, time.monotonic()
    while len(load.whole) < requests:
        load.wait_for(min(requests, len(load.whole) + rolls.randrange(5, min(120, requests // 10))))
        if rolls.randrange(2):
            fleet.await_write()
        time.sleep(rolls.random() ** 2 * 0.02)
        fleet.kill(rolls.choice(CUTS))
        cuts += 1
        if cuts % 50 == 1:
            verify(fleet)
        if time.monotonic() > said + 30:
            said = time.monotonic()
            print("%d answers, %d kills, %d broken, %d refused" % (
                len(load.whole), fleet.kills, len(load.broken), len(load.refused)),
                  flush=True)


def main():
    requests = int(sys.argv[3]) if len(sys.argv) > 3 else 400
    rolls = random.Random(int(sys.argv[4]) if len(sys.argv) > 4 else 17)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(folder)
        load = Load(fleet)
        load.wait_for(min(requests // 4, 1000))
        load.end()
        count = check_answers(fleet, load)
        assert count == len(load.whole) and not load.broken + load.refused, (count, len(load.whole), load.broken)
        wait_for_judged(fleet, 2)  # at rest, by both gateways
        load = Load(fleet, load)
        kill_until(load, requests, rolls)
        load.wait_for(len(load.whole) + 20)
        load.end()
        judged = check_answers(fleet, load) and verify(fleet)["units_judged"]
        fleet.renew_units()
        load = Load(fleet, load)
        load.wait_for(len(load.whole) + 50)
        load.end()
        wait_for_judged(fleet, judged + 2)
        count = check_answers(fleet, load)
        for process in fleet.processes:
            process.stop()
        found = verify(fleet)
        assert check_answers(fleet, load) == count == found["entries"], (count, found)
        print("ok: %d answers seen whole, each once in the ledger; %d entries of answers that nobody saw whole, of %d broken"
              " ones; %d refused; %d kills; %d units judged; %.0f s" % (
                  len(load.whole), count - len(load.whole), len(load.broken), len(load.refused), fleet.kills,
                  found["units_judged"], time.monotonic() - begun))


main()
