# SPDX-License-Identifier: Apache-2.0
"""A fleet of real processes and clients who never pause, for tests that do it harm: a gateway and units as processes
of their own; requests of all kinds, again and again, each answer compared with the one that an undisturbed server
gives; and a look at what is left when all is quiet."""
import http.client
import itertools
import json
import os
import random
import threading
import time
import urllib.error

from server import PATIENCE, Process, Server, open_url, wait_until, with_defaults

BLOCK = 64
CLIENTS = 10
RECORD_BYTES = "32GiB"  # of each process, far more than an hour takes
BROKEN = (ConnectionError, http.client.HTTPException, urllib.error.URLError)  # what a client sees of a dead gateway


# ---- what is asked ------------------------------------------------------------------------------

def make_prompt(chance, count):
    return [chance.randrange(300, 1500) for _ in range(count)]


def completion(prompt, tokens, **more):
    return "/v1/completions", {"prompt": prompt, "max_tokens": tokens, "temperature": 0, **more}


def chat(question, tokens, **more):
    return "/v1/chat/completions", {"messages": [{"role": "user", "content": question}], "max_tokens": tokens,
                                    "temperature": 0, **more}


def make_requests(seed):
    """Greedy and drawn answers; short prompts, and long ones, some of which begin alike."""
    chance = random.Random(seed)
    families = [make_prompt(chance, count) for count in (130, 400, 900)]
    requests = []
    for i in range(8):
        drawn = {"temperature": 0.9, "seed": chance.randrange(1 << 30)}
        family = families[i % len(families)]
        requests += [
            chat("What is %d + %d?" % (chance.randrange(1000), chance.randrange(1000)), 120, stream=i % 2 == 0),
            chat("Spell the word number %d." % i, 100, stream=i % 2 == 1, ignore_eos=True, **drawn),
            completion(family + make_prompt(chance, chance.randrange(1, 150)), 24, stream=i % 2 == 0),
            completion(family + make_prompt(chance, chance.randrange(1, 150)), 40, stream=True, **drawn)]
    requests += [completion(make_prompt(chance, count), 16, stream=True) for count in (1500, 1100)]
    return requests


class Broken(Exception):
    """The answer did not come to its end, and that can be seen. `text` is what came of it."""

    def __init__(self, text, why):
        super().__init__("%s after %r" % (why, text))
        self.text = text


def read_stream(response):
    text, reason = "", None
    try:
        for line in response:
            if line == b"data: [DONE]\n":
                return text, reason
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if "error" in event:
                raise Broken(text, event)
            for choice in event["choices"]:
                delta = choice.get("delta", {})
                text += choice.get("text") or delta.get("reasoning_content") or delta.get("content") or ""
                reason = choice["finish_reason"] or reason
    except BROKEN as error:
        raise Broken(text, repr(error)) from error
    raise Broken(text, "the stream ended without its end")


def ask(url, request):
    """Text and reason of its end; Broken."""
    path, body = request
    try:
        with open_url(url + path, body) as response:
            if body.get("stream"):
                return read_stream(response)
            found = json.load(response)
    except BROKEN as error:
        raise Broken("", repr(error)) from error
    usage = found["usage"]
    assert usage["prompt_cache_hit_tokens"] + usage["prompt_cache_miss_tokens"] == usage["prompt_tokens"], usage
    choice = found["choices"][0]
    message = choice.get("message", {})
    text = choice.get("text") or (message.get("reasoning_content") or "") + (message.get("content") or "")
    return text, choice["finish_reason"]


