#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_generate.py FATHOM GOLDENS SERVING: `fathom generate` from outside: the golden's greedy tokens through the command
line, seeds, log probabilities, and clear words for what cannot be done."""
import json
import sys

from command import run

goldens, serving = sys.argv[2], sys.argv[3] == "1"
case = goldens + "/v3-bf16-negbias-dense0-mtp"


def check_logprobs():
    common = ["generate", "--model", case, "--max-new", "6", "--greedy", "--ignore-eos", "--json", "--logprobs", "3"]
    one = json.loads(run(*common, "--tokens", "5,9"))
    assert [entry["token"] for entry in one["logprobs"]] == one["tokens"] and len(one["tokens"]) == 6, one
    for entry in one["logprobs"]:
        assert entry["top"][0] == [entry["token"], entry["logprob"]] and len(entry["top"]) == 3, entry
        values = [value for _, value in entry["top"]]
        assert values == sorted(values, reverse=True) and values[0] <= 0, entry
    several = json.loads(run(*common, "--tokens", "5,9;7,7,7"))["prompts"]
    del one["times"]
    assert several[0] == one and len(several[1]["logprobs"]) == 6, several
    assert "--logprobs needs --json" in run("generate", "--tokens", "1", "--logprobs", "1", code=2)


def main():
    with open(case + "/golden.json", encoding="utf-8") as file:
        for prompt in json.load(file)["prompts"][1:5]:
            greedy = json.loads(run("generate", "--model", case, "--tokens", ",".join(map(str, prompt["tokens"])),
                                    "--activations", "f32", "--max-new", "24", "--greedy", "--ignore-eos", "--json"))
            times = greedy.pop("times")
            assert greedy == {"tokens": prompt["greedy"]["tokens"], "finish_reason": "length"}, greedy
            assert times["prompt_tokens"] == len(prompt["tokens"]) and times["answer_tokens"] == 24, times
            assert times["prompt_seconds"] > 0 and times["answer_seconds"] > 0, times
    check_logprobs()
    by_seed = [run("generate", "--model", case, "--tokens", "5,9", "--max-new", "12", "--seed", seed)
               for seed in ("1", "1", "2")]
    assert by_seed[0] == by_seed[1] != by_seed[2], by_seed
    for arguments, words in (
            (["generate", "--model", case, "--tokens", "5,,9"], "expected ids"),
            (["generate", "--model", case, "--tokens", "99999"], "99999 is not a token id")):
        assert words in run(*arguments, code=1), arguments
    assert "either a prompt or --tokens" in run("generate", code=2)
    if not serving:
        assert "no tokenizer" in run("generate", "hello", code=1)


main()
