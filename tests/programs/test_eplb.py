#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_eplb.py FATHOM: fathom eplb from outside. Its placements are whole and as good as it says, strict ones stay on
nodes, and wrong input ends with a line that says what is wrong."""
import json
import os
import random
import tempfile

from command import attempt, expect, failures, finish

folder = tempfile.TemporaryDirectory()


def run(load, *arguments):
    path = os.path.join(folder.name, "load.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write(load if isinstance(load, str) else json.dumps(load))
    return attempt("eplb", "--load", path, *arguments)


def balance_of(load, slots, ranks):
    room = len(slots) // ranks
    ranks_loads = [sum(load[e] / slots.count(e) for e in slots[r * room:(r + 1) * room]) for r in range(ranks)]
    return sum(load) / ranks / max(ranks_loads) if max(ranks_loads) else 1


def bound_of(load, slots, ranks):
    low, high = sum(load) / ranks, max(sum(load) / ranks, max(load))
    fits = lambda cap: sum(max(1, -(-x // cap)) for x in load) <= slots
    if fits(low):
        return 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return sum(load) / ranks / high


def check_json(loads, ranks, nodes, *arguments):
    done = run(loads, "--slots", "288", "--groups", "8", "--nodes", str(nodes), "--ranks", str(ranks), "--json",
               *arguments)
    if done.returncode or done.stderr:
        failures.append("exit %d: %s" % (done.returncode, done.stderr))
        return None
    report = json.loads(done.stdout)
    expect(report["solve_ms"] > 0 and len(report["slot_to_expert"]) == len(loads), "shape of the report")
    for load, slots, balance, bound in zip(loads, report["slot_to_expert"], report["balance"], report["bound"]):
        expect(len(slots) == 288 and set(slots) == set(range(256)), "every expert has a slot")
        expect(abs(balance - balance_of(load, slots, ranks)) < 1e-6, "balance %g is not true" % balance)
        expect(abs(bound - bound_of(load, 288, ranks)) < 1e-6, "bound %g is not true" % bound)
        expect(balance <= bound + 1e-9, "no balance beats the bound")
    return report


def check_moves(loads, report):
    path = os.path.join(folder.name, "from.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(report, file)
    same = check_json(loads, 32, 4, "--from", path, "--keep-within", "0")
    expect(same and same["moves"] == [0] * len(loads), "the same loads move nothing")
    drifted = [[x * (1.3 if e % 7 == 0 else 1) for e, x in enumerate(load)] for load in loads]
    kept = check_json(drifted, 32, 4, "--from", path)
    for old, new, moves, balance in zip(report["slot_to_expert"], kept["slot_to_expert"], kept["moves"],
                                        kept["balance"]):
        expect(moves == sum(a != b for a, b in zip(old, new)) and 0 < moves < 150, "moves: %d" % moves)
        expect(balance > 0.98, "balance after few moves: %g" % balance)
    done = run([loads[0]], "--from", path)
    expect(done.returncode == 1 and "has 4 layers of 288 slots: expected 1 layers" in done.stderr, "another shape")


def main():
    draw = random.Random(4)
    loads = [[draw.lognormvariate(0, 0.8) for _ in range(256)] for _ in range(4)] + [[0.0] * 256]
    drawn = loads[:-1]
    free = check_json(drawn, 32, 4)
    greedy = check_json(drawn, 32, 4, "--greedy")
    strict = check_json(drawn, 32, 4, "--locality", "strict")
    wide = check_json(drawn, 144, 18)
    if not (free and greedy and strict and wide):
        return
    for i in range(len(drawn)):
        expect(greedy["balance"][i] <= strict["balance"][i] <= free["balance"][i], "order of balances, layer %d" % i)
        expect(free["balance"][i] > 0.99, "layer %d is balanced" % i)
        expect(strict["away"][i] == 0 <= free["away"][i] and strict["node_copies"][i] >= 1, "traffic, layer %d" % i)
    expect(check_json(drawn, 32, 4)["slot_to_expert"] == free["slot_to_expert"], "the same answer twice")
    check_moves(drawn, free)
    done = run(loads)
    expect(done.returncode == 0 and "bound, mean" in done.stdout and "node traffic" in done.stdout, "the table")
    for text, arguments, code, why in (
            ("[[1,2],[3]]", [], 1, "layer 1 has 1 experts"),
            ("[[1,-2]]", [], 1, "at least 0, found -2"),
            ("[[1,NaN]]", [], 1, "not valid JSON"),
            ("[[1,2]]", ["--slots", "1"], 1, "1 slots cannot hold 2 experts"),
            ("[[1,2]]", ["--slots", "33", "--groups", "1"], 1, "33 slots do not divide over 32 ranks"),
            ("[[1,2]]", ["--slots", "0"], 2, "slots")):
        done = run(text, *arguments)
        expect(done.returncode == code and why in done.stderr and not done.stdout,
               "%s %s: %r" % (text, arguments, done))
    missing = attempt("eplb", "--load", os.path.join(folder.name, "none"))
    expect(missing.returncode == 1 and "none" in missing.stderr, "a missing file is named")
    expect(attempt("eplb").returncode == 2, "--load is needed")


main()
finish()
