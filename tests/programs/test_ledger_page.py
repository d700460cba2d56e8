#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_ledger_page.py FATHOM: a report as a page: two charts, the sums, a row for each account, well-formed and whole."""
import html.parser
import os
import tempfile

from command import refuse, run
from ledger_book import HOUR, fill

VOID = ("meta", "line", "path", "rect", "polyline", "circle", "br")


class Page(html.parser.HTMLParser):
    """Checks that what is opened is closed, and counts."""

    def __init__(self):
        super().__init__()
        self.open, self.counts = [], {}

    def handle_starttag(self, tag, attrs):
        self.counts[tag] = self.counts.get(tag, 0) + 1
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.counts[tag] = self.counts.get(tag, 0) + 1

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag, tag


def write(*arguments):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "page.html")
        assert run("ledger", "report", "--html", path, *arguments) == ""
        with open(path, encoding="utf-8") as file:
            text = file.read()
    page = Page()
    page.feed(text)
    assert page.open == [], page.open
    return text, page.counts


def main():
    with tempfile.TemporaryDirectory() as folder:
        database = os.path.join(folder, "ledger.db")
        run("account", "create", "nobody-yet", "--database", database)
        text, counts = write(database)  # nothing has happened
        assert "svg" not in counts and "0.00 node-hours" in text, text
        fill(database, "acme", (1000, 500, 250))
        fill(database, "lab", (10, 0, 90), first=2, hour=HOUR + 30)
        text, counts = write(database)
        assert counts["svg"] == 2 and "Cost and theoretical income" in text, counts
        assert text.count("<tr>") == 4 and "acme" in text and "1.00 node-hours" in text
        refuse(1, "cannot write", "ledger", "report", "--html", os.path.join(folder, "no", "page.html"), database)


main()
