#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_ledger_fleet.py FATHOM GOLDEN [ROUNDS]: two gateways with one ledger on one port, two units, and kills of each in
mid-load: an answer that a client saw whole is in the ledger once, also when it moved between units; units' counters agree
with the entries where nobody died; and the sums of the two gateways are one account's."""
import http.client
import json
import os
import random
import sys
import tempfile
import threading
import time
import urllib.request

from command import run
from server import PATIENCE, Process

rolls = random.Random(17)
PRICES = "currency: USD\nnode_hour: 16\ninput_hit: 0.5\ninput_miss: 2\noutput: 4\n"


class Fleet:
    def __init__(self, folder):
        self.folder, self.database = folder, os.path.join(folder, "fathom.db")
        self.addresses = ["ipc://" + os.path.join(folder, name) for name in ("a", "b")]
        with open(os.path.join(folder, "prices.yaml"), "w", encoding="utf-8") as file:
            file.write(PRICES)
        self.key = run("account", "create", "acme", "--operator", "--database", self.database).strip()
        self.gateways = [self.gateway(0, "0")]
        self.url = self.gateways[0].url
        self.gateways.append(self.gateway(1, self.url.rsplit(":", 1)[1]))
        self.units = [self.unit(), self.unit()]

    def gateway(self, number, port):
        process = Process("gateway", "--listen", self.addresses[number], "--port", port, "--admin-port", "0",
                          "--share-port", "--database", self.database, "--prices",
                          os.path.join(self.folder, "prices.yaml"))
        process.wait_for_url()
        return process

    def unit(self):
        return Process("unit", "--connect", ",".join(self.addresses), "--kv-memory", "16MiB", "--mtp", "off")

    def kill(self, number):
        """One of the two gateways, or one of the two units; another one takes its place."""
        if number < 2:
            self.gateways[number].kill()
            self.gateways[number] = self.gateway(number, self.url.rsplit(":", 1)[1])
        else:
            self.units[number - 2].kill()
            self.units[number - 2] = self.unit()

    def ask(self, number, stream):
        """The whole answer's usage."""
        body = {"prompt": "%d and then: " % number, "max_tokens": 1 + number % 40, "temperature": 0,
                "stream": bool(stream)}
        if stream:
            body["stream_options"] = {"include_usage": True}
        with urllib.request.urlopen(urllib.request.Request(
                self.url + "/v1/completions", json.dumps(body).encode(),
                {"Content-Type": "application/json", "Authorization": "Bearer " + self.key}), timeout=PATIENCE) as answer:
            text = answer.read().decode()
        if not stream:
            return json.loads(text)["usage"]
        if not text.endswith("data: [DONE]\n\n"):
            raise ValueError("no whole stream")
        events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
        if "error" in events[-1]:  # no unit was there for too long
            raise ValueError(events[-1])
        return events[-1]["usage"]


class Load:
    """Clients who ask one thing after the other, and go on when a gateway goes."""

    def __init__(self, fleet, count, whole):
        self.fleet, self.ending, self.whole, self.broken = fleet, False, whole, 0
        self.threads = [threading.Thread(target=self.run, args=(number,), daemon=True) for number in range(count)]
        for thread in self.threads:
            thread.start()

    def run(self, number):
        while not self.ending:
            try:
                self.whole.append(self.fleet.ask(number, number // 8 % 2))
            except (OSError, ValueError, http.client.HTTPException):
                self.broken += 1
                time.sleep(0.01)
            number += 8

    def wait_for(self, count):
        until, count = time.monotonic() + PATIENCE, count + len(self.whole)
        while len(self.whole) < count:
            assert time.monotonic() < until, (len(self.whole), self.broken)
            time.sleep(0.005)

    def end(self):
        self.ending = True
        for thread in self.threads:
            thread.join()


def verify(fleet):
    found = json.loads(run("ledger", "verify", "--json", fleet.database))
    assert found["breaches"] == 0, found
    return found


def check_sums(fleet, load):
    account = json.loads(run("ledger", "report", "--json", fleet.database))["accounts"][0]
    sums = [len(load.whole)] + [sum(usage[name] for usage in load.whole) for name in (
        "prompt_cache_hit_tokens", "prompt_cache_miss_tokens", "completion_tokens")]
    found = [account[name] for name in ("requests", "hit_tokens", "miss_tokens", "output_tokens")]
    # What was written down and not seen whole any more: at most one answer of each broken connection.
    assert all(0 <= b - a for a, b in zip(sums, found)) and found[0] - sums[0] <= load.broken, (sums, found, load.broken)
    return sums, found


def wait_for_judged(fleet, count):
    until = time.monotonic() + PATIENCE
    while (found := verify(fleet))["units_judged"] < count:
        assert time.monotonic() < until, found
        time.sleep(0.2)


def main():
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 4
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(folder)
        load = Load(fleet, 8, [])
        load.wait_for(40)
        load.end()
        sums, found = check_sums(fleet, load)
        assert sums == found and load.broken == 0, (sums, found, load.broken)
        wait_for_judged(fleet, 2)  # at rest, by both gateways
        again = Load(fleet, 8, load.whole)
        for number in range(rounds):
            again.wait_for(rolls.randrange(10, 30))
            fleet.kill((number + 2) % 4 if number < 4 else rolls.randrange(4))
            verify(fleet)
        again.wait_for(20)
        again.end()
        print(*check_sums(fleet, again), again.broken)
        for process in fleet.gateways + fleet.units:
            process.stop()
        print(verify(fleet))


main()
