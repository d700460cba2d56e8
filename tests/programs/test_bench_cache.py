#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_bench_cache.py FATHOM: `fathom bench cache` measures a KV storage, compared with fio where there is one, and leaves nothing
behind. It writes to a folder that it has made, and through no link."""
import json
import os
import tempfile

from command import attempt, expect, finish


def run(*arguments, **more):
    done = attempt(*arguments, **more)
    return done.returncode, done.stdout, done.stderr


def check_bench(directory, io):
    code, out, err = run("bench", "cache", "--dir", directory, "--size", "2MiB", "--width", "64", "--layers", "3",
                         "--rounds", "1", "--io", io, "--index-blocks", "3000", "--json")
    if code == 1 and "not provide io_uring" in err:
        return
    expect(code == 0 and not err, "bench cache %s" % io, code, out, err)
    report = json.loads(out)
    expect(report["write_mb_s"] > 0 and report["read_mb_s"] > 0 and report["io"] == io, "its rates", report)
    expect(report["index_blocks"] == 3000 and report["index_s_per_million"] > 0, "its index", report)
    expect(os.listdir(directory) == [], "what it leaves", os.listdir(directory))


FIO = """#!/bin/sh
[ "$1" = --version ] && echo fio-3.33 && exit
for option; do case $option in --filename=*) echo >"${option#*=}";; esac; done
%s
"""


def bench_beside(fio, directory, *options):
    """bench cache where this shell line is fio; None: where there is none."""
    with tempfile.TemporaryDirectory() as programs:
        if fio:
            path = os.path.join(programs, "fio")
            with open(path, "w", encoding="ascii") as file:
                file.write(FIO % fio)
            os.chmod(path, 0o755)
        return run("bench", "cache", "--dir", directory, "--size", "2MiB", "--width", "64", "--layers", "3", "--rounds",
                   "1", "--index-blocks", "0", *options, env=dict(os.environ, PATH=programs))


def check_fio(directory):
    """What was not measured is no number."""
    code, out, err = bench_beside(None, directory)
    expect(code == 0 and "fio is not installed" in out and "fio MB/s" not in out and
           "of fio" not in out, "bench cache without fio", code, out, err)
    code, out, err = bench_beside(None, directory, "--json")
    report = json.loads(out) if code == 0 else {}
    expect(report and report["fio_write_mb_s"] is None and report["fio_read_mb_s"] is None and
           report["index_s_per_million"] is None and report["write_mb_s"] > 0, "its JSON", code, out, err)
    fields = ["0"] * 60  # KiB/s: 2,000 read, 1,000 written
    fields[6], fields[47] = "2000", "1000"
    code, out, err = bench_beside("echo '%s'" % ";".join(fields), directory, "--json")
    report = json.loads(out) if code == 0 else {}
    expect(report and report["fio_write_mb_s"] == 1.0 and report["fio_read_mb_s"] == 2.0, "bench cache compared with fio",
           code, out, err)
    code, out, err = bench_beside("echo '%s'" % ";".join(fields), directory)
    expect(code == 0 and "fio MB/s" in out and out.count("% of fio") == 1, "its table", code, out, err)
    code, out, err = bench_beside("echo nothing", directory)
    expect(code == 1 and "fio names no rate" in err and not out, "fio that names no rate", code, out, err)
    expect(os.listdir(directory) == [], "what they leave", os.listdir(directory))
    victim = os.path.join(directory, "victim")
    with open(victim, "w", encoding="ascii") as file:
        file.write("precious")
    os.symlink(victim, os.path.join(directory, "fathom-bench-cache.fio"))
    code, out, err = bench_beside("echo '%s'" % ";".join(fields), directory)
    with open(victim, encoding="ascii") as file:
        expect(code == 0 and file.read() == "precious", "a link where a file of fio's could be", code, out, err)


with tempfile.TemporaryDirectory() as place:
    check_bench(place, "threads")
    check_bench(place, "io_uring")
    check_fio(place)
finish()
