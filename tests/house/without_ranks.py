#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""without_ranks.py ROOT BUILD FOLDER COMPILER...: builds of what BUILD is without ranks, and then without transfers, too, as where
there is no UCX. Each must configure; what it compiles of the program and of the tests must compile; the program must
link, start and refuse --ranks 2; and no object may ask for a symbol that is only in files which that build leaves out.

Nearly all objects are BUILD's. FOLDER has links to the sources and a build folder that lies to them as BUILD lies to
ROOT: commands are the same to the letter. Given BUILD's objects and Ninja's notes of them (made by which command, read
which headers), Ninja makes what differs and nothing else. The hundreds of test programs are not linked: the symbols of
their objects tell whether they could be."""
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

root, build, folder = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
there = folder / build.relative_to(root)


def run(*command, code=0, **more):
    done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode != code:
        sys.exit("%s\nexit code %d, expected %d\n%s" % (" ".join(map(str, command))[:2000], done.returncode, code,
                                                        done.stdout[-8000:]))
    return done.stdout


def link_sources():
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for entry in root.iterdir():
        if not entry.name.startswith((".", "build")):
            (folder / entry.name).symlink_to(entry)


def configure(*more):
    """With BUILD's compiler and options, but for those given."""
    named = ("debug", "optimization", "warning_level", "werror", "c_std", "c_args", "c_link_args")
    known = json.loads((build / "meson-info/intro-buildoptions.json").read_text())
    ours = re.findall(r"^option\('(\w+)'", (root / "meson_options.txt").read_text(), re.MULTILINE)  # BUILD may know older ones
    options = ["-D%s=%s" % (option["name"], option["value"]) for option in known
               if option["section"] == "base" or option["name"] in (*named, *ours)]
    again = ["--reconfigure"] if there.exists() else []
    run("meson", "setup", *again, there, folder, *options, *more, env=dict(os.environ, CC=shlex.join(sys.argv[4:])))


def lend_objects():
    """BUILD's objects and libraries, and what Ninja noted of them."""
    notes = [line for line in (build / ".ninja_log").read_text().splitlines(keepends=True)
             if "\tbuild.ninja\t" not in line]
    made = {line.split("\t")[3] for line in notes[1:]}
    for name in [".ninja_deps", *(name for name in made if name.endswith((".o", ".a")) and (build / name).is_file())]:
        (there / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(build / name, there / name)
    (there / ".ninja_log").write_text("".join(notes))


def symbols(place, which, objects):
    """{name: an object} for each symbol that the objects have (--defined-only) or ask for (--undefined-only)."""
    lines = run("nm", "-A", "-P", "-g", which, *objects, cwd=place).splitlines()
    return {name: file for file, name in (re.match(r"(.+?): (\S+) ", line).groups() for line in lines)}


def check_build(left_out):
    """`left_out`: one of the symbols that the build lacks."""
    planned = run("ninja", "-C", there, "-n")
    print(run("ninja", "-C", there, "-j2", "fathom", *re.findall(r"Compiling C object (\S+)", planned)))
    targets = run("ninja", "-C", there, "-t", "targets", "all")
    objects = [name for name in re.findall(r"^(.+\.o): c_COMPILER$", targets, re.MULTILINE) if (there / name).exists()]
    of_build = [path.relative_to(build) for path in (build / "src").rglob("*.c.o")]
    lacks = set(symbols(build, "--defined-only", of_build)) - set(symbols(there, "--defined-only", objects))
    assert left_out in lacks, lacks
    asked = {name: file for name, file in symbols(there, "--undefined-only", objects).items() if name in lacks}
    assert not asked, "this build lacks symbols that its objects ask for: %s" % asked
    assert run(there / "fathom", "version").startswith("fathom ")
    refused = run(there / "fathom", "logits", "--tokens", "5", "--ranks", "2", code=1)
    assert "this build has no ranks" in refused, refused


def main():
    link_sources()
    configure("-Dranks=disabled")
    lend_objects()
    check_build("shared_window_open")
    configure("-Dranks=disabled", "-Dtransfer=disabled")
    check_build("kv_transport_link_accept")


main()
