#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""goldens.py [--activations MODE] FATHOM [options of logits and generate]: how far an engine is from the goldens
(tests/golden/README.md), by what its commands print: so that it asks any device, and needs no test program.
goldens.py --expert-sums FATHOM [options]: both orders of summing experts, compared in f32, bf16 and fp8.

Logits and logsumexp of each prompt's last positions, routing, MTP predictions, greedy tokens. In f32 they must
keep to the goldens' tolerances; for the other modes the deviations are printed, to compare devices.
FATHOM_GOLDENS names a folder of further cases, laid out like tests/golden."""
import argparse
import glob
import json
import os
import statistics
import subprocess
import sys

OWN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden")
LOGIT, LOGSUMEXP, MTP_MARGIN = 2e-3, 1e-3, 2e-3


def case_folders():
    """Those of the tree, then those of FATHOM_GOLDENS that the tree does not have."""
    found = {}
    for root in [OWN, os.environ.get("FATHOM_GOLDENS")]:
        if root is None:
            continue
        folders = [os.path.dirname(path) for path in sorted(glob.glob(os.path.join(root, "*", "golden.json")))]
        if not folders:
            sys.exit("goldens: '%s' has no folder with a golden.json%s" % (root, "" if root == OWN else
                     "; expected of FATHOM_GOLDENS a folder like tests/golden, with a folder for each case"))
        for folder in folders:
            found.setdefault(os.path.basename(folder), folder)
    return list(found.values())


def run(fathom, *arguments):
    done = subprocess.run([fathom, *arguments, "--json"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode:
        sys.exit("goldens: fathom %s ended with %d" % (arguments[0], done.returncode))
    report = json.loads(done.stdout)
    return report.get("prompts", [report])


class Case:
    """The results of a checkpoint's prompts."""

    def __init__(self):
        self.logits = []  # |difference| of each
        self.logsumexp = 0.0
        self.routing = self.mtp = self.greedy = self.compared = 0

    def compare(self, prompt, found, tokens):
        at = {position["pos"]: position for position in found["positions"]}
        for top in prompt["top20"]:
            logits = dict(at[top["pos"]]["top"])
            self.logits += [abs(logits[token] - logit) for token, logit in zip(top["ids"], top["logits"])]
            lse = prompt["stats"]["lse"][top["pos"]]
            self.logsumexp = max(self.logsumexp, abs(at[top["pos"]]["logsumexp"] - lse))
            self.compared += 1
        for layer, chosen in prompt["router_last"].items():
            self.routing += sorted(chosen["experts"]) != sorted(found["routing"][layer])
        if "mtp_argmax" in found:
            self.mtp += sum(a != b for a, b, margin in
                            zip(prompt["mtp"]["argmax_all"], found["mtp_argmax"], prompt["mtp"]["margin_all"])
                            if margin >= MTP_MARGIN)
        self.greedy += sum(a != b for a, b in zip(prompt["greedy"]["tokens"], tokens))

    def keeps(self):
        return self.compared > 0 and max(self.logits) <= LOGIT and self.logsumexp <= LOGSUMEXP and \
            not self.routing and not self.mtp and not self.greedy


def measure(fathom, folder, options):
    with open(os.path.join(folder, "golden.json"), encoding="utf-8") as file:
        prompts = json.load(file)["prompts"]
    case = Case()
    words = ["--model", folder, "--kv-rounding", "off", *options, "--tokens",
             ";".join(",".join(map(str, prompt["tokens"])) for prompt in prompts)]
    positions = max(len(prompt["top20"]) for prompt in prompts)
    mtp = ["--mtp"] if all("mtp" in prompt for prompt in prompts) else []
    found = run(fathom, "logits", *words, "--routing", *mtp, "--last", str(positions), "--top", "1048576")
    longest = max(len(prompt["greedy"]["tokens"]) for prompt in prompts)
    answers = run(fathom, "generate", *words, "--greedy", "--ignore-eos", "--max-new", str(longest))
    for prompt, one, answer in zip(prompts, found, answers):
        case.compare(prompt, one, answer["tokens"])
    return case


def compare_sums(fathom, options):
    """Deviations of the logits, median, mean and largest, and greedy tokens that are not the golden's."""
    for folder in case_folders():
        for activations in "f32", "bf16", "fp8":
            found = []
            for order in "experts", "groups":
                case = measure(fathom, folder, [*options, "--activations", activations, "--expert-sum", order])
                found.append("%s %.1e %.1e %.1e, greedy %d" % (order, statistics.median(case.logits),
                             sum(case.logits) / len(case.logits), max(case.logits), case.greedy))
            print("%-28s %-4s | %s" % (os.path.basename(folder), activations, " | ".join(found)), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--activations", default="f32")
    parser.add_argument("--expert-sums", action="store_true")
    parser.add_argument("fathom")
    values, options = parser.parse_known_args()
    if values.expert_sums:
        return compare_sums(values.fathom, options)
    options += ["--activations", values.activations]
    kept, folders = 0, case_folders()
    for folder in folders:
        case = measure(values.fathom, folder, options)
        print("%-32s |logit| %.1e, mean %.1e  |logsumexp| %.1e  wrong: routing %d, MTP %d, greedy %d" % (
            os.path.basename(folder), max(case.logits), sum(case.logits) / len(case.logits),
            case.logsumexp, case.routing, case.mtp, case.greedy))
        kept += case.keeps()
    print("%s: %d of %d cases keep to the goldens' tolerances" % (values.activations, kept, len(folders)))
    if values.activations == "f32" and kept < len(folders):
        sys.exit("goldens: not all cases keep to them")


if __name__ == "__main__":
    main()
