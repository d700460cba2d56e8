#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_fleet_day.py FATHOM SCENARIO SECONDS: DeepSeek's published day in so many seconds, lived by a fleet under Slurm with
several slurmd on this machine. A node is a unit; units are paced, so that a few processors are as fast as many of them
need. The manager knows the curve from the day before. Units follow up and down, no request fails, and each answer is, to
the last token, that of a server that nobody disturbed.

It prints the day hour by hour, the limits by windows of 5 s, and nodes beside those of a static fleet, of one that knows
all and moves for nothing, and of `fathom fleet plan`, which said beforehand what the day would take. A day of 600 s must
keep what docs/fleet.md says; a shorter one, in which units start for hours, is only looked at. Left out (77) where Slurm
is not installed or this is not root."""
import math
import os
import re
import sys
import tempfile
import time

from fleets import Fleet, undisturbed
from slurm import Slurm
from tide import Day, Tide

scenario, day_s = sys.argv[2], float(sys.argv[3])
judged = day_s >= 600
NODES = 20
PEAK = 18.0  # requests a second
PROMPT, ANSWER = 64, 24  # tokens
# A prefill unit computes two prompts in 0.3 s at most. A decode unit has six places, each taken for 0.1 s a token but the
# first, and for 0.45 s while the prompt is computed. Within the limits they bear some 0.8 of that, since steps are not always
# full, nor all places taken.
RATES = {"prefill": 0.85 * 128 / 0.3, "decode": 0.8 * 6 * ANSWER / (0.1 * (ANSWER - 1) + 0.45)}
TOKENS = {"prefill": PROMPT, "decode": ANSWER}
TTFT_S, TPOT_S, MISSED = 2, 0.2, 0.05
WINDOW_S, BEFORE_S = 5, 30
START_S = 4  # from an order to a unit that serves
BODIES = [{"prompt": [5 + i] + [(31 * i + 7 * j) % 3000 + 300 for j in range(PROMPT - 1)], "max_tokens": ANSWER,
           "temperature": 0, "ignore_eos": True} for i in range(48)]
FILE = """name: %(folder)s
folder: %(folder)s/state
launcher: slurm
connect: %(address)s
gateways: ["%(admin)s"]
program: %(program)s
nodes: %(nodes)d
day_s: %(day)g
decide_s: 1
start_s: %(start)g
start_max_s: 120
drain_s: 10
reserve: 0.01
give_back: 0.02
limits: {ttft_s: %(ttft)g, tpot_s: %(tpot)g, missed: %(missed)g}
roles:
  prefill: {tokens_per_s: %(prefill)g, most: 9, arguments: ["--max-batch-tokens", "128", "--experiment", "step-ms-min=300"]}
  decode: {tokens_per_s: %(decode)g, most: 12, arguments: ["--max-batch-rows", "6", "--experiment", "step-ms-min=100"]}
