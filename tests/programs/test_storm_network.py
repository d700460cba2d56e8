#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_storm_network.py FATHOM SECONDS: a gateway, a unit for prompts and one for answers, each with a network of its
own (network namespaces joined by cables; needs root, is skipped otherwise). Under load, cables are cut for so many
seconds and healed: between the units, silently (packets vanish), and between the gateway and the decode unit; from 10
seconds on also the others, and loudly (the link goes down). Every answer is the very one of an undisturbed server; after healing KV blocks travel as
before, nothing was started again; when all is quiet nothing is held by any rank."""
import json
import os
import random
import shutil
import subprocess
import sys
import time

from server import open_url
from storm import Fleet, Load, answer_alone, completion, make_prompt, make_requests

SKIPPED = 77
CABLES = (("gateway", "prefill"), ("gateway", "decode"), ("prefill", "decode"))
NOWHERE = "02:00:00:00:00:99"  # a neighbour's address that nobody has


# ---- three networks and their cables ------------------------------------------------------------

def network_of(run, name):
    return "fathom-%s-%s" % (run, name)


def ip(*arguments, check=True):
    return subprocess.run(["ip", *arguments], check=check, stderr=None if check else subprocess.DEVNULL).returncode == 0


def ends(cable):
    """Of both ends: whose network, the interface there, its address, the address of the other end."""
    first, second = ("10.88.%d.%d" % (CABLES.index(cable), end) for end in (1, 2))
    return (cable[0], "to-" + cable[1], first, second), (cable[1], "to-" + cable[0], second, first)


def lay_cables(run):
    """False: it may not be done here."""
    if os.geteuid() or not shutil.which("ip"):
        return False
    for name in ("gateway", "prefill", "decode"):
        if not ip("netns", "add", network_of(run, name), check=False):
            return False
        ip("-n", network_of(run, name), "link", "set", "lo", "up")
    for cable in CABLES:
        first, second = ends(cable)
        if not ip("link", "add", first[1], "netns", network_of(run, first[0]), "type", "veth", "peer", "name", second[1],
                  "netns", network_of(run, second[0]), check=False):
            return False
        for whose, interface, address, _ in (first, second):
            ip("-n", network_of(run, whose), "address", "add", address + "/24", "dev", interface)
            ip("-n", network_of(run, whose), "link", "set", interface, "up")
    return True


def remove_cables(run):
    for name in ("gateway", "prefill", "decode") if shutil.which("ip") else ():
        ip("netns", "delete", network_of(run, name), check=False)


class Cable:
    def __init__(self, run, *names):
        self.run, self.ends = run, ends(names)

    def pull(self):
        whose, interface, _, _ = self.ends[0]
        ip("-n", network_of(self.run, whose), "link", "set", interface, "down")

    def plug(self):
        whose, interface, _, _ = self.ends[0]
        ip("-n", network_of(self.run, whose), "link", "set", interface, "up")

    def swallow(self):
        """Packets leave, and nobody gets them."""
        for whose, interface, _, other in self.ends:
            ip("-n", network_of(self.run, whose), "neighbour", "replace", other, "lladdr", NOWHERE, "dev", interface,
               "nud", "permanent")

    def spare(self):
        for whose, interface, _, other in self.ends:
            ip("-n", network_of(self.run, whose), "neighbour", "delete", other, "dev", interface)


# ---- inside, in the gateway's network -----------------------------------------------------------

class SpreadFleet(Fleet):
    gateway_options = ["--listen", "tcp://0.0.0.0:*", "--wire-plain"]

    def __init__(self, run, *unit_options, **keywords):
        self.run = run
        super().__init__("--wire-plain", *unit_options, **keywords)

    def unit_place(self, name):
        gateway = ends(("gateway", name))[0][2]
        place = {end[0]: end[2] for end in ends(("prefill", "decode"))}[name]
        return ["ip", "netns", "exec", network_of(self.run, name)], [
            "--connect", self.address.replace("0.0.0.0", gateway), "--kv-listen", place]


def has_travelled(fleet, request, wanted):
    """Its KV blocks all came from the other unit; the receipt says so."""
    path, body = request
    with open_url(fleet.url + path, {**body, "return_receipt": True}) as answer:
        choice, receipt = json.load(answer)["choices"][0], json.loads(answer.headers["X-Fathom-Receipt"])
    assert (choice["text"], choice["finish_reason"]) == wanted
    return receipt["transferred"] == receipt["prompt"]["tokens"]


def blocks_travel(fleet, fresh):
    """Prompts that no cache knows: sooner or later one's blocks come, and from then on those of most; a busy machine
    may find it faster to compute some."""
    travelled = [has_travelled(fleet, request, wanted) for request, wanted in fresh]
    print("KV blocks travelled: %s" % " ".join("no yes".split()[one] for one in travelled), flush=True)
    assert True in travelled[:-1], [unit.said()[-2000:] for unit in fleet.units.values()]
    after = travelled[travelled.index(True) + 1:]
    assert 2 * sum(after) >= len(after), travelled


def cut(fleet, load_of, seconds, harm, heal, fresh, name):
    lost = fleet.look()["lost_units_total"]
    with load_of() as load:
        load.more(10)
        answered = load.answered
        harm()
        time.sleep(seconds)
        meanwhile = load.answered - answered
        heal()
        began = time.monotonic()
        fleet.wait_for_units()
        load.more(15)
    fleet.nothing_is_left()
    print("%s cut for %g s: %d answers meanwhile, %d units given up; all well %.1f s after" % (
        name, seconds, meanwhile, fleet.look()["lost_units_total"] - lost, time.monotonic() - began), flush=True)
    blocks_travel(fleet, fresh)
    fleet.nothing_is_left()


def storm(seconds, run):
    requests = make_requests(7)
    chance = random.Random(8)
    fresh = [[completion(make_prompt(chance, chance.randrange(100, 500)), 8, ignore_eos=True) for _ in range(12)]
             for _ in range(4)]
    known = answer_alone(requests + sum(fresh, []))
    wanted, rest = known[:len(requests)], iter(known[len(requests):])
    fresh = [list(zip(some, rest)) for some in fresh]
    fleet = SpreadFleet(run)

    def load_of():
        return Load(fleet, requests, wanted)

    between, first, second = Cable(run, "prefill", "decode"), Cable(run, "gateway", "prefill"), Cable(
        run, "gateway", "decode")
    cuts = [(between.swallow, between.spare, "the link between the units, silently,"),
            (second.swallow, second.spare, "the link between the gateway and the decode unit, silently,"),
            (first.pull, first.plug, "the link between the gateway and the prefill unit"),
            (between.pull, between.plug, "the link between the units")]
    for (harm, heal, name), some in zip(cuts if seconds >= 10 else cuts[:2], fresh):
        cut(fleet, load_of, seconds, harm, heal, some, name)
    fleet.stop()


def run_inside(run, *command):
    """In the gateway's network; its exit code."""
    return subprocess.run(["ip", "netns", "exec", network_of(run, "gateway"), sys.executable, *command, run],
                          check=False).returncode


def main():
    if len(sys.argv) > 3:
        storm(float(sys.argv[2]), sys.argv[3])
        return
    run = str(os.getpid())
    try:
        if not lay_cables(run):
            print("no network namespaces can be made here (that needs root, ip and veth): the cuts are left out")
            sys.exit(SKIPPED)
        sys.exit(run_inside(run, __file__, *sys.argv[1:3]))
    finally:
        remove_cables(run)


if __name__ == "__main__":
    main()
