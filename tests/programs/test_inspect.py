#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_inspect.py FATHOM: `fathom inspect options` has the options of every command and of every subject."""
import re

from command import run


def names(text):
    return re.findall(r"^  ([\w-]+)  +\S", text, re.MULTILINE)


every_option = run("inspect", "options")
commands = names(run("help"))
assert "inspect" in commands and "bench" in commands, commands
for command in commands:
    subjects = names(run(command, "--help")) if command in ("inspect", "bench") else [""]
    for subject in subjects:
        assert "usage: fathom %s" % " ".join([command, subject]).strip() in every_option, (command, subject)
