#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_storm_cache.py FATHOM FAIL_READS [limits|RANKS]: a unit for prompts and one for answers that share a KV storage, under load,
with so few pages that blocks come from the disk all the time. Meanwhile bits are flipped in 1,000 random places of
it, segments are cut short, every second read fails (FAIL_READS is a library for LD_PRELOAD that does so), and the
disk is full (or, as no root or with `limits`: no file may grow; not with RANKS: units of so many). Every answer is the very one of an undisturbed server; afterwards blocks are written and loaded as
before, nothing was started again; when all is quiet nothing is held by any rank."""
import glob
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time

from storm import Fleet, Load, ServedFleet, answer_alone, ask, completion, make_prompt, make_requests
from server import environment, open_url

FLIPS = 1000
BALLAST = "ballast"
chance = random.Random(23)
# More blocks than there are pages, but no prompt that takes most of them.
REQUESTS = make_requests(9)[:-2] + [completion(make_prompt(chance, chance.randrange(300, 700)), 8) for _ in range(16)]
chance.shuffle(REQUESTS)


def storage_options(folder, memory):
    return ["--kv-memory", memory, "--kv-dir", folder, "--kv-disk", "64MiB", "--kv-load", "always"]


def failing_reads(sign):
    return {"LD_PRELOAD": os.path.abspath(sys.argv[2]), "FAIL_READS": sign,
            "ASAN_OPTIONS": "verify_asan_link_order=0:" + environment.get("ASAN_OPTIONS", "")}


class Storage:
    """What is asked of a fleet that has one, and of its files."""

    def place_storage(self, folder):
        self.folder, self.sign = folder + "/storage", folder + "/fail"

    def metric(self, name):
        with open_url(self.gateway.at("/metrics")) as answer:
            return float(re.search(r"^%s (\S+)$" % re.escape(name), answer.read().decode(), re.M).group(1))

    def loaded(self):
        return self.metric('fathom_kv_loaded_tokens_total{tier="disk"}')

    def is_writable(self):
        return self.metric("fathom_kv_storage_writable")

    def segments(self):
        return glob.glob(self.folder + "/*/*.kv")

    def wait_for_loads(self, load, tokens=1000):
        goal = self.loaded() + tokens
        while self.loaded() < goal:
            load.more(5)


class StoringFleet(Storage, Fleet):
    def __init__(self, folder, *more, **keywords):
        self.place_storage(folder)
        super().__init__(*more, *storage_options(self.folder, "6MiB"), "--kv-send-rate", "8MiB", **keywords)

    def unit_place(self, name):
        wrap, options = super().unit_place(name)
        return ["env", *("%s=%s" % pair for pair in failing_reads(self.sign).items()), *wrap], options


class StoringRanks(Storage, ServedFleet):
    def __init__(self, folder, ranks):
        self.place_storage(folder)
        super().__init__(ranks, *storage_options(self.folder, "14MiB"), more_environment=failing_reads(self.sign))


def flip_bits(fleet):
    for _ in range(FLIPS):
        with open(chance.choice(fleet.segments()), "r+b") as file:
            at = chance.randrange(file.seek(0, os.SEEK_END))
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 1 << chance.randrange(8)]))


def cut_short(fleet):
    for path in fleet.segments():
        os.truncate(path, os.path.getsize(path) // 2)


def fail_reads(fleet):
    open(fleet.sign, "w").close()


def mend_reads(fleet):
    os.unlink(fleet.sign)


def harm_storage(fleet, wanted, harm, heal, name):
    with Load(fleet, REQUESTS, wanted) as load:
        fleet.wait_for_loads(load)
        harm(fleet)
        load.more()
        if heal:
            heal(fleet)
        fleet.wait_for_loads(load)
    fleet.nothing_is_left()
    print("%s: right, and loading again" % name, flush=True)


def limit_files(fleet, most):
    for unit in fleet.units.values():
        if unit.process.poll() is None:
            resource.prlimit(unit.process.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))


def fill_disk(fleet):
    """A file takes all that is left; or no file may grow any more, where the storage is on no file system of its
    own."""
    if os.path.ismount(fleet.folder):
        with open(os.path.join(fleet.folder, BALLAST), "r+b", buffering=0) as file:  # nothing is left for the end
            try:
                while True:
                    file.write(bytes(1 << 16))
            except OSError:
                pass
        return
    limit_files(fleet, 4096)


def empty_disk(fleet):
    if os.path.ismount(fleet.folder):
        os.truncate(os.path.join(fleet.folder, BALLAST), 0)
    else:
        limit_files(fleet, resource.RLIM_INFINITY)


def ask_afresh(fleet):
    """A prompt that is nowhere, so that there is something to write."""
    ask(fleet.url, completion(make_prompt(chance, 200), 4))


def lay_ballast(fleet):
    """While there is room for it."""
    open(os.path.join(fleet.folder, BALLAST), "wb").close()


def disk_is_full(fleet, wanted):
    lay_ballast(fleet)
    with Load(fleet, REQUESTS, wanted) as load:
        load.more(10)
        fill_disk(fleet)
        while fleet.is_writable():
            ask_afresh(fleet)
        load.more()
        empty_disk(fleet)
        began = time.monotonic()
        while not fleet.is_writable():
            ask_afresh(fleet)
            time.sleep(0.1)
        fleet.wait_for_loads(load)
    fleet.nothing_is_left()
    lines = [line for unit in fleet.units.values() for line in unit.said().splitlines() if "for now" in line]
    assert lines and len(lines) <= 2 * len(fleet.units), lines  # one a unit; another one where it tried again just then
    print("disk full: written again %.1f s after there was room; %s" % (time.monotonic() - began, lines[0]), flush=True)


def storm(folder, ranks=None):
    wanted = answer_alone(REQUESTS)
    fleet = StoringRanks(folder, ranks) if ranks else StoringFleet(folder)
    harm_storage(fleet, wanted, flip_bits, None, "%d bits flipped" % FLIPS)
    harm_storage(fleet, wanted, cut_short, None, "segments cut short")
    harm_storage(fleet, wanted, fail_reads, mend_reads, "reads that fail")
    if not ranks:
        disk_is_full(fleet, wanted)
    fleet.stop()


def main():
    if len(sys.argv) > 3 and os.path.isdir(sys.argv[3]):
        storm(sys.argv[3])
        return
    with tempfile.TemporaryDirectory() as folder:
        if len(sys.argv) > 3 and sys.argv[3].isdigit():
            storm(folder, int(sys.argv[3]))
            return
        # A file system of its own, seen by this test alone; only root can make one.
        os.mkdir(folder + "/storage")
        mount = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=96m tmpfs "$0" && exec "$@"',
                 folder + "/storage"]
        if "limits" in sys.argv or os.geteuid() or subprocess.run(
                [*mount, "true"], stderr=subprocess.DEVNULL, check=False).returncode:
            print("the full disk is played by limits of files: no file system of its own is mounted")
            storm(folder)
        else:
            sys.exit(subprocess.run([*mount, sys.executable, __file__, *sys.argv[1:3], folder], check=False).returncode)


if __name__ == "__main__":
    main()
