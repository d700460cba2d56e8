#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""constrained.py FATHOM [options] [-- options of serve]: the cost of constrained output for its steps. One
server answers the same prompts free and under a JSON schema, in phases by turns, so that a change of the machine's load
affects both. The schema's array is longer than an answer may be, so all answers are of equal length and each phase has
the same steps of --streams rows; only the constraint differs. TPOT is (last token - first token) / (tokens - 1), the
median over requests. Processor time is the whole server's per token, and in addition the share of the threads that
compile constraints and make masks, which shows their cost even on a busy machine."""
import argparse
import glob
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

SCHEMA = {"type": "array", "minItems": 4000, "items": {
    "type": "object", "additionalProperties": False, "required": ["name", "kind", "count", "share", "done", "when"],
    "properties": {"name": {"type": "string", "maxLength": 40}, "kind": {"enum": ["small", "middle", "large"]},
                   "count": {"type": "integer", "minimum": 0, "maximum": 100000}, "share": {"type": "number"},
                   "done": {"type": "boolean"}, "when": {"type": "string", "format": "date"},
                   "tags": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]{2,8}$"}, "maxItems": 4}}}}
FIGURES = ("tpot_ms", "tokens_per_second", "processor_ms")  # of each kind of phase, and their ratio


def options():
    own, rest = sys.argv[1:], []
    if "--" in own:
        own, rest = own[:own.index("--")], own[own.index("--") + 1:]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fathom")
    parser.add_argument("--model", help="a checkpoint; the embedded model if not given")
    parser.add_argument("--tokenizer", help="a tokenizer.json for a checkpoint without one, as many rows of it as the "
                                            "checkpoint has")
    parser.add_argument("--schema", help="a file with another schema than the built-in one, with answers that run as long")
    parser.add_argument("--streams", type=int, default=32)
    parser.add_argument("--prompt-tokens", type=int, default=16)
    parser.add_argument("--output-tokens", type=int, default=128)
    parser.add_argument("--temperature", type=float, default=0.6)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(own), rest


def cut_tokenizer(path, rows):
    """The first rows of the tokenizer. Added tokens beyond them take the last places."""
    with open(path, encoding="utf-8") as file:
        read = json.load(file)
    model, added = read["model"], read["added_tokens"]
    named = {token["content"] for token in added}
    first, behind = 0, [token for token in added if token["id"] >= rows]
    behind = [token for token in behind if not re.search(r"place.holder", token["content"])]
    first = rows - len(behind)
    for number, token in enumerate(behind):
        token["id"] = first + number
    read["added_tokens"] = [token for token in added if token["id"] < rows]
    model["vocab"] = {text: number for text, number in model["vocab"].items() if number < first and text not in named}
    halves = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
    model["merges"] = [" ".join(pair) for pair in halves if all(
        text in model["vocab"] for text in (*pair, "".join(pair)))]
    return read


def with_tokenizer(wanted, folder):
    """The checkpoint in a folder of its own, together with the tokenizer."""
    for name in os.listdir(wanted.model):
        os.symlink(os.path.abspath(os.path.join(wanted.model, name)), os.path.join(folder, name))
    with open(os.path.join(wanted.model, "config.json"), encoding="utf-8") as file:
        rows = json.load(file)["vocab_size"]
    with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as file:
        json.dump(cut_tokenizer(wanted.tokenizer, rows), file)
    return folder


def processor_seconds(process):
    """Processor time of all running threads, and of those for constraints only."""
    whole, masks = 0, 0
    for folder in glob.glob("/proc/%d/task/*" % process.pid):
        try:
            with open(folder + "/comm", encoding="utf-8") as name, open(folder + "/schedstat", encoding="utf-8") as file:
                seconds = int(file.read().split()[0]) / 1e9
                masks += seconds if name.read().strip() in ("masks", "constraints") else 0
                whole += seconds
        except OSError:  # a thread that has just ended
            continue
    return whole, masks


def phase(wanted, server, url, number, schema):
    more = ["--no-ignore-eos", "--extra", json.dumps({"response_format": {
        "type": "json_schema", "json_schema": {"name": "rows", "schema": schema}}})] if schema else []
    before = processor_seconds(server)
    done = subprocess.run([wanted.fathom, "bench", "serve", url, "--json", "--seed", str(number),
                           "--requests", str(wanted.streams), "--concurrency", str(wanted.streams),
                           "--prompt-tokens", str(wanted.prompt_tokens), "--output-tokens", str(wanted.output_tokens),
                           "--temperature", str(wanted.temperature), *more], stdout=subprocess.PIPE, text=True, check=False)
    whole, masks = (now - then for now, then in zip(processor_seconds(server), before))
    result = json.loads(done.stdout)
    tokens = wanted.streams * wanted.output_tokens
    if result["failed"] or result["output_tokens"] != tokens:
        sys.exit("constrained.py: expected %d tokens, found %s" % (tokens, done.stdout))
    return {"tpot_ms": 1e3 * result["tpot_seconds"]["p50"], "tokens_per_second": result["output_tokens_per_second"],
            "processor_ms": 1e3 * whole / tokens, "masks_percent": 100 * masks / whole}


def measure(wanted, server, url, schema):
    rounds = []
    for number in range(wanted.rounds + 1):  # the first one warms up
        row = {}
        for kind in ("free", "bound") if number % 2 else ("bound", "free"):
            found = phase(wanted, server, url, number, schema if kind == "bound" else None)
            row.update({kind + "_" + name: found[name] for name in FIGURES})
            if kind == "bound":
                row["masks_percent"] = found["masks_percent"]
        for name in FIGURES:
            row[name + "_ratio"] = row["bound_" + name] / row["free_" + name]
        if number:
            rounds.append(row)
            print("TPOT %.2f free, %.2f ms bound: %.3f; processor time a token: %.3f, of it for masks %.2f %%" % (
                row["free_tpot_ms"], row["bound_tpot_ms"], row["tpot_ms_ratio"], row["processor_ms_ratio"],
                row["masks_percent"]), file=sys.stderr)
    return rounds


def serve(wanted, rest, schema):
    with tempfile.TemporaryDirectory() as folder:
        model = with_tokenizer(wanted, folder) if wanted.tokenizer else wanted.model
        server = subprocess.Popen([wanted.fathom, "serve", "--port", "0", *(["--model", model] if model else []), *rest],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            url = server.stdout.readline().removeprefix("listening on ").strip()
            return measure(wanted, server, url, schema)
        finally:
            server.kill()
            server.wait()


def main():
    wanted, rest = options()
    schema = SCHEMA
    if wanted.schema:
        with open(wanted.schema, encoding="utf-8") as file:
            schema = json.load(file)
    rounds = serve(wanted, rest, schema)
    middle = {name: statistics.median(row[name] for row in rounds) for name in rounds[0]}
    if wanted.json:
        print(json.dumps({"streams": wanted.streams, "rounds": rounds, "median": middle}))
    else:
        print("median of %d rounds, %d streams: TPOT %.2f ms free, %.2f bound (%.3f x); %.1f and %.1f tokens/s (%.3f x); "
              "processor time a token %.3f and %.3f ms (%.3f x), of it for masks %.2f %%" % (
                  len(rounds), wanted.streams, *(middle[part % name] for name in FIGURES for part in (
                      "free_%s", "bound_%s", "%s_ratio")), middle["masks_percent"]))


main()
