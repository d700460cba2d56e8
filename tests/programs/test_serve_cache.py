#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_serve_cache.py FATHOM: a server with a KV storage gives the very answers of one without: while it fills, out of
host memory, after a restart, out of another server's blocks, with damage in its files, and on a full disk. What was loaded counts as hits, and every page is back at the end."""
import atexit
import glob
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

fathom = sys.argv[1]
environment = dict(os.environ, ASAN_OPTIONS="detect_leaks=0:" + os.environ.get("ASAN_OPTIONS", ""))
BLOCK = 64
rolls = random.Random(11)
PROMPTS = [[rolls.randrange(300, 1500) for _ in range(count)] for count in (1500, 700, 130, 65)]


class Server:
    def __init__(self, *options, wrap=()):
        self.said = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([*wrap, fathom, "serve", "--port", "0", "--kv-memory", "16MiB", *options],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment,
                                        stderr=self.said, text=True)
        atexit.register(self.process.kill)  # also where a check fails
        line = self.process.stdout.readline()
        assert line.startswith("listening on "), line
        self.url = line.split()[-1]

    def ask(self, prompt, **more):
        body = {"prompt": prompt, "max_tokens": 20, "temperature": 0, **more}
        request = urllib.request.Request(self.url + "/v1/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=900) as answer:
            found = json.load(answer)
        usage = found["usage"]
        hit = usage["prompt_cache_hit_tokens"]
        assert hit + usage["prompt_cache_miss_tokens"] == len(prompt), usage
        return found["choices"][0]["text"], hit

    def metrics(self):
        with urllib.request.urlopen(self.url + "/metrics", timeout=900) as answer:
            return {name: float(value) for name, value in re.findall(r"^(\S+) (\S+)$", answer.read().decode(), re.M)}

    def loaded(self, tier):
        return self.metrics()['fathom_kv_loaded_tokens_total{tier="%s"}' % tier]

    def stop(self):
        until = time.monotonic() + 600
        while self.metrics()['fathom_kv_pages{state="held"}']:
            assert time.monotonic() < until
            time.sleep(0.05)
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(900) == 0, self.process.returncode


def whole(prompt):
    """Tokens of the blocks before the last token."""
    return (len(prompt) - 1) // BLOCK * BLOCK


def expect(server, wanted, hits, what):
    for prompt, text in zip(PROMPTS, wanted):
        found, hit = server.ask(prompt)
        assert found == text, (what, found, text)
        assert hit == (whole(prompt) if hits else 0), (what, hit, len(prompt))


def flip_bits(directory, count):
    files = glob.glob(directory + "/*/*.kv")
    assert files
    for path in files:
        with open(path, "r+b") as file:
            size = os.path.getsize(path)
            for _ in range(count):
                at = rolls.randrange(4096, size)
                file.seek(at)
                byte = file.read(1)[0]
                file.seek(at)
                file.write(bytes([byte ^ 1 << rolls.randrange(8)]))


def check_full_disk(wanted):
    """A file system of 2 MiB, seen by the server alone; only root can make one."""
    with tempfile.TemporaryDirectory() as directory:
        mount = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=2m tmpfs "$0" && exec "$@"', directory]
        if os.geteuid() or subprocess.run([*mount, "true"], stderr=subprocess.DEVNULL).returncode:
            print("no file system of our own can be mounted here: the full disk is left out")
            return
        server = Server("--kv-dir", directory, "--kv-disk", "16MiB", "--kv-load", "always", wrap=mount)
        for prompt, text in zip(PROMPTS, wanted):
            assert server.ask(prompt)[0] == text
        until = time.monotonic() + 600
        while server.metrics()["fathom_kv_storage_writable"]:
            server.ask([rolls.randrange(300, 1500) for _ in range(200)])
            assert time.monotonic() < until
        for prompt, text in zip(PROMPTS, wanted):
            assert server.ask(prompt)[0] == text
        server.stop()
        server.said.seek(0)
        lines = [line for line in server.said if "nothing is written for now" in line]
        assert lines and all("No space left on device" in line for line in lines), lines


def main():
    server = Server()
    wanted = [server.ask(prompt)[0] for prompt in PROMPTS]
    assert "fathom_kv_storage_writable" not in server.metrics()
    server.stop()
    with tempfile.TemporaryDirectory() as directory:
        options = ["--kv-dir", directory, "--kv-disk", "64MiB", "--kv-load", "always"]
        server = Server(*options)
        expect(server, wanted, False, "while it fills")
        expect(server, wanted, True, "from its pages")
        blocks = sum(len(prompt) // BLOCK for prompt in PROMPTS)
        assert server.metrics()["fathom_kv_blocks_kept_total"] >= blocks
        assert server.metrics()["fathom_kv_storage_writable"] == 1
        server.stop()
        server = Server(*options)
        expect(server, wanted, True, "after a restart")
        assert server.loaded("disk") == sum(map(whole, PROMPTS))
        second = Server(*options, "--kv-host", "8MiB")  # beside it
        expect(second, wanted, True, "out of another's blocks")
        fresh = [rolls.randrange(300, 1500) for _ in range(300)]
        text, hit = server.ask(fresh)
        assert hit == 0
        until = time.monotonic() + 600
        while True:  # soon
            again, hit = second.ask(fresh + [rolls.randrange(300, 1500)])
            if hit:
                break
            assert time.monotonic() < until
            fresh = [rolls.randrange(300, 1500) for _ in range(300)]
            server.ask(fresh)
            time.sleep(2)
        assert second.ask(fresh)[0] == server.ask(fresh)[0]
        server.stop()
        second.stop()
        flip_bits(directory, 1000)
        server = Server(*options)
        for prompt, text in zip(PROMPTS, wanted):
            assert server.ask(prompt)[0] == text
        server.stop()
    server = Server("--kv-host", "8MiB", "--kv-load", "always", "--kv-memory", "3MiB")  # memory alone; few pages
    for _ in range(2):
        for prompt, text in zip(PROMPTS, wanted):
            assert server.ask(prompt)[0] == text
    assert server.loaded("host") > 0 and server.loaded("disk") == 0
    server.stop()
    check_full_disk(wanted)


main()
