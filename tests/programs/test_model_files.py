#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_model_files.py FATHOM MODEL: the files beside a checkpoint's weights as copies of releases have them. What ends an
answer is the same for `serve`, `generate` and `chat`, whichever file says it; what a tokenizer puts around a prompt is
there once; a value that decides nothing refuses nothing."""
import json
import os
import shutil
import sys
import tempfile

import server
from command import attempt, refuse, run

model = sys.argv[2]
BOS, EOS = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"
QUESTION = "What is 12 + 15?"
ANSWER = ["--greedy", "--cpu-mask", "avx512", "--max-new", "200"]


def file_of(name):
    with open(os.path.join(model, name + ".json"), encoding="utf-8") as file:
        return json.load(file)


class Copy:
    """The model's folder, with other files in the place of some; None: there is none."""

    def __init__(self, **files):
        self.path = tempfile.mkdtemp(prefix="test_model_files.")
        files = {name + ".json": value for name, value in files.items()}
        for name in os.listdir(model):
            if name not in files:
                os.symlink(os.path.abspath(os.path.join(model, name)), os.path.join(self.path, name))
        for name, value in files.items():
            if value is not None:
                with open(os.path.join(self.path, name), "w", encoding="utf-8") as file:
                    json.dump(value, file, ensure_ascii=False)

    def __enter__(self):
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path)


def without(name, *keys, **more):
    return {**{key: value for key, value in file_of(name).items() if key not in keys}, **more}


def chat(running, **more):
    body = {"messages": [{"role": "user", "content": QUESTION}], "temperature": 0, "max_tokens": 200, **more}
    with server.open_url(running.at("/v1/chat/completions"), body) as answer:
        return json.load(answer)["choices"][0]


def tokens_of(path, *more):
    return run("generate", "--model", path, *ANSWER, "--json", *more, QUESTION)


def check_ends():
    """Each file alone ends an answer, also of prompts that are token ids."""
    whole = json.loads(tokens_of(model))["tokens"]
    assert whole[-1] == 1 and len(whole) < 200, whole
    none = dict(config=without("config", "eos_token_id"), generation_config=without("generation_config", "eos_token_id"))
    mute = without("tokenizer_config", "eos_token")
    template = mute["chat_template"]
    for files in (
            {},
            {"config": none["config"], "generation_config": None},
            {"config": none["config"], "generation_config": without("generation_config", eos_token_id=[1, -1])},
            {**none, "tokenizer_config": mute, "special_tokens_map": {"eos_token": EOS}},
            {**none, "tokenizer_config": mute, "special_tokens_map": {"eos_token": {"content": EOS, "lstrip": False}}},
            {**none, "tokenizer_config": {"eos_token": EOS, "bos_token": BOS, "chat_template": template}},
            {"config": without("config", eos_token_id=7), "generation_config": none["generation_config"]}):
        with Copy(**files) as path:
            assert json.loads(tokens_of(path))["tokens"] == whole, files
            prompt = run("tokenize", "--model", path, BOS + "<｜User｜>" + QUESTION + "<｜Assistant｜><think>\n").split()
            given = run("generate", "--model", path, *ANSWER, "--json", "--tokens", ",".join(prompt))
            assert json.loads(given)["tokens"] == whole, files
    with Copy(**none) as path:
        running = server.Server("--model", path, "--cpu-mask", "avx512")
        assert chat(running)["finish_reason"] == "stop", running.said()
        assert "no token that ends" not in running.said(), running.said()
        running.stop()


def check_endless():
    """Where no file names an end, each program says so at its start."""
    with Copy(config=without("config", "eos_token_id"), generation_config=None,
              tokenizer_config=without("tokenizer_config", "eos_token")) as path:
        running = server.Server("--model", path, "--cpu-mask", "avx512")
        running.wait_for("warning model  has no token that ends an answer")
        assert chat(running, max_tokens=60)["finish_reason"] == "length", running.said()
        running.stop()
        done = attempt("generate", "--model", path, *ANSWER[:-1], "60", "--json", QUESTION)
        assert done.returncode == 0 and len(json.loads(done.stdout)["tokens"]) == 60, done
        assert path + " has no token that ends an answer" in done.stderr, done
        done = attempt("generate", "--model", path, *ANSWER[:-1], "3", "--ignore-eos", QUESTION)
        assert done.returncode == 0 and "has no token" not in done.stderr, done
        assert path + " has no token that ends an answer" in attempt("chat", "--model", path).stderr


