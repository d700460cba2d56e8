#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""day_ablations.py FATHOM FOLDER [options]: the value of each cause on DeepSeek's day, in node-hours. The fleet of
the scenario and the same fleet with one change run windows of `fathom sim` at several loads of a unit. The largest
load within the limits determines how many whole units each hour of the day needs.

Windows: for answers one decode unit with four prefill units; for prompts three prefill units, with the day's prompts,
but answers a tenth as long, so that decode costs little and a window can be long enough for TTFT's tail.
Loads: those around the mean and the largest load that a unit has in an hour of the scenario's own curve of nodes, and
further ones until a limit lies between two of them; between two it is interpolated (TTFT by its logarithm). The load of
a decode unit is what it got done, a user's speed times the requests that it runs; that of a prefill unit what it was
offered.
Limits: a user's speed and TTFT p99 that the fleet as built has in its busiest hour ("worst"), and those that it has at
its mean load ("mean"). A change of one role leaves the other role's units as built.
Node-hours: the units that an hour's load needs, rounded up, times their nodes, over the day.

FOLDER gets what each run printed; what is there is not run again. The same seed gives the same table."""
import argparse
import json
import math
import os
import re
import subprocess
import sys

GPUS_PER_NODE = 8
PREFILL, DECODE = "fleet.units[0].", "fleet.units[1]."
AS_BUILT = "as built"
# The role of the windows that it changes, and the change.
CHANGES = {
    AS_BUILT: ("pd", {}),
    "prefill ranks in turns": ("p", {PREFILL + "rank_balance": "round-robin"}),
    "prefill ranks by least requests": ("p", {PREFILL + "rank_balance": "least-requests"}),
    "prefill ranks by least tokens": ("p", {PREFILL + "rank_balance": "least-tokens"}),
    "prefill ranks bound on arrival": ("p", {PREFILL + "bind_on_arrival": True}),
    "prefill steps not levelled": ("p", {PREFILL + "level_steps": False}),
    "prefill experts not balanced": ("p", {PREFILL + "balance_experts": False}),
    "prefill experts without replicas": ("p", {PREFILL + "redundant_experts": 0}),
    "prefill without overlap": ("p", {PREFILL + "overlap": "sequential"}),
    "no KV storage": ("p", {PREFILL + "kv_storage": False}),
    "decode ranks in turns": ("d", {DECODE + "rank_balance": "round-robin"}),
    "decode ranks by least requests": ("d", {DECODE + "rank_balance": "least-requests"}),
    "decode experts not balanced": ("d", {DECODE + "balance_experts": False}),
    "decode without overlap": ("d", {DECODE + "overlap": "sequential"}),
    "MTP always": ("d", {DECODE + "speculate": "always"}),
    "expert skew 0.3": ("pd", {"fleet.expert_skew": 0.3}),
    "expert skew 0": ("pd", {"fleet.expert_skew": 0}),
}
UNITS = {"p": (1, 3), "d": (1, 4)}  # decode and prefill units of a window
BEYOND = 1.06  # of the largest load: so that it lies between two windows' loads
FULL = 1.01  # who gets less than this times as much done with a larger load has no more to give
TRIES_MAX = 4  # further loads in search of a limit
SHORTER = 10  # answers where prompts are looked at


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fathom")
    parser.add_argument("folder")
    parser.add_argument("--scenario", default=os.path.join(os.path.dirname(__file__),
                                                           "../twin/scenarios/deepseek-day.yaml"))
    parser.add_argument("--changes", help="some of them, with commas between; all if not given")
    parser.add_argument("--prefill-window", default="8,24", help="seconds of warming up and measured")
    parser.add_argument("--decode-window", default="1.5,1.5", help="likewise")
    parser.add_argument("--live", action="store_true", help="live the whole day on the curves of nodes that follow the "
                        "load, as built and with MTP, at the limit \"worst\"")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args()


# ---- the scenario's day -------------------------------------------------------------------------

class Day:
    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            text = re.sub(r" #.*", "", file.read())

        def number(key):
            return float(re.search(key + r": (?:\{value: )?([-+.0-9e]+)", text).group(1))

        hours = [float(x) for x in re.search(r"\bhours: \[([^]]*)\]", text).group(1).split(",")]
        steps = [tuple(map(float, step)) for step in re.findall(
            r"\{hour: ([.0-9]+), decode_units: (\d+), prefill_units: (\d+)\}", text)]
        self.ratio, self.kv_tokens = number("prompt_answer_ratio"), number("kv_tokens")
        ranks = re.findall(r"\branks: (\d+)", text)
        self.nodes = {role: int(ranks[place]) / GPUS_PER_NODE for place, role in enumerate("pd")}
        tokens = {"p": number("input_tokens"), "d": number("output_tokens")}
        # Tokens a second of each hour, and the units that it had on average.
        self.rates = {role: [tokens[role] * hour / sum(hours) / 3600 for hour in hours] for role in "pd"}
        self.units = {"d": [mean_over(steps, 1, hour) for hour in range(24)],
                      "p": [mean_over(steps, 2, hour) for hour in range(24)]}

    def loads(self, role):
        """The least, the mean and the largest load of a unit in an hour."""
        of_hours = [rate / units for rate, units in zip(self.rates[role], self.units[role])]
        return [min(of_hours), sum(self.rates[role]) / sum(self.units[role]), max(of_hours)]

    def node_hours(self, units):
        return sum(self.nodes[role] * sum(units[role]) for role in "pd")

    def follow(self, loads):
        """Whole units for each hour, none with more than its role's load."""
        return {role: [math.ceil(rate / loads[role] - 1e-6) for rate in self.rates[role]] for role in "pd"}


