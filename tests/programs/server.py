# SPDX-License-Identifier: Apache-2.0
"""A `fathom serve` of one's own, for the tests that talk to one; sys.argv[1] is the program."""
import atexit
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

PATIENCE = 900
fathom = sys.argv[1]
environment = dict(os.environ, ASAN_OPTIONS="detect_leaks=0:" + os.environ.get("ASAN_OPTIONS", ""))


class Server:
    kv_memory = "64MiB"

    def __init__(self, *options, wrap=()):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [*wrap, fathom, "serve", "--port", "0", "--kv-memory", self.kv_memory, *options],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment, stderr=self.errors, text=True)
        atexit.register(self.process.kill)  # also where a check fails
        line = self.process.stdout.readline()
        assert line.startswith("listening on "), (line, self.said())
        self.url = line.split()[-1]

    def said(self):
        """All that it has written to stderr."""
        self.errors.seek(0)
        return self.errors.read()

    def wait_for(self, pattern, count=1):
        """The time at which it was said, so many times."""
        until = time.monotonic() + PATIENCE
        while len(re.findall(pattern, self.said())) < count:
            assert time.monotonic() < until and self.process.poll() is None, self.said()
            time.sleep(0.005)
        return time.monotonic()

    def open(self, path, body=None):
        return urllib.request.urlopen(urllib.request.Request(
            self.url + path, json.dumps(body).encode() if body else None,
            {"Content-Type": "application/json"}), timeout=PATIENCE)

    def metrics(self):
        with self.open("/metrics") as answer:
            return {name: float(value)
                    for name, value in re.findall(r"^(\S+) (\S+)$", answer.read().decode(), re.M)}

    def units(self):
        """The pids of each unit's ranks."""
        with self.open("/debug/fleet") as answer:
            return [[rank["pid"] for rank in unit["ranks"]] for unit in json.load(answer)["units"]]

    def no_page_is_held(self, patience=PATIENCE):
        until = time.monotonic() + patience
        while self.metrics()['fathom_kv_pages{state="held"}']:
            assert time.monotonic() < until, self.metrics()
            time.sleep(0.05)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE) == 0, (self.process.returncode, self.said())