def template(front, **more):
    """As transformers saves a tokenizer that puts a token in front of each prompt."""
    single = [{"SpecialToken": {"id": token, "type_id": 0}} for token in front] + [{"Sequence": {"id": "A", "type_id": 0}}]
    return {"type": "TemplateProcessing", "single": single, "pair": single + single,
            "special_tokens": {BOS: {"id": BOS, "ids": [0], "tokens": [BOS]}}, **more}


def check_frames():
    """One bos in front of a completion's prompt, and none more in a chat, for each shape that releases have."""
    tokenizer = file_of("tokenizer")
    level = tokenizer["post_processor"]
    word = run("tokenize", "--model", model, "Hello").split()
    for post, more, expected in (
            (level, {}, word),
            (level, {"add_bos_token": True}, ["0", *word]),
            (template([BOS]), {"add_bos_token": True}, ["0", *word]),
            (template([BOS]), {"add_bos_token": None}, ["0", *word]),
            (template([BOS]), {"add_bos_token": False}, word),
            ({"type": "Sequence", "processors": [level, template([BOS])]}, {"add_bos_token": None}, ["0", *word]),
            (None, {"add_bos_token": True, "add_eos_token": True}, ["0", *word, "1"])):
        with Copy(tokenizer={**tokenizer, "post_processor": post},
                  tokenizer_config=without("tokenizer_config", **more)) as path:
            assert run("tokenize", "--model", path, "--add-special-tokens", "Hello").split() == expected, (post, more)
            assert run("tokenize", "--model", path, "Hello").split() == word, (post, more)
    line = '{"text":"Hello","add_special_tokens":true}\n{"text":"Hello"}\n'
    with Copy(tokenizer={**tokenizer, "post_processor": template([BOS])},
              tokenizer_config=without("tokenizer_config", "add_bos_token")) as path:
        ids = run("tokenize", "--model", path, "--jsonl", input=line, stdin=None)
        assert [json.loads(one)["ids"] for one in ids.split()] == [[0, *map(int, word)], list(map(int, word))], ids
        running = server.Server("--model", path, "--cpu-mask", "avx512")
        for body, count in (({"prompt": "Hello"}, 1), ({"prompt": "Hello", "add_special_tokens": False}, 0)):
            with server.open_url(running.at("/tokenize"), body) as answer:
                assert json.load(answer)["tokens"].count(0) == count, body
            with server.open_url(running.at("/v1/completions"), {**body, "max_tokens": 1}) as answer:
                assert json.load(answer)["usage"]["prompt_tokens"] == len(word) + count, body
        prompts = []
        for path_of_model in (path, model):
            other = running if path_of_model == path else server.Server("--model", model, "--cpu-mask", "avx512")
            body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
            with server.open_url(other.at("/v1/chat/completions"), body) as answer:
                prompts.append(json.load(answer)["usage"]["prompt_tokens"])
            other.stop()
        assert prompts[0] == prompts[1], prompts
    for kind in ("BertProcessing", "RobertaProcessing"):
        with Copy(tokenizer={**tokenizer, "post_processor": {"type": kind, "sep": [EOS, 1], "cls": [BOS, 0]}}) as path:
            refuse(1, "post_processor of type '%s' is not supported" % kind, "tokenize", "--model", path, "Hello")


def check_neutral():
    """Values of files that were converted, which decide nothing here."""
    with Copy(config=without("config", pad_token_id=-1, bos_token_id=-1),
              generation_config=without("generation_config", pad_token_id=-1, bos_token_id=-1, top_k=-1),
              tokenizer_config=without("tokenizer_config", pad_token=-1)) as path:
        assert json.loads(tokens_of(path))["tokens"] == json.loads(tokens_of(model))["tokens"]
        running = server.Server("--model", path, "--cpu-mask", "avx512")
        assert chat(running)["finish_reason"] == "stop"
        running.stop()


check_ends()
check_endless()
check_frames()
check_neutral()
