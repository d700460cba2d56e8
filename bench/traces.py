#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""traces.py FATHOM TRACE... [options]: request traces on this machine, the same prompts at the same moments to one
unit, to prefill and decode apart with as many threads, and to llama.cpp's server; then, on the embedded model, with
little KV memory and with host memory and disk behind it. Prints a table: hit rate, that of an endless cache,
times to the first token and per token, throughput.

Lengths are scaled (--scale-tokens, then cut to --max-prompt). Of a trace so many whole conversations are drawn that
they arrive within about --seconds where one unit has --load percent of what it can do, by `fathom bench model` and the
hits of an endless cache. A slower system takes longer to answer them. Each row is printed when it is known."""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

START_SECONDS = 300


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fathom")
    parser.add_argument("traces", nargs="+", metavar="TRACE")
    parser.add_argument("--model", help="checkpoint of the first table; the embedded one if not given")
    parser.add_argument("--llama-server", help="llama.cpp's server; left out if not given")
    parser.add_argument("--gguf", help="its model, of the same shape")
    parser.add_argument("--only", choices=("peers", "tiers"), help="the first table, or the second one")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of each system, all units together")
    parser.add_argument("--scale-tokens", type=float, default=0.125)
    parser.add_argument("--max-prompt", type=int, default=520)
    parser.add_argument("--load", type=float, default=40, help="percent of what one unit can do")
    parser.add_argument("--seconds", type=float, default=15, help="in which a trace's requests arrive")
    parser.add_argument("--tiers-seconds", type=float, default=5, help="... for the second table")
    parser.add_argument("--seconds-max", type=float, default=100, help="a system that takes longer is stopped")
    parser.add_argument("--little-memory", default="4MiB", help="--kv-memory of the second table")
    parser.add_argument("--disk", help="folder for the storage of the second table; a temporary one if not given")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def say(text):
    print(text, file=sys.stderr, flush=True)


def read(*command, seconds_max=None):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=seconds_max)
    except subprocess.TimeoutExpired:
        raise RuntimeError("stopped after %.0f s" % seconds_max) from None
    if not done.stdout:
        raise RuntimeError((done.stderr.strip() or "no output").splitlines()[-1])
    return json.loads(done.stdout)


class Server:
    """A server of our own, or the peer's, until the end of the block."""

    def __init__(self, command):
        self.output = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.output, stderr=self.output)

    def said(self):
        """All that it has written. A seek would move the place where it writes."""
        file = self.output.fileno()
        return os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace")

    def __enter__(self):
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and self.process.poll() is None:
            found = re.search(r"listening on (http://[0-9.]+:\d+)", self.said())
            if found:
                return found.group(1)
            time.sleep(0.05)
        self.__exit__()
        raise RuntimeError("it did not start: " + (self.said().strip() or "silence").splitlines()[-1])

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def speeds(wanted, model):
    """Prompt tokens a second, and answers' tokens a second of eight streams."""
    found = read(wanted.fathom, "bench", "model", "--json", "--runs", "1", "--prompt", "512", "--gen", "32", "--batch",
                 "8", "--threads", str(wanted.threads), *model)
    return found["prefill"]["tokens_per_second"], found["decode"][0]["tokens_per_second"]


def choose(wanted, trace, seconds, prompt_rate, output_rate):
    """Options of `bench serve` that play what fits of the trace."""
    played = ["--trace", trace, "--scale-tokens", str(wanted.scale_tokens), "--max-prompt", str(wanted.max_prompt),
              "--seed", str(wanted.seed)]

    def work(one_in):
        """Requests, and seconds of one unit."""
        try:
            found = read(wanted.fathom, "bench", "serve", "--describe", "--json", *played, "--sample", str(one_in))
        except RuntimeError:
            if one_in == 1:
                raise
            return 0, 0
        ideal = found["ideal"]
        misses = ideal["prompt_tokens"] - ideal["block_cached_tokens"]
        return found["requests"], misses / prompt_rate + ideal["output_tokens"] / output_rate

    wanted_busy = seconds * wanted.load / 100
    one_in = max(1, round(work(1)[1] / wanted_busy))
    requests, busy = work(one_in)
    while busy > 1.3 * wanted_busy:  # conversations differ in length, so the first guess may be far off
        one_in = one_in * 5 // 4 + 1
        requests, busy = work(one_in)
    while requests < 2 and one_in > 1:
        one_in = one_in * 3 // 4
        requests, busy = work(one_in)
    rate = requests * wanted.load / 100 / busy
    say("%s: one conversation of %d, %d requests, %.1f s of work, %.2f requests/s" % (
        os.path.basename(trace), one_in, requests, busy, rate))
    return [*played, "--sample", str(one_in), "--trace-rate", "%.6g" % rate]


