#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_emulated_api.py FATHOM: the smoke part of the API, against servers on emulated devices: chats, thoughts, streams,
completions with log probabilities, echoes, stops, several choices, penalties, seeds, schemas, responses and messages. Each answer
is that of a server on a CPU with the arithmetic of the devices' reference bodies, to the byte, but for ids and times: from one
device, from two ranks with a device each, and from prompts and answers apart, whose KV blocks went from device to device."""
import json
import re

from server import Server

SUM = [{"role": "user", "content": "What is 4728 + 915?"}]
STORY = "once upon a time there was a keeper who counted steps down to the sea. "
REQUESTS = [
    ("/v1/chat/completions", {"messages": SUM, "temperature": 0}),
    ("/v1/chat/completions", {"messages": SUM, "temperature": 0, "stream": True, "stream_options": {"include_usage": True}}),
    ("/v1/chat/completions", {"messages": SUM, "seed": 4, "temperature": 0.8, "n": 2, "max_tokens": 40, "logprobs": True,
                              "top_logprobs": 3}),
    ("/v1/completions", {"prompt": STORY * 9, "max_tokens": 12, "temperature": 0, "logprobs": 2, "echo": True}),
    ("/v1/completions", {"prompt": STORY * 9, "max_tokens": 24, "temperature": 0, "stop": ["e"]}),
    ("/v1/completions", {"prompt": STORY, "max_tokens": 20, "seed": 7, "temperature": 1.3, "top_p": 0.9,
                         "frequency_penalty": 0.5, "stream": True}),
    ("/v1/chat/completions", {"messages": SUM, "seed": 5, "temperature": 0.6, "top_p": 0.95, "n": 3, "max_tokens": 60}),
    ("/v1/completions", {"prompt": STORY, "max_tokens": 40, "seed": 8, "temperature": 1.4, "top_k": 30, "min_p": 0.02}),
    ("/v1/completions", {"prompt": "Write JSON: ", "max_tokens": 60, "seed": 3, "temperature": 1.2, "response_format": {
        "type": "json_schema", "json_schema": {"name": "answer", "schema": {
            "type": "object", "properties": {"a": {"enum": [1, 2]}, "b": {"type": "boolean"}}, "required": ["a", "b"],
            "additionalProperties": False}}}}),
    ("/v1/responses", {"input": "What is 17 + 25?", "temperature": 0, "max_output_tokens": 120}),
    ("/v1/messages", {"messages": SUM, "temperature": 0, "max_tokens": 120}),
    ("/tokenize", {"prompt": STORY}),
]


class SameServer(Server):
    kv_memory = "16MiB"

    def __init__(self, *options):
        super().__init__("--cpu-mask", "avx512", "--mtp", "off", *options)


def plain(text):
    """An answer without what may differ: ids, times, whose arithmetic it has, and what was cached where it was computed."""
    text = re.sub(r'"(id|item_id|response_id|system_fingerprint)":\s*"[^"]*"', r'"\1":""', text)
    return re.sub(r'"(created|created_at|completed_at|\w*cache\w*_tokens|input_tokens)":\s*[0-9.]+', r'"\1":0', text)


def joined(text):
    """A stream's pieces put together: how tokens fall into pieces is nobody's promise."""
    found = {}
    for line in text.splitlines():
        if not line.startswith("data: {"):
            continue
        for choice in json.loads(line[6:])["choices"]:
            for name, value in (choice.get("delta") or choice).items():
                if isinstance(value, str) and name in ("content", "reasoning_content", "text"):
                    found[name] = found.get(name, "") + value
            found["reason"] = choice.get("finish_reason") or found.get("reason")
    return found


def ask_all(server):
    answers = []
    for path, body in REQUESTS:
        with server.open(path, {"model": "default", **body} if path.startswith("/v1") else body) as answer:
            text = plain(answer.read().decode().strip())
        answers.append(joined(text) if body.get("stream") else text)
    server.no_page_is_held(600)
    return answers


alone = SameServer()
wanted = ask_all(alone)
alone.stop()
assert "5643" in wanted[0] and "5643" in wanted[1]["content"], wanted[:2]
for options, units in (((), 1), (("--ranks", "2", "--activations", "bf16"), 1),
                       (("--prefill-units", "1", "--decode-units", "1"), 2)):
    server = SameServer("--device", "emulated", *options)
    server.wait_for_units(units)
    for (path, body), found, expected in zip(REQUESTS, ask_all(server), wanted):
        assert found == expected, (options, path, body, found, expected)
    if units > 1:
        assert server.fleet()["handed_over_total"] >= 5, server.fleet()
    server.stop()
print("%d requests, the same from devices as from a CPU" % len(REQUESTS))
