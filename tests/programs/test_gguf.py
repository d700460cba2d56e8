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
