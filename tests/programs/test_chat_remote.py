#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_chat_remote.py FATHOM: `fathom chat --url`: the answers of a running server are those of the model in this process,
the key travels, refusals are said in the server's words, and nothing hostile reaches the terminal."""
import os

from chat_server import Puppet, event
from command import attempt, run
from server import Server

SAME = ("--temperature", "0")


def chat(*options, lines, key=None):
    environment = {**os.environ, **({"FATHOM_API_KEY": key} if key else {})}
    return attempt("chat", *SAME, *options, stdin=None, input="".join(line + "\n" for line in lines), env=environment)


def check_server():
    server = Server("--cpu-mask", "avx512")
    lines = ["My name is Anna.", "What is my name?", "/new", "What is 12 + 30?"]
    away = chat("--url", server.url, lines=lines)
    here = chat("--cpu-mask", "avx512", lines=lines)
    assert away.returncode == 0 and away.stdout == here.stdout and "Anna" in away.stdout, (away, here)
    assert away.stderr == here.stderr and "ones 2+0" in away.stderr, (away, here)
    cut = chat("--url", server.url, "--max-new", "3", lines=lines[:1])
    assert "cut off at a length" in cut.stderr, cut
    refused = chat("--url", server.url, "--model", "other", lines=["Hi", "Hi"])
    assert refused.returncode == 0 and refused.stderr.count("status 404") == 2 and "other" in refused.stderr, refused
    server.stop()
    assert "is the server running" in run("chat", "--url", server.url, code=1)


def check_puppet():
    url = Puppet.start()
    Puppet.events = [event(reasoning_content="hm"), event(content="Grüße"), event(content=", 漢字"), b"data: [DONE]\n\n"]
    done = chat("--url", url, "--top-p", "0.5", "--seed", "7", "--logit-bias", "5:-1.5,7:2", lines=["Hi", "Ho"], key="k1")
    assert done.stdout == "Grüße, 漢字\n\n" * 2 and done.stderr == "hm\n" * 2, done
    path, key, body = Puppet.seen[-1]
    assert (path, key) == ("/v1/chat/completions", "Bearer k1"), Puppet.seen
    assert [turn["role"] for turn in body.pop("messages")] == ["user", "assistant", "user"], body
    assert body == {"model": "one/model", "stream": True, "temperature": 0, "top_p": 0.5, "seed": 8,
                    "logit_bias": {"5": -1.5, "7": 2}}, body
    Puppet.events = [b"data: {\"error\": {\"message\": \"no\\u001b[2Jway\"}}\n\n"]
    done = chat("--url", url, lines=["Hi"])
    assert "no\\x1b[2Jway" in done.stderr and "\x1b" not in done.stderr, done
    Puppet.status, Puppet.events = 500, [b"<html>\x1b[31m"]
    done = chat("--url", url, "--model", "x", lines=["Hi"])
    assert done.returncode == 0 and "status 500: <html>\\x1b[31m" in done.stderr, done


check_server()
check_puppet()
refusal = run("chat", "--url", "https://127.0.0.1", code=1)
assert "TLS" in refusal and "caddy reverse-proxy" in refusal and "http://127.0.0.1:8000" in refusal, refusal
print("ok")
