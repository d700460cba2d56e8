#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_apart_storage.py FATHOM RANKS [ROUNDS]: prompts in one unit, answers in another, one KV storage under both, and a transport
that fails: it is too slow and given up, its deadline comes, or the unit that sends is killed with the blocks on their
way. Every answer is the very one of a single process, and receipts say that the blocks which did not arrive were
loaded from the storage, not computed again, also by units of several ranks; without a storage they are computed.
Prints how long the second token took. With ROUNDS it only measures that, for prompts of 1,500 tokens."""
import json
import random
import statistics
import sys
import tempfile
import time

from server import open_url
from storm import BLOCK, Fleet, answer_alone, completion, make_prompt

CHANCE = random.Random(17)
TOKENS = 24
PROMPTS = [make_prompt(CHANCE, 705) for _ in range(12)]
REQUESTS = [completion(prompt, TOKENS, stream=True, ignore_eos=True, return_receipt=True) for prompt in PROMPTS]
SLOW = "16KiB"  # a second: a prompt takes a minute


class Answer:
    """Text, reason, receipt, and how long the client looked at the first token."""

    def __init__(self, fleet, request, after_first=lambda: None):
        self.text, self.reason, self.receipt, times = "", None, None, []
        with open_url(fleet.url + request[0], request[1]) as response:
            for line in response:
                if not line.startswith(b"data: {"):
                    continue
                event = json.loads(line[6:])
                assert "error" not in event, event
                self.receipt = event.get("receipt", self.receipt)
                for choice in event["choices"]:
                    if choice["text"]:
                        times.append(time.monotonic())
                        if len(times) == 1:
                            after_first()
                    self.text += choice["text"]
                    self.reason = choice["finish_reason"] or self.reason
        self.pause = times[1] - times[0] if len(times) > 1 else 0


def whole(count):
    return count // BLOCK * BLOCK


def check(found, wanted, prompt, kind):
    """The same answer, and the prompt's tokens are all accounted for."""
    assert (found.text, found.reason) == wanted, (kind, found.text, wanted)
    receipt = found.receipt
    account = receipt["prompt"]
    assert account["hit"] + account["miss"] == account["tokens"] == len(prompt), receipt
    assert account["hit"] == account["device"] + account["host"] + account["disk"], receipt
    again = receipt["transferred"] + receipt["reloaded"] + receipt["recomputed"]
    assert again == 0 or again == len(prompt), receipt  # 0: handed to nobody, or to who had it
    print("%s: %d tokens arrived, %d loaded, %d computed again; second token after %.3f s" % (
        kind, receipt["transferred"], receipt["reloaded"], receipt["recomputed"], found.pause), flush=True)
    return receipt


def loads_what_did_not_arrive(kind, wanted, *options):
    """What the storage has by the time is a question of its disk: so more than one prompt is tried."""
    fleet = Fleet(*options)
    for i, prompt in enumerate(PROMPTS):
        receipt = check(Answer(fleet, REQUESTS[i]), wanted[i], prompt, kind)
        if receipt["reloaded"] and receipt["transferred"] + receipt["reloaded"] == whole(len(prompt)):
            break
    else:
        raise AssertionError("nothing was loaded: %s" % fleet.units["decode"].said())
    fleet.nothing_is_left()
    return fleet, i


def main():
    wanted = answer_alone(REQUESTS)
    with tempfile.TemporaryDirectory() as folder:
        storage = ["--kv-dir", folder, "--kv-load", "always"]
        fleet, i = loads_what_did_not_arrive("given up", wanted, "--kv-send-rate", SLOW, *storage)
        fleet.kill_unit("decode")  # it has the prompt in its pages
        fleet.start_unit("decode")
        fleet.wait_for_units()
        found = Answer(fleet, REQUESTS[i], lambda: fleet.kill_unit("prefill"))
        receipt = check(found, wanted[i], PROMPTS[i], "sender killed")
        assert receipt["transferred"] + receipt["reloaded"] == whole(len(PROMPTS[i])), receipt
        fleet.start_unit("prefill")
        fleet.wait_for_units()
        fleet.stop()
    with tempfile.TemporaryDirectory() as folder:
        storage = ["--kv-dir", folder, "--kv-load", "always"]
        fleet, _ = loads_what_did_not_arrive("deadline", wanted, "--kv-seconds", "0.001", "--ranks", sys.argv[2],
                                             *storage)
        fleet.stop()
    fleet = Fleet("--kv-send-rate", SLOW)
    receipt = check(Answer(fleet, REQUESTS[0]), wanted[0], PROMPTS[0], "without a storage")
    assert receipt["reloaded"] == 0 and receipt["recomputed"] > 0, receipt
    fleet.stop()


def measure(rounds):
    """Three fleets, asked in turn: one whose transport works, two whose transfers end before they begin."""
    late = ["--kv-seconds", "0.001"]
    with tempfile.TemporaryDirectory() as folder:
        fleets = [("arrived", Fleet(), []), ("loaded", Fleet(*late, "--kv-dir", folder), []),
                  ("computed again", Fleet(*late), [])]
        for _ in range(rounds + 1):
            request = completion(make_prompt(CHANCE, 1500), 8, stream=True, ignore_eos=True, return_receipt=True)
            for _, fleet, found in fleets:
                found.append(Answer(fleet, request))
        for name, fleet, found in fleets:
            pauses = sorted(answer.pause for answer in found[1:])
            print("%s: second token after %.1f ms (%.1f to %.1f), %d tokens loaded, %d computed again" % (
                name, 1e3 * statistics.median(pauses), 1e3 * pauses[0], 1e3 * pauses[-1],
                statistics.median(answer.receipt["reloaded"] for answer in found[1:]),
                statistics.median(answer.receipt["recomputed"] for answer in found[1:])))
            fleet.stop()


if len(sys.argv) > 3:
    measure(int(sys.argv[3]))
else:
    main()
