#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_tokenize.py FATHOM MODEL: fathom tokenize and detokenize: lines of JSON and plain text, both ways, U+0000,
invalid input, and what is wrong with a line or a directory."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

fathom, model = sys.argv[1:3]


def run(command, *arguments, data=b"", directory=model):
    done = subprocess.run([fathom, command, "--model", directory, *arguments], input=data, capture_output=True,
                          timeout=600)
    return done.returncode, done.stdout, done.stderr.decode()


def lines(command, *requests):
    data = "".join(json.dumps(request) + "\n" for request in requests).encode()
    code, out, err = run(command, "--jsonl", data=data)
    assert code == 0 and err == "", (code, err)
    return [json.loads(line) for line in out.decode().split("\n") if line]


texts = ["", "What is an otter?", "a\0b\t\"\\\x1f\x7f\n", "中文 😀 e\u0301 \u2028", "<think>\nx</think><｜User｜>",
         "x" * 100000]
for special in (True, False):
    encoded = lines("tokenize", *({"text": text, "special": special} for text in texts))
    decoded = lines("detokenize", *encoded)
    assert [line["text"] for line in decoded] == texts, decoded
think = lines("tokenize", {"text": "<think>"}, {"text": "<think>", "special": False})
assert think[0] == {"ids": [4094]} and len(think[1]["ids"]) > 1, think
sentence = {"ids": [0, 4083, 1]}
assert lines("detokenize", sentence, {**sentence, "skip_special": True}) == [
    {"text": "<｜begin▁of▁sentence｜><｜Assistant｜><｜end▁of▁sentence｜>"}, {"text": "<｜Assistant｜>"}]

assert run("tokenize", "<think>") == (0, b"4094\n", "")
assert run("tokenize", "--no-special", "<think>")[1] != b"4094\n"
assert run("tokenize", data=b"") == (0, b"\n", "")
plain = run("tokenize", data=b"caf\xc3\xa9\0")[1]
assert run("detokenize", data=plain) == (0, b"caf\xc3\xa9\0\n", "")
assert run("detokenize", "4094, 4095") == (0, b"<think></think>\n", "")
assert run("detokenize", run("tokenize", data=b"a\xffb")[1].decode())[1] == b"a\xef\xbf\xbdb\n"

for command, data, says in (
        ("tokenize", b'{"text":"a"}\n{"text":7}\n', 'line 2: expected a string "text"'),
        ("tokenize", b'{"text":"a","special":1}\n', '"special" must be true or false'),
        ("tokenize", b'{"text":"\xff"}\n', "line 1: the line: not valid JSON"),
        ("detokenize", b'{"ids":[1,-1]}\n', "ids[1]: expected an integer from 0 to"),
        ("detokenize", b'{"text":"a"}\n', 'expected an array "ids"')):
    code, out, err = run(command, "--jsonl", data=data)
    assert code == 1 and says in err and err.count("\n") == 1, (data, code, err)
assert run("detokenize", "1,x")[0] == 1
assert run("tokenize", "--jsonl", "text")[0] == 2
code, out, err = run("tokenize", "x", directory="/nonexistent")
assert (code, out) == (1, b"") and "/nonexistent: no such folder" in err, err

with tempfile.TemporaryDirectory() as folder:  # tokenizer.json is all that is needed
    shutil.copy(os.path.join(model, "tokenizer.json"), folder)
    assert run("tokenize", "<think>", directory=folder) == (0, b"4094\n", "")
    with open(os.path.join(folder, "tokenizer.json"), "r+b") as file:
        file.truncate(1000)
    code, out, err = run("tokenize", "x", directory=folder)
    assert code == 1 and "tokenizer.json: not valid JSON: line" in err, err
print("ok")
