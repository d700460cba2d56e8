#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_storm.py FATHOM [RANKS]: a gateway, a unit for prompts and one for answers, under load from clients who never pause.
Each is killed and started again, the others are left alone; units die while KV blocks are on the way to or from
them. Every answer is the very one of an undisturbed server, or breaks off visibly where the gateway died; when all is
quiet nothing is held by any rank. With RANKS: units of so many, under `fathom serve`, lose ranks instead."""
import json
import os
import signal
import sys
import time

from server import open_url
from storm import Fleet, Load, ServedFleet, answer_alone, completion, make_requests

REQUESTS = make_requests(5)
SLOW = "4MiB"  # of KV blocks a second: those of long prompts are on the way for a while


def unit_dies(fleet, wanted, role):
    with Load(fleet, REQUESTS, wanted) as load:
        load.more(10)
        fleet.wait_for_parked("prefill")
        began = time.monotonic()
        fleet.kill_unit(role)
        load.more(5)
        fleet.start_unit(role)
        handed = fleet.wait_for_units()["handed_over_total"]
        fleet.wait_until(lambda seen: seen["handed_over_total"] > handed + 5)
        print("the %s unit killed in mid-transfer: back and handing over after %.2f s" % (
            role, time.monotonic() - began), flush=True)
        load.more(20)
    fleet.nothing_is_left()


def hits(fleet):
    """Tokens of a prompt that are in a cache; from then on most are."""
    path, body = completion(list(range(300, 500)), 2)
    with open_url(fleet.url + path, body) as answer:
        return json.load(answer)["usage"]["prompt_cache_hit_tokens"]


def restart_gateway(fleet):
    gone = "gateway  is gone"
    told = {unit: unit.said().count(gone) for unit in fleet.units.values()}
    fleet.gateway.kill()
    for unit, count in told.items():
        unit.wait_for(gone, count + 1)
    fleet.start_gateway()
    fleet.wait_for_units()


def gateway_dies(fleet, wanted):
    with Load(fleet, REQUESTS, wanted, may_break=True) as load:
        load.more(20)
        began = time.monotonic()
        restart_gateway(fleet)
        broken = load.broken
        load.more(1)
        print("the gateway killed: %d answers broke off or were refused, next one after %.2f s" % (
            broken, time.monotonic() - began), flush=True)
        assert broken > 0
        load.may_break = False
        load.more(20)
    fleet.nothing_is_left()
    hits(fleet)
    restart_gateway(fleet)
    assert hits(fleet) == 192, "the units' caches went with the gateway"
    fleet.nothing_is_left()


def pids(fleet, role):
    return [rank["pid"] for unit in fleet.look()["units"] if unit["role"] == role for rank in unit["ranks"]]


def ranks_die(wanted, ranks):
    fleet = ServedFleet(ranks)
    for role in fleet.units:
        for rank in (ranks - 1, 0):
            with Load(fleet, REQUESTS, wanted) as load:
                load.more(10)
                before = fleet.look()
                began = time.monotonic()
                os.kill(pids(fleet, role)[rank], signal.SIGKILL)
                fleet.wait_until(lambda seen: seen["lost_units_total"] > before["lost_units_total"])
                fleet.wait_for_units()
                handed = fleet.look()["handed_over_total"]
                fleet.wait_until(lambda seen: seen["handed_over_total"] > handed + 5)
                print("rank %d of the %s unit's %d killed: back and handing over after %.2f s" % (
                    rank, role, ranks, time.monotonic() - began), flush=True)
                load.more(20)
            fleet.nothing_is_left()
    fleet.stop()


def main():
    wanted = answer_alone(REQUESTS)
    if len(sys.argv) > 2:
        ranks_die(wanted, int(sys.argv[2]))
        return
    fleet = Fleet("--kv-send-rate", SLOW)
    unit_dies(fleet, wanted, "prefill")
    unit_dies(fleet, wanted, "decode")
    gateway_dies(fleet, wanted)
    fleet.stop()


main()
