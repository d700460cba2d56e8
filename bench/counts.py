#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""counts.py [--write] FATHOM ROOT: the instructions of the hot paths, counted by valgrind's callgrind while the
program runs on one thread with AVX2 (valgrind knows nothing later) and inputs that are always the same. Fails if a
path changed by more than 2 % against bench/counts.json, for the better, too, so that no gain is lost unnoticed.
It prints the change, and the functions that changed. --write: the present counts become the baseline.

Only what runs inside a path's functions counts, and what those call. Counts depend on the compiler and on the C
library (which copies memory in its own way), so the baseline names both; where others are installed, the baseline of
an earlier commit can be made with them first."""
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

BOUND = 0.02  # of a path's instructions
NOTABLE = 0.002  # a function's change that is worth a line, as a share of its path's instructions
KEPT = 0.002  # functions of at least this share are kept in the baseline

SCHEMA = {"type": "object", "additionalProperties": False, "required": ["name", "size", "tags"],
          "properties": {"name": {"type": "string", "maxLength": 12}, "size": {"type": "integer"},
                         "tags": {"type": "array", "minItems": 2, "maxItems": 3, "items": {"enum": ["ab", "abc", "b"]}}}}


def ids(count):
    """Token ids of the embedded model, the same ones each time."""
    return ",".join(str(300 + i * 7919 % 3500) for i in range(count))


def generate(tokens, max_new, *more):
    return ["generate", "--tokens", ids(tokens), "--max-new", str(max_new), "--greedy", "--json", "--threads", "1",
            "--cpu-mask", "avx2", *more]


# path: (what it is, functions whose instructions count, arguments; "{SCHEMA}" stands for a file)
PATHS = {
    "decode": ("an answer of 9 tokens, one step each", ["forward_run"], generate(2, 9, "--ignore-eos")),
    "prefill": ("a prompt of 48 tokens in one step", ["forward_run"], generate(48, 1, "--ignore-eos")),
    "mask": ("masks of a JSON schema for 24 tokens", ["constrained_answer_mask"],
             generate(2, 24, "--schema", "{SCHEMA}")),
    "tokenize": ("400 questions as tokens", ["tokenizer_encode"], ["tokenize", "--jsonl"]),
    "gateway": ("31 tokens of each of 128 answers at a gateway", ["answer_tokens"],
                ["bench_machines", "gateway", "--model", "{MODEL}", "--requests", "64", "--units", "2", "--ranks", "2", "--prompt-tokens", "128",
                 "--answer-tokens", "32", "--steps", "31"]),
    "unit": ("32 requests of two ranks: taken in, and 15 steps planned", ["units_receive", "units_step"],
             ["bench_machines", "plan", "--ranks", "2", "--rows", "16", "--context", "200", "--steps", "10"]),
}


def read_profile(text):
    """{function: instructions of its own} of callgrind's output with names written out. What has no name, in a library
    without symbols or compiled while it ran, is known by its file."""
    costs, function, place, is_call = {}, None, "", False
    for line in text.splitlines():
        if line.startswith("ob="):
            place = os.path.basename(line[3:])
        elif line.startswith("fn="):
            function = line[3:].split("'")[0]  # recursion is numbered
            if function.startswith("0x"):
                function = "in " + place
        elif line.startswith("calls="):
            is_call = True  # the next line has what was called, all of it
        elif line[:1] in "0123456789+-*" and line and function:
            if not is_call:
                costs[function] = costs.get(function, 0) + int(line.split()[1])
            is_call = False
    return costs


def questions(root):
    with open(os.path.join(root, "models/tiny-r1/eval.jsonl"), encoding="utf-8") as file:
        return "".join(json.dumps({"text": json.loads(line)["prompt"]}) + "\n" for line in file)


def count(fathom, root, path, folder):
    _, functions, arguments = PATHS[path]
    out, schema = os.path.join(folder, path), os.path.join(folder, "schema.json")
    program, rest = fathom, arguments
    if arguments[0] == "bench_machines":
        program, rest = os.path.join(os.path.dirname(fathom), "bench", arguments[0]), arguments[1:]
    command = ["valgrind", "--tool=callgrind", "--compress-strings=no", "--compress-pos=no",
               "--callgrind-out-file=" + out, *("--toggle-collect=" + each for each in functions), program,
               *(each.replace("{SCHEMA}", schema).replace("{MODEL}", os.path.join(root, "models/tiny-r1")) for each in rest)]
    done = subprocess.run(command, input=questions(root) if path == "tokenize" else "", text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env={"PATH": os.environ["PATH"], "LC_ALL": "C"})
    if done.returncode:
        sys.exit("counts: %s\nexit code %d\n%s" % (" ".join(command), done.returncode, done.stderr[-2000:]))
    with open(out, encoding="utf-8") as file:
        costs = read_profile(file.read())
    if not sum(costs.values()):
        sys.exit("counts: nothing was counted for %s: is %s still the name of a function that runs there?"
                 % (path, " or ".join(functions)))
    return costs


def first_line(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[0]


def made_with():
    return {"compiler": first_line("cc", "--version"), "library": first_line("ldd", "--version"),
            "valgrind": first_line("valgrind", "--version")}


def changes(path, before, now):
    """Lines about a path that is no longer what it was; none if it is."""
    total, was = sum(now.values()), before["instructions"]
    if abs(total - was) <= BOUND * was:
        return []
    lines = ["%s: %+.1f %% instructions, %s instead of %s" % (path, 100 * (total / was - 1), format(total, ","),
                                                            format(was, ","))]
    differences = {name: now.get(name, 0) - before["functions"].get(name, 0)
                   for name in {*now, *before["functions"]}}
    for name, difference in sorted(differences.items(), key=lambda each: -abs(each[1])):
        known = before["functions"].get(name)
        if abs(difference) < NOTABLE * was:
            break
        lines.append("  %+6.1f %%  %s: %s instead of %s" % (
            100 * difference / was, name, format(now.get(name, 0), ","),
            format(known, ",") if known is not None else "under %.1f %%" % (100 * KEPT)))
    return lines


def baseline_of(costs):
    total = sum(costs.values())
    kept = {name: cost for name, cost in costs.items() if cost >= KEPT * total}
    return {"instructions": total, "functions": dict(sorted(kept.items(), key=lambda each: (-each[1], each[0])))}


def has_avx2():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        flags = re.search(r"^flags\s*:(.*)$", file.read(), re.MULTILINE)
    return flags and {"avx2", "fma", "f16c"} <= set(flags[1].split())


def main():
    write = "--write" in sys.argv[1:]
    fathom, root = (each for each in sys.argv[1:] if each != "--write")
    file_name = os.path.join(root, "bench/counts.json")
    if not has_avx2():
        print("left out: a processor without AVX2 would count other kernels")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "schema.json"), "w", encoding="utf-8") as file:
            json.dump(SCHEMA, file)
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            counted = dict(zip(PATHS, threads.map(lambda path: count(fathom, root, path, folder), PATHS)))
    tools = made_with()
    if write:
        with open(file_name, "w", encoding="utf-8") as file:
            json.dump({"made_with": tools, "paths": {path: baseline_of(costs) for path, costs in counted.items()}},
                      file, indent=1)
            file.write("\n")
        for path, costs in counted.items():
            print("%-9s %14s  %s" % (path, format(sum(costs.values()), ","), PATHS[path][0]))
        return
    with open(file_name, encoding="utf-8") as file:
        baseline = json.load(file)
    failures = []
    for path, costs in counted.items():
        total, was = sum(costs.values()), baseline["paths"][path]["instructions"]
        print("%-9s %14s  %+.2f %%  %s" % (path, format(total, ","), 100 * (total / was - 1), PATHS[path][0]))
        failures += changes(path, baseline["paths"][path], costs)
    if not failures:
        return
    if tools != baseline["made_with"]:
        failures.append("the baseline was made with other tools (%s; here %s): make it anew with these from the commit "
                        "before, and compare with that" % (baseline["made_with"], tools))
    failures.append("if that is meant: ./dev counts --write")
    sys.exit("\n".join(failures))


if __name__ == "__main__":
    main()
