#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`./dev test` must never end with "0 failed" when something failed, did not run, or ran nothing; nor `./dev san` when a
sanitizer has reported something of a process whose exit code no test looked at."""
import os
import subprocess
import sys
import tempfile

COUNT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "count.py")
GOOD = '<testsuites><testsuite><testcase name="a"/><testcase name="b"/></testsuite></testsuites>'
BAD = '<testsuites><testsuite><testcase name="a"/><testcase name="b"><failure/></testcase>' \
      '<testcase name="c"><skipped/></testcase></testsuite></testsuites>'
TAP = "TAP version 13\nok 1 - x\n# tests 3\n# pass %d\n# fail %d\n# cancelled 0\n# skipped 0\n# todo 0\n"

CASES = (  # runner failed, JUnit text, TAP text, last line, exit code
    ("0", GOOD, None, "2 passed, 0 failed", 0),
    ("0", GOOD, TAP % (3, 0), "5 passed, 0 failed", 0),
    ("0", GOOD, TAP % (2, 1), "4 passed, 1 failed", 1),
    ("0", BAD, TAP % (3, 0), "4 passed, 1 failed", 1),
    ("1", BAD, "TAP version 13\nok 1 - x\n", "1 passed, 2 failed", 1),
    ("1", GOOD, None, "2 passed, 1 failed", 1),
    ("1", BAD, None, "1 passed, 1 failed", 1),
    ("0", None, TAP % (3, 0), "3 passed, 1 failed", 1),
    ("0", "<testsuites/>", None, "0 passed, 1 failed", 1),
)

REPORTED = (  # the reports by name, or None for no folder; last line, exit code
    ({}, "2 passed, 0 failed", 0),
    ({"asan.fathom.17": "ERROR: LeakSanitizer"}, "2 passed, 1 failed", 1),
    ({"asan.fathom.17": "ERROR: LeakSanitizer", "tsan.fathom.18": "data race\n" * 1000}, "2 passed, 2 failed", 1),
    (None, "2 passed, 1 failed", 1),
)


def count(runner, *paths):
    return subprocess.run([sys.executable, COUNT, runner, *paths], capture_output=True, text=True)


def is_as_expected(done, line, code):
    found = done.stdout.splitlines()[-1:]
    if found != [line] or done.returncode != code:
        print("expected", line, code, "found", found, done.returncode, done.stderr)
    return found == [line] and done.returncode == code


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def reported_cases():
    """How many went wrong: no report is passed over, and each is shown."""
    failures = 0
    for reports, line, code in REPORTED:
        with tempfile.TemporaryDirectory() as folder:
            write(folder + "/a.xml", GOOD)
            if reports is not None:
                os.mkdir(folder + "/reports")
            for name, text in (reports or {}).items():
                write(folder + "/reports/" + name, text)
            done = count("0", folder + "/a.xml", folder + "/reports")
            failures += not is_as_expected(done, line, code)
            for name, text in (reports or {}).items():
                if name not in done.stdout or text[:20] not in done.stdout:
                    print("the report", name, "is not shown:", done.stdout)
                    failures += 1
    return failures


def main():
    failures = reported_cases()
    for runner, junit, tap, line, code in CASES:
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, "a.xml"), os.path.join(folder, "b.tap")]
            for path, text in zip(paths, (junit, tap)):
                if text:
                    write(path, text)
            failures += not is_as_expected(count(runner, *paths), line, code)
    sys.exit(1 if failures else 0)


main()
