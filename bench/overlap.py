#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""overlap.py FATHOM [--layers N] [--sums experts,groups] [--batch LIST] [--runs N] [--prompt N --prompts N]
[--echo RANKS]: the overlap schedules' table in docs/performance/ranks.md, for the embedded model with N
layers: both sums of experts' results, each with communication at 0.8 of computation. Two ranks of one
thread, each with half of the groups, dealt by the loads of random tokens: otherwise the others would wait for the
rank with the busier half, with any schedule. --echo: one rank of so many, on one thread, which gets its own tokens
back, so that no other rank's time is part of the exposed time."""
import argparse
import json
import os
import random
import subprocess
import tempfile

SHAPE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "models/tiny-r1/config.json")


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def loads_of(fathom, model, shape):
    """[layers with experts][experts]: how often each is chosen for random tokens."""
    draw = random.Random(1)
    loads = [[1] * shape["n_routed_experts"]
             for _ in range(shape["num_hidden_layers"] - shape["first_k_dense_replace"])]
    prompts = [",".join(str(draw.randrange(shape["vocab_size"])) for _ in range(6)) for _ in range(500)]
    found = json.loads(run(fathom, "logits", "--model", model, "--tokens", ";".join(prompts), "--last",
                           "1", "--top", "1", "--routing", "--json"))
    for prompt in found["prompts"]:
        for layer, chosen in prompt["routing"].items():
            for expert in chosen:
                loads[int(layer) - shape["first_k_dense_replace"]][expert] += 1
    return loads


def in_order(placement, ranks):
    """Each rank's experts in ascending order: so a group's results leave together."""
    each = len(placement["slot_to_expert"][0]) // ranks
    placement["slot_to_expert"] = [[expert for at in range(0, ranks * each, each)
                                    for expert in sorted(slots[at:at + each])]
                                   for slots in placement["slot_to_expert"]]
    return placement


def prepare(fathom, layers, ranks, folder):
    """A checkpoint of so many layers, and a placement that keeps groups on one rank."""
    with open(SHAPE) as file:
        shape = json.load(file)
    shape["num_hidden_layers"] = layers
    paths = {name: os.path.join(folder, name) for name in ("shape", "load", "placement", "model")}
    with open(paths["shape"], "w") as file:
        json.dump(shape, file)
    run(fathom, "make-checkpoint", "--shape", paths["shape"], "--without-mtp", paths["model"])
    with open(paths["load"], "w") as file:
        json.dump(loads_of(fathom, paths["model"], shape), file)
    placement = json.loads(run(
        fathom, "eplb", "--groups", str(shape["n_group"]), "--nodes", ranks, "--ranks", ranks, "--slots",
        str(shape["n_routed_experts"]), "--locality", "strict", "--json", "--load", paths["load"]))
    with open(paths["placement"], "w") as file:
        json.dump(in_order(placement, int(ranks)), file)
    return paths


def row(entry):
    text = "| %s | %.1f | %.1f | %.0f %% | %.2f |" % (
        entry["schedule"], entry["seconds"] * 1e3, entry["exposed_seconds"] * 1e3, entry["hidden"] * 100, entry["of_ideal"])
    if "takes" in entry:
        text += " takes %s: %.2f of the best |" % (entry["takes"], entry["of_best"])
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fathom")
    parser.add_argument("--layers", type=int, default=28)
    parser.add_argument("--sums", default="experts,groups")
    parser.add_argument("--batch", default="0")
    parser.add_argument("--runs", default="7")
    parser.add_argument("--prompt", default="256")
    parser.add_argument("--prompts", default="4")
    parser.add_argument("--echo")
    values = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ranks = values.echo or "2"
        paths = prepare(values.fathom, values.layers, ranks, folder)
        bench = [values.fathom, "bench", "overlap", "--model", paths["model"], "--echo" if values.echo else "--ranks",
                 ranks, "--threads", "1", "--placement", paths["placement"]]
        for order in values.sums.split(","):
            report = json.loads(run(
                *bench, "--expert-sum", order, "--batch", values.batch, "--runs", values.runs,
                "--prompt", values.prompt, "--prompts", values.prompts, "--json"))
            batch = None
            for entry in report["runs"]:
                if entry["batch"] != batch:
                    batch = entry["batch"]
                    print("\nsum by %s, %s: compute %.1f ms, uneven %.1f ms, comm. %.1f ms\n" % (
                        order, "decode of %d a rank" % batch if batch else "prompts",
                        entry["compute_seconds"] * 1e3, entry["uneven_seconds"] * 1e3,
                        entry["comm_seconds"] * 1e3))
                    print("| schedule | step, ms | exposed | hidden | of ideal |\n|---|---|---|---|---|")
                print(row(entry), flush=True)


main()
