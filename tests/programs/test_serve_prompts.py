#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_serve_prompts.py FATHOM: several prompts in one completion are answered as each is alone, in whole answers and in
streams, long ones and short ones; texts go to tokens and back; each answer names its request."""
import json
import urllib.error
import urllib.request

from server import PATIENCE, Server

server = Server("--cpu-mask", "avx512")
options = {"max_tokens": 8, "temperature": 0, "ignore_eos": True, "return_token_ids": True}


def post(path, body, **headers):
    request = urllib.request.Request(server.at(path), json.dumps(body).encode(),
                                     {"Content-Type": "application/json", **headers})
    try:
        return urllib.request.urlopen(request, timeout=PATIENCE)
    except urllib.error.HTTPError as error:
        return error


def ask(path, body):
    with post(path, body) as answer:
        return json.load(answer)


def complete(prompt, **more):
    return ask("/v1/completions", {**options, "prompt": prompt, **more})


def ids(answer):
    assert [choice["index"] for choice in answer["choices"]] == list(range(len(answer["choices"]))), answer
    return [choice["token_ids"] for choice in answer["choices"]]


def stream(prompt, **more):
    """The ids of each choice, and the usage."""
    found, usage = {}, None
    body = {**options, "prompt": prompt, "stream": True, "stream_options": {"include_usage": True}, **more}
    with post("/v1/completions", body) as answer:
        for line in answer:
            if not line.startswith(b"data: {"):
                continue
            chunk = json.loads(line[6:])
            for choice in chunk["choices"]:
                found.setdefault(choice["index"], []).extend(choice.get("token_ids") or [])
            usage = chunk["usage"] or usage
    return [found[index] for index in sorted(found)], usage


texts = ["The fox", "Once upon a time " * 60, "a", "instrumentality " * 1100]  # the last one: above 16 KiB
alone = [complete(text) for text in texts]
together = complete(texts)
assert ids(together) == [ids(answer)[0] for answer in alone], together
for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
    assert together["usage"][name] == sum(answer["usage"][name] for answer in alone), together["usage"]
found, usage = stream(texts)
assert found == ids(together) and usage["prompt_tokens"] == together["usage"]["prompt_tokens"], usage

lists = [ask("/tokenize", {"prompt": text}) for text in texts]
for text, answer, tokens in zip(texts, alone, lists):
    assert tokens["count"] == len(tokens["tokens"]) == answer["usage"]["prompt_tokens"], tokens["count"]
    bare = ask("/tokenize", {"prompt": text, "add_special_tokens": False})
    assert ask("/detokenize", {"tokens": bare["tokens"]}) == {"prompt": text}
assert ids(complete([answer["tokens"] for answer in lists])) == ids(together)

pairs = ids(complete(texts[:2], n=2, temperature=1, seed=7))
assert pairs == ids(complete(texts[0], n=2, temperature=1, seed=7)) + ids(complete(texts[1], n=2, temperature=1, seed=7))

# A stop that is a special token's text ends the answer at that token, and the answer names it.
END = "<｜end▁of▁sentence｜>"
asked = {"messages": [{"role": "user", "content": "What is 12 + 15?"}], "temperature": 0, "max_tokens": 200}
for stops, reason, sequence in (["zzz", END], "stop_sequence", END), ([], "end_turn", None):
    answer = ask("/v1/messages", {**asked, "model": "tiny-r1", "stop_sequences": stops})
    assert (answer["stop_reason"], answer["stop_sequence"]) == (reason, sequence), answer
    assert answer["content"][-1]["text"] == "12 + 15 = 27", answer
    with post("/v1/messages", {**asked, "model": "tiny-r1", "stop_sequences": stops, "stream": True}) as streamed:
        last = [json.loads(line[6:]) for line in streamed.read().decode().splitlines() if line.startswith("data: ")][-2]
    assert last["delta"] == {"stop_reason": reason, "stop_sequence": sequence}, last
    choice = ask("/v1/chat/completions", {**asked, "stop": stops})["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("12 + 15 = 27", "stop"), choice
endless = ask("/v1/completions", {"prompt": "What is 12 + 15?", "temperature": 0, "max_tokens": 200, "ignore_eos": True,
                                  "stop": END})["choices"][0]
assert endless["finish_reason"] == "stop" and endless["text"].endswith("12 + 15 = 27"), endless

for path, body, param in (("/detokenize", {"tokens": [5, 4096]}, "tokens"),
                          ("/v1/completions", {"prompt": [5, 4096]}, "prompt"),
                          ("/v1/completions", {"prompt": "a", "logit_bias": {"4096": 1}}, "logit_bias"),
                          ("/v1/completions", {"prompt": "a", "stop_token_ids": [4096]}, "stop_token_ids")):
    with post(path, body) as refused:  # the limit is the model's vocabulary
        error = json.load(refused)["error"]
    assert refused.status == 422 and error["param"] == param and "is 4095" in error["message"], error

with post("/v1/completions", {"prompt": ["a", "a " * 90000]}) as refused:  # each judged, and named
    assert refused.status == 400 and json.load(refused)["error"]["param"] == "prompt[1]"
with post("/v1/completions", {"prompt": ["a", [5]]}) as refused:
    assert refused.status == 400 and json.load(refused)["error"]["param"] == "prompt[1]"

with post("/v1/completions", {**options, "prompt": "a"}) as answer:
    name = answer.headers["X-Request-Id"]
    assert json.load(answer)["id"] == "cmpl-" + name, name
with post("/v1/completions", {**options, "prompt": "a"}, **{"X-Request-Id": "job-7"}) as answer:
    assert answer.headers["X-Request-Id"] == "job-7"
with post("/nowhere", {}, **{"X-Request-Id": "job-8"}) as answer:
    assert answer.status == 404 and answer.headers["X-Request-Id"] == "job-8"

server.no_page_is_held()
server.stop()
