#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_gguf.py FATHOM MODEL MAKE_GGUF: a GGUF file does in every command what the folder does that it was converted from:
its tokenizer, template, end tokens, numbers and weights, in one file or several, given by its path or by its folder. What
a quantized type computes is what its values as floats compute, to the last bit."""
import json
import os
import subprocess
import sys
import tempfile

import server
from command import answer_of, run

model, make_gguf = sys.argv[2:4]
QUESTION = "What is 12 + 15?"
folder = tempfile.TemporaryDirectory(prefix="test_gguf.")


def path_of(*names):
    return os.path.join(folder.name, *names)


def convert(name, *options, source=model):
    path = path_of(name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    subprocess.run([make_gguf, source, path, *options], check=True, timeout=600)
    return path


def same(*arguments, others):
    expected = run(*arguments, "--model", model)
    for other in others:
        found = run(*arguments, "--model", other)
        assert found == expected, (arguments, other, found, expected)
    return expected


whole = convert("one/tiny-r1.gguf")
split = convert("split/tiny-r1-00001-of-00003.gguf", "parts=3")
forms = (whole, os.path.dirname(whole), split, os.path.dirname(split))

# words and templates
same("tokenize", "What is 中文 12345 <｜User｜> an otter?\n\n  x", others=forms)
same("tokenize", "--no-special", "<think> 's it's", others=forms)
chat = json.dumps({"messages": [{"role": "user", "content": QUESTION}]})
request = path_of("chat.json")
with open(request, "w", encoding="utf-8") as file:
    file.write(chat)
same("template", request, others=forms)

# answers: FP8 codes times scales and their products as floats round apart, but not by a token here
greedy = [QUESTION, "--greedy", "--activations", "f32", "--max-new", "200"]
texts = {answer_of(*greedy, "--model", each) for each in (model, *forms)}
assert len(texts) == 1 and "27" in texts.pop(), texts

# quantized types: what their values as floats give, bit by bit; MXFP4 sums in groups of its own
SHAPE = {"architectures": ["DeepseekV3ForCausalLM"], "vocab_size": 512, "hidden_size": 256, "num_hidden_layers": 3,
         "first_k_dense_replace": 1, "intermediate_size": 512, "moe_intermediate_size": 256, "n_routed_experts": 8,
         "n_shared_experts": 1, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1, "q_lora_rank": 256,
         "kv_lora_rank": 256, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "v_head_dim": 64,
         "num_attention_heads": 4, "max_position_embeddings": 512, "bos_token_id": 0, "eos_token_id": 1}
with open(path_of("shape.json"), "w", encoding="utf-8") as file:
    json.dump(SHAPE, file)
drawn = path_of("drawn")
run("make-checkpoint", drawn, "--shape", path_of("shape.json"), "--weights", "bf16")
TOKENS = ["--tokens", "5,9,3,17,44,8,9,100,23"]
for options in (["type=Q8_0"], ["type=Q4_0", "down=Q5_0"], ["type=Q4_K", "down=Q6_K"], ["type=Q5_K", "whole"],
                ["type=Q5_1", "down=Q4_1"], ["type=MXFP4"]):
    both = [convert("q.gguf", *options, source=drawn), convert("r.gguf", *options, "rounded", source=drawn)]
    for mode in ("f32", "bf16"):
        shown = [run("logits", "--model", each, *TOKENS, "--last", "9", "--top", "512", "--json", "--activations", mode)
                 for each in both]
        answers = [run("generate", "--model", each, *TOKENS, "--greedy", "--max-new", "40", "--ignore-eos",
                       "--activations", mode) for each in both]
        if "MXFP4" not in options[0]:
            assert shown[0] == shown[1] and answers[0] == answers[1], (options, mode)
            continue
        tops = [{token: value for place in json.loads(each)["positions"] for token, value in place["top"]} for each in shown]
        assert max(abs(tops[0][token] - tops[1][token]) for token in tops[0]) < (1e-3 if mode == "f32" else 0.3)
one_rank = run("logits", "--model", both[0], *TOKENS)
assert run("logits", "--model", both[0], *TOKENS, "--ranks", "3").startswith(one_rank)

# what inspect says
facts = json.loads(run("inspect", "model", whole, "--json"))
expected = json.loads(run("inspect", "model", model, "--json"))
for key in ("layers", "vocab", "parameters", "architecture", "chat_template"):
    assert facts.get(key) == expected.get(key), (key, facts.get(key), expected.get(key))
run("inspect", "model", split, "--verify")

# a server
service = server.Server("--model", split)
with service.open("/v1/models") as response:
    names = [each["id"] for each in json.load(response)["data"]]
    assert "tiny-r1" in names, names
body = {"messages": [{"role": "user", "content": QUESTION}], "temperature": 0, "max_tokens": 200}
with service.open("/v1/chat/completions", body) as response:
    choice = json.load(response)["choices"][0]
assert choice["finish_reason"] == "stop" and "27" in choice["message"]["content"], choice
service.stop()
