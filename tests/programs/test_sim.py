#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_sim.py FATHOM: fathom sim from outside. The same seed gives the same JSON, --set changes what it names,
the page is whole, a trace is played, and wrong input ends with a line that names the key."""
import gzip
import json
import os
import tempfile

from command import attempt, expect, failures, finish

folder = tempfile.TemporaryDirectory()


def run(*arguments):
    return attempt("sim", *arguments)


def figures(done):
    if done.returncode:
        failures.append("exit %d: %s" % (done.returncode, done.stderr))
        return {}
    return {figure["name"]: figure["simulated"] for figure in json.loads(done.stdout)["figures"]}


first, again, other = run("small", "--json"), run("small", "--json"), run("small", "--json", "--seed", "2")
base = figures(first)
expect(first.stdout == again.stdout, "the same seed gives another text")
expect(first.stdout != other.stdout, "another seed gives the same text")
expect(base.get("decode_tokens_per_s_per_node", 0) > 0 and 0 < base.get("cache_hit_percent", 0) < 100, "figures: %s" % base)
expect(json.loads(first.stdout)["breach"] == "", "a breach")

slow = figures(run("small", "--json", "--set", "fleet.units[1].rows=1"))
expect(slow.get("tpot_p50_ms") and slow["tokens_per_s_per_user"] != base["tokens_per_s_per_user"], "--set changed nothing")

page = os.path.join(folder.name, "page.html")
done = run("small", "--report", page)
expect(done.returncode == 0 and "TTFT" in done.stdout and done.stderr == "", "table: %s" % done.stderr)
with open(page, encoding="utf-8") as file:
    text = file.read()
expect(text.startswith("<!DOCTYPE html>") and text.count("<svg") >= 7 and "hardware.hbm_gbps" in text, "the page")

with gzip.open(os.path.join(folder.name, "trace.csv.gz"), "wt", encoding="utf-8") as file:
    file.write("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join("%g,%d,%d\n" % (i * 0.02, 300 + i, 20) for i in range(50)))
scenario = os.path.join(folder.name, "mine.yaml")
with open(scenario, "w", encoding="utf-8") as file:
    file.write("hardware: h800\nmodel: tiny-r1\nfleet:\n  units:\n    - {role: both, ranks: 1, rows: 32, requests: 64, "
               "step_tokens: 2048, context_tokens: 4096, pages: 1024}\nload:\n  trace: {file: trace.csv.gz}\n")
done = run(scenario, "--json")
expect(figures(done) and json.loads(done.stdout)["counts"]["answered"] == 50, "a trace: %s" % done.stderr)

for arguments, says in (
        (["nosuch"], "no scenario is called 'nosuch'; there are small"),
        (["small", "--set", "fleet.units[0].rnaks=2"], "fleet.units[0]: unknown key 'rnaks'; did you mean ranks?"),
        (["small", "--set", "fleet.units[7].ranks=2"], "no such element"),
        (["small", "--set", "hardware=h900"], "no hardware is called 'h900'; there are h800"),
        (["small", "--set", "hardware.hbm_gpbs=1"], "hbm_gpbs"),
        (["small", "--seed", "x"], "seed: expected a whole number"),
        (["small", "--set", 'load={"trace":{"file":"none.csv"}}'], "none.csv"),
        (["small", "--report", "/no/such/folder/page.html"], "cannot write"),
        ([], "which scenario?")):
    done = run(*arguments)
    expect(done.returncode in (1, 2) and says in done.stderr and done.stderr.count("\n") <= 2,
           "%s: exit %d, %s" % (arguments, done.returncode, done.stderr))

expect("ep144" in run("--list").stdout, "--list")
finish()
