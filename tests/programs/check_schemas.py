#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_schemas.py PROGRAM TOKENIZER.JSON DIR [--names FILE] [--every N] [--slowly] [--peer PATH]: what constrained output
holds of the schemas in DIR, and how fast. DIR holds MaskBench (data/*.json: a schema and instances, each valid or not), JSON Schema's
own test suite (tests/draft7, tests/draft2020-12, each *.json a list of groups), or both in folders of their own.

A schema passes if it compiles, each valid instance is let through, and none that is not. What is refused is counted by the
keyword that the refusal names. --names FILE writes the name of each schema that does not pass, with the reason.

--peer PATH, a checkout or a build of llama.cpp: its grammars get the same schemas, instances and vocabulary in the same
run, of which --every leaves one in a hundred if it is not given; its masks, which take it long, are made before every
sixteenth token."""
import argparse
import collections
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import threading

import peer_grammar

ROWS = 129280  # of DeepSeek-V3's vocabulary
PEER_SCHEMAS = 100  # with a peer, one of so many schemas
PEER_MASKS = 16  # the peer makes a mask before one of so many tokens


def text_of(data):
    return json.dumps(data, indent=None, ensure_ascii=False)


def read_maskbench(folder):
    for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
        tests = value.get("tests") or []
        yield os.path.basename(path), value["schema"], [(text_of(t["data"]), t["valid"]) for t in tests]


DIALECTS = {"draft7": "http://json-schema.org/draft-07/schema#",
            "draft2020-12": "https://json-schema.org/draft/2020-12/schema"}


def read_suite(folder, dialect):
    """The suite's folder says which draft a schema is of; a schema by itself is of the newest."""
    for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
        with open(path, encoding="utf-8") as file:
            for number, group in enumerate(json.load(file)):
                name = "%s#%d %s" % (os.path.basename(path), number, group["description"])
                schema = group["schema"]
                if isinstance(schema, dict):
                    schema = {"$schema": dialect, **schema}
                yield name, schema, [(text_of(t["data"]), t["valid"]) for t in group["tests"]]


def find_sets(root):
    for below in ("", "maskbench"):
        folder = os.path.join(root, below, "data")
        if glob.glob(os.path.join(folder, "*.json")):
            yield "MaskBench", list(read_maskbench(folder))
    for below in ("", "suite"):
        for draft, dialect in DIALECTS.items():
            folder = os.path.join(root, below, "tests", draft)
            if glob.glob(os.path.join(folder, "*.json")):
                yield "JSON-Schema-Test-Suite, " + draft, list(read_suite(folder, dialect))


def run(arguments, cases):
    def write():
        with child.stdin as out:
            for _, schema, texts in cases:
                line = json.dumps({"schema": schema, "texts": [text for text, _ in texts]}, ensure_ascii=True)
                out.write(line.encode() + b"\n")

    child = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    lines = [json.loads(line) for line in child.stdout]
    if child.wait() or len(lines) != len(cases) + 1:
        at = cases[min(len(lines), len(cases) - 1)][0]
        sys.exit("check_schemas: the program ended with %d at %s" % (child.returncode, at))
    return lines[:-1], lines[-1]


def is_reordered(schema, text):
    """Whether an instance's keys stand in another order than the properties of its schema."""
    def differs(shape, value):
        if not isinstance(shape, dict) or not isinstance(value, dict):
            return False
        known = [key for key in shape.get("properties", {}) if key in value]
        return known != [key for key in value if key in known] or any(
            differs(shape["properties"][key], value[key]) for key in known)
    return differs(schema, json.loads(text))


def keyword_of(error):
    """"#/a/not: ..." or "not: ..." names the keyword; a format is named in quotes."""
    found = re.match(r"(\S*?)([\w$]+): (.*)", error)
    if not found:
        return error[:60]
    quoted = re.search(r"'([^']*)'", found.group(3))
    return found.group(2) + (" " + quoted.group(1) if found.group(2) == "format" and quoted else "")


def percentile(values, share):
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0


def totals_of(results):
    """As our program's last line, from the peer's times of single masks."""
    times = sorted(ns for result in results for ns in result["mask_ns"])
    return {"masks": len(times), "mean_ns": sum(times) / max(1, len(times)), "p50_ns": percentile(times, 0.5),
            "p99_ns": percentile(times, 0.99), "worst_ns": times[-1] if times else 0}


def judge(cases, results):
    passed, instances = 0, 0
    refused, statuses = collections.Counter(), collections.Counter()
    problems = {"wrongly accepted": [], "wrongly rejected": [], "wrongly rejected, keys in another order": []}
    notes = []
    for (name, schema, texts), result in zip(cases, results):
        instances += len(texts)
        if result["status"] != "ok":
            refused[keyword_of(result["error"])] += 1
            statuses[result["status"]] += 1
            notes.append("%s: refused (%s): %s" % (name, result["status"], result["error"]))
            continue
        good = True
        for number, ((text, valid), at) in enumerate(zip(texts, result["at"])):
            accepted = at > len(text.encode())
            if accepted == valid:
                continue
            good = False
            kind = "wrongly accepted" if accepted else "wrongly rejected"
            if valid and is_reordered(schema, text):
                kind += ", keys in another order"
            rest = text.encode()[at:at + 60].decode(errors="replace")
            problems[kind].append("%s, instance %d%s" % (name, number, "" if accepted else " before " + repr(rest)))
        passed += good
    for kind, names in problems.items():
        notes += ["%s: %s" % (name, kind) for name in names]
    return passed, instances, refused, statuses, problems, notes


def report(title, cases, results, totals):
    passed, instances, refused, statuses, problems, notes = judge(cases, results)
    compiled = len(cases) - sum(statuses.values())
    print("%s: %d schemas, %d instances" % (title, len(cases), instances))
    print("  passed %d (%.1f %%), compiled %d" % (passed, 100 * passed / len(cases), compiled))
    print("  refused %d: %s" % (sum(statuses.values()), ", ".join("%s %d" % pair for pair in statuses.most_common())))
    for keyword, count in refused.most_common(40):
        print("    %6d  %s" % (count, keyword))
    for kind, names in problems.items():
        print("  %s: %d" % (kind, len(names)))
        for name in names[:40]:
            print("    " + name)
        if len(names) > 40:
            print("    and %d more" % (len(names) - 40))
    slow = sorted(zip(results, cases), key=lambda pair: -pair[0].get("mask_worst_ns", 0))[:5]
    print("  slowest masks, us: " + ", ".join("%d %s" % (result.get("mask_worst_ns", 0) / 1e3, case[0]) for result, case in slow))
    slow = sorted(zip(results, cases), key=lambda pair: -pair[0]["compile_ns"])[:5]
    print("  slowest compiled, ms: " + ", ".join("%d %s" % (result["compile_ns"] / 1e6, case[0]) for result, case in slow))
    times = sorted(result["compile_ns"] / 1e6 for result in results)
    print("  compile, ms: mean %.2f, p50 %.2f, p99 %.2f, worst %.1f" % (
        sum(times) / len(times), percentile(times, 0.5), percentile(times, 0.99), times[-1]))
    print("  masks %d, us: mean %.1f, p50 %.1f, p99 %.1f, worst %.0f" % (
        totals["masks"], *(totals[name] / 1e3 for name in ("mean_ns", "p50_ns", "p99_ns", "worst_ns"))), flush=True)
    return notes


def compare(title, cases, ours, peers):
    """Both in a table; each is (results, totals)."""
    rows = collections.defaultdict(list)
    for results, totals in (ours, peers):
        passed, _, refused, _, problems, _ = judge(cases, results)
        times = sorted(result["compile_ns"] / 1e6 for result in results if result["status"] == "ok") or [0]
        rows["schemas passed"].append("%d (%.1f %%)" % (passed, 100 * passed / len(cases)))
        rows["schemas refused"].append("%d" % sum(refused.values()))
        for kind, names in problems.items():
            rows["instances " + kind].append("%d" % len(names))
        rows["compile, ms: p50, p99"].append("%.2f, %.1f" % (percentile(times, 0.5), percentile(times, 0.99)))
        rows["masks"].append("%d" % totals["masks"])
        rows["mask, us: mean, p50, p99"].append("%.1f, %.1f, %.1f" % tuple(
            totals[name] / 1e3 for name in ("mean_ns", "p50_ns", "p99_ns")))
        rows["mask, us: worst"].append("%.0f" % (totals["worst_ns"] / 1e3))
    print("%s, %d schemas side by side\n  %-46s %24s %24s" % (title, len(cases), "", "Fathom", "llama.cpp"))
    for name, values in rows.items():
        print("  %-46s %24s %24s" % (name, *values))
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("program")
    parser.add_argument("tokenizer")
    parser.add_argument("folder")
    parser.add_argument("--names")
    parser.add_argument("--every", type=int)
    parser.add_argument("--slowly", action="store_true")
    parser.add_argument("--peer")
    given = parser.parse_args()
    every = given.every or (PEER_SCHEMAS if given.peer else 1)
    if not os.path.isdir(given.folder):
        sys.exit("check_schemas: there is no folder %s" % given.folder)
    notes, found = [], False
    with tempfile.TemporaryDirectory() as folder:
        peer = given.peer and peer_grammar.command(given.peer, given.tokenizer, ROWS, PEER_MASKS, folder)
        for title, cases in find_sets(given.folder):
            found = True
            cases = cases[::every]
            ours = run([given.program, given.tokenizer, str(ROWS)] + ["slowly"] * given.slowly, cases)
            notes += report(title, cases, *ours)
            if peer:
                results, _ = run(peer, cases)
                compare(title, cases, ours, (results, totals_of(results)))
    if not found:
        sys.exit("check_schemas: %s holds neither data/*.json nor tests/draft7" % given.folder)
    if given.names:
        with open(given.names, "w", encoding="utf-8") as file:
            file.write("".join(note + "\n" for note in notes))


main()
