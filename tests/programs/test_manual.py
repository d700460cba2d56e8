#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_manual.py FATHOM: the manual pages, which the program writes from its own tables: every command and every option is
there, and groff has no complaint."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

fathom = sys.argv[1]


def run(*command, **keywords):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, **keywords)
    assert done.returncode == 0, (command, done)
    return done.stdout


def plain(page):
    """What a manual page says, without its markup."""
    return re.sub(r"\\f[BIR]|\\&", "", page).replace("\\-", "-").replace("\\(aq", "'").replace("\\(ga", "`")


def options_of(text, before):
    """Those that stand behind `before`, experiments among them, which have no dashes."""
    return set(re.findall(before + r"(--(?:\[no-\])?[\w-]+|[\w-]+(?==[\w|]))", text, re.MULTILINE))


def check_pages(folder):
    run(fathom, "help", "--man", folder)
    commands = re.findall(r"^  ([\w-]+)  +\S", run(fathom, "help"), re.MULTILINE)
    assert sorted(os.listdir(folder)) == sorted(["fathom.1"] + ["fathom-%s.1" % name for name in commands])
    overview = plain(open(folder + "/fathom.1").read())
    every_option = run(fathom, "inspect", "options").split("usage: fathom ")[1:]
    assert len(every_option) >= len(commands)
    for command in commands:
        assert "fathom-%s(1)" % command in overview, command
        page = plain(open(folder + "/fathom-%s.1" % command).read())
        mine = [text for text in every_option if text.split(maxsplit=1)[0].strip() == command]
        assert mine, command
        for text in mine:
            missing = options_of(text, "^  ") - options_of(page, r"^\.TP\n")
            assert not missing, "fathom-%s.1 lacks %s" % (command, missing)
    if not shutil.which("groff"):
        print("groff is not there: nobody has read the pages")
        return
    for name in os.listdir(folder):
        done = subprocess.run(["groff", "-man", "-Tutf8", "-Kutf8", "-ww", os.path.join(folder, name)],
                              capture_output=True, text=True)
        assert done.returncode == 0 and not done.stderr, (name, done.stderr)
        assert name[:-2] in re.sub(r"\x1b\[[\d;]*m|.\x08", "", done.stdout), name


def main():
    with tempfile.TemporaryDirectory() as folder:
        pages = os.path.join(folder, "pages")
        os.mkdir(pages)
        check_pages(pages)
        done = subprocess.run([fathom, "help", "--man", folder + "/nowhere"], capture_output=True, text=True)
        assert done.returncode == 1 and "cannot write" in done.stderr, done
    print("ok")


main()
