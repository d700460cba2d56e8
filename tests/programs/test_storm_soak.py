#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_storm_soak.py FATHOM FAIL_READS SECONDS SEED: everything at once. A gateway, a unit for prompts and one for
answers that share a KV storage, under load. For so long, some of them at a time are harmed: killed, or stopped for
a while; cables between them are cut (where network namespaces can be made); the storage loses bits, ends of its
files, reads and room; clients leave. After each round all is healed: every answer was the very one of an undisturbed
server, or broke off visibly while the gateway was dead; nothing is held by any rank. SEED says which faults come."""
import os
import random
import signal
import sys
import tempfile
import time

import test_storm_cache as cache
import test_storm_clients as clients
import test_storm_network as network
from storm import Load, answer_alone, make_requests

ROUND_SECONDS = 4


class SoakFleet(cache.StoringFleet, network.SpreadFleet):
    pass


class Soak:
    def __init__(self, fleet, load, chance, run):
        self.fleet, self.load, self.chance, self.run = fleet, load, chance, run
        self.healers, self.names = [], []

    def harm(self, name, heal=None):
        self.names.append(name)
        if heal:
            self.healers.append(heal)

    def unit(self, role):
        process = self.fleet.units[role].process
        if self.chance.random() < 0.6:
            self.fleet.units[role].kill()
            self.harm("%s killed" % role, lambda: self.fleet.start_unit(role))
        else:
            process.send_signal(signal.SIGSTOP)
            self.harm("%s stopped" % role, lambda: process.send_signal(signal.SIGCONT))

    def prefill(self):
        self.unit("prefill")

    def decode(self):
        self.unit("decode")

    def gateway(self):
        self.load.may_break = True
        self.fleet.gateway.kill()
        self.harm("gateway killed", self.fleet.start_gateway)

    def cable(self):
        names = self.chance.choice(network.CABLES)
        cable = network.Cable(self.run, *names)
        if self.chance.random() < 0.5:
            cable.pull()
            self.harm("%s-%s cut" % names, cable.plug)
        else:
            cable.swallow()
            self.harm("%s-%s cut silently" % names, cable.spare)

    def storage(self):
        fault = self.chance.randrange(4)
        if fault == 0:
            cache.fail_reads(self.fleet)
            self.harm("reads fail", lambda: cache.mend_reads(self.fleet))
        elif fault == 1:
            cache.fill_disk(self.fleet)
            self.harm("disk full", lambda: cache.empty_disk(self.fleet))
        elif self.fleet.segments():
            (cache.flip_bits if fault == 2 else cache.cut_short)(self.fleet)
            self.harm("bits flipped" if fault == 2 else "segments cut short")

    def leave(self):
        try:
            for _ in range(20):
                clients.abort(self.fleet, *clients.make_abort())
        except OSError:
            pass  # the gateway has gone
        self.harm("clients leave")

    def round(self):
        faults = [self.prefill, self.decode, self.storage, self.leave, self.gateway] + ([self.cable] if self.run else [])
        self.load.more(self.chance.randrange(10))
        for fault in self.chance.sample(faults, self.chance.choice((1, 1, 2, 2, 3, 4))):
            fault()
            time.sleep(self.chance.random())
        time.sleep(ROUND_SECONDS * self.chance.random())
        self.chance.shuffle(self.healers)
        for heal in self.healers:
            heal()
        self.fleet.wait_for_units()
        self.load.more(10)
        self.load.may_break = False
        self.load.more(5)
        return ", ".join(self.names)


def soak(folder, run):
    seconds, seed = float(sys.argv[3]), int(sys.argv[4])
    requests = make_requests(seed)[:-2] + cache.REQUESTS[:12]
    wanted = answer_alone(requests)
    fleet = SoakFleet(folder, run) if run else cache.StoringFleet(folder)
    chance, began, rounds = random.Random(seed), time.monotonic(), 0
    while time.monotonic() < began + seconds:
        with Load(fleet, requests, wanted) as load:
            names = Soak(fleet, load, chance, run).round()
        fleet.nothing_is_left()
        rounds += 1
        print("round %d: %s; %d answers, %d broken off" % (rounds, names, load.answered, load.broken), flush=True)
    fleet.stop()
    print("ok: %d rounds in %.0f s, seed %d" % (rounds, time.monotonic() - began, seed))


def main():
    if len(sys.argv) > 5:
        soak(*sys.argv[5:7])
        return
    run = str(os.getpid())
    with tempfile.TemporaryDirectory() as folder:
        try:
            if network.lay_cables(run):
                sys.exit(network.run_inside(run, __file__, *sys.argv[1:5], folder))
            print("no network namespaces can be made here (that needs root, ip and veth): no cable is cut")
            soak(folder, None)
        finally:
            network.remove_cables(run)


main()
