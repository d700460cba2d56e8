# SPDX-License-Identifier: Apache-2.0
"""A fleet that follows its load, for the tests: a gateway, a manager, and whatever units the manager starts. `text` is
fleet.yaml with %(folder)s, %(address)s (the gateway's, for units), %(admin)s (its operator's) and %(program)s for what is known
only here."""
import contextlib
import json
import os
import signal
import subprocess

from server import Process, environment, fathom, open_url, wait_until


class Fleet:
    def __init__(self, folder, text, launch=(), address=None, more=(), **words):
        """`launch`: more of the manager's environment; `address`: where the gateway listens to units; `more`: its options;
        `words`: more for `text`."""
        self.folder, self.path, self.text, self.words = folder, os.path.join(folder, "fleet.yaml"), text, words
        # Who looks for leaks does so in a process beside a unit's: it would be taken for a second unit of that number.
        self.launch = {**dict(launch), "ASAN_OPTIONS": "detect_leaks=0:" + os.environ.get("ASAN_OPTIONS", "")}
        self.address = address or "ipc://%s/wire" % folder
        self.gateway = Process("gateway", "--listen", self.address, "--port", "0", *more)
        self.url = self.gateway.wait_for_url()
        self.write([os.path.abspath(fathom)])

    def write(self, program):
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(self.text % {"folder": self.folder, "admin": self.gateway.admin, "address": self.address,
                                    "program": json.dumps(program), **self.words})

    def manage(self):
        self.manager = Process("fleet", "run", self.path, more_environment=self.launch)

    def run(self, *words, code=0):
        done = subprocess.run([fathom, "fleet", *words, self.path], capture_output=True, text=True, env=environment,
                              check=False)
        assert done.returncode == code, done
        return done

    def status(self):
        """The manager's last word: what it sees, and wants."""
        try:
            with open(self.folder + "/state/status.json", encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            return {"units": [], "wanted": {}}

    def count(self, role, state="serving"):
        return sum(unit["role"] == role and unit["state"] == state for unit in self.status()["units"])

    def wait(self, what, condition):
        wait_until(condition, found=lambda: (what, self.status(), self.manager.said()), pause=0.1)

    def ask(self, body):
        """The tokens of an answer."""
        with open_url(self.url + "/v1/completions", dict(body, return_token_ids=True)) as response:
            return json.load(response)["choices"][0]["token_ids"]

    def processes(self):
        """Of units that connect to this gateway, whoever manages them: (number, pid)."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/cmdline" % pid, "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            if b"--instance" in words and self.address.encode() in words:
                found.append((int(words[words.index(b"--instance") + 1][6:], 16), int(pid)))
        return found

    def units(self):
        """Their pids by their numbers; none runs twice."""
        found = self.processes()
        assert len(dict(found)) == len(found), ("one unit, twice", found)
        return dict(found)

    def stop(self):
        self.manager.kill()
        for _, pid in self.processes():
            with contextlib.suppress(ProcessLookupError):  # it may have ended just now
                os.kill(pid, signal.SIGKILL)
        self.gateway.kill()


def undisturbed(bodies, *options):
    """What a server that nobody disturbs answers: tokens for each of the bodies."""
    alone = Process("serve", "--port", "0", "--kv-memory", "64MiB", "--mtp", "off", *options)
    url = alone.wait_for_url()
    wanted = []
    for body in bodies:
        with open_url(url + "/v1/completions", dict(body, return_token_ids=True)) as response:
            wanted.append(json.load(response)["choices"][0]["token_ids"])
    alone.stop()
    return wanted
