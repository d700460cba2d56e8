#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""served.py FATHOM echo|weights [options]: the processor time and memory of `serve`, measured from outside.

echo     processor time of the server for a prompt alone, and with the log probabilities of its tokens
weights  memory (the sum of all ranks' proportional shares) and start of a unit of ranks that map one packed
         model, and of ranks that each hold their own (--weights-dir private), in turn"""
import argparse
import glob
import http.client
import json
import os
import random
import re
import subprocess
import tempfile
import time


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fathom")
    parser.add_argument("what", choices=["echo", "weights"])
    parser.add_argument("--model", help="a checkpoint; the embedded model if not given")
    parser.add_argument("--tokens", type=int, default=900, help="echo: of a prompt")
    parser.add_argument("--vocab", type=int, default=1500, help="echo: prompts draw their tokens below this id")
    parser.add_argument("--ranks", type=int, default=8, help="weights: of the unit")
    parser.add_argument("--rounds", type=int, default=5, help="of which the least counts")
    return parser.parse_args()


class Server:
    def __init__(self, given, *more):
        began = time.monotonic()
        model = ["--model", given.model] if given.model else []
        with tempfile.TemporaryFile("w+") as errors:
            self.process = subprocess.Popen(
                [given.fathom, "serve", "--port", "0", "--threads", "1", "--kv-memory", "64MiB", *model, *more],
                stdout=subprocess.PIPE, stderr=errors, text=True)
            line = self.process.stdout.readline()
            if not line:
                errors.seek(0)
                raise RuntimeError(errors.read())
        self.port = int(re.search(r":(\d+)$", line.strip()).group(1))
        self.start_seconds = time.monotonic() - began

    def complete(self, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=3600)
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise RuntimeError(text.decode())
        return text

    def processor_seconds(self):
        with open("/proc/%d/stat" % self.process.pid, encoding="utf-8") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def shared_bytes(self):
        """Proportional shares of this process and all below it."""
        below, sum_ = [self.process.pid], 0
        for pid in below:
            for path in glob.glob("/proc/%d/task/*/children" % pid):
                with open(path, encoding="utf-8") as file:
                    below += [int(word) for word in file.read().split()]
            with open("/proc/%d/smaps_rollup" % pid, encoding="utf-8") as file:
                sum_ += 1024 * int(re.search(r"^Pss: +(\d+)", file.read(), re.MULTILINE).group(1))
        return sum_

    def stop(self):
        self.process.terminate()
        self.process.wait()


def echo(given):
    ways = {"the prompt alone": {"max_tokens": 1},
            "echo, logprobs 1, max_tokens 0": {"echo": True, "logprobs": 1, "max_tokens": 0},
            "echo, logprobs 20, max_tokens 0": {"echo": True, "logprobs": 20, "max_tokens": 0}}
    draws, found = random.Random(5), {}
    server = Server(given)
    try:
        for _ in range(given.rounds):
            for way, fields in ways.items():
                prompt = [draws.randrange(5, given.vocab) for _ in range(given.tokens)]
                before = server.processor_seconds()
                answer = server.complete({"prompt": prompt, "temperature": 0, **fields})
                found.setdefault(way, []).append((server.processor_seconds() - before, len(answer)))
    finally:
        server.stop()
    for way, taken in found.items():
        print("%-33s %6.2f s of processor time, %7d bytes of answer" % (way, min(taken)[0], taken[-1][1]))


def weights(given):
    found = {}
    for _ in range(given.rounds):
        with tempfile.TemporaryDirectory() as folder:
            for way, value in (("private", "private"), ("first start", folder), ("start again", folder)):
                server = Server(given, "--ranks", str(given.ranks), "--weights-dir", value)
                try:
                    server.complete({"prompt": list(range(5, 69)), "max_tokens": 8, "ignore_eos": True})
                    found.setdefault(way, []).append((server.start_seconds, server.shared_bytes()))
                finally:
                    server.stop()
    for way, taken in found.items():
        print("%-12s %6.0f MiB, listening after %5.2f s" %
              (way, min(size for _, size in taken) / (1 << 20), min(start for start, _ in taken)))


arguments = options()
echo(arguments) if arguments.what == "echo" else weights(arguments)