arguments: ["--kv-memory", "16MiB", "--threads", "1", "--mtp", "off", "--no-prefix-cache", "--log-level", "warning"]
"""


def teach(folder, day, begin):
    """The curve as a manager would have written it down on the two days before."""
    os.makedirs(folder + "/state", exist_ok=True)
    with open(folder + "/state/history.csv", "w", encoding="utf-8") as file:
        for part in range(-2 * 288, 0):
            at = begin + (part + 0.5) * day_s / 288
            rate = PEAK * day((at - begin) / day_s)
            file.write("%.3f,%.3f,%.3f,0,0,0,0,0\n" % (at, rate * PROMPT, rate * ANSWER))


def units_for(role, rate):
    return max(1, math.ceil(rate * TOKENS[role] / RATES[role] - 1e-9))


def job_seconds(cluster, begin, end):
    """Seconds of nodes between two moments, as Slurm has written them down."""
    def when(text):
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))

    total, jobs = 0, 0
    for line in cluster.run("scontrol", "show", "job", "-o", check=True).splitlines():
        fields = dict(re.findall(r"(\w+)=(\S*)", line))
        if fields["StartTime"] == "Unknown" or fields["JobState"] == "PENDING":
            continue
        first = when(fields["StartTime"])
        last = end if fields["JobState"] == "RUNNING" else when(fields["EndTime"])
        total += max(0, min(last, end) - max(first, begin)) * int(fields["NumNodes"])
        jobs += 1
    return total, jobs


def planned(fleet):
    said = fleet.run("plan").stdout
    return float(re.search(r"([\d.]+) nodes on average", said).group(1))


def windows(answers, begin):
    """Of those with requests, how many missed a limit, and by which one."""
    by_window = {}
    for answer in answers:
        by_window.setdefault(int((answer.began - begin) // WINDOW_S), []).append(answer)
    late = slow = missed = 0
    for window in by_window.values():
        is_late = sum(answer.ttft() > TTFT_S for answer in window) > MISSED * len(window)
        is_slow = sum(answer.tpot() > TPOT_S for answer in window) > MISSED * len(window)
        late, slow, missed = late + is_late, slow + is_slow, missed + (is_late or is_slow)
    return len(by_window), late, slow, missed


def quantile(values, share):
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def live(fleet, cluster, day, wanted):
    begin = time.time() + BEFORE_S
    teach(fleet.folder, day, begin)
    forecast = planned(fleet)
    fleet.manage()
    fleet.wait("serves", lambda: fleet.count("decode") and fleet.count("prefill"))
    tide = Tide(fleet.url, BODIES, lambda now: PEAK * day((now - begin) / day_s), time.time(), begin + day_s)
    tide.start()
    print("%5s %11s %18s %18s" % ("hour", "requests/s", "prefill (wanted)", "decode (wanted)"), flush=True)
    for hour in range(24):
        at = begin + (hour + 0.5) * day_s / 24
        time.sleep(max(0, at - time.time()))
        status = fleet.status()
        print("%5.1f %11.1f %13d (%d) %13d (%d)" % (hour + 0.5, tide.rate(at), fleet.count("prefill"), status["wanted"]["prefill"],
              fleet.count("decode"), status["wanted"]["decode"]), flush=True)
    time.sleep(max(0, begin + day_s - time.time()))
    nodes, jobs = job_seconds(cluster, begin, begin + day_s)
    tide.join()
    return tide, begin, nodes / day_s, jobs, forecast


def judge(fleet, day, wanted, tide, begin, nodes, jobs, forecast):
    failed = [answer for answer in tide.answers if answer.error]
    assert not failed, (len(failed), failed[0].error, fleet.manager.said())
    for answer in tide.answers:
        assert answer.tokens == wanted[answer.number], (answer.number, answer.tokens, wanted[answer.number])
    answers = [answer for answer in tide.answers if answer.began >= begin]
    count, late, slow, missed = windows(answers, begin)
    parts = [PEAK * day((part + 0.5) / 2880) for part in range(2880)]
    static = sum(units_for(role, max(parts)) for role in RATES)
    knowing = sum(units_for(role, rate) for role in RATES for rate in parts) / len(parts)
    ttft, tpot = [answer.ttft() for answer in answers], [answer.tpot() for answer in answers]
    print("%d requests, none failed, all answers are the undisturbed server's; the test was late by %.2f s at most"
          % (len(answers), tide.late))
    print("TTFT p50 %.2f s, p99 %.2f s; TPOT p50 %.3f s, p99 %.3f s" % (quantile(ttft, 0.5), quantile(ttft, 0.99),
                                                                      quantile(tpot, 0.5), quantile(tpot, 0.99)))
    print("limits kept in %.1f %% of %d windows of %d s (%d late, %d slow)" % (100 - 100 * missed / count, count, WINDOW_S, late,
                                                                            slow))
    print("%d jobs; %.2f nodes on average: %.3f of the static fleet's %d, %.3f of the clairvoyant one's %.2f, %+.1f %% beside "
          "the forecast's %.2f" % (jobs, nodes, nodes / static, static, nodes / knowing, knowing, 100 * (nodes / forecast - 1),
                                   forecast), flush=True)
    assert len({unit["job"] for unit in fleet.status()["units"]}) >= 2 and jobs > static, jobs
    if judged:
        assert missed <= 0.01 * count, (missed, count)
        assert nodes <= 0.82 * static and nodes <= 1.08 * knowing, (nodes, static, knowing)
        assert abs(nodes / forecast - 1) <= 0.05, (nodes, forecast)


def main():
    if not Slurm.is_there():
        print("Slurm is not there, or this is not root")
        sys.exit(77)
    published = Day(scenario)
    first = published.lowest()

    def day(share):
        return published.at(first + share)

    wanted = undisturbed(BODIES, "--no-prefix-cache")
    cluster = Slurm(["n%d" % i for i in range(1, NODES + 1)], cpus=1, more="MinJobAge=86400")
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(folder, FILE, cluster.environment, nodes=NODES, day=day_s, start=START_S, ttft=TTFT_S, tpot=TPOT_S,
                      missed=MISSED, **RATES)
        try:
            judge(fleet, day, wanted, *live(fleet, cluster, day, wanted))
        finally:
            fleet.stop()
            cluster.stop()


main()
