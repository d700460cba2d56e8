#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_outside_text.py FATHOM: a database that others wrote may call an account, a group or a model anything. Names reach no
terminal, spreadsheet, JSON reader or browser as more than text, numbers at their ends are refused in words, and nothing
crashes."""
import csv
import io
import json
import os
import sqlite3
import tempfile

from command import attempt, expect, finish, run
from ledger_book import fill

NAME = "<script>alert(1)</script>\x1b[31m\"\n=cmd|x\u202e"
VISIBLE = "<script>alert(1)</script>\\x1b[31m\"\\x0a=cmd|x\\xe2\\x80\\xae"


def change(database, *statements):
    with sqlite3.connect(database) as file:
        for statement, *values in statements:
            file.execute(statement, values)
    file.close()


def check_text(found, what):
    expect(not any(ord(letter) < 32 and letter != "\n" or letter in "\x7f\u202e" for letter in found), what, found)


def check_names(database, folder):
    change(database, ("UPDATE accounts SET name = ?, tenant = ?, models = ? WHERE id = 1", NAME, NAME, NAME * 40),
           ("UPDATE keys SET models = ?", NAME), ("UPDATE accounts SET name = ? WHERE id = 2", "=1+1"))
    told = [run("account", "list", "--database", database), run("account", "show", NAME, "--database", database),
            run("ledger", "report", database)]
    for text in told:
        check_text(text, "a name moves the terminal")
        expect(VISIBLE in text, "the name is not shown", text)
    for arguments in (("list",), ("show", NAME)):
        accounts = json.loads(run("account", *arguments, "--database", database, "--json"))["accounts"]
        expect(accounts[0]["account"] == accounts[0]["group"] == NAME, "JSON has another name", accounts)
        expect(accounts[0]["models"] == NAME * 40, "JSON has no models", accounts)
    expect(NAME in [one["account"] for one in json.loads(run("ledger", "report", "--json", database))["accounts"]],
           "the report's JSON has another name")
    rows = list(csv.reader(io.StringIO(run("ledger", "report", "--csv", database))))
    expect({len(row) for row in rows} == {8}, "a name is more than a cell", rows)
    expect({row[1] for row in rows[1:]} == {VISIBLE, "'=1+1"}, "a name is a formula", rows)
    page = os.path.join(folder, "page.html")
    run("ledger", "report", "--html", page, database)
    with open(page, encoding="utf-8") as file:
        text = file.read()
    check_text(text, "a name moves whoever reads the page")
    expect("<script>alert" not in text and "&lt;script&gt;alert" in text, "a name is a part of the page")
    change(database, ("UPDATE accounts SET balance = balance + 1",))
    done = attempt("ledger", "verify", database)
    check_text(done.stderr, "a breach moves the terminal")
    expect(done.returncode == 1 and VISIBLE in done.stderr, "the breach is not told", done)
    for arguments in (("serve", "--port", "0", "--kv-memory", "16MiB", "--database", database),
                      ("account", "show", "\x1b[31m", "--database", database)):
        done = attempt(*arguments)
        check_text(done.stderr, "an error moves the terminal")
        expect(done.returncode == 1 and "[31m" in done.stderr, "the account is not told", done)


def check_ends(database):
    """Numbers that no Fathom wrote: each command says what is wrong, or what it found, and ends."""
    for statement in ("UPDATE accounts SET priority = 77, weight = -1", "UPDATE accounts SET balance = 1.8e19",
                      "UPDATE accounts SET balance = -9223372036854775808, requests = 9223372036854775807",
                      "UPDATE hours SET amount = 9223372036854775807, hit = 9223372036854775807",
                      "UPDATE hours SET hour = hour + 9000000000000000", "UPDATE hours SET hour = hour + 60000000 WHERE account = 2",
                      "UPDATE node_hours SET cost = 9223372036854775807, node_seconds = -9223372036854775808",
                      "UPDATE entries SET amount = 9223372036854775807, hit = 9223372036854775807",
                      "INSERT OR REPLACE INTO settings VALUES ('currency', '<b>\x1b[')"):
        with open(database, "rb") as file:
            whole = file.read()
        change(database, (statement,))
        for arguments in (("ledger", "verify"), ("ledger", "report"), ("ledger", "report", "--json"), ("ledger", "report", "--csv"),
                          ("ledger", "report", "--html", "/dev/null"), ("account", "list", "--database"),
                          ("account", "list", "--json", "--database"), ("account", "show", "acme", "--json", "--database")):
            done = attempt(*arguments, database)
            check_text(done.stdout + done.stderr, "a number's end moves the terminal")
            expect(done.returncode in (0, 1), "a crash", statement, arguments, done)
            expect(done.returncode == 0 or done.stderr, "a failure without words", statement, arguments, done)
        for end in ("", "-wal", "-shm"):
            if os.path.exists(database + end):
                os.unlink(database + end)
        with open(database, "wb") as file:
            file.write(whole)


def check_top_ups(database):
    run("account", "top-up", "acme", "9000000000", "--database", database)
    done = attempt("account", "top-up", "acme", "9000000000", "--database", database)
    expect(done.returncode == 1 and "a balance may be 9000000000 at most" in done.stderr, "a balance has no end", done)
    expect(json.loads(run("ledger", "verify", "--json", database))["breaches"] == 0, "the proof is broken")


def main():
    with tempfile.TemporaryDirectory() as folder:
        database = os.path.join(folder, "ledger.db")
        fill(database, "acme", (100, 200, 300))
        fill(database, "lab", (1, 2, 3), first=2)
        check_top_ups(database)
        check_ends(database)
        check_names(database, folder)
    finish()


main()
