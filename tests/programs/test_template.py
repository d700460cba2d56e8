#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_template.py FATHOM MODEL: `fathom template`: the prompt that a server computes, with the embedded model's template, a
directory's and a built-in one; a file's template as `transformers` renders it, with the variables of a request; texts
and ids, lines of JSON, and what is wrong with a request. tests/web/templates.test.mjs compares with a server."""
import json
import os
import subprocess
import sys
import tempfile

fathom, model = sys.argv[1:3]
HELLO = {"messages": [{"role": "user", "content": "hi <｜User｜>"}], "add_generation_prompt": True}
TURN = "<｜begin▁of▁sentence｜><｜User｜>hi <｜User｜><｜Assistant｜><think>\n"


def run(*arguments, request=None, data=None):
    """Exit code, stdout, stderr; the request comes from standard input."""
    if request is not None:
        arguments, data = (*arguments, "-"), json.dumps(request).encode()
    done = subprocess.run([fathom, "template", *arguments], input=data or b"", capture_output=True, timeout=600,
                          check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def check_texts(folder):
    file = os.path.join(folder, "request.json")
    with open(file, "w", encoding="utf-8") as out:
        json.dump(HELLO, out)
    assert run(file) == run(request=HELLO) == run("--model", model, file) == (0, TURN, "")
    again = {**HELLO, "add_generation_prompt": None, "model": "any"}
    assert run(request=again) == (0, TURN, "")  # as a server has it
    own = os.path.join(folder, "own.jinja")
    with open(own, "w", encoding="utf-8") as out:
        out.write("{{ bos_token }}|{{ tools is none }}|{{ documents }}|{{ add_generation_prompt }}|{{ x }}|"
                  "{{ messages[0].content }}\n")
    assert run("--template", own, request=HELLO) == (0, "|True|None|True||hi <｜User｜>", "")
    assert run("--template", own, "--model", model, file)[1].startswith("<｜begin▁of▁sentence｜>|")
    more = {**HELLO, "bos_token": "<s>", "tools": [], "documents": [{}], "add_generation_prompt": False,
            "chat_template_kwargs": {"x": [1, None]}}
    assert run("--template", own, request=more)[1] == "<s>|False|[{}]|False|[1, None]|hi <｜User｜>"


def check_numbers(folder):
    """Numbers of tools and of calls are printed as they were spelt, digit for digit."""
    numbers = "[18446744073709551616, -0, 1E5, 1.50, 1e400, 1000000000000000000000000000000]"
    own = os.path.join(folder, "numbers.jinja")
    with open(own, "w", encoding="utf-8") as out:
        out.write("{{ tools[0].n | tojson }}|{{ tools[0].n }}|{{ tools[0].n[0] > 1 }}|{{ tools[0].n[2] == 100000 }}")
    request = '{"messages":[{"role":"user","content":"a"}],"tools":[{"n":%s}]}' % numbers
    assert run("--template", own, "-", data=request.encode()) == (0, f"{numbers}|{numbers}|True|True", "")


def check_models(folder):
    config = {"bos_token": "<s>", "eos_token": {"content": "</s>"}, "pad_token": None, "chat_template": [
        {"name": "tool_use", "template": "tools{{ eos_token }}"},
        {"name": "default", "template": "{{ bos_token }}{{ pad_token is defined }}{{ eos_token }}"}]}
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as out:
        json.dump(config, out)
    lines = [HELLO, {**HELLO, "tools": []}]

    def alone():
        out = run("--jsonl", "--model", folder, data="\n".join(json.dumps(line) for line in lines).encode())[1]
        return [json.loads(line)["text"] for line in out.split("\n") if line]
    assert alone() == ["<s>False</s>", "tools</s>"]
    assert run("--model", folder, request=HELLO) == (0, "<s>False</s>", "")
    with open(os.path.join(folder, "chat_template.jinja"), "w", encoding="utf-8") as out:
        out.write("beside{{ bos_token }}")
    assert alone() == ["beside<s>", "beside<s>"]
    assert run("--model", folder, request=HELLO) == (0, "beside<s>", "")


TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]


def check_tools(folder):
    """The embedded model's template lists tools; R1's built-in one renders them in its own way."""
    code, text, errors = run(request={**HELLO, "tools": TOOLS})
    assert code == 0 and not errors and text.startswith("<｜begin▁of▁sentence｜>Tools:\n1 add\nadd {"), text
    assert text.endswith("<｜User｜>hi <｜User｜><｜Assistant｜><think>\n"), text
    code, text, errors = run("--chat-template", "deepseek-r1", request={**HELLO, "tools": TOOLS})
    assert code == 0 and not errors and text.startswith("<｜begin▁of▁sentence｜># Tools\n") and '"name": "add"' in text, text
    assert text.endswith("<｜User｜>hi <｜User｜><｜Assistant｜><think>\n") and "<｜tool▁calls▁begin｜>" in text, text
    assert run("--chat-template", "deepseek-r1", request=HELLO) == (0, TURN, "")
    v31 = run("--chat-template", "deepseek-v3.1", "--api", "messages", request={
        "model": "any", "max_tokens": 5, "system": "S", "messages": HELLO["messages"],
        "tools": [{"name": "add", "input_schema": {"type": "object"}}]})[1]
    assert v31.startswith("<｜begin▁of▁sentence｜>S\n\n## Tools\nYou have access to the following tools:\n\n### add\n"), v31
    assert v31.endswith("<｜User｜>hi <｜User｜><｜Assistant｜></think>"), v31
    file = os.path.join(folder, "no_place.jinja")
    with open(file, "w", encoding="utf-8") as out:
        out.write("<{{ messages[0].content }}>")
    code, text, errors = run("--chat-template", file, request={**HELLO, "tools": TOOLS})
    assert text.startswith("<# Tools\n") and '"add"' in text and text.endswith("\n\nhi <｜User｜>>"), (text, errors)
    assert run("--chat-template", file, request=HELLO)[1] == "<hi <｜User｜>>"
    with open(file, "w", encoding="utf-8") as out:
        out.write("{{ messages[0].role }}")
    assert "has no place for tools" in run("--chat-template", file, request={**HELLO, "tools": TOOLS})[2]
    names = [line.split()[0] for line in run("--list")[1].splitlines()]
    assert names == ["deepseek-v3", "deepseek-v3-0324", "deepseek-r1", "deepseek-r1-0528", "deepseek-v3.1",
                     "deepseek-v3.2", "kimi-k2", "hermes"], names


def check_ids():
    """What is said makes no special token; else the ids are those of the text."""
    code, ids, errors = run("--tokens", request=HELLO)
    assert code == 0 and not errors and ids.endswith("\n")
    tokens = [subprocess.run([fathom, "tokenize", *more, "--model", model], input=text.encode(), capture_output=True,
                             timeout=600, check=True).stdout.decode().split()
              for text, more in (("<｜begin▁of▁sentence｜><｜User｜>", ()), ("hi <｜User｜>", ("--no-special",)),
                                 ("<｜Assistant｜><think>\n", ()))]
    assert ids.split() == sum(tokens, []), (ids, tokens)


def check_lines():
    requests = [HELLO, {**HELLO, "template": "{{ raise_exception('no \"way\"\\n') }}"},
                {**HELLO, "template": "{{ messages[0].role }}é"}, {**HELLO, "template": "{{"},
                {**HELLO, "template": "{{ strftime_now('%Y-%m-%d') }}"}]
    code, out, errors = run("--jsonl", "--model", model, "--time", "86400",
                            data="\n".join(json.dumps(request) for request in requests).encode())
    answers = [json.loads(line) for line in out.split("\n") if line]
    assert code == 0 and not errors and len(answers) == 5, (out, errors)
    assert answers[0] == {"text": TURN} and answers[2] == {"text": "useré"} and answers[4] == {"text": "1970-01-02"}
    assert 'no "way"' in answers[1]["error"] and "template:1: " in answers[3]["error"], answers


def check_refusals(folder):
    """Nothing on stdout, one line on stderr that names the thing."""
    broken = os.path.join(folder, "broken.jinja")
    with open(broken, "w", encoding="utf-8") as out:
        out.write("a\n{% if %}")
    own = os.path.join(folder, "user.jinja")
    with open(own, "w", encoding="utf-8") as out:
        out.write("{{ 'a' + messages[0].content }}")
    alone = ("--template", own)
    for arguments, request, says in (
            (alone, {"messages": 7}, '"messages" is an integer, expected an array'),
            (alone, {}, '"messages" is missing'),
            (alone, [], "the request is an array"),
            (alone, {**HELLO, "tools": {}}, '"tools" is an object'),
            (alone, {**HELLO, "documents": "x"}, '"documents" is a string'),
            (alone, {**HELLO, "add_generation_prompt": "yes"}, '"add_generation_prompt" is a string'),
            (alone, {**HELLO, "bos_token": 1}, '"bos_token" is an integer'),
            (alone, {**HELLO, "chat_template_kwargs": []}, '"chat_template_kwargs" is an array'),
            (alone, {"messages": [{"role": "user", "content": None}]}, "1: "),
            ((), {"messages": 7}, "'messages'"),
            ((), {"messages": [{"role": "user", "content": "a"}], "temperature": "hot"}, "'temperature'"),
            (("--template", broken), HELLO, "broken.jinja:2: "),
            (("--chat-template", broken), HELLO, "broken.jinja:2: "),
            (("--chat-template", "/nonexistent"), HELLO, "/nonexistent"),
            (("--template", "/nonexistent"), HELLO, "/nonexistent"),
            (("--model", "/nonexistent"), HELLO, "/nonexistent: no such folder")):
        code, out, errors = run(*arguments, request=request)
        assert code == 1 and not out and errors.count("\n") == 1 and says in errors, (request, code, out, errors)
    assert run("/nonexistent.json")[0] == 1 and "/nonexistent.json" in run("/nonexistent.json")[2]
    code, out, errors = run("-", data=b"{")
    assert code == 1 and not out and "JSON" in errors, errors
    assert run()[0] == 2 and run("--jsonl", "-")[0] == 2 and run("--jsonl", "--tokens")[0] == 2


with tempfile.TemporaryDirectory() as top:
    check_texts(top)
    check_tools(top)
    check_numbers(top)
    check_ids()
    check_lines()
    check_refusals(top)
    check_models(top)
print("ok")
