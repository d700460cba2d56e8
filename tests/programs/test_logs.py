#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_logs.py FATHOM: the log of `fathom serve` as programs read it: each line is one JSON object, whatever happens;
each request has its line, by the name that its client gave it; a unit that is killed, and comes again, is told in
order; a flood is a count; and no key, prompt or answer is ever in it."""
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

from server import PATIENCE, Process, fathom

SECRET, PROMPT = "xylophone", "Zanzibar marmalade quicksilver"
KEY, HASH = subprocess.run([fathom, "keygen", "--api-key"], check=True, capture_output=True, text=True).stdout.split()
LEVELS = ("error", "warning", "info", "debug")


class Logged(Process):
    def __init__(self, *options):
        super().__init__("serve", "--port", "0", "--kv-memory", "64MiB", "--mtp", "off", "--log-format", "json",
                         "--log-level", "debug", *options)
        line = self.process.stdout.readline()
        assert line.startswith("listening on "), (line, self.said())
        self.url = line.split()[-1]

    def lines(self):
        """All that it has said so far; every line is an object that says when, how grave and of what."""
        said = [line for line in self.said().splitlines(True) if line.endswith("\n")]
        assert all(line.startswith("{") for line in said), [line for line in said if not line.startswith("{")]
        found = [json.loads(line) for line in said]
        for line in found:
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["ts"]), line
            assert line["level"] in LEVELS and re.fullmatch(r"[a-z]+", line["subject"]), line
            assert line["message"] and list(line)[:4] == ["ts", "level", "subject", "message"], line
        return found

    def wait(self, subject, message, count=1, **fields):
        """The lines that say it, once there are so many."""
        until = time.monotonic() + PATIENCE
        while True:
            found = [line for line in self.lines() if line["subject"] == subject and line["message"].startswith(message)
                     and all(line.get(name) == value for name, value in fields.items())]
            if len(found) >= count:
                return found
            assert time.monotonic() < until and self.process.poll() is None, self.said()
            time.sleep(0.02)

    def ask(self, key, name, body, path="/v1/chat/completions"):
        request = urllib.request.Request(self.url + path, body, {
            "Content-Type": "application/json", "Authorization": "Bearer " + key, "X-Request-Id": name})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                assert answer.headers["X-Request-Id"] == name
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)


def chat(**more):
    return json.dumps({"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 8, "temperature": 0,
                       **more}).encode()


def requests_have_their_lines(server):
    status, answer = server.ask(KEY, "mine-1", chat())
    assert status == 200, answer
    (line,) = server.wait("access", "ended", x_request_id="mine-1")
    usage = answer["usage"]
    assert answer["id"].endswith(line["request"]), (answer, line)
    assert line["account"] == "acme" and line["status"] == 200 and line["path"].endswith("/chat/completions"), line
    assert line["hit"] + line["miss"] == usage["prompt_tokens"] and line["output"] == usage["completion_tokens"], line
    assert line["end"] == answer["choices"][0]["finish_reason"] and line["model"] == answer["model"], line
    assert 0 <= line["queue_ms"] <= line["ttft_ms"] <= line["total_ms"], line
    assert line["tpot_ms"] >= 0, line  # 0: a gateway that did not run for a while got all tokens at once
    assert line["unit"] >= 1 and line["rank"] == 0, line
    assert server.ask(KEY, "mine-2", b"{\"messages\": \"" + PROMPT.encode())[0] == 400
    (line,) = server.wait("access", "refused", x_request_id="mine-2", account="acme")
    assert line["status"] == 400, line
    assert server.ask("sk-" + SECRET, "a\"b\\c", chat())[0] == 401
    (line,) = server.wait("access", "refused", x_request_id="a\"b\\c")
    assert "account" not in line and line["status"] == 401 and line["peer"] == "127.0.0.1", line


def units_call_a_request_as_its_client_does(server):
    (access,) = server.wait("access", "ended", x_request_id="mine-1")
    (come,) = server.wait("request", "has come", x_request_id="mine-1")
    (ended,) = server.wait("request", "has ended here", x_request_id="mine-1")
    assert come["request"] == ended["request"] == access["request"] and come["pid"] == ended["pid"], (come, ended)
    assert come["task"] == "answer" and ended["output"] == access["output"], (ended, access)


def floods_are_counted(server):
    refusals = 200
    for i in range(refusals):
        assert server.ask("sk-" + SECRET, "flood-%d" % i, b"{}")[0] == 401
    server.wait("access", "refused", status=401)


def hosts_are_told_of(server):
    request = urllib.request.Request(server.url + "/v1/models", headers={"Host": "evil.example", "X-Request-Id": "h-1"})
    try:
        urllib.request.urlopen(request, timeout=PATIENCE)
    except urllib.error.HTTPError as error:
        assert error.code == 421, error
    (line,) = server.wait("http", "a request was refused unread", x_request_id="h-1")
    assert line["status"] == 421 and line["level"] == "warning", line


def a_killed_unit_is_told_in_order(server):
    first = server.wait("unit", "serves", 2)
    server.wait("supervisor", "a unit is ready", 2)  # else its end is one before it was ready
    answers = [threading.Thread(target=server.ask, args=(KEY, "long-%d" % i, chat(max_tokens=1500, ignore_eos=True)))
               for i in range(4)]
    for answer in answers:
        answer.start()
    long = [line for line in server.wait("request", "has come", 5) if line["x_request_id"].startswith("long")]
    killed = next(line for line in first if line["pid"] == long[0]["pid"])
    os.kill(killed["pid"], signal.SIGKILL)
    server.wait("unit", "serves", 3)
    (back,) = server.wait("supervisor", "a unit is there again")
    lines = server.lines()
    (gone,) = [line for line in lines if line["subject"] == "unit" and line["message"] == "is gone"]
    (ended,) = [line for line in lines if line["message"].startswith("a unit ended")]
    again = [line for line in lines if line["message"] == "serves"][-1]
    assert gone["unit"] == killed["unit"] and gone["pid"] == killed["pid"], (gone, killed)
    assert ended["how"] == "signal 9" and ended["job"] == back["job"] and ended["level"] == "error", ended
    assert again["pid"] == back["pid"] != killed["pid"] and again["unit"] > killed["unit"], (again, back)
    assert gone["job"] == ended["job"] == again["job"], (gone, ended, again)
    its_requests_are_followed(server, gone, again)
    for answer in answers:
        answer.join(PATIENCE)
    started = [line for line in lines if line["message"] == "starts a unit" and line["job"] == ended["job"]]
    order = [lines.index(line) for line in (started[0], killed, ended, started[1], again)]
    assert order == sorted(order) and lines.index(gone) < lines.index(again), order


def its_requests_are_followed(server, gone, again):
    """Each that the unit had is at another one, or at itself when it was there again."""
    assert gone["requests"] > 0, gone
    (elsewhere,) = server.wait("unit", "its requests are elsewhere")
    assert elsewhere["unit"] == gone["unit"] and elsewhere["job"] == gone["job"], elsewhere
    assert elsewhere["requests"] == elsewhere["moved"] == gone["requests"], (elsewhere, gone)
    places = dict(part.split(":") for part in elsewhere["to"].split(","))
    assert sum(map(int, places.values())) == gone["requests"] and str(gone["unit"]) not in places, elsewhere
    for moved in server.wait("unit", "gets what another had", gone["requests"]):
        assert moved["before"] == gone["unit"] and moved["x_request_id"].startswith("long-"), moved
        (ended,) = server.wait("access", "ended", x_request_id=moved["x_request_id"])
        assert ended["unit"] == moved["unit"] and ended["status"] == 200, (ended, moved)
        server.wait("request", "has ended here", x_request_id=moved["x_request_id"])


def nothing_private_was_said(server, answers):
    text = server.said()
    for private in [SECRET, KEY, *PROMPT.split(), *answers]:
        assert private not in text, private


def main():
    with tempfile.TemporaryDirectory() as folder:
        accounts = os.path.join(folder, "who.yaml")
        with open(accounts, "w") as file:
            file.write("accounts:\n  - name: acme\n    keys: [%s]\n" % HASH)
        server = Logged("--units", "2", "--accounts", accounts)
        (line,) = server.wait("accounts", "were read")
        assert line["accounts"] == 1 and line["keys"] == 1, line
        server.wait("model", "is being loaded", 2)  # stderr is no terminal
        assert all(line["bytes"] > 0 and line["pid"] for line in server.wait("model", "is loaded", 2))
        requests_have_their_lines(server)
        units_call_a_request_as_its_client_does(server)
        hosts_are_told_of(server)
        a_killed_unit_is_told_in_order(server)
        status, answer = server.ask(KEY, "mine-3", chat(max_tokens=60))
        assert status == 200, answer
        floods_are_counted(server)
        message = answer["choices"][0]["message"]
        words = ((message.get("reasoning_content") or "") + " " + (message.get("content") or "")).split()
        server.stop()
        lines = server.lines()
        refused = [line for line in lines if line["message"] == "refused" and line.get("status") == 401]
        said = [line for line in refused if "more" not in line]
        assert len(said) + sum(line["more"] for line in refused if "more" in line) == 201, refused
        assert len(said) < 100, len(said)
        assert lines[-1]["subject"] == "process" or "more" in lines[-1], lines[-1]
        nothing_private_was_said(server, [word for word in words if len(word) > 12])


main()
print("ok logs")
