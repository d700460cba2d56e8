#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_accounts.py FATHOM [apart]: tenants on a real server: the same prompt of another account is a miss in the unit's pages, in
host memory, on disk, after a restart, and with prefill and decode apart; of the same account or group it is a hit, and receipts say
from which tier. Wrong keys get 401; SIGHUP reads the accounts again."""
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

from server import PATIENCE, Server, fathom, wait_until

rolls = random.Random(12)
PROMPT = [rolls.randrange(300, 1500) for _ in range(700)]
WHOLE = (len(PROMPT) - 1) // 64 * 64


def draw_key():
    return subprocess.run([fathom, "keygen", "--api-key"], check=True, capture_output=True, text=True).stdout.split()


KEYS = {name: draw_key() for name in ("acme", "lab-1", "lab-2", "root")}


def write_accounts(path, names):
    with open(path, "w") as file:
        print("accounts:", file=file)
        for name in names:
            print("  - name: %s\n    keys: [%s]" % (name, KEYS[name][1]), file=file)
            if name.startswith("lab"):
                print("    group: lab", file=file)
            if name == "root":
                print("    operator: true", file=file)


class GuardedServer(Server):
    kv_memory = "16MiB"

    def request(self, path, body, key, bare=False):
        headers = {"Content-Type": "application/json", "X-Fathom-Receipt": "1"}
        if key:
            headers.update({"x-api-key": key} if bare else {"Authorization": "Bearer " + key})
        return urllib.request.urlopen(urllib.request.Request(
            self.at(path), json.dumps(body).encode() if body else None, headers), timeout=PATIENCE)

    def open(self, path, body=None):
        return self.request(path, body, KEYS["root"][0])

    def status(self, path, key):
        try:
            with self.request(path, None, key) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            if error.code == 401:
                assert error.headers["WWW-Authenticate"] == "Bearer"
                assert json.load(error)["error"]["code"] == "invalid_api_key"
            return error.code

    def ask(self, name, **more):
        """The prompt's account in the receipt, which must agree with `usage`, and the text."""
        body = {"prompt": PROMPT, "max_tokens": 12, "temperature": 0, "ignore_eos": True, **more}
        with self.request("/v1/completions", body, KEYS[name][0]) as answer:
            receipt = json.loads(answer.headers["X-Fathom-Receipt"])
            found = json.load(answer)
        prompt, usage = receipt["prompt"], found["usage"]
        assert prompt["hit"] == usage["prompt_cache_hit_tokens"], (receipt, usage)
        assert prompt["hit"] + usage["prompt_cache_miss_tokens"] == len(PROMPT), (receipt, usage)
        assert sum(prompt[tier] for tier in ("device", "host", "disk", "computed")) == len(PROMPT), receipt
        assert receipt["output"] == usage["completion_tokens"]
        return receipt, found["choices"][0]["text"]

    def expect(self, name, tier, **more):
        """All whole blocks come from that tier; None: none comes from any."""
        receipt, text = self.ask(name, **more)
        hit = WHOLE if tier else 0
        assert receipt["prompt"]["hit"] == hit, (name, tier, receipt)
        assert not tier or receipt["prompt"][tier] == hit, (name, tier, receipt)
        return receipt, text


