#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_constraint_turns.py FATHOM [RANKS]: schemas of 250 bytes that take long to compile, from an account that means
no good. Its requests compute nothing while they wait, whatever is computed is counted, and clients that leave have paid
for what they had; a free answer of another account goes on. And another account's small schema waits for the one that is
being compiled, not for all that came before it: at the gateway, and at a rank that has to compile what the gateway knows."""
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

from server import PATIENCE, Process, fathom, wait_until

LEAVERS, FLOOD, BURST, PROMPT = 6, 10, 6, 480
LOOKS = 10


def expensive(number):
    pattern = {"type": "string", "pattern": "^[ab]*a[ab]{14}$"}
    names = "x%d" % number, "y%d" % number
    return {"type": "object", "properties": dict.fromkeys(names, pattern), "required": list(names),
            "additionalProperties": False}


def small(number):
    return {"type": "object", "properties": {"z%d" % number: {"type": "boolean"}}, "required": ["z%d" % number]}


class Service:
    """A gateway with three accounts, and a unit, in processes of their own."""

    def __init__(self, folder, ranks):
        self.folder, self.ranks, self.address = folder, ranks, "ipc://" + os.path.join(folder, "units")
        keys = {name: subprocess.run([fathom, "keygen", "--api-key"], check=True, stdout=subprocess.PIPE,
                                     text=True).stdout.split()[:2] for name in ("attacker", "bystander", "operator")}
        accounts = os.path.join(folder, "accounts.yaml")
        with open(accounts, "w") as out:
            out.write("accounts:\n")
            for name, key in keys.items():
                out.write('  - {name: %s, keys: ["%s"]%s}\n' %
                          (name, key[1], ", operator: true" if name == "operator" else ""))
        self.keys = {name: key[0] for name, key in keys.items()}
        self.gateway = Process("gateway", "--listen", self.address, "--port", "0", "--admin-port", "0",
                               "--accounts", accounts)
        self.gateway.wait_for_url()
        self.unit = None

    def start_unit(self):
        more = ["--ranks", str(self.ranks)] if self.ranks > 1 else []
        self.unit = Process("unit", "--connect", self.address, "--kv-memory", "64MiB", "--threads", "1", *more)
        self.wait_until(lambda metrics: metrics['fathom_units{state="serving"}'] == 1)

    def stop_unit(self):
        self.unit.stop()
        self.wait_until(lambda metrics: metrics['fathom_units{state="serving"}'] == 0)

    def metrics(self):
        asked = urllib.request.Request(self.gateway.at("/metrics"),
                                       headers={"Authorization": "Bearer " + self.keys["operator"]})
        with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:
            return {name: float(value) for name, value in re.findall(r"^(\S+) (\S+)$", answer.read().decode(), re.M)}

    def wait_until(self, holds):
        return wait_until(lambda: holds(metrics := self.metrics()) and metrics, self.gateway, found=self.metrics)

    def begin(self, name, body):
        host, port = self.gateway.url.split("//")[1].split(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE)
        connection.request("POST", "/v1/completions", json.dumps(body),
                           {"Content-Type": "application/json", "Authorization": "Bearer " + self.keys[name]})
        return connection

    def ask(self, name, body):
        connection = self.begin(name, body)
        answer = connection.getresponse()
        said = json.load(answer)
        connection.close()
        assert answer.status == 200, said
        return said


class Asker(threading.Thread):
    done = []  # names, in the order of their ends
    lock = threading.Lock()

    def __init__(self, service, name, body):
        super().__init__()
        self.service, self.name_of, self.body, self.said = service, name, body, None
        self.start()

    def run(self):
        self.said = self.service.ask(self.name_of, self.body)
        with Asker.lock:
            Asker.done.append(self.name_of)


def wait_for_all(askers):
    for asker in askers:
        asker.join(PATIENCE)
        assert asker.said, asker.name_of


def counted(metrics):
    """Tokens that steps have had in all, and those of them that are said to have been computed."""
    told = sum(metrics["fathom_step_%s_tokens_total" % kind] for kind in ("prompt", "recomputed", "output"))
    return metrics["fathom_step_batch_tokens_sum"], told + metrics["fathom_drafts_total"]


def leave(service, number, free=None):
    """Leaves while the constraint is being compiled at the rank, some looks at the metrics after it came there."""
    connection = service.begin("attacker", {"prompt": [3 + (7 * i + number) % 4000 for i in range(PROMPT)],
                                            "max_tokens": 20, "guided_json": expensive(number)})
    service.wait_until(lambda metrics: metrics["fathom_requests_running"] > (free is not None and free.is_alive()))
    for _ in range(LOOKS):
        service.metrics()
    connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()


def check_leavers(service):
    """Alone, and as a free answer goes on."""
    before = service.metrics()
    for number in range(LEAVERS):
        leave(service, number)
        service.wait_until(lambda metrics: metrics["fathom_requests_held"] == 0)
    free = Asker(service, "bystander", {"prompt": "Once", "max_tokens": 1500, "ignore_eos": True})
    service.wait_until(lambda metrics: metrics["fathom_requests_running"] == 1)
    for number in range(LEAVERS, 2 * LEAVERS):
        if free.is_alive():
            leave(service, number, free)
    wait_for_all([free])
    after = service.wait_until(lambda metrics: metrics["fathom_requests_held"] == 0)
    computed, told = (b - a for a, b in zip(counted(before), counted(after)))
    prompts = after["fathom_step_prompt_tokens_total"] - before["fathom_step_prompt_tokens_total"]
    charged = sum(after.get('fathom_account_prompt_cache_miss_tokens_total{account="%s"}' % name, 0)
                  for name in ("attacker", "bystander"))
    print("leavers: %d tokens in steps, %d told as computed; of prompts %d, charged %d" %
          (computed, told, prompts, charged))
    assert computed <= told, (computed, told)
    assert prompts <= charged, (prompts, charged)


def check_turns(service, first, where):
    """All of a flood has come before some small ones of another account: few of the flood end before the first of them."""
    Asker.done.clear()
    held = service.metrics()["fathom_requests_held"]
    flood = [Asker(service, "attacker", {"prompt": "a", "max_tokens": 2, "guided_json": expensive(first + i),
                                          "cache_salt": "salt %d" % i})  # which makes no other account of it
             for i in range(FLOOD)]
    service.wait_until(lambda metrics: metrics["fathom_requests_held"] + len(Asker.done) >= held + FLOOD)
    ended = len(Asker.done)
    began = time.monotonic()
    wait_for_all([Asker(service, "bystander", {"prompt": "a", "max_tokens": 2, "guided_json": small(first + i)})
                  for i in range(BURST)])
    took = time.monotonic() - began
    before = Asker.done.index("bystander") - ended
    print("%s: %d of %d ended before, %d small ones took %.2f s" % (where, before, FLOOD - ended, BURST, took))
    wait_for_all(flood)
    # Those in work at the gateway and at the rank, and what came to its end meanwhile.
    assert before <= 4, (where, Asker.done)


def main():
    ranks = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    with tempfile.TemporaryDirectory() as folder:
        service = Service(folder, ranks)
        service.start_unit()
        check_leavers(service)
        check_turns(service, 100, "at the gateway")
        service.stop_unit()
        service.start_unit()  # the gateway knows the flood's schemas, the rank knows none
        check_turns(service, 100, "at the rank")
        service.stop_unit()
        service.gateway.stop()


main()
