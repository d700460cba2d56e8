# SPDX-License-Identifier: Apache-2.0
"""Runs fathom commands that end, for the tests that look at what they print; sys.argv[1] is the program."""
import re
import subprocess
import sys

fathom = sys.argv[1]


def run(*arguments, code=0, **more):
    """What the command prints: all to stdout if it is to succeed, else all to stderr."""
    done = subprocess.run([fathom, *map(str, arguments)], text=True, timeout=600, check=False,
                          **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more})
    assert done.returncode == code, (arguments, done)
    assert not (done.stdout if code else done.stderr), (arguments, done)
    return done.stderr if code else done.stdout


def refuse(code, words, *arguments):
    """The command ends with this code and with one line, in which these words (a regular expression) are found."""
    found = run(*arguments, code=code)
    assert found.count("\n") == 1 and re.search(words, found), (arguments, words, found)
