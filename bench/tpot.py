#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tpot.py FATHOM [options] [-- options of serve]: the cost of long prompts for concurrent answers. A steady set of
streams asks a server of its own for answers, with and without a long prompt arriving each second, in phases by
turns, so that a change of the machine's load affects both. The time per output token (TPOT) of a request is
(last token - first token) / (tokens - 1); its percentiles are over requests."""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile


def options():
    own, rest = sys.argv[1:], []
    if "--" in own:
        own, rest = own[:own.index("--")], own[own.index("--") + 1:]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fathom")
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--prompt-tokens", type=int, default=1900, help="of the long prompts")
    parser.add_argument("--output-tokens", default="100:300", help="of the streams' answers")
    parser.add_argument("--seconds", type=int, default=10, help="of a phase")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(own), rest


def bench(wanted, url, *more):
    return subprocess.Popen([wanted.fathom, "bench", "serve", url, "--json", "--seconds", str(wanted.seconds), *more],
                            stdout=subprocess.PIPE, text=True)


def read(process):
    result = json.loads(process.communicate()[0])
    assert process.returncode == 0 and result["failed"] == 0, result
    return result


def phase(wanted, url, number, trace):
    """Figures of the streams, and of the long prompts (None without)."""
    prompts = bench(wanted, url, "--trace", trace, "--seed", str(1000 + number)) if trace else None
    streams = bench(wanted, url, "--concurrency", str(wanted.streams), "--prompt-tokens", "20:60", "--output-tokens",
                    wanted.output_tokens, "--seed", str(number))
    return read(streams), prompts and read(prompts)


def write_trace(wanted, path):
    with open(path, "w", encoding="utf-8") as file:
        for second in range(wanted.seconds):
            file.write(json.dumps({"timestamp": 1000 * second, "input_length": wanted.prompt_tokens,
                                   "output_length": 2, "hash_ids": []}) + "\n")


def figures(wanted, url, trace):
    phase(wanted, url, 0, trace)  # warms up, and teaches the server what steps cost
    rounds = []
    for number in range(1, wanted.rounds + 1):
        calm, _ = phase(wanted, url, 2 * number, None)
        busy, long = phase(wanted, url, 2 * number + 1, trace)
        row = {"first_ms": 1e3 * long["ttft_seconds"]["p50"], "first_max_ms": 1e3 * long["ttft_seconds"]["max"],
               "calm_tokens_per_second": calm["output_tokens_per_second"],
               "busy_tokens_per_second": busy["output_tokens_per_second"]}
        for share in ("p50", "p99"):
            row["calm_" + share + "_ms"] = 1e3 * calm["tpot_seconds"][share]
            row["busy_" + share + "_ms"] = 1e3 * busy["tpot_seconds"][share]
            row[share + "_ratio"] = row["busy_" + share + "_ms"] / row["calm_" + share + "_ms"]
        rounds.append(row)
        print("without %6.2f %6.2f ms, with %6.2f %6.2f ms (p50, p99); ratio %.2f %.2f; first token of prompts "
              "%5.0f ms, at most %5.0f" % tuple(row[name] for name in (
                  "calm_p50_ms", "calm_p99_ms", "busy_p50_ms", "busy_p99_ms", "p50_ratio", "p99_ratio", "first_ms",
                  "first_max_ms")), file=sys.stderr)
    return rounds


def main():
    wanted, serve = options()
    server = subprocess.Popen([wanted.fathom, "serve", "--port", "0", *serve], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True)
    try:
        url = server.stdout.readline().removeprefix("listening on ").strip()
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as trace:
            write_trace(wanted, trace.name)
            rounds = figures(wanted, url, trace.name)
    finally:
        server.kill()
    middle = {name: statistics.median(row[name] for row in rounds) for name in rounds[0]}
    if wanted.json:
        print(json.dumps({"streams": wanted.streams, "rounds": rounds, "median": middle}))
    else:
        print("median of %d rounds, %d streams, a prompt of %d tokens each second: TPOT p50 %.2f -> %.2f ms (%.2f x), "
              "p99 %.2f -> %.2f ms (%.2f x); prompts' first token after %.0f ms" % (
                  wanted.rounds, wanted.streams, wanted.prompt_tokens, *(middle[name] for name in (
                      "calm_p50_ms", "busy_p50_ms", "p50_ratio", "calm_p99_ms", "busy_p99_ms", "p99_ratio",
                      "first_ms"))))


main()
