# SPDX-License-Identifier: Apache-2.0
"""fathom commands as processes of one's own, for the tests that talk to one; sys.argv[1] is the program. They end
with the test, however it ends. With "sparse" as the last argument they serve a model with sparse attention in place
of the one that comes with Fathom."""
import atexit
import fcntl
import glob
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

import random_model

PATIENCE = 300
fathom = sys.argv[1]
environment = dict(os.environ)
signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))  # so that atexit is heeded
other_model = []
if sys.argv[-1] == "sparse":
    sys.argv.pop()
    other_model = ["--model", random_model.make_sparse(fathom)]


def wait_until(condition, *processes, found=lambda: None, pause=0.01):
    """What the condition is, once it is true. None of the processes may end meanwhile. `found` returns what is there in
    place of it."""
    until = time.monotonic() + PATIENCE
    while not (value := condition()):
        alive = all(process.process.poll() is None for process in processes)
        assert alive and time.monotonic() < until, (found(), [process.said() for process in processes])
        time.sleep(pause)
    return value


class Process:
    """A fathom command whose stderr goes to a file."""

    def __init__(self, *arguments, wrap=(), more_environment=()):
        if arguments[0] in ("serve", "gateway", "unit") and "--model" not in arguments:
            arguments = (*arguments, *other_model)
        self.errors = tempfile.TemporaryFile("w+")
        flags = fcntl.fcntl(self.errors, fcntl.F_GETFL)  # Python's own mode "a+" tells the kernel nothing
        fcntl.fcntl(self.errors, fcntl.F_SETFL, flags | os.O_APPEND)  # so whoever reads it moves no writer
        self.process = subprocess.Popen(
            [*wrap, fathom, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.errors,
            text=True, env={**environment, **dict(more_environment)})
        atexit.register(self.process.kill)

    def said(self):
        """All that it has written to stderr."""
        self.errors.seek(0)
        return self.errors.read()

    def wait_for(self, pattern, count=1):
        """The last match, once it was said so many times."""
        return wait_until(lambda: len(found := list(re.finditer(pattern, self.said()))) >= count and found,
                          self, pause=0.005)[-1]

    def wait_for_url(self):
        line = self.process.stdout.readline()
        assert line.startswith("listening on "), (line, self.said())
        self.url = line.split()[-1]
        self.admin = self.wait_for(r"operator is listened to url=(\S+)\n").group(1)
        return self.url

    def at(self, path):
        """The path's whole URL, on the listener that has it."""
        return (self.admin if path.startswith(("/metrics", "/debug")) else self.url) + path

    def open(self, path, body=None):
        return open_url(self.at(path), body)

    def metrics_text(self):
        with self.open("/metrics") as answer:
            return answer.read().decode()

    def metrics(self):
        return {name: float(value) for name, value in re.findall(r"^(\S+) (\S+)$", self.metrics_text(), re.M)}

    def fleet(self):
        with self.open("/debug/fleet") as answer:
            return json.load(answer)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def forget(self):
        """One of many that have ended: its files are closed."""
        self.errors.close()
        self.process.stdout.close()
        atexit.unregister(self.process.kill)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE) == 0, (self.process.returncode, self.said())


def open_url(url, body=None):
    return urllib.request.urlopen(urllib.request.Request(
        url, json.dumps(body).encode() if body else None, {"Content-Type": "application/json"}), timeout=PATIENCE)


def with_defaults(defaults, options):
    """The options, and those of `defaults` that are not among them: none may be given twice."""
    return [*(word for name, value in defaults.items() if name not in options for word in (name, value)), *options]


class Server(Process):
    kv_memory = "64MiB"

    def __init__(self, *options, wrap=()):
        super().__init__("serve", *with_defaults({"--port": "0", "--kv-memory": self.kv_memory}, options), wrap=wrap)
        self.wait_for_url()

    def units(self):
        """The pids of each unit's ranks."""
        return [[rank["pid"] for rank in unit["ranks"]] for unit in self.fleet()["units"]]

    def first_pid(self, role):
        """Of rank 0 of the first unit that has this role."""
        return next(unit["ranks"][0]["pid"] for unit in self.fleet()["units"] if unit["role"] == role)

    def process_of_rank(self, rank, *more):
        """The process, once it is there, of that rank, with `more` in its environment; the server may not be ready yet."""
        until = time.monotonic() + PATIENCE
        wanted = {b"FATHOM_RANK=%d" % rank, *more}
        while True:
            for path in glob.glob("/proc/[0-9]*"):
                try:
                    with open(path + "/cmdline", "rb") as cmdline, open(path + "/environ", "rb") as environ:
                        if b"/%d-" % self.process.pid in cmdline.read() and wanted <= set(environ.read().split(b"\0")):
                            return int(path.split("/")[-1])
                except OSError:
                    pass
            assert time.monotonic() < until and self.process.poll() is None, self.said()
            time.sleep(0.001)

    def wait_for_units(self, count):
        wait_until(lambda: sum(unit["state"] == "serving" for unit in self.fleet()["units"]) >= count, self)

    def no_page_is_held(self, patience=PATIENCE):
        until = time.monotonic() + patience
        while self.metrics()['fathom_kv_pages{state="held"}']:
            assert time.monotonic() < until, self.metrics()
            time.sleep(0.05)
