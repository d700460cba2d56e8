#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_generate_form.py FATHOM GOLDEN: `fathom generate` binds its answers to a schema, a regular expression or a grammar:
in words behind the model's thinking, to token ids from their first token on. What cannot be held is refused by file and
keyword before a model is opened."""
import json
import os
import re
import sys
import tempfile

from command import answer_of, refuse, run

SCHEMA = {"type": "object", "properties": {"sum": {"type": "integer"}, "even": {"type": "boolean"}},
          "required": ["sum", "even"], "additionalProperties": False}


def check_bound(folder):
    """The file's schema binds what the model says behind its thoughts, and each of several answers to token ids."""
    path = os.path.join(folder, "sum.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(SCHEMA, file)
    common = ["--schema", path]
    said = json.loads(answer_of(*common, "--cpu-mask", "avx512", "--greedy", "What is 4728 + 915?"))
    assert set(said) == {"sum", "even"} and said["sum"] == 5643, said
    found = json.loads(run("generate", *common, "--json", "--seed", 1, "--tokens", "5,9;7,8,300", "--max-new", 200))
    for prompt in found["prompts"]:
        answer = run("detokenize", "--no-special", ",".join(map(str, prompt["tokens"])))
        assert len(prompt["tokens"]) == 200 or set(json.loads(answer)) == {"sum", "even"}, answer
    asked = "What is 4728 + 915?"
    answer = answer_of("--seed", 1, "--regex", r"[0-9]{1,4} \+ [0-9]{1,4} makes ([0-9]{4})!", asked)
    assert re.fullmatch(r"[0-9]{1,4} \+ [0-9]{1,4} makes [0-9]{4}!\n", answer), answer
    path = os.path.join(folder, "sum.gbnf")
    with open(path, "w", encoding="utf-8") as file:
        file.write('# in words\nroot ::= "the sum is " number ", " ("odd" | "even") "."\nnumber ::= [0-9]{1,6}\n')
    answer = answer_of("--seed", 1, "--grammar", path, asked)
    assert re.fullmatch(r"the sum is [0-9]{1,6}, (odd|even)\.\n", answer), answer
    # The least length gives way where the schema lets nothing follow.
    long = json.loads(answer_of(*common, "--cpu-mask", "avx512", "--greedy", "--min-tokens", 1000, "What is 4728 + 915?"))
    assert set(long) == {"sum", "even"}, long


def check_refused(folder):
    """No weights are looked for before: there are none in the folder."""
    tokenizer = os.path.join(os.path.dirname(sys.argv[2]), "../models/tiny-r1/tokenizer.json")
    os.symlink(os.path.abspath(tokenizer), os.path.join(folder, "tokenizer.json"))

    def refuse_schema(words, text):
        path = os.path.join(folder, "bad.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        refuse(1, words, "generate", "--model", folder, "--tokens", "5", "--schema", path)

    refuse_schema(r"bad\.json: .*uniqueItems", '{"type": "array", "uniqueItems": true, "items": {"type": "object"}}')
    refuse_schema(r"bad\.json: .*line 1", '{"type": ')
    refuse_schema(r"bad\.json: #/type", '{"type": "number or so"}')
    refuse(1, r"missing\.json", "generate", "--model", folder, "--tokens", "5", "--schema", "missing.json")
    refuse(1, "--regex: .*byte 5", "generate", "--model", folder, "--tokens", "5", "--regex", "[0-9+")
    path = os.path.join(folder, "bad.gbnf")
    for text, words in ((b'root ::= a b\na ::= "x"\n', "line 1: rule b"), (b'root ::= "\xff"', "byte 10")):
        with open(path, "wb") as file:
            file.write(text)
        refuse(1, r"bad\.gbnf: .*" + words, "generate", "--model", folder, "--tokens", "5", "--grammar", path)
    refuse(2, "one of --schema", "generate", "--schema", "a", "--regex", "b", "hello")
    refuse(2, "--ignore-eos", "generate", "--regex", "b", "--ignore-eos", "hello")


with tempfile.TemporaryDirectory() as name:
    check_bound(name)
    check_refused(name)
