#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""roofline.py FATHOM FOLDER [--kernels "OPTIONS"] [--layer "OPTIONS"]: what `fathom bench kernels` and `fathom bench layer`
measure, drawn under the limits that the same run measured (SVG): FOLDER/kernels.svg has a panel for each kernel, FOLDER/layer.svg
one for each case of a layer. Across: operations for each byte of weights or KV rows that is read; up: operations a second, by
tens. Products of weights run on all threads over weights that no cache holds; those of
attention on one thread over what lies in its caches, so only the arithmetic bounds them."""
import argparse
import json
import math
import os
import subprocess
from xml.sax.saxutils import escape

STYLE = ("text{font:10px sans-serif;fill:#1f2933}.h{font-size:12px}.s{fill:#7b8794}.g{stroke:#e4e7eb}"
         ".roof{fill:none;stroke:#7b8794;stroke-width:1.5}.low{stroke-dasharray:4 3}.series{fill:none;stroke-width:1.2}"
         ".fp8{stroke:#b5532d;fill:#b5532d}.bf16{stroke:#2f6f9f;fill:#2f6f9f}.f32{stroke:#3f8f4f;fill:#3f8f4f}")
X = (0.25, 4096)  # operations a byte


class Panel:
    """Where a value is; `tall` and `wide` are the area within the axes, `low` and `high` operations a second at its edges."""

    def __init__(self, left, top, wide, tall, low, high):
        self.left, self.top, self.wide, self.tall, self.out = left, top, wide, tall, []
        self.low, self.high = low, high

    def x(self, value):
        return self.left + self.wide * math.log(value / X[0]) / math.log(X[1] / X[0])

    def y(self, value):
        return self.top + self.tall * (1 - math.log(value / self.low) / math.log(self.high / self.low))

    def text(self, x, y, text, kind="", anchor="middle"):
        self.out.append('<text class="%s" x="%.1f" y="%.1f" text-anchor="%s">%s</text>' % (kind, x, y, anchor, escape(text)))

    def line(self, kind, points):
        at = " ".join("%.1f,%.1f" % (self.x(x), self.y(y)) for x, y in points)
        self.out.append('<polyline class="%s" style="fill:none" points="%s"/>' % (kind, at))

    def point(self, kind, x, y):
        self.out.append('<circle class="point %s" cx="%.1f" cy="%.1f" r="2.5"/>' % (kind, self.x(x), self.y(y)))

    def frame(self, title):
        self.text(self.left, self.top - 6, title, "h", "start")
        for value in (1, 8, 64, 512, 4096):
            self.line("g", [(value, self.low), (value, self.high)])
            self.text(self.x(value), self.top + self.tall + 12, str(value), "s")
        value = self.low
        while value < self.high:
            self.line("g", [(X[0], value), (X[1], value)])
            self.text(self.left - 4, self.y(value) + 3, "%gG" % (value / 1e9), "s", "end")
            value *= 10

    def roof(self, read, peaks):
        """Memory's slope up to the highest peak, or none if nothing is read from memory; lower peaks are dashed."""
        ridge = max(peaks) / read if read else X[0]
        first = max(X[0], self.low / read) if read else X[0]
        self.line("roof", ([(first, read * first)] if read else []) + [(ridge, max(peaks)), (X[1], max(peaks))])
        for peak in set(peaks) - {max(peaks)}:
            self.line("roof low", [(peak / read if read else X[0], peak), (X[1], peak)])


def write(path, titles, wide, tall, panels):
    head = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d">' % (wide, tall, wide, tall)
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join([head, "<style>%s</style>" % STYLE, '<rect width="%d" height="%d" fill="#fff"/>' % (wide, tall),
                              *('<text class="h" x="10" y="%d">%s</text>' % (16 + 15 * at, escape(title))
                                for at, title in enumerate(titles))] +
                             [line for panel in panels for line in panel.out] + ["</svg>\n"]))
    print(path)


def edges(rates, limits):
    """The range of operations per second: the power of ten below the least, and space above the limits."""
    return 10 ** math.floor(math.log10(min(rates))), 2 * max(limits["fma"], limits["bf16"])


def numbers(limits):
    return "%.0f GFLOP/s of floats%s, %.0f GB/s" % (
        limits["fma"] / 1e9, ", %.0f of BF16 pairs" % (limits["bf16"] / 1e9) if limits["bf16"] else "", limits["read"] / 1e9)


def limits_of(report):
    """The limits of `bench kernels`, by the number of threads, in operations and bytes."""
    return [{"fma": each["fma_gflops"] * 1e9, "bf16": each["bf16_gflops"] * 1e9, "read": each["read_gbytes"] * 1e9}
            for each in report["limits"]]