def check_device_and_disk(path, directory):
    options = ["--accounts", path, "--kv-dir", directory + "/kv", "--kv-disk", "64MiB", "--kv-load", "always"]
    os.mkdir(directory + "/kv")
    server = GuardedServer(*options)
    text = server.expect("acme", None)[1]
    assert server.expect("acme", "device")[1] == text
    assert server.expect("lab-1", None)[1] == text
    server.expect("lab-2", "device")
    server.expect("acme", None, cache_salt="mine")
    server.expect("acme", "device", cache_salt="mine")
    server.expect("lab-1", None, cache_salt="mine")
    for key in (None, "sk-no", KEYS["acme"][1]):
        assert server.status("/v1/models", key) == 401
    assert server.status("/health", None) == 200 and server.status("/metrics", KEYS["acme"][0]) == 403
    ledger = server.metrics()
    assert ledger['fathom_account_prompt_cache_hit_tokens_total{account="acme"}'] == 2 * WHOLE
    assert ledger['fathom_account_prompt_cache_miss_tokens_total{account="lab-1"}'] == 2 * len(PROMPT)
    assert ledger['fathom_account_output_tokens_total{account="acme"}'] == 4 * 12
    write_accounts(path, ["acme", "root"])
    server.process.send_signal(signal.SIGHUP)
    server.wait_for("accounts  were read accounts=2 keys=2")
    wait_until(lambda: server.status("/v1/models", KEYS["lab-1"][0]) == 401)
    assert server.status("/v1/models", KEYS["acme"][0]) == 200
    with open(path, "a") as file:
        print("  - name: [", file=file)
    server.process.send_signal(signal.SIGHUP)
    server.wait_for("accounts  stay as they were why=.*" + path)
    bare_keys_will_do(server)
    nothing_new_is_said(server)
    write_accounts(path, ["acme", "root"])
    server.process.send_signal(signal.SIGHUP)
    server.wait_for("accounts  were read accounts=2 keys=2", 2)
    nothing_new_is_said(server)
    assert server.status("/v1/models", KEYS["acme"][0]) == 200
    server.no_page_is_held()
    server.stop()
    write_accounts(path, KEYS)
    server = GuardedServer(*options)  # pages are empty now
    assert server.expect("root", None)[1] == text
    assert server.expect("acme", "disk")[1] == text
    assert server.expect("lab-2", "disk")[1] == text
    assert server.expect("lab-1", "device")[1] == text
    server.stop()
    os.remove(path + ".secret")  # another service: nobody finds what was there before
    server = GuardedServer(*options)
    assert server.expect("acme", None)[1] == text
    server.stop()


def check_host_memory(path):
    server = GuardedServer("--accounts", path, "--kv-host", "16MiB", "--kv-load", "always", "--kv-memory", "3MiB")
    body = {"max_tokens": 1}
    server.expect("acme", None)
    for _ in range(3):  # others' prompts take its pages
        server.ask("lab-1", prompt=[rolls.randrange(300, 1500) for _ in range(700)], **body)
    server.expect("lab-2", None)
    for _ in range(3):
        server.ask("lab-1", prompt=[rolls.randrange(300, 1500) for _ in range(700)], **body)
    receipt, _ = server.ask("acme")
    assert receipt["prompt"]["hit"] == WHOLE and receipt["prompt"]["host"] > 0, receipt
    server.stop()


def lacked(receipt):
    """Tokens that the decode unit did not have. On a busy machine a transfer is given up, and they are computed again."""
    return receipt["transferred"] + receipt["recomputed"]


def check_apart(path):
    server = GuardedServer("--accounts", path, "--prefill-units", "1", "--decode-units", "1")
    server.wait_for_units(2)
    receipt, text = server.expect("acme", None)
    assert [stay["role"] for stay in receipt["ran"]] == ["prefill", "decode"], receipt
    assert lacked(receipt) == len(PROMPT), receipt
    receipt, again = server.expect("acme", "device")
    assert again == text and lacked(receipt) == len(PROMPT) - WHOLE, receipt  # the decode unit had them
    receipt, other = server.expect("lab-1", None)
    assert other == text and lacked(receipt) == len(PROMPT), receipt
    server.stop()


def said_besides(server):
    """But for the lines of requests."""
    return [line for line in server.said().splitlines() if " access  " not in line]


def nothing_new_is_said(server):
    """However often it is asked to read the same accounts again."""
    before = said_besides(server)
    for _ in range(50):
        server.process.send_signal(signal.SIGHUP)
        assert server.status("/v1/models", KEYS["acme"][0]) == 200  # signals are told before requests
    assert said_besides(server) == before


def bare_keys_will_do(server):
    """As Anthropic's clients send them."""
    with server.request("/v1/models", None, KEYS["acme"][0], bare=True) as answer:
        assert answer.status == 200
    try:
        server.request("/v1/models", None, "no such key", bare=True).close()
        assert False
    except urllib.error.HTTPError as error:
        assert error.code == 401, error


def main():
    with tempfile.TemporaryDirectory() as directory:
        path = directory + "/who.yaml"
        write_accounts(path, KEYS)
        check_device_and_disk(path, directory)
        write_accounts(path, KEYS)
        check_host_memory(path)
        if "apart" in sys.argv:
            check_apart(path)


main()