def mean_over(steps, column, hour):
    ends = [step[0] for step in steps[1:]] + [24]
    return sum(step[column] * max(0, min(end, hour + 1) - max(step[0], hour)) for step, end in zip(steps, ends))


# ---- windows ------------------------------------------------------------------------------------

class Windows:
    def __init__(self, options, day):
        self.options, self.day = options, day
        self.times = {"p": options.prefill_window.split(","), "d": options.decode_window.split(",")}
        self.prompt_mean = None  # known from the first run

    def live(self, name, settings):
        """The output of `fathom sim --json`; `name` is the file's."""
        path = os.path.join(self.options.folder, re.sub(r"[^a-z0-9.]+", "_", name.lower()) + ".json")
        if not os.path.exists(path):
            command = [self.options.fathom, "sim", self.options.scenario, "--json"]
            for key, value in settings.items():
                command += ["--set", "%s=%s" % (key, value if isinstance(value, str) else json.dumps(value))]
            text = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE,
                                  stdin=subprocess.DEVNULL).stdout
            with open(path + ".part", "w", encoding="utf-8") as file:
                file.write(text)
            os.rename(path + ".part", path)
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def sweep(self, change, role, turn, loads):
        """A day with these loads of a unit in its hours, and its windows, one for each load."""
        decode_units, prefill_units = UNITS[role]
        hours = [loads[hour * len(loads) // 24] * (prefill_units if role == "p" else 1) for hour in range(24)]
        ratio = self.day.ratio * (SHORTER if role == "p" else 1)
        tokens = sum(hours) * 3600
        warm_s, measure_s = self.times[role]
        settings = {"warm_s": warm_s, "measure_s": measure_s, "load.day.hours": hours,
                    "load.day.nodes": [{"hour": 0, "decode_units": decode_units, "prefill_units": prefill_units}],
                    "load.day.input_tokens": tokens * (1 if role == "p" else ratio),
                    "load.day.output_tokens": tokens / (ratio if role == "p" else 1)}
        if role == "p":
            settings["load.day.moments.prompt_answer_ratio"] = ratio
            settings["load.day.moments.kv_tokens"] = (
                self.prompt_mean + (self.day.kv_tokens - self.prompt_mean) / SHORTER)
        settings.update(CHANGES[change][1])
        found = self.live("%s.%s.%d" % (change, role, turn), settings)
        self.prompt_mean = self.prompt_mean or found["load"]["prompt_mean"]
        first = [math.ceil(24 * place / len(loads)) for place in range(len(loads))]
        ranks = self.day.nodes["d"] * GPUS_PER_NODE
        return [point_of(role, found["windows"][hour], load, ranks) for hour, load in zip(first, loads)]


def point_of(role, window, load, ranks):
    """The results of a window; `load`: tokens a second of a unit."""
    point = {name: window[name] for name in (
        "ttft_p50_s", "ttft_p99_s", "prefill_busy", "pages_share", "input_of_offered", "requests_per_decode_gpu")}
    rows = window["requests_per_decode_gpu"] * ranks
    point["speed"] = speed_of(window, load * window["output_of_offered"] / rows)
    point["load"] = rows * point["speed"] if role == "d" else load
    point["log_ttft_p99"] = math.log(max(point["ttft_p99_s"], 1e-3))
    return point


def speed_of(window, counted):
    """A user's tokens a second. `counted`: those of the window over its requests, which is off by a step of a few dozen.
    The twin's own figure is a mean over tokens: where a share `right` of the steps brings two, it counts these twice,
    (1 + 3 right) / (1 + right) a step instead of 1 + right."""
    right = counted * window["decode_step_s"] / window["decode_busy"] - 1
    if right < 0.1:  # nothing is drafted
        return window["tokens_per_s_per_user"]
    return window["tokens_per_s_per_user"] * (1 + right) ** 2 / (1 + 3 * right)


def between(low, high, name, load):
    share = (load - low["load"]) / (high["load"] - low["load"])
    return low[name] + share * (high[name] - low[name])


class Curve:
    """A change's windows of one role, and how much of it a unit bears."""

    def __init__(self, windows, change, role):
        self.windows, self.change, self.role, self.turns = windows, change, role, 0
        self.bound, self.sign = ("log_ttft_p99", 1) if role == "p" else ("speed", -1)
        _, mean, most = windows.day.loads(role)
        self.points = []
        self.add([0.97 * mean, BEYOND * most])

    def add(self, loads):
        self.points += self.windows.sweep(self.change, self.role, self.turns, loads)
        self.points.sort(key=lambda point: point["load"])
        self.turns += 1

    def at(self, name, load):
        """On the curve; beyond its ends as at the nearest one."""
        for low, high in zip(self.points, self.points[1:]):
            if low["load"] <= load <= high["load"]:
                return between(low, high, name, load)
        return self.points[0 if load < self.points[0]["load"] else -1][name]

    def capacity(self, limit):
        """The load at which what is bound reaches the limit. Where it is not found: the last load tried, or the most
        that the unit got done, as where its KV pages are full."""
        while True:
            over = [place for place, point in enumerate(self.points) if self.sign * (point[self.bound] - limit) > 0]
            place = over[0] if over else len(self.points)
            low, high = self.points[max(0, min(place - 1, len(self.points) - 2)):][:2]
            rise = (high[self.bound] - low[self.bound]) / (high["load"] - low["load"])
            load = low["load"] + (limit - low[self.bound]) / rise
            if 0 < place < len(self.points):
                return load
            if self.turns > TRIES_MAX:
                return self.points[-1 if place else 0]["load"]
            least, most = self.points[0]["load"], self.points[-1]["load"]
            if place:
                self.add([1.03 * max(1.05 * most, min(load, 1.6 * most) if self.sign * rise > 0 else 1.6 * most)])
                if self.points[-1]["load"] < FULL * most:
                    return self.points[-1]["load"]
            else:
                self.add([0.97 * min(0.9 * least, max(load, least / 2) if self.sign * rise > 0 else least / 2)])


# ---- the table ----------------------------------------------------------------------------------

def row_of(change, curves, built, limits, day):
    """The units that the change needs at each limit; a role that it does not touch is as built."""
    row = {"change": change, "node_hours": {}, "loads": {}, "roles": {}}
    for role, curve in curves.items():
        _, mean, most = day.loads(role)
        names = [name for name in curve.points[0] if name != "load"]
        row["roles"][role] = {"points": curve.points, "at_mean": {name: curve.at(name, mean) for name in names},
                              "at_most": {name: curve.at(name, most) for name in names}}
    for name, limit in limits.items():
        loads = {role: curves.get(role, built[role]).capacity(limit[role]) for role in "pd"}
        row["loads"][name] = loads
        row["node_hours"][name] = day.node_hours(day.follow(loads))
    return row


HEADS = ("mean: tok/s", "busiest", "TTFT p50", "p99, s", "in, %", "KV, %", "req/GPU", "prefill", "decode, k/s",
         "node-h", "more, %", "node-h", "more, %")


def print_rows(rows):
    base = rows[0]["node_hours"]
    print("%-34s" % "change" + " ".join("%11s" % head for head in HEADS))
    for row in rows:
        values = [None] * 7
        if "d" in row["roles"]:
            mean, most = row["roles"]["d"]["at_mean"], row["roles"]["d"]["at_most"]
            values[:2] = mean["speed"], most["speed"]
            values[5:] = 100 * most["pages_share"], most["requests_per_decode_gpu"]
        if "p" in row["roles"]:
            most = row["roles"]["p"]["at_most"]
            values[2:5] = most["ttft_p50_s"], math.exp(most["log_ttft_p99"]), 100 * most["input_of_offered"]
        values += [row["loads"]["worst"][role] / 1e3 for role in "pd"]
        for name in ("worst", "mean"):
            values += [row["node_hours"][name], 100 * row["node_hours"][name] / base[name] - 100]
        words = ["" if value is None else "%.2f" % value for value in values]
        print("%-34s" % row["change"] + " ".join("%11s" % word for word in words))
    print("""
At the scenario's nodes: a user's speed at the mean load of a decode unit and in its busiest hour; TTFT and prompts'
tokens of those offered in a prefill unit's busiest hour; KV pages that are held and requests of a decode GPU in its
busiest hour. prefill, decode: thousand tokens a second that a unit bears at the limits "worst". node-h: of the day with
units that follow the load by the hour, at the limits "worst", then "mean"; more: than as built.""")


def curves_of_nodes(day, limits, built, rows, price):
    """Ways to have nodes for the day, with what they cost."""
    static = {role: [max(day.units[role])] * 24 for role in "pd"}
    ways = {"static, the peak's nodes": static, "the scenario's curve": day.units}
    for name in limits:
        for row in rows:
            if row["change"] in (AS_BUILT, "MTP always"):
                ways["follows the load, %s, %s" % (row["change"], name)] = day.follow(row["loads"][name])
    scenario = day.node_hours(day.units)
    return [{"way": way, "units": units, "node_hours": day.node_hours(units), "cost": day.node_hours(units) * price,
             "of_scenario": day.node_hours(units) / scenario} for way, units in ways.items()]


def print_ways(ways):
    print("\n%-44s %9s %11s %8s" % ("nodes", "node-h", "USD a day", "more %"))
    for way in ways:
        print("%-44s %9.0f %11.0f %+8.1f" % (way["way"], way["node_hours"], way["cost"],
                                             100 * way["of_scenario"] - 100))


def live_days(windows, ways):
    """The whole day on each curve that follows the load at the limits "worst": what users see, and the money."""
    days = []
    for way in ways:
        if not way["way"].endswith("worst"):
            continue
        settings = dict(CHANGES["MTP always"][1]) if "MTP" in way["way"] else {}
        settings["load.day.nodes"] = [
            {"hour": hour, "decode_units": way["units"]["d"][hour], "prefill_units": way["units"]["p"][hour]}
            for hour in range(24)]
        found = windows.live("day." + way["way"], settings)
        figures = {figure["name"]: figure["simulated"] for figure in found["figures"]}
        figures["ttft_p99_s_most"] = max(window["ttft_p99_s"] for window in found["windows"])
        days.append({"way": way["way"], "figures": figures})
    return days


def print_days(days):
    print("\n%-44s %7s %9s %9s %8s %8s %8s" % ("the day, lived", "nodes", "USD a day", "margin %", "speed", "slowest",
                                               "TTFT99"))
    for day in days:
        print("%-44s %7.2f %9.0f %9.1f %8.2f %8.2f %8.2f" % (day["way"], *[day["figures"][name] for name in (
            "nodes_average", "cost_usd_per_day", "margin_percent", "tokens_per_s_per_user",
            "tokens_per_s_per_user_slowest_hour", "ttft_p99_s_most")]))


def main():
    options = arguments()
    os.makedirs(options.folder, exist_ok=True)
    day = Day(options.scenario)
    windows = Windows(options, day)
    built = {role: Curve(windows, AS_BUILT, role) for role in "dp"}
    limits = {name: {role: curve.at(curve.bound, day.loads(role)[place]) for role, curve in built.items()}
              for name, place in (("worst", 2), ("mean", 1))}
    changes = [AS_BUILT] + [name for name in (options.changes.split(",") if options.changes else CHANGES)
                            if name != AS_BUILT]
    rows = []
    for change in changes:
        curves = built if change == AS_BUILT else {role: Curve(windows, change, role) for role in CHANGES[change][0]}
        rows.append(row_of(change, curves, built, limits, day))
        print("day_ablations: %s" % change, file=sys.stderr)
    figures = {figure["name"]: figure["simulated"]
               for figure in windows.live("%s.d.0" % AS_BUILT, {})["figures"]}
    price = figures["cost_usd_per_day"] / figures["nodes_average"] / 24
    ways = curves_of_nodes(day, limits, built, rows, price)
    days = live_days(windows, ways) if options.live else []
    if options.json:
        print(json.dumps({"rows": rows, "ways": ways, "days": days}))
        return
    print_rows(rows)
    print_ways(ways)
    if days:
        print_days(days)


if __name__ == "__main__":
    main()
