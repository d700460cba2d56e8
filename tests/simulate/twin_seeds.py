#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lives seeds of the twin's fleets under faults, a few at a time on each processor, and adds up what each
kind of fault cost. Fails when a seed breaks, and says how to see it again.

    twin_seeds.py TEST FIRST COUNT [--whole] [--jobs N] [--minutes N]
"""
import argparse
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

CHUNK = 10  # seeds a process


def live(test, first, count, whole):
    environment = dict(os.environ, FATHOM_SEEDS=f"{first} {count}", CMOCKA_MESSAGE_OUTPUT="STDOUT",
                       FATHOM_FLEET="whole" if whole else "")
    done = subprocess.run([test], env=environment, capture_output=True, text=True)
    told = done.stdout + done.stderr
    return done.returncode, told


def add(sums, told):
    for line in re.findall(r"# (sum|kind \S+) (.*)", told):
        words = line[1].split()
        into = sums.setdefault(line[0], {})
        for name, number in zip(words[::2], words[1::2]):
            into[name] = into.get(name, 0) + int(number)


def share(part, whole):
    return f"{100 * part / whole:.1f} %" if whole else "-"


def show(sums):
    row = "{:<12} {:>7} {:>9} {:>9} {:>16} {:>16} {:>7} {:>15}"
    print(row.format("kind", "alone", "among all", "requests", "TTFT missed", "TPOT missed", "failed", "recomputed"))
    for name, k in sums.items():
        if not name.startswith("kind "):
            continue
        missed = [f"{share(k[m], k['requests'])} ({share(k[m + '_without'], k['requests'])})"
                  for m in ("ttft", "tpot")]
        again = f"{k['recomputed'] / k['times']:.0f}" if k["times"] else "-"
        print(row.format(name[5:], k["times"], k["among_others"], k["requests"], *missed, k["failed"], again))
    print("alone, among all: times that it struck in runs with no other fault, and with all kinds; requests: in "
          "the fleet\nfrom its beginning to 10 s behind its end, in runs with no other fault; in brackets: the same "
          "requests in\nthe same run without it; recomputed: tokens more than without it, each time")
    print("{runs} runs, {asked} requests: {answered} answered, {refused} refused or cut; {records} records"
          .format(**sums["sum"]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("test")
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--jobs", type=int, help="at once; else as many as there are processors, or one whole fleet")
    parser.add_argument("--minutes", type=float, default=0, help="begins nothing more after that long")
    given = parser.parse_args()
    began, sums, failed = time.monotonic(), {}, 0
    each = 1 if given.whole else CHUNK
    starts = range(given.first, given.first + given.count, each)
    lived = 0

    def one(at):
        if given.minutes and time.monotonic() - began > 60 * given.minutes:
            return None
        return live(given.test, at, min(each, given.first + given.count - at), given.whole)

    with ThreadPoolExecutor(given.jobs or (1 if given.whole else os.cpu_count())) as pool:
        for at, life in zip(starts, pool.map(one, starts)):
            if not life:
                continue
            status, told = life
            lived += min(each, given.first + given.count - at)
            add(sums, told)
            if status:
                failed += 1
                print("\n".join(line for line in told.splitlines() if re.search(r"seed|ERROR|check", line)),
                      file=sys.stderr, flush=True)
    if "sum" in sums:
        show(sums)
    end = f"{failed} broke" if failed else "all hold"
    print(f"{lived} of {given.count} seeds in {time.monotonic() - began:.0f} s; {end}")
    sys.exit(failed > 0)


main()