def answer_alone(requests):
    """What an undisturbed server of one process says."""
    server = Server("--mtp", "off")
    answers = [None] * len(requests)

    def take(i):
        answers[i] = ask(server.url, requests[i])

    threads = [threading.Thread(target=take, args=(i,)) for i in range(len(requests))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    server.stop()
    assert all(answers), answers
    return answers


# ---- who answers --------------------------------------------------------------------------------

def is_idle(fleet):
    """Nothing is waiting, running, parked or held, rank by rank."""
    return not fleet["queue"] and not fleet["requests"] and all(
        unit["state"] == "serving" and not unit["requests_bound"] and
        not any(rank["requests_waiting"] or rank["requests_running"] or rank["requests_parked"] or
                rank["kv_pages"]["held"] for rank in unit["ranks"]) for unit in fleet["units"])


class Fleet:
    """A gateway, and units by the names of their roles: "prefill", "decode". Whoever was killed is started again, at
    the same address, by its name."""

    gateway_options = ["--listen", "tcp://127.0.0.1:*"]

    def __init__(self, *unit_options, recordings=None):
        """`recordings`: a folder where each process makes one of its own with all it was given and put out."""
        self.unit_options = with_defaults({"--kv-memory": "24MiB", "--threads": "1"}, unit_options)
        self.units = {}
        self.recordings, self.births = recordings, itertools.count()
        self.gateway = Process("gateway", "--port", "0", *self.gateway_options, *self.record_options("gateway"))
        self.address = self.gateway.wait_for(r"units are listened to address=(\S+)").group(1)
        self.url = self.gateway.wait_for_url()
        for role in ("prefill", "decode"):
            self.start_unit(role)
        self.wait_for_units()

    def unit_place(self, name):
        """What comes before its command line, and options for where it is."""
        return (), ["--connect", self.address, "--kv-listen", "127.0.0.1"]

    def record_options(self, name):
        """Of a process that is about to start, even one that was there before."""
        if not self.recordings:
            return []
        folder = os.path.join(self.recordings, "%05d-%s" % (next(self.births), name))
        return ["--record", folder, "--record-prompts", "--record-bytes", RECORD_BYTES]

    def start_unit(self, name):
        wrap, options = self.unit_place(name)
        self.units[name] = Process("unit", "--role", name, *options, *self.unit_options, *self.record_options(name),
                                   wrap=wrap)

    def kill_unit(self, name):
        """The others go on, and the gateway knows."""
        lost = self.look()["lost_units_total"]
        self.units[name].kill()
        self.wait_until(lambda fleet: fleet["lost_units_total"] > lost)

    def start_gateway(self):
        port = self.url.rsplit(":", 1)[1]
        self.gateway = Process("gateway", "--port", port, "--admin-port", "0", "--listen", self.address, *self.gateway_options[2:],
                               *self.record_options("gateway"))
        assert self.gateway.wait_for_url() == self.url

    def look(self):
        return self.gateway.fleet()

    def wait_until(self, true_of):
        """The report of the fleet of which it is true."""
        return wait_until(lambda: true_of(fleet := self.look()) and fleet, self.gateway, found=self.look, pause=0.02)

    def wait_for_units(self):
        return self.wait_until(lambda fleet: sum(unit["state"] == "serving" for unit in fleet["units"]) ==
                               len(self.units))

    def wait_for_parked(self, role):
        """Its KV blocks are on the way: all has been computed, but they have not all come."""
        self.wait_until(lambda fleet: any(
            rank["requests_parked"] for unit in fleet["units"] if unit["role"] == role for rank in unit["ranks"]))

    def nothing_is_left(self):
        self.wait_until(is_idle)
        time.sleep(0.1)
        self.wait_until(is_idle)

    def stop(self):
        self.nothing_is_left()
        for process in [*self.units.values(), self.gateway]:
            process.stop()


class ServedFleet(Fleet):
    """The same, of units of several ranks, under one `fathom serve`, which starts again what dies."""

    def __init__(self, ranks, *options, more_environment=()):
        options = with_defaults({"--port": "0", "--kv-memory": "48MiB", "--prefill-units": "1", "--decode-units": "1",
                                 "--ranks": str(ranks)}, options)
        self.gateway = Process("serve", *options, more_environment=more_environment)
        self.url = self.gateway.wait_for_url()
        self.units = {"prefill": None, "decode": None}
        self.wait_for_units()

    def stop(self):
        self.nothing_is_left()
        self.gateway.stop()


# ---- who asks -----------------------------------------------------------------------------------

class Load:
    """Clients who ask without a pause. May_break: answers may break off, visibly, as when their gateway dies; what
    came of them must be right all the same, and is asked for again."""

    def __init__(self, fleet, requests, wanted, may_break=False):
        self.fleet, self.requests, self.wanted, self.may_break = fleet, requests, wanted, may_break
        self.lock, self.turns = threading.Lock(), itertools.count()
        self.ending, self.answered, self.broken, self.faults = False, 0, 0, []
        self.threads = [threading.Thread(target=self.client, daemon=True) for _ in range(CLIENTS)]

    def client(self):
        while not self.ending and not self.faults:
            turn = next(self.turns) % len(self.requests)
            wanted = self.wanted[turn]
            try:
                found = ask(self.fleet.url, self.requests[turn])
            except Broken as error:
                if not self.may_break or not wanted[0].startswith(error.text):
                    self.faults.append((self.requests[turn], wanted, str(error)))
                with self.lock:
                    self.broken += 1
                time.sleep(0.02)
                continue
            except Exception as error:  # a thread's own would go unseen
                self.faults.append((self.requests[turn], repr(error)))
                return
            if found != wanted:
                self.faults.append((self.requests[turn], wanted, found))
            with self.lock:
                self.answered += 1

    def more(self, count=None):
        """So many more are answered; all requests if not said."""
        goal = self.answered + (len(self.requests) if count is None else count)
        until = time.monotonic() + PATIENCE
        while self.answered < goal:
            self.is_right()
            assert time.monotonic() < until, (self.answered, goal, self.fleet.look())
            time.sleep(0.005)

    def is_right(self):
        assert not self.faults, (self.faults[0], self.fleet.gateway.said()[-3000:])

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, kind, *_):
        self.ending = True
        if kind:
            return
        for thread in self.threads:
            thread.join(PATIENCE)
        self.is_right()
