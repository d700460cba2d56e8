#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_flood.py FATHOM: on a real gateway with a database, one account asks for sixty answers, and then nine others for two each;
nobody can compute anything yet. When a unit comes, the nine have their first tokens before most of the flood has begun: who came
first of all is no reason to be served first of all. bench/fairness.py measures what that is in time."""
import json
import os
import subprocess
import tempfile
import threading
import urllib.request

from server import PATIENCE, Process, fathom, wait_until

FLOOD, OTHERS, EACH = 60, 9, 2
IN_UNIT = 4 + 8  # rows, and those that a unit of one rank may have waiting


def make_account(name, database, *more):
    return subprocess.run([fathom, "account", "create", name, "--database", database, *more], check=True,
                          stdout=subprocess.PIPE, text=True).stdout.split()[-1]


class Client(threading.Thread):
    begun = []  # names, in the order in which their first events came
    lock = threading.Lock()

    def __init__(self, url, name, key):
        super().__init__()
        self.url, self.name_of, self.key = url, name, key
        self.is_done = False
        self.start()

    def run(self):
        body = json.dumps({"prompt": "Once", "max_tokens": 24, "ignore_eos": True, "stream": True}).encode()
        headers = {"Content-Type": "application/json", "Authorization": "Bearer " + self.key}
        with urllib.request.urlopen(urllib.request.Request(self.url + "/v1/completions", body, headers),
                                    timeout=PATIENCE) as answer:
            while not answer.readline().startswith(b"data: "):
                pass
            with Client.lock:
                Client.begun.append(self.name_of)
            self.is_done = b"[DONE]" in answer.read()


def queued(gateway, key):
    """Requests that wait for a unit."""
    asked = urllib.request.Request(gateway.at("/metrics"), headers={"Authorization": "Bearer " + key})
    with urllib.request.urlopen(asked, timeout=PATIENCE) as found:
        lines = found.read().decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("fathom_requests_queued "))


def wait_for_queued(gateway, key, count):
    wait_until(lambda: queued(gateway, key) >= count, gateway)


def main():
    with tempfile.TemporaryDirectory() as folder:
        database, address = os.path.join(folder, "fathom.db"), "ipc://" + os.path.join(folder, "units")
        keys = {name: make_account(name, database) for name in ["flood"] + ["other-%d" % i for i in range(OTHERS)]}
        watcher = make_account("watcher", database, "--operator")
        gateway = Process("gateway", "--listen", address, "--port", "0", "--admin-port", "0", "--database", database)
        url = gateway.wait_for_url()
        clients = [Client(url, "flood", keys["flood"]) for _ in range(FLOOD)]
        wait_for_queued(gateway, watcher, FLOOD)
        clients += [Client(url, name, key) for name, key in keys.items() if name != "flood" for _ in range(EACH)]
        wait_for_queued(gateway, watcher, FLOOD + OTHERS * EACH)
        unit = Process("unit", "--connect", address, "--kv-memory", "64MiB", "--threads", "1", "--max-batch-rows", "4")
        for client in clients:
            client.join(PATIENCE)
            assert client.is_done, (gateway.said(), unit.said())
        begun = Client.begun
        assert len(begun) == FLOOD + OTHERS * EACH and begun.count("flood") == FLOOD
        last = max(i for i, name in enumerate(begun) if name != "flood")
        before = begun[:last].count("flood")
        # Accounts take turns: as many of the flood's as of each other's, and what the unit had at the same time.
        assert before <= EACH + IN_UNIT, (before, begun)
        gateway.stop()


main()
