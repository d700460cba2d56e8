#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_prefix.py FATHOM: an answer that was cut goes on with the tokens that it would have had: from its thoughts in
"reasoning_content", from thoughts with tags in "content", from Anthropic's blocks; text in quotes is never a tag."""
import json
import urllib.error
import urllib.request

from command import attempt
from server import Server

server = Server("--cpu-mask", "avx512")
ASKED = {"role": "user", "content": "What is 12 + 30?"}


def post(path, **body):
    request = urllib.request.Request(server.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=300) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as failure:
        raise AssertionError((path, failure.read()))


def answer(messages, **more):
    choice = post("/v1/chat/completions", messages=messages, temperature=0, return_token_ids=True, **more)["choices"][0]
    return choice["message"], choice["token_ids"]


def prompt_ids(*messages):
    done = attempt("template", "--tokens", "-", stdin=None, input=json.dumps({"messages": messages}))
    assert done.returncode == 0, done
    return [int(word) for word in done.stdout.replace(",", " ").strip("[]\n ").split()]


whole, ids = answer([ASKED])
texts = [post("/detokenize", tokens=[one])["prompt"] for one in ids]
tag = texts.index("</think>")
assert whole["reasoning_content"] and "42" in whole["content"] and tag > 8, (whole, texts)
compared = 0
for count in range(1, len(ids) - 1):
    if texts[count - 1].strip("\n") in ("", "</think>"):
        continue  # the client has not received the line's end or the tag
    said, begun = answer([ASKED], max_tokens=count)
    assert begun == ids[:count], count
    thoughts, content = said["reasoning_content"] or "", said["content"] or ""
    rest, more = answer([ASKED, {"role": "assistant", "content": content, "reasoning_content": thoughts, "prefix": True}])
    assert begun + more == ids, ("apart", count, texts[count - 1], more, ids)
    tagged = "<think>\n" + thoughts + ("\n</think>\n\n" + content if content else "")
    rest, more = answer([ASKED, {"role": "assistant", "content": tagged, "prefix": True}])
    assert begun + more == ids, ("with tags", count, more, ids)
    assert (content + (rest["content"] or "")) == whole["content"], (count, rest)
    compared += 1
assert compared > 10, compared

blocks = [{"type": "thinking", "thinking": whole["reasoning_content"], "signature": ""}, {"type": "text", "text": whole["content"][:4]}]
done = post("/v1/messages", model="tiny-r1", max_tokens=100, temperature=0, messages=[ASKED, {"role": "assistant", "content": blocks}])
assert whole["content"][:4] + done["content"][0]["text"] == whole["content"], done

# Only the tags of an answer's own thoughts are tokens: none within its text, and none of anything else.
opening, closing = (post("/tokenize", prompt=one, add_special_tokens=False)["tokens"] for one in ("<think>", "</think>"))
assert len(opening) == len(closing) == 1, (opening, closing)
count = lambda *messages: [prompt_ids(*messages).count(one[0]) for one in (opening, closing)]
own = {"role": "assistant", "content": "<think>\na</think>\n\nthe tags <think> and </think>", "prefix": True}
assert count(ASKED, own) == [1, 1], count(ASKED, own)
assert count({"role": "user", "content": "<think>a</think>"}, {"role": "assistant", "content": "b"}) == [1, 0]  # the prompt's own
assert count(ASKED, {"role": "assistant", "content": "b<think>c</think>"}) == [1, 0]
apart = {"role": "assistant", "content": "b</think>", "reasoning_content": "a</think><think>", "prefix": True}
assert count(ASKED, apart) == [1, 1], count(ASKED, apart)
server.stop()
print("ok", compared)
