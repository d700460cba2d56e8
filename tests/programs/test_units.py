#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_units.py FATHOM: a gateway and a unit as processes of their own, over tcp with keys: the answers of one
server; a unit that is stopped, and another one in its place; a gateway that is killed: its clients see a closed
connection, and the next one serves with the same unit. A unit with a wrong key is not let in."""
import atexit
import concurrent.futures
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

fathom = sys.argv[1]
environment = dict(os.environ, ASAN_OPTIONS="detect_leaks=0:" + os.environ.get("ASAN_OPTIONS", ""))
PATIENCE = 900
QUESTIONS = ["What is %d + %d?" % (41 * i, 77 + i) for i in range(6)]


class Process:
    """A fathom command whose stderr goes to a file, and to ours at the end."""

    def __init__(self, *arguments):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([fathom, *arguments], stdin=subprocess.DEVNULL, env=environment,
                                        stdout=subprocess.PIPE, stderr=self.errors, text=True)
        atexit.register(self.process.kill)

    def said(self):
        self.errors.seek(0)
        return self.errors.read()

    def wait_for(self, pattern):
        until = time.monotonic() + PATIENCE
        while not re.search(pattern, self.said()):
            assert time.monotonic() < until and self.process.poll() is None, self.said()
            time.sleep(0.02)
        return re.search(pattern, self.said()).group(1)

    def url(self):
        line = self.process.stdout.readline()
        assert line.startswith("listening on "), (line, self.said())
        return line.split()[-1]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE) == 0, (self.process.returncode, self.said())


def open_url(url, body=None):
    request = urllib.request.Request(url, json.dumps(body).encode() if body else None,
                                     {"Content-Type": "application/json"})
    return urllib.request.urlopen(request, timeout=PATIENCE)


def ask(url, question, **more):
    body = {"messages": [{"role": "user", "content": question}], "max_tokens": 90, "temperature": 0, **more}
    return open_url(url + "/v1/chat/completions", body)


def answer(url, question):
    with ask(url, question) as response:
        return json.load(response)["choices"][0]["message"]


def answers(url):
    with concurrent.futures.ThreadPoolExecutor(len(QUESTIONS)) as pool:
        return list(pool.map(lambda question: answer(url, question), QUESTIONS))


def wait_until_healthy(url):
    until = time.monotonic() + PATIENCE
    while True:
        try:
            with open_url(url + "/health") as response:
                if json.load(response)["status"] == "ok":
                    return
        except urllib.error.HTTPError as error:
            assert error.code == 503, error
        assert time.monotonic() < until
        time.sleep(0.02)


def make_keys(folder):
    for name in ("gateway", "unit", "stranger"):
        subprocess.run([fathom, "keygen", os.path.join(folder, name)], check=True, stdout=subprocess.DEVNULL,
                       env=environment)
    assert subprocess.run([fathom, "keygen", os.path.join(folder, "unit")], stderr=subprocess.DEVNULL,
                          env=environment).returncode == 1  # never overwritten


def main():
    alone = Process("serve", "--port", "0", "--kv-memory", "64MiB", "--mtp", "off")
    wanted = answers(alone.url())
    alone.stop()
    with tempfile.TemporaryDirectory() as folder:
        make_keys(folder)

        def path(name):
            return os.path.join(folder, name)

        def gateway(address):
            return Process("gateway", "--listen", address, "--port", "0", "--wire-key", path("gateway.secret"),
                           "--wire-allow", path("unit.public"))

        def unit(address, key="unit"):
            return Process("unit", "--connect", address, "--kv-memory", "64MiB", "--wire-key",
                           path(key + ".secret"), "--wire-gateway", path("gateway.public"))

        first = gateway("tcp://127.0.0.1:*")
        address = first.wait_for(r"units connect to (\S+)")
        url = first.url()
        stranger = unit(address, "stranger")
        stranger.wait_for("(not let in)")
        worker = unit(address)
        wait_until_healthy(url)
        assert answers(url) == wanted
        stranger.stop()

        worker.stop()  # another one takes its place
        worker = unit(address)
        wait_until_healthy(url)
        assert answers(url) == wanted

        stream = ask(url, QUESTIONS[0], stream=True, max_tokens=1500, ignore_eos=True)
        assert stream.readline().startswith(b"data: ")
        first.process.kill()
        try:
            rest = stream.read()
            assert not rest.endswith(b"data: [DONE]\n\n"), "a killed gateway cannot finish"
        except (ConnectionError, OSError, ValueError):
            pass
        except Exception as error:  # http.client.IncompleteRead: the connection was closed
            assert "IncompleteRead" in repr(error), error
        second = gateway(address)
        url = second.url()
        wait_until_healthy(url)
        assert answers(url) == wanted
        assert worker.process.poll() is None
        worker.wait_for("(the gateway is gone)")
        second.stop()
        worker.stop()


main()
