# SPDX-License-Identifier: Apache-2.0
"""Runs fathom commands that end, for the tests that look at what they print; sys.argv[1] is the program. A test that
goes on behind what it did not expect (expect) ends with `finish`."""
import re
import subprocess
import sys

fathom = sys.argv[1]
failures = []


def expect(condition, text, *found):
    if not condition:
        failures.append(text + (": found %r" % (found,) if found else ""))


def finish():
    print("\n".join(failures))
    sys.exit(1 if failures else 0)


def attempt(*arguments, **more):
    """The command ended, however it did."""
    return subprocess.run([fathom, *map(str, arguments)], text=True, timeout=600, check=False,
                          **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more})


def run(*arguments, code=0, **more):
    """What the command prints: all to stdout if it is to succeed, else all to stderr."""
    done = attempt(*arguments, **more)
    assert done.returncode == code, (arguments, done)
    assert not (done.stdout if code else done.stderr), (arguments, done)
    return done.stderr if code else done.stdout


def answer_of(*arguments, **more):
    """The answer of `generate`, from stdout; its thoughts are on stderr."""
    done = attempt("generate", *arguments, **more)
    assert done.returncode == 0, (arguments, done)
    return done.stdout


def has_gpu():
    return attempt("inspect", "gpu").returncode == 0


def refuse(code, words, *arguments):
    """The command ends with this code and with one line, in which these words (a regular expression) are found."""
    found = run(*arguments, code=code)
    assert found.count("\n") == 1 and re.search(words, found), (arguments, words, found)
