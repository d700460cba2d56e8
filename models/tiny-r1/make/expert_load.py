#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""expert_load.py FOLDER FILE...: how evenly experts are used by kind of question, and how good drafts are.

The questions of eval.jsonl and eval_tools.jsonl are answered by infer.py. Prints, and writes with --out: for
each kind the load of the busiest expert by the mean, in each layer with experts (the last one is that of the
MTP module), and the share of drafts that are the model's own next token."""
import argparse
import collections
import json

import torch

from evaluate import read_questions
from infer import EOS_ID, MASKED, Net
from tokenizer import tokenizer

AT_ONCE = 100


def answers_to(net, prompts):
    """The answers to all prompts, in groups of similar length."""
    order = sorted(range(len(prompts)), key=lambda index: len(prompts[index]))
    answers = [None] * len(prompts)
    for first in range(0, len(order), AT_ONCE):
        group = order[first:first + AT_ONCE]
        for index, answer in zip(group, net.generate([prompts[index] for index in group])):
            answers[index] = answer
    return answers


def measure(net, prompt, answer):
    """(right drafts, drafts, load by layer) of a prompt and its answer."""
    for load in net.load.values():
        load.zero_()
    ids = torch.tensor([prompt + answer + [EOS_ID]])
    length = ids.shape[1]
    position, mask = torch.arange(length)[None], torch.full((1, length, length), MASKED).triu(1)
    hidden = net.trunk(ids, None, position, mask)
    scores = net.mtp(hidden[:, :-1], ids[:, 1:], position[:, :-1], mask[:, :-1, :-1])
    at = torch.arange(len(prompt) - 1, length - 2)
    right = (scores.argmax(-1)[0, at] == ids[0, at + 2]).sum()
    return int(right), len(at), torch.stack([load.clone() for load in net.load.values()])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--every", type=int, default=2, help="take each n-th question")
    parser.add_argument("--out", help="write the figures to this file, as JSON")
    options = parser.parse_args()
    net, questions = Net(options.folder), read_questions(options.files)[::options.every]
    prompts = [tokenizer.encode(question["prompt"]) for question in questions]
    loads, drafts = collections.defaultdict(int), [0, 0]
    for question, prompt, answer in zip(questions, prompts, answers_to(net, prompts)):
        right, count, load = measure(net, prompt, answer)
        drafts = [drafts[0] + right, drafts[1] + count]
        loads[question["kind"]] = loads[question["kind"]] + load
        loads["all"] = loads["all"] + load
    skew = {kind: [round(float(layer.max() / layer.mean()), 2) for layer in load]
            for kind, load in loads.items()}
    for kind, layers in skew.items():
        print(f"{kind:12}", *layers)
    print(f"drafts right {drafts[0]}/{drafts[1]} = {100 * drafts[0] / drafts[1]:.1f} %")
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump({"drafts": drafts, "load": skew}, file)


if __name__ == "__main__":
    main()
