#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_logits.py FATHOM GOLDENS: `fathom logits` prints the golden's logits, routing and MTP choices, whatever the chunk,
and says clearly what cannot be done."""
import json
import sys

from command import refuse, run

goldens = sys.argv[2]
case = goldens + "/v3-bf16-negbias-dense0-mtp"


def check_golden(prompt):
    study = ["logits", "--model", case, "--tokens", ",".join(map(str, prompt["tokens"])), "--activations", "f32",
             "--json", "--top", "400", "--last", "8", "--routing", "--mtp"]
    text = run(*study)
    found = json.loads(text)
    assert text == run(*study, "--chunk", "64"), "a chunk changed the logits"
    for top in prompt["top20"]:
        position = [p for p in found["positions"] if p["pos"] == top["pos"]][0]
        logits = dict(map(tuple, position["top"]))
        for token, value in zip(top["ids"], top["logits"]):
            assert abs(logits[token] - value) < 2e-3, (top["pos"], token)
        assert abs(position["logsumexp"] - prompt["stats"]["lse"][top["pos"]]) < 1e-3
    assert found["mtp_argmax"] == prompt["mtp"]["argmax_all"]
    for layer, routed in prompt["router_last"].items():
        assert found["routing"][layer] == sorted(routed["experts"])


with open(case + "/golden.json", encoding="utf-8") as golden:
    for prompt in json.load(golden)["prompts"][1:5]:
        check_golden(prompt)
refuse(1, "none", "logits", "--model", case + "/none", "--tokens", "1")
refuse(1, "no MTP layer", "logits", "--model", goldens + "/v2lite-softmax-greedy-yarn", "--tokens", "1", "--mtp")
