#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""count.py FAILED FILE...: adds up test results (meson's JUnit files, TAP files of `node --test`), prints
"N passed, N failed" as the last line and exits with 1 if anything failed. FAILED=1 says that a runner
itself failed: then at least one failure is counted, even if no case reports it."""
import os
import re
import sys
import xml.etree.ElementTree as xml


def count_junit(path):
    passed = failed = skipped = 0
    for case in xml.parse(path).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is not None:
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def count_tap(path):
    text = open(path, encoding="utf-8", errors="replace").read()

    def figure(name):
        found = re.findall(r"^# %s (\d+)$" % name, text, re.MULTILINE)
        return int(found[-1]) if found else 0

    passed, failed = figure("pass"), figure("fail") + figure("cancelled")
    if not re.search(r"^# fail \d+$", text, re.MULTILINE):
        failed += 1  # it died before its summary, or never began
    return passed, failed, figure("skipped") + figure("todo")


def main():
    runner_failed, paths = sys.argv[1] != "0", sys.argv[2:]
    passed = failed = skipped = 0
    for path in paths:
        if not os.path.exists(path):
            if path.endswith(".xml"):
                runner_failed = True
            continue
        counts = (count_junit if path.endswith(".xml") else count_tap)(path)
        passed, failed, skipped = passed + counts[0], failed + counts[1], skipped + counts[2]
    if runner_failed and failed == 0:
        failed = 1
    if passed == 0 and failed == 0:
        failed = 1  # nothing ran
    if skipped:
        print("%d skipped" % skipped)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


sys.exit(main())
