#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""count.py FAILED FILE...: adds up test results (meson's JUnit files, TAP files of `node --test`), prints
"N passed, N failed" as the last line and exits with 1 if anything failed. FAILED=1 says that a runner
itself failed: then at least one failure is counted, even if no case reports it. A FILE that is a folder has
the sanitizers' reports, one file for each process that wrote one: each is shown and counts as a failure."""
import os
import re
import sys
import xml.etree.ElementTree as xml

REPORT_LINES = 100  # that are shown of each; its path is said, too


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


def count_reports(folder):
    paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    for path in paths:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.readlines()
        print("%s:\n%s" % (path, "".join(lines[:REPORT_LINES])))
        if len(lines) > REPORT_LINES:
            print("and %d lines more" % (len(lines) - REPORT_LINES))
    return 0, len(paths), 0


def counts_of(path):
    if os.path.isdir(path):
        return count_reports(path)
    return (count_junit if path.endswith(".xml") else count_tap)(path)


def main():
    runner_failed, paths = sys.argv[1] != "0", sys.argv[2:]
    passed = failed = skipped = 0
    for path in paths:
        if not os.path.exists(path):
            runner_failed = runner_failed or not path.endswith(".tap")
            continue
        counts = counts_of(path)
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
