#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_goldens.py FATHOM SOURCE TEST_GOLDEN: FATHOM_GOLDENS has one meaning, a folder like tests/golden. Both who ask a
program and who link the engine read the cases of such a folder; with any other, also with the one above it, they fail
and name the variable, so that nobody takes the tree's own cases for his."""
import os
import subprocess
import sys
import tempfile

fathom, source, test_golden = sys.argv[1:]
CASE = "v3-fp8-odd-noq-g1-noyarn"
COMMANDS = [[sys.executable, source + "/bench/goldens.py", fathom], [test_golden]]


def read(command, folder):
    environment = dict(os.environ, FATHOM_GOLDENS=folder)
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=environment, check=False)


def main():
    with tempfile.TemporaryDirectory() as above:
        os.mkdir(above + "/model")
        os.symlink(source + "/tests/golden/" + CASE, above + "/model/one-more")
        for command in COMMANDS:
            for wrong in (above, above + "/nowhere", ""):
                done = read(command, wrong)
                assert done.returncode == 1 and "FATHOM_GOLDENS" in done.stdout, (command, wrong, done)
                assert CASE not in done.stdout, done
            done = read(command, above + "/model")
            assert done.returncode == 0 and "one-more" in done.stdout and CASE in done.stdout, done


main()
