#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""leak.py --training FOLDER[,FOLDER] FILE...: what of the evaluation files occurs in the training.

Counts prompts, names of tools and open values of arguments. The identity questions of eval.jsonl are trained
as they stand; of the others none may occur."""
import argparse
import json

from evaluate import read_questions
from evaluation_sets import Training


def leaks(training, questions):
    """(kind, text) of each prompt, name and value that the training has."""
    for question in questions:
        if question.get("prompt") in training.prompts:
            yield "prompt", question["messages"][-1]["content"]
        for tool in question.get("tools", []):
            if tool["function"]["name"] in training.tool_names:
                yield "name", tool["function"]["name"]
        for value in question.get("call", {"arguments": {}})["arguments"].values():
            if training.has_value(value):
                yield "value", value


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--training", required=True, help="folders with train.npz, with commas between them")
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    training = Training(options.training.split(","))
    for path in options.files:
        questions = [question for question in read_questions([path]) if "messages" in question]
        found = list(leaks(training, questions))
        print(f"{path}: {len(questions)} questions, {len(found)} leaks")
        for kind, text in found:
            print(f"  {kind}: {json.dumps(text, ensure_ascii=False)}")


if __name__ == "__main__":
    main()
