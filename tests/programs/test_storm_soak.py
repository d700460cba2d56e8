#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_storm_soak.py FATHOM FAIL_READS SECONDS SEED [RECORDINGS]: everything at once. A gateway, a unit for prompts and one for
answers that share a KV storage, under load. For so long, some of them at a time are harmed: killed, or stopped for
a while; cables between them are cut (where network namespaces can be made); the storage loses bits, ends of its
files, reads and room; clients leave. After each round all is healed: every answer was the very one of an undisturbed
server, or broke off visibly while the gateway was dead; nothing is held by any rank. SEED says which faults come. All processes are recorded, each in a folder of its own in the new
folder RECORDINGS; at the end all are replayed, and none may differ. Without RECORDINGS they are kept only if
something goes wrong."""
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import test_storm_cache as cache
import test_storm_clients as clients
import test_storm_network as network
from replay_all import replay_all
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

    def all_are_alive(self):
        """Whoever was killed has been started again, so nobody else may have ended."""
        for process in [*self.fleet.units.values(), self.fleet.gateway]:
            assert process.process.poll() is None, (self.names, process.said()[-3000:])

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
        self.all_are_alive()
        self.fleet.wait_for_units()
        self.load.more(10)
        self.load.may_break = False
        self.load.more(5)
        return ", ".join(self.names)


def mount_storage(folder):
    """A file system of its own, so that the disk can be full while recordings go on."""
    os.mkdir(folder + "/storage")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", folder + "/storage"], check=True)


def start_fleet(folder, run, recordings):
    if not run:
        return cache.StoringFleet(folder, recordings=recordings)
    mount_storage(folder)
    fleet = SoakFleet(folder, run, recordings=recordings)
    cache.lay_ballast(fleet)
    return fleet


def soak(recordings, folder, run):
    seconds, seed = float(sys.argv[3]), int(sys.argv[4])
    requests = make_requests(seed)[:-2] + cache.REQUESTS[:12]
    wanted = answer_alone(requests)
    fleet = start_fleet(folder, run, recordings)
    chance, began, rounds = random.Random(seed), time.monotonic(), 0
    while time.monotonic() < began + seconds:
        with Load(fleet, requests, wanted) as load:
            names = Soak(fleet, load, chance, run).round()
        fleet.nothing_is_left()
        rounds += 1
        print("round %d: %s; %d answers, %d broken off" % (rounds, names, load.answered, load.broken), flush=True)
    fleet.stop()
    print("%d rounds in %.0f s, seed %d" % (rounds, time.monotonic() - began, seed), flush=True)
    assert replay_all(recordings) == 0
    print("ok")


def storm(recordings):
    """Its exit code."""
    run = str(os.getpid())
    with tempfile.TemporaryDirectory() as folder:
        try:
            if network.lay_cables(run):
                return network.run_inside(run, __file__, *sys.argv[1:5], recordings, folder)
            print("no network namespaces can be made here (that needs root, ip and veth): no cable is cut, and "
                  "files of units may not grow while the disk is said to be full, which ends their recordings")
            soak(recordings, folder, None)
            return 0
        finally:
            network.remove_cables(run)


def main():
    if len(sys.argv) > 6:
        soak(*sys.argv[5:])
        return
    if len(sys.argv) > 5:
        recordings = os.path.abspath(sys.argv[5])
        os.makedirs(recordings)
        sys.exit(storm(recordings))
    recordings, failed = tempfile.mkdtemp(prefix="fathom-storm-"), True
    try:
        failed = storm(recordings)
    finally:
        if failed:
            print("its recordings: %s" % recordings)
        else:
            shutil.rmtree(recordings)
    sys.exit(failed)


main()
