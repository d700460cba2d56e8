#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_sampler.py FATHOM GOLDENS: what `fathom generate` does with penalties, biases, min-p and the least length, which
`fathom chat` shares."""
import json
import sys

from command import run

case = sys.argv[2] + "/v3-bf16-negbias-dense0-mtp"


def check_sampling():
    """Penalties make an answer repeat itself less; min-p 1 leaves only the likeliest token."""
    common = ["generate", "--model", case, "--tokens", "5,9", "--max-new", "60", "--ignore-eos", "--json"]

    def tokens(*more):
        return json.loads(run(*common, *more))["tokens"]

    greedy = tokens("--greedy")
    assert tokens("--temperature", "2", "--min-p", "1", "--top-p", "1") == greedy
    assert tokens("--greedy", "--repetition-penalty", "1", "--frequency-penalty", "0") == greedy
    for penalty in ("--repetition-penalty", "--frequency-penalty", "--presence-penalty"):
        assert len(set(tokens("--greedy", penalty, "2"))) > len(set(greedy)), penalty
    assert "--min-p" in run(*common, "--min-p", "1.5", code=2)
    first = greedy[0]
    assert first not in tokens("--greedy", "--logit-bias", "%d:-100" % first)
    assert tokens("--temperature", "1", "--logit-bias", "7:100") == [7] * 60
    for wrong, words in (("7", "expected ID:BIAS"), ("7:", "expected ID:BIAS"), ("7:1,", "expected ID:BIAS"),
                         ("999999:1", "999999 is not a token id"), ("7:101", "not between"), ("7:nan", "not between")):
        assert words in run(*common, "--logit-bias", wrong, code=1), wrong


def check_min_tokens():
    """The model's end-of-sentence token, forced, ends an answer at once, but not before --min-tokens."""
    with open(case + "/config.json", encoding="utf-8") as file:
        end = json.load(file)["eos_token_id"]
    end = end[0] if isinstance(end, list) else end
    common = ["generate", "--model", case, "--tokens", "5,9", "--max-new", "30", "--json", "--logit-bias",
              "%d:100" % end]
    assert json.loads(run(*common))["tokens"] == [end]
    longer = json.loads(run(*common, "--min-tokens", "9"))["tokens"]
    assert len(longer) == 10 and longer.index(end) == 9, longer


check_sampling()
check_min_tokens()
