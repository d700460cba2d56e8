#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_template.py FATHOM MODEL: `fathom template`: the embedded model's template, a file's and a directory's; the
variables of a request, texts and ids, lines of JSON, and what is wrong with a request."""
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
    assert run("--model", folder, request=HELLO) == (0, "<s>False</s>", "")
    assert run("--model", folder, request={**HELLO, "tools": []}) == (0, "tools</s>", "")
    with open(os.path.join(folder, "chat_template.jinja"), "w", encoding="utf-8") as out:
        out.write("beside{{ bos_token }}")
    assert run("--model", folder, request={**HELLO, "tools": []}) == (0, "beside<s>", "")


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
    for arguments, request, says in (
            ((), {"messages": 7}, '"messages" is an integer, expected an array'),
            ((), {}, '"messages" is missing'),
            ((), [], "the request is an array"),
            ((), {**HELLO, "tools": {}}, '"tools" is an object'),
            ((), {**HELLO, "documents": "x"}, '"documents" is a string'),
            ((), {**HELLO, "add_generation_prompt": "yes"}, '"add_generation_prompt" is a string'),
            ((), {**HELLO, "bos_token": 1}, '"bos_token" is an integer'),
            ((), {**HELLO, "chat_template_kwargs": []}, '"chat_template_kwargs" is an array'),
            ((), {"messages": [{"role": "user", "content": None}]}, "1: "),
            (("--template", broken), HELLO, "broken.jinja:2: "),
            (("--template", "/nonexistent"), HELLO, "/nonexistent"),
            (("--model", "/nonexistent"), HELLO, "no chat template")):
        code, out, errors = run(*arguments, request=request)
        assert code == 1 and not out and errors.count("\n") == 1 and says in errors, (request, code, out, errors)
    assert run("/nonexistent.json")[0] == 1 and "/nonexistent.json" in run("/nonexistent.json")[2]
    code, out, errors = run("-", data=b"{")
    assert code == 1 and not out and "the request: not valid JSON" in errors, errors
    assert run()[0] == 2 and run("--jsonl", "-")[0] == 2 and run("--jsonl", "--tokens")[0] == 2


with tempfile.TemporaryDirectory() as top:
    check_texts(top)
    check_numbers(top)
    check_ids()
    check_lines()
    check_refusals(top)
    check_models(top)
print("ok")