def ours(wanted, model, *more, threads=None):
    return [wanted.fathom, "serve", "--port", "0", "--threads", str(threads or wanted.threads), *model, *more]


def peer_systems(wanted, model):
    apart = ours(wanted, model, "--prefill-units", "1", "--decode-units", "1", threads=max(1, wanted.threads // 2))
    systems = [("one unit", ours(wanted, model)), ("prefill and decode apart", apart)]
    if wanted.llama_server:
        places, context = 16, wanted.max_prompt + 1024
        systems.append(("llama-server", [
            wanted.llama_server, "-m", wanted.gguf, "--host", "127.0.0.1", "--port", "0", "-np", str(places), "-c",
            str(places * context), "-t", str(wanted.threads), "-tb", str(wanted.threads)]))
    return systems


def tier_systems(wanted, model, disk):
    little = ["--kv-memory", wanted.little_memory]
    tiers = [*little, "--kv-host", "256MiB", "--kv-dir", disk, "--kv-disk", "1GiB"]
    apart = ["--prefill-units", "1", "--decode-units", "1"]
    half = max(1, wanted.threads // 2)
    return [("one unit, 1 GiB", ours(wanted, model)),
            ("one unit, " + wanted.little_memory, ours(wanted, model, *little)),
            ("... and host, disk", ours(wanted, model, *tiers)),
            ("apart, " + wanted.little_memory + ", host, disk", ours(wanted, model, *tiers, *apart, threads=half))]


def measure(wanted, trace, name, command, played):
    say("  " + name)
    row = {"trace": os.path.basename(trace), "system": name}
    try:
        with Server(command) as url:
            row.update(read(wanted.fathom, "bench", "serve", url, "--json", "--warmup", "1", *played,
                            seconds_max=wanted.seconds_max))
        if row["failed"]:
            row["trouble"] = "%d of %d failed" % (row["failed"], row["requests"])
    except RuntimeError as why:
        row["trouble"] = str(why)
    if not wanted.json:
        print_row(row)
    return row


def share(part, whole):
    return "%.1f" % (100 * part / whole) if whole else "–"


def print_head():
    print("| trace | system | requests | hits, % | endless cache, % (whole blocks) | TTFT p50, p99 s | TPOT p50, p99 ms "
          "| output tokens/s | last answer, s |\n|---|---|---|---|---|---|---|---|---|", flush=True)


def print_row(row):
    if "ideal" not in row:
        print("| %s | %s | %s | | | | | | |" % (row["trace"], row["system"], row["trouble"]), flush=True)
        return
    ideal, first, token = row["ideal"], row["ttft_seconds"], row["tpot_seconds"]
    print("| %s | %s | %s | %s | %s (%s) | %.2f, %.2f | %.1f, %.1f | %.1f | %.1f |" % (
        row["trace"], row["system"], row.get("trouble", row["requests"]),
        share(row["cached_tokens"], row["prompt_tokens"]), share(ideal["cached_tokens"], ideal["prompt_tokens"]),
        share(ideal["block_cached_tokens"], ideal["prompt_tokens"]), first["p50"], first["p99"],
        1e3 * token["p50"], 1e3 * token["p99"], row["output_tokens_per_second"], row["seconds"]), flush=True)


def peers(wanted):
    model = ["--model", wanted.model] if wanted.model else []
    rates = speeds(wanted, model)
    say("one unit: %.0f prompt tokens/s, %.0f tokens/s of 8 streams" % rates)
    rows = []
    for trace in wanted.traces:
        played = choose(wanted, trace, wanted.seconds, *rates)
        for name, command in peer_systems(wanted, model):
            rows.append(measure(wanted, trace, name, command, played))
    return rows


def tiers(wanted):
    rates = speeds(wanted, [])
    say("embedded model: %.0f prompt tokens/s, %.0f tokens/s of 8 streams" % rates)
    rows = []
    for trace in wanted.traces:
        played = choose(wanted, trace, wanted.tiers_seconds, *rates)
        disk = tempfile.mkdtemp(dir=wanted.disk)
        try:
            for name, command in tier_systems(wanted, [], disk):
                rows.append(measure(wanted, trace, name, command, played))
                if "--kv-dir" in command:  # nothing of one system's for the next one
                    shutil.rmtree(disk)
                    os.mkdir(disk)
        finally:
            shutil.rmtree(disk)
    return rows


def main():
    wanted = options()
    if wanted.llama_server and not wanted.gguf:
        sys.exit("traces.py: --llama-server needs --gguf")
    rows = []
    for name, work in (("peers", peers), ("tiers", tiers)):
        if wanted.only in (None, name):
            if not wanted.json:
                print_head()
            rows += work(wanted)
    if wanted.json:
        print(json.dumps(rows))
    sys.exit(any("trouble" in row for row in rows))


main()
