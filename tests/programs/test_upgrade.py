#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_upgrade.py FATHOM [FORMER]: a fleet is renewed under load: a unit that computes otherwise starts beside the old one,
which drains and ends. No request fails, each finishes where it began, and each answer is, to the last token, the one of
the numerics that it names. With FORMER, the program of an earlier build, the old unit is that; then its gateway has a new
unit, and answers the same."""
import json
import os
import sys
import tempfile
import threading

import server
from server import PATIENCE, Process, open_url, wait_until

former = sys.argv[2] if len(sys.argv) > 2 else server.fathom
present = server.fathom
OLD, NEW = ("--activations", "bf16"), ("--activations", "f32")
PROMPTS = [[5 + i, 90 + 7 * i, 300 - i] * (4 + 20 * (i % 3)) for i in range(10)]


def start(program, *arguments):
    server.fathom = program
    return Process(*arguments)


def answer(url, number):
    """What the answer says it was computed by, and its tokens."""
    body = {"prompt": PROMPTS[number], "max_tokens": 48, "temperature": 1, "seed": number, "ignore_eos": True,
            "return_token_ids": True}
    with open_url(url + "/v1/completions", body) as response:
        said = json.load(response)
    return said["system_fingerprint"], said["choices"][0]["token_ids"]


def undisturbed(program, options):
    alone = start(program, "serve", "--port", "0", "--kv-memory", "64MiB", *options)
    url = alone.wait_for_url()
    answers = [answer(url, number) for number in range(len(PROMPTS))]
    alone.stop()
    assert len({fingerprint for fingerprint, _ in answers}) == 1
    return answers[0][0], [tokens for _, tokens in answers]


def serving(gateway):
    return sum(unit["state"] == "serving" for unit in gateway.fleet()["units"])


class Clients:
    """Some that ask one request after the other, until they are told to end."""

    def __init__(self, url, count=4):
        self.url, self.over, self.answers = url, False, []
        self.threads = [threading.Thread(target=self.go_on, args=(i,)) for i in range(count)]
        for thread in self.threads:
            thread.start()

    def go_on(self, at):
        while not self.over:
            number = at % len(PROMPTS)
            at += 1
            try:
                self.answers.append((number, *answer(self.url, number)))
            except Exception as error:  # told by the thread that waits for it
                self.answers.append((number, repr(error), None))
                return

    def end(self):
        self.over = True
        for thread in self.threads:
            thread.join(PATIENCE)
        return self.answers


def renew(address, wanted):
    gateway = start(present, "gateway", "--listen", address, "--port", "0", "--admin-port", "0")
    url = gateway.wait_for_url()
    old = start(former, "unit", "--connect", address, "--kv-memory", "64MiB", *OLD)
    wait_until(lambda: serving(gateway) == 1)  # the old unit
    clients = Clients(url)
    wait_until(lambda: len(clients.answers) >= 6)  # answers of the old unit
    new = start(present, "unit", "--connect", address, "--kv-memory", "64MiB", *NEW)
    wait_until(lambda: serving(gateway) == 2)  # the new unit beside it
    told = len(clients.answers)
    wait_until(lambda: len(clients.answers) >= told + 12)  # answers of both
    (first,) = [unit for unit in gateway.fleet()["units"] if "bf16" in unit["numerics"].split(".")[1]]
    open_url(gateway.at("/debug/fleet/drain"), {"unit": first["id"]}).close()

    def bound():
        return next(unit["requests_bound"] for unit in gateway.fleet()["units"] if unit["id"] == first["id"])

    wait_until(lambda: bound() == 0)  # the old unit has nothing left
    old.stop()
    told = len(clients.answers)
    wait_until(lambda: len(clients.answers) >= told + 6)  # answers of the new unit
    answers = clients.end()
    report = gateway.fleet()
    assert report["resumed_total"] == 0 and report["requests"] == 0, report
    for number, fingerprint, tokens in answers:
        assert fingerprint in wanted, fingerprint  # else it failed
        assert tokens == wanted[fingerprint][number], (number, fingerprint, tokens, wanted[fingerprint][number])
    assert {fingerprint for _, fingerprint, _ in answers} == set(wanted)
    new.stop()
    gateway.stop()
    return len(answers)


def new_unit_at_former_gateway(address, wanted):
    gateway = start(former, "gateway", "--listen", address, "--port", "0", "--admin-port", "0")
    url = gateway.wait_for_url()
    unit = start(present, "unit", "--connect", address, "--kv-memory", "64MiB", *NEW)
    wait_until(lambda: serving(gateway) == 1)  # the new unit
    for number in range(len(PROMPTS)):
        fingerprint, tokens = answer(url, number)
        assert tokens == wanted[fingerprint][number], (number, fingerprint)
    unit.stop()
    gateway.stop()


def main():
    wanted = dict([undisturbed(former, OLD), undisturbed(present, NEW)])
    first, second = wanted.values()
    assert sum(a != b for a, b in zip(first, second)) > len(PROMPTS) // 2, "the two are too alike to be told apart"
    with tempfile.TemporaryDirectory() as folder:
        count = renew("ipc://" + os.path.join(folder, "one"), wanted)
        if former != present:
            new_unit_at_former_gateway("ipc://" + os.path.join(folder, "two"), wanted)
    print("%d answers, none failed" % count)


main()
