#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""accuracy.py [--count N] [--at-least N] FATHOM [options of generate]: how many questions of the
embedded model's evaluation an engine answers as its card says, from prompts that were tokenized beforehand:
it needs no tokenizer, so it also runs where the engine was built alone (-Dserving=disabled).

accuracy.py --write FATHOM: makes the file of those prompts anew, with `fathom tokenize`, from the evaluation.

Each line of models/tiny-r1/eval.tokens.jsonl is a question of eval.jsonl: its kind, its prompt's ids, and the
text that the answer must have behind </think>. Turning ids into text is a look into tokenizer.json."""
import argparse
import json
import os
import re
import subprocess
import sys

MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "models", "tiny-r1")
QUESTIONS = os.path.join(MODEL, "eval.jsonl")
TOKENS = os.path.join(MODEL, "eval.tokens.jsonl")
AT_ONCE = 100  # prompts of one process
MAX_NEW = 320  # the longest right answer has far fewer


def tokenize(fathom, texts):
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    done = subprocess.run([fathom, "tokenize", "--jsonl", "--model", MODEL], input=lines, text=True,
                          stdout=subprocess.PIPE, check=True)
    return [json.loads(line)["ids"] for line in done.stdout.splitlines()]


def make(fathom):
    """The text of the file."""
    with open(QUESTIONS, encoding="utf-8") as file:
        questions = [json.loads(line) for line in file]
    prompts = tokenize(fathom, [question["prompt"] for question in questions])
    return "".join(json.dumps({"kind": "%s/%s" % (question["kind"], question["sub"]), "prompt": prompt,
                               "answer": question["answer"]}, separators=(",", ":")) + "\n"
                   for question, prompt in zip(questions, prompts))


def token_bytes():
    """The bytes of each token: a character of a byte-level vocabulary is a byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    byte_of = {**{chr(byte): byte for byte in plain}, **{chr(256 + i): byte for i, byte in enumerate(others)}}
    with open(os.path.join(MODEL, "tokenizer.json"), encoding="utf-8") as file:
        tokenizer = json.load(file)
    table = {token: bytes(byte_of[c] for c in text if c in byte_of)
             for text, token in tokenizer["model"]["vocab"].items()}
    for token in tokenizer["added_tokens"]:
        table[token["id"]] = token["content"].encode()
    return table


def text_of(table, tokens):
    """The text after the reasoning; empty if that does not end."""
    text = b"".join(table[token] for token in tokens[:-1] if token in table).decode(errors="replace")
    return text.partition("</think>")[2].strip()


def answer(fathom, options, questions):
    """The answers' ids."""
    prompts = ";".join(",".join(map(str, question["prompt"])) for question in questions)
    done = subprocess.run([fathom, "generate", "--model", MODEL, *options, "--tokens", prompts, "--greedy",
                           "--max-new", str(MAX_NEW), "--json"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit("accuracy: fathom generate ended with %d" % done.returncode)
    report = json.loads(done.stdout)
    return [one["tokens"] for one in report.get("prompts", [report])]


def card():
    """Right answers by kind, as the model's card says; `all` is of all."""
    with open(os.path.join(MODEL, "MODEL_CARD.md"), encoding="utf-8") as file:
        return {kind: int(right) for kind, right in re.findall(r"^\| ([a-z/]+) \| (\d+)/\d+ = ", file.read(), re.M)}


def measure(fathom, options, count):
    with open(TOKENS, encoding="utf-8") as file:
        questions = [json.loads(line) for line in file]
    if count and count < len(questions):  # evenly, so that every kind is asked
        questions = [questions[i * len(questions) // count] for i in range(count)]
    table, right, asked = token_bytes(), {}, {}
    for first in range(0, len(questions), AT_ONCE):
        batch = questions[first:first + AT_ONCE]
        for question, tokens in zip(batch, answer(fathom, options, batch)):
            asked[question["kind"]] = asked.get(question["kind"], 0) + 1
            found = text_of(table, tokens) == question["answer"]
            right[question["kind"]] = right.get(question["kind"], 0) + found
    return right, asked


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="make the file of prompts anew")
    parser.add_argument("--check", action="store_true", help="fail if --write would make another file")
    parser.add_argument("--count", type=int, default=0, help="so many of the questions; 0: all")
    parser.add_argument("--at-least", type=int, default=0, help="fail if fewer answers are right")
    parser.add_argument("fathom")
    values, options = parser.parse_known_args()
    if values.write:
        with open(TOKENS, "w", encoding="utf-8") as file:
            file.write(make(values.fathom))
        return
    if values.check:
        with open(TOKENS, encoding="utf-8") as file:
            sys.exit(None if file.read() == make(values.fathom) else "accuracy: eval.tokens.jsonl is to be written anew")
    right, asked = measure(values.fathom, options, values.count)
    said = card()
    whole = sum(asked.values()) == 400
    for kind in sorted(asked):
        print("%-22s %3d of %3d right%s" % (kind, right[kind], asked[kind], "; card: %d" % said[kind] if whole else ""))
    total = sum(right.values())
    print("%d of %d right%s" % (total, sum(asked.values()), "; card: %d" % said["all"] if whole else ""))
    if total < values.at_least:
        sys.exit("accuracy: at least %d were to be right" % values.at_least)


if __name__ == "__main__":
    main()
