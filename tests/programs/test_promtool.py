#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_promtool.py FATHOM ROOT KINDS: /metrics as Prometheus' own checker reads it (names, types, help, samples), from
one unit alone and from those of KINDS: "ranks" that share experts, prefill and decode "apart"; each with requests,
accounts and a KV storage. promtool is in the PATH or where ./dev puts it."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request

from server import PATIENCE, Server, fathom

promtool = shutil.which("promtool") or shutil.which("promtool", path=os.path.join(sys.argv[2], ".deps"))
kinds = sys.argv[3].split(",")
EXPECTED = {  # a family that this kind of service has
    "alone": "fathom_kv_storage_ranks",
    "ranks": "fathom_experts_moved_bytes_total",
    "apart": "fathom_kv_transfers_total",
}


class Guarded(Server):
    def __init__(self, key, *options):
        self.key = key
        super().__init__(*options)

    def open(self, path, body=None):
        return urllib.request.urlopen(urllib.request.Request(
            self.at(path), json.dumps(body).encode() if body else None,
            {"Content-Type": "application/json", "Authorization": "Bearer " + self.key}), timeout=PATIENCE)


def check(text):
    done = subprocess.run([promtool, "check", "metrics"], input=text, text=True, capture_output=True)
    return done.returncode, done.stdout + done.stderr


def serve(kind, folder):
    key, line = subprocess.run([fathom, "keygen", "--api-key"], check=True, capture_output=True,
                               text=True).stdout.split()
    accounts = os.path.join(folder, "who.yaml")
    with open(accounts, "w") as file:
        print("accounts: [{name: root, operator: true, keys: ['%s']}]" % line, file=file)
    options = {"alone": ["--kv-dir", folder], "ranks": ["--ranks", "2", "--rebalance", "on", "--redundant-experts", "2"],
               "apart": ["--prefill-units", "1", "--decode-units", "1"]}[kind]
    server = Guarded(key, "--accounts", accounts, *options)
    for prompt in ([5, 6, 7] * 50, [9, 9]):
        server.open("/v1/completions", {"prompt": prompt, "max_tokens": 3}).read()
    text = server.metrics_text()
    server.stop()
    return text


def main():
    if not promtool:
        print("promtool is not there; ./dev test gets it")
        sys.exit(77)
    broken = "# HELP x_total X.\n# TYPE x_total gauge\nx_total 1\n"
    assert check(broken) == (3, 'x_total non-counter metrics should not have "_total" suffix\n'), check(broken)
    for kind in kinds:
        with tempfile.TemporaryDirectory() as folder:
            text = serve(kind, folder)
        families = re.findall(r"^# TYPE (\S+) ", text, re.M)
        assert len(families) > 40 and EXPECTED[kind] in families, (kind, families)
        code, words = check(text)
        assert code == 0 and not words, (kind, words)
        print("ok", kind, len(families), "families")


main()