def draw_kernel(panel, name, lines, limits, warm):
    read = 0 if warm else limits["read"]
    used = [limits["bf16"] if line["type"] != "f32" and limits["bf16"] else limits["fma"] for line in lines]
    panel.frame("%s  %s" % (name, " ".join(sorted({"%dx%d" % (line["outputs"], line["channels"]) for line in lines}))))
    panel.roof(read, sorted(set(used)))
    for kind in dict.fromkeys(line["type"] for line in lines):
        points = [(line["gflops"] / line["gbytes"], line["gflops"] * 1e9, peak, line["m"])
                  for line, peak in zip(lines, used) if line["type"] == kind]
        panel.line("series " + kind, [point[:2] for point in points])
        for x, y, peak, rows in points:
            share = y / min(peak, read * x if read else peak)
            panel.point(kind, x, y)
            if len(points) == 1 or (kind == "fp8" and rows in (1, 8, points[-1][3])):
                panel.text(panel.x(x), panel.y(y) + 13, "%.0f%%" % (100 * share), "s")


def draw_kernels(report, path):
    one, every = limits_of(report)
    by_name = {}
    for line in report["kernels"]:
        if line["gflops"] > 0:  # vectors' kernels have no arithmetic to speak of
            by_name.setdefault(line["kernel"], []).append(line)
    panels = []
    low, high = edges([line["gflops"] * 1e9 for lines in by_name.values() for line in lines], every)
    for at, (name, lines) in enumerate(by_name.items()):
        panel = Panel(40 + at % 4 * 240, 64 + at // 4 * 190, 190, 140, low, high)
        warm = lines[0]["warm"]
        draw_kernel(panel, name, lines, one if warm else every, warm)
        panels.append(panel)
    titles = ["%s: %d threads reach %s; one thread %s" % (report["level"], report["threads"], numbers(every), numbers(one)),
              "FP8 red, BF16 blue, floats green; below points: the share of their roof"]
    write(path, titles, 970, 60 + (len(panels) + 3) // 4 * 190, panels)


def drawn_parts(case):
    """(part, operations a second) of those with arithmetic to speak of."""
    return [(part, part["flop"] / part["us"] * 1e6) for part in case["parts"] if part["flop"] > 0.001 * case["layer"]["flop"]]


def draw_case(panel, case, limits):
    peak = limits["bf16"] or limits["fma"]
    whole = "%s of %d tokens: %.0f%% of the floor's speed" % (case["phase"], case["tokens"], 100 * case["layer"]["of_floor"])
    panel.frame(whole)
    panel.roof(limits["read"], [peak] + ([limits["fma"]] if limits["bf16"] else []))
    parts = sorted(drawn_parts(case), key=lambda each: -each[1])
    for at, (part, y) in enumerate(parts):  # letters stand left and right in turn; what they mean, in the corner below
        x, letter, side = part["flop"] / part["bytes"], chr(ord("a") + at), 1 if at % 2 else -1
        panel.point("fp8", x, y)
        panel.text(panel.x(x) + 7 * side, panel.y(y) + 3, letter)
        panel.text(panel.left + panel.wide - 110, panel.top + panel.tall - 4 - 12 * (len(parts) - 1 - at),
                   "%s  %s %.0f%%" % (letter, part["name"], 100 * part["of_floor"]), "", "start")


def draw_layer(report, path):
    given = report["limits"]
    limits = {"fma": given["fma_flops"], "bf16": given["bf16_flops"], "read": given["read_bytes"]}
    low, high = edges([rate for case in report["cases"] for _, rate in drawn_parts(case)], limits)
    panels = [Panel(40 + at * 480, 50, 430, 300, low, high) for at in range(len(report["cases"]))]
    for panel, case in zip(panels, report["cases"]):
        draw_case(panel, case, limits)
    titles = ["one layer (%s), %s: %d threads reach %s; each part with the share of its floor" % (
        report["shape"], report["kernels"], report["threads"], numbers(limits))]
    write(path, titles, 480 * len(panels) + 10, 380, panels)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fathom")
    parser.add_argument("folder")
    parser.add_argument("--kernels", default="--rows 1,2,4,8,16,64,512")
    parser.add_argument("--layer", default="--tokens 16 --prompt-tokens 256")
    values = parser.parse_args()
    os.makedirs(values.folder, exist_ok=True)
    for subject, draw in (("kernels", draw_kernels), ("layer", draw_layer)):
        done = subprocess.run([values.fathom, "bench", subject, "--json", *getattr(values, subject).split()], check=True,
                              stdout=subprocess.PIPE, text=True)
        draw(json.loads(done.stdout), os.path.join(values.folder, subject + ".svg"))


main()
