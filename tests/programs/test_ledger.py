#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_ledger.py FATHOM: reports of ledgers as text, JSON and CSV, of one file and of several; and the proof, which finds
what was changed by hand."""
import json
import os
import sqlite3
import subprocess
import sys
import tempfile

from command import refuse, run
from ledger_book import HOUR, fill


def report(*arguments):
    return json.loads(run("ledger", "report", "--json", *arguments))


def check_report(one, two):
    amount = fill(one, "acme", (1000000, 500000, 250000))
    other = fill(one, "lab", (0, 1, 1), first=2, hour=HOUR + 1)
    assert amount == 154000000 and other == 420
    found = report(one)
    assert found["accounts"][0] == {
        "account": "acme", "requests": 1, "hit_tokens": 1000000, "miss_tokens": 500000, "output_tokens": 250000,
        "amount": 0.154, "list_amount": 0.154, "currency": "USD"}, found
    assert '"amount":0.00000042,' in run("ledger", "report", "--json", one)
    assert [each["nodes"] for each in found["hours"]] == [0.5, 0.5] and found["hours"][0]["cost"] == 8
    total = found["total"]
    assert total["node_hours"] == 1 and total["cost"] == 16 and total["output_tokens_per_node_hour"] == 250001, total
    assert abs(total["margin_percent"] - 100 * (0.15400042 / 16 - 1)) < 1e-3, total
    day, hour = found["hours"][0]["hour"].split("T")
    assert len(report("--day", day, one)["accounts"]) == 2
    assert [each["account"] for each in report("--hour", day + "T" + hour, one)["accounts"]] == ["acme"]
    assert report("--day", "2001-01-01", one)["accounts"] == []
    assert [each["account"] for each in report("--account", "lab", "--database", one)["accounts"]] == ["lab"]
    fill(two, "acme", (0, 0, 750000), first=3)
    both = report(one, two)
    assert both["accounts"][0]["output_tokens"] == 1000000 and both["accounts"][0]["requests"] == 2, both
    assert both["hours"][0]["cost"] == 8, both  # the same unit, seen by two
    lines = run("ledger", "report", "--csv", one).splitlines()
    assert lines[0].startswith("hour,account,requests") and len(lines) == 3, lines
    assert lines[1] == "%sT%s,acme,1,1000000,500000,250000,0.154,USD" % (day, hour), lines
    text = run("ledger", "report", one)
    assert "acme" in text and "income 0.15400042 (" in text and "cost 16 of 1.00 node-hours" in text, text


def check_verify(one, two):
    found = json.loads(run("ledger", "verify", "--json", one, two))
    assert found["breaches"] == 0 and found["entries"] == 3 and found["files"] == 2, found
    with sqlite3.connect(one) as database:
        database.execute("UPDATE entries SET output = output + 1 WHERE high = 2")
    database.close()
    done = subprocess.run([sys.argv[1], "ledger", "verify", one, two], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "account lab: its entries have 3 tokens, and it says 2" in done.stderr, done


def check_wrong(one, folder):
    refuse(2, "a file is missing", "ledger", "report")
    refuse(2, "no subject named 'frob'", "ledger", "frob", one)
    refuse(2, "--day: expected 2026-11-23", "ledger", "report", "--day", "today", one)
    refuse(2, "are mutually exclusive", "ledger", "report", "--day", "2026-11-23", "--hour", "2026-11-23T07", one)
    refuse(1, "cannot open this database", "ledger", "report", os.path.join(folder, "none.db"))


def main():
    with tempfile.TemporaryDirectory() as folder:
        one, two = os.path.join(folder, "one.db"), os.path.join(folder, "two.db")
        check_report(one, two)
        check_verify(one, two)
        check_wrong(one, folder)


main()
