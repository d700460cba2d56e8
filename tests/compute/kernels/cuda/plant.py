#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""plant.py list TABLE                          the bugs' names, one a line
plant.py header TABLE OUT                    PLANTED_<kernel>(ROW): ROW(name, checks) for each bug
plant.py object TABLE NAME SOURCES OUT CC... plants the bug in a copy of its kernel and compiles it

A bug of the table: `@ name kernel check,check`, then lines `- text` that the kernel's source has exactly once
and lines `+ text` for what takes their place. The copy's public functions are called planted_<name>_<function>."""
import os
import re
import shutil
import subprocess
import sys


def read_table(path):
    bugs = {}
    before = ""
    for line in open(path, encoding="utf-8"):
        line = line.rstrip("\n")
        if line.startswith("@ "):
            name, kernel, checks = line[2:].split()
            bugs[name] = (kernel, checks, [])
        elif line.startswith("- ") and before.startswith("- "):
            bugs[name][2][-1][0] += "\n" + line[2:]
        elif line.startswith("- "):
            bugs[name][2].append([line[2:], ""])
        elif line.startswith("+ ") or line == "+":
            bugs[name][2][-1][1] += line[2:] + "\n"
        before = line
    return bugs


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def with_shared(sources, text):
    """A bug may also be in what kernels share."""
    for name in ("group_tiles.cuh", "prompt_places.cuh", "row_sum.cuh"):
        text = text.replace('#include "compute/kernels/cuda/%s"\n' % name, read(os.path.join(sources, name)))
    return text


def planted(text, name, edits):
    for old, new in edits:
        if text.count(old) != 1:
            sys.exit("plant.py: %s: '%s' is there %d times" % (name, old, text.count(old)))
        text = text.replace(old, new.rstrip("\n"))
    public = re.findall(r"^(?:void|bool|size_t) (\w+)\(", text, re.MULTILINE)
    return "".join("#define %s planted_%s_%s\n" % (each, name, each) for each in public) + text


def main():
    what, table = sys.argv[1:3]
    bugs = read_table(table)
    if what == "list":
        print("\n".join(bugs))
    elif what == "header":
        with open(sys.argv[3], "w", encoding="utf-8") as out:
            for kernel in sorted({bug[0] for bug in bugs.values()}):
                rows = ['ROW(%s, "%s")' % (name, bug[1]) for name, bug in bugs.items() if bug[0] == kernel]
                out.write("#define PLANTED_%s(ROW) %s\n" % (kernel, " ".join(rows)))
    else:
        name, sources, out, compiler = sys.argv[3], sys.argv[4], sys.argv[5], sys.argv[6:]
        kernel, _, edits = bugs[name]
        text = planted(with_shared(sources, read(os.path.join(sources, kernel + ".cu"))), name, edits)
        copy = out[:-2] + ".cu"
        with open(copy, "w", encoding="utf-8") as file:
            file.write(text)
        cache = [shutil.which("ccache")] if shutil.which("ccache") else []
        sys.exit(subprocess.run(cache + compiler + ["-c", copy, "-o", out]).returncode)


main()
