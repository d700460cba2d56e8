# SPDX-License-Identifier: Apache-2.0
"""Questions, and clients that ask them all of a server, some with streams whose pieces are timed."""
import concurrent.futures
import json
import threading
import time

QUESTIONS = ["What is %d + %d?" % (37 * i, 915 + i) for i in range(12)] + [
    "Spell the word lantern.", "How many letters r are in strawberry?"]
PLAIN = [{"question": question, "stream": i % 2 == 0} for i, question in enumerate(QUESTIONS)]
DRAWN = [{"question": question, "stream": i % 2 == 1, "seed": i, "temperature": 1.0}
         for i, question in enumerate(QUESTIONS)]
LONG = [{"question": question, "stream": True, "seed": i, "temperature": 1.0, "ignore_eos": True}
        for i, question in enumerate(QUESTIONS)]
ALL = PLAIN + DRAWN + LONG


class Tokens:
    """When pieces of streams came, of all clients together."""

    def __init__(self):
        self.lock, self.times = threading.Lock(), []

    def note(self):
        with self.lock:
            self.times.append(time.monotonic())

    def count(self):
        with self.lock:
            return len(self.times)

    def wait_for(self, count, answers):
        while self.count() < count and not answers.done():
            time.sleep(0.001)

    def longest_pause(self, since):
        """Between two pieces, of which the second came after that moment."""
        with self.lock:
            times = sorted(self.times)
            return max((b - a for a, b in zip(times, times[1:]) if b > since), default=0.0)

    def first_after(self, moment):
        with self.lock:
            return min((t for t in self.times if t > moment), default=None)


def ask(server, request, tokens):
    body = {"messages": [{"role": "user", "content": request["question"]}], "max_tokens": 100,
            "stream": request["stream"], "temperature": request.get("temperature", 0)}
    for name in ("seed", "ignore_eos", "max_tokens"):
        if name in request:
            body[name] = request[name]
    with server.open("/v1/chat/completions", body) as response:
        if not request["stream"]:
            choice = json.load(response)["choices"][0]
            message = choice["message"]
            return message.get("reasoning_content") or "", message["content"], choice["finish_reason"]
        thought, text, reason = "", "", None
        for line in response:
            if not line.startswith(b"data: {"):
                continue
            tokens.note()
            event = json.loads(line[6:])
            assert "error" not in event, event
            for choice in event["choices"]:
                thought += choice["delta"].get("reasoning_content") or ""
                text += choice["delta"].get("content") or ""
                reason = choice["finish_reason"] or reason
        return thought, text, reason


def ask_all(server, tokens, requests=ALL):
    with concurrent.futures.ThreadPoolExecutor(len(QUESTIONS)) as pool:
        return list(pool.map(lambda request: ask(server, request, tokens), requests))
