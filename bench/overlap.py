#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""overlap.py FATHOM [--layers N] [--batch LIST] [--runs N] [--prompt N --prompts N]: the overlap
schedules' table in docs/performance/ranks.md, for the embedded model with N layers: both sums of
experts' results, each with communication at 0.8 of computation. Two ranks of one thread, each with
half of the groups."""
import argparse
import json
import os
import subprocess
import tempfile

SHAPE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "models/tiny-r1/config.json")


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def prepare(fathom, layers, folder):
    """A checkpoint of so many layers, and a placement that keeps groups on one rank."""
    with open(SHAPE) as file:
        shape = json.load(file)
    shape["num_hidden_layers"] = layers
    paths = {name: os.path.join(folder, name) for name in ("shape", "load", "placement", "model")}
    with open(paths["shape"], "w") as file:
        json.dump(shape, file)
    experts = shape["n_routed_experts"]
    with open(paths["load"], "w") as file:
        json.dump([[1] * experts] * (layers - shape["first_k_dense_replace"]), file)
    placement = run(fathom, "eplb", "--groups", str(shape["n_group"]), "--nodes", "2", "--ranks", "2",
                    "--slots", str(experts), "--locality", "strict", "--json", "--load",
                    paths["load"])
    with open(paths["placement"], "w") as file:
        file.write(placement)
    run(fathom, "make-checkpoint", "--shape", paths["shape"], "--without-mtp", paths["model"])
    return paths


def row(entry):
    walked = entry.get("walked")
    text = "| %s " % entry["schedule"]
    if "seconds" in entry:
        text += "| %.1f | %.1f | %.0f %% | %.2f |" % (
            entry["seconds"] * 1e3, entry["exposed_seconds"] * 1e3, entry["hidden"] * 100,
            entry["of_ideal"])
    else:
        text += "| | | | |"
    if walked:
        text += " %.1f | %.0f %% | %.2f |" % (walked["seconds"] * 1e3, walked["hidden"] * 100,
                                              walked["of_ideal"])
    else:
        text += " takes %s | | %.2f of the best |" % (entry["takes"], entry["of_best"])
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fathom")
    parser.add_argument("--layers", type=int, default=28)
    parser.add_argument("--batch", default="0")
    parser.add_argument("--runs", default="7")
    parser.add_argument("--prompt", default="256")
    parser.add_argument("--prompts", default="4")
    values = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = prepare(values.fathom, values.layers, folder)
        for order in "experts", "groups":
            report = json.loads(run(
                values.fathom, "bench", "overlap", "--model", paths["model"], "--ranks", "2",
                "--threads", "1", "--placement", paths["placement"], "--expert-sum", order,
                "--batch", values.batch, "--runs", values.runs, "--prompt", values.prompt,
                "--prompts", values.prompts, "--json"))
            batch = None
            for entry in report["runs"]:
                if entry["batch"] != batch:
                    batch = entry["batch"]
                    print("\nsum by %s, %s: compute %.1f ms, comm. %.1f ms\n" % (
                        order, "decode of %d a rank" % batch if batch else "prompts",
                        entry["compute_seconds"] * 1e3, entry["comm_seconds"] * 1e3))
                    print("| schedule | step, ms | exposed | hidden | of ideal | walked, ms | hidden "
                          "| of ideal |\n|---|---|---|---|---|---|---|---|")
                print(row(entry), flush=True)


main()
