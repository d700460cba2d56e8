#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""evaluate.py --url URL FILE...: asks a running server the questions of the files and counts right answers.

Files are those of evaluation_sets.py, and eval.jsonl. All is asked at temperature 0. A call is right with its
name and all arguments, as JSON values; an answer in JSON with its values; any other answer as text. In a chat
the history has the model's own answers. A story is right if it ends, names the animal and has 4 to 14
sentences.

Only Python's standard library is needed. The share of accepted drafts comes from the server's metrics, on the
next port unless --metrics names it: nothing else may use the server meanwhile."""
import argparse
import collections
import concurrent.futures
import json
import re
import urllib.parse
import urllib.request

ANSWER_TOKENS_MAX = 700
SENTENCES = range(4, 15)


def get(url):
    """The text of a page."""
    with urllib.request.urlopen(url, timeout=60) as response:
        return response.read().decode()


def next_port(url):
    """The address of the operator's listener, unless the server was given another one."""
    parts = urllib.parse.urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}:{(parts.port or 80) + 1}"


class Server:
    """A server with the OpenAI API."""

    def __init__(self, url, metrics_url):
        self.url = url.rstrip("/")
        self.metrics_url = metrics_url or next_port(url)
        self.model = json.loads(get(self.url + "/v1/models"))["data"][0]["id"]

    def complete(self, messages, tools=None):
        """The choice that answers messages: its message, and why it ended."""
        body = {"model": self.model, "messages": messages, "temperature": 0, "max_tokens": ANSWER_TOKENS_MAX}
        if tools:
            body["tools"] = tools
        request = urllib.request.Request(self.url + "/v1/chat/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=1800) as response:
            return json.load(response)["choices"][0]

    def drafts(self):
        """(tokens drafted by the MTP layer, accepted ones) since the server started."""
        metrics = get(self.metrics_url + "/metrics")
        names = ("fathom_drafts_total", "fathom_drafts_accepted_total")
        values = [re.findall(rf"^{name}(?:{{.*}})? (\S+)$", metrics, re.MULTILINE) for name in names]
        return [sum(map(float, each)) for each in values]


# ---- what is right

def text_of(choice):
    """The answer's text without its thinking."""
    return (choice["message"].get("content") or "").split("</think>")[-1].strip()


def call_of(choice):
    """The only call of an answer, or None."""
    calls = choice["message"].get("tool_calls") or []
    if len(calls) != 1:
        return None
    function = calls[0]["function"]
    try:
        return {"name": function["name"], "arguments": json.loads(function["arguments"])}
    except ValueError:
        return None


def same_json(text, expected):
    """Whether two texts are JSON with the same values."""
    try:
        return json.loads(text) == json.loads(expected)
    except ValueError:
        return False


def is_story(choice, animal):
    """Whether an answer is a whole story about an animal."""
    text = text_of(choice)
    sentences = re.findall(r"[.!?](?:\s|$)", text)
    ended = choice["finish_reason"] == "stop" and text.endswith((".", "!", "?"))
    return ended and len(sentences) in SENTENCES and re.search(rf"\b{animal}\b", text.lower()) is not None


def is_right(expected, choice):
    """Whether an answer is what a question or a turn expects."""
    if "call" in expected:
        return call_of(choice) == expected["call"]
    if call_of(choice):
        return False
    if "story" in expected:
        return is_story(choice, expected["story"])
    if expected.get("kind") == "json":
        return same_json(text_of(choice), expected["answer"])
    return text_of(choice) == expected["answer"].strip()


# ---- asking

def kinds_of(question):
    """The names under which a question is counted."""
    kinds = [question["kind"]]
    if "sub" in question:
        kinds.append(question["kind"] + "/" + question["sub"])
    return kinds


def ask(server, question):
    """Asks a single question: one (kinds, expected, choice, right)."""
    choice = server.complete(question["messages"], question.get("tools"))
    return [(kinds_of(question), question, choice, is_right(question, choice))]


def ask_chat(server, chat):
    """Asks the turns of a chat one after the other: an entry for each turn that is scored."""
    messages, found = [], []
    for turn in chat["turns"]:
        messages.append({"role": "user", "content": turn["user"]})
        choice = server.complete(messages)
        messages.append({"role": "assistant", "content": choice["message"].get("content") or ""})
        if "answer" in turn or "story" in turn:
            found.append((["chats/" + chat["kind"]], turn, choice, is_right(turn, choice)))
    return found


def read_questions(paths):
    """The questions of all files."""
    questions = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            questions += [json.loads(line) for line in file]
    return questions


def ask_all(server, questions, at_once):
    """The results of all questions, several at a time."""
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        results = pool.map(lambda each: (ask_chat if "turns" in each else ask)(server, each), questions)
        return [entry for entries in results for entry in entries]


def count(results):
    """{kind: [right, asked]}; `all` is of all."""
    counts = collections.defaultdict(lambda: [0, 0])
    for kinds, _, _, right in results:
        for kind in [*kinds, "all"]:
            counts[kind][0] += right
            counts[kind][1] += 1
    return dict(sorted(counts.items()))


def show_wrong(results, most):
    """Prints the first wrong answers."""
    for kinds, expected, choice, _ in [entry for entry in results if not entry[3]][:most]:
        asked = expected["user"] if "user" in expected else expected["messages"][-1]["content"]
        print(f"--- {kinds[-1]}: {asked}")
        print("expected:", expected.get("call") or expected.get("answer") or "a story: " + expected["story"])
        print("thinking:", choice["message"].get("reasoning_content"))
        print("got:", call_of(choice) or text_of(choice), f"({choice['finish_reason']})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--metrics", help="the address of the server's metrics, without /metrics")
    parser.add_argument("--at-once", type=int, default=16, help="requests at a time")
    parser.add_argument("--wrong", type=int, default=0, help="print this many wrong answers")
    parser.add_argument("--out", help="write the counts to this file, as JSON")
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    server = Server(options.url, options.metrics)
    before = server.drafts()
    results = ask_all(server, read_questions(options.files), options.at_once)
    drafted, accepted = (after - first for after, first in zip(server.drafts(), before))
    counts = count(results)
    for kind, (right, asked) in counts.items():
        print(f"{kind:22} {right:4}/{asked:<4} {100 * right / asked:5.1f} %")
    print(f"drafts accepted        {accepted:.0f}/{drafted:.0f} {100 * accepted / max(drafted, 1):5.1f} %")
    show_wrong(results, options.wrong)
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump({"accuracy": counts, "drafts": [accepted, drafted]}, file)


if __name__ == "__main__":
    main()
