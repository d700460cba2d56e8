#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_account_program.py FATHOM: accounts from the command line: what is made and changed is what is shown, a key is
printed once and kept nowhere, and what is wrong is said in one line."""
import hashlib
import json
import os
import stat
import tempfile

from command import refuse, run


def show(name, database):
    return json.loads(run("account", "show", name, "--json", "--database", database))["accounts"][0]


def check_life(database):
    key = run("account", "create", "acme", "--requests", "8", "--database", database).strip()
    assert key.startswith("sk-") and len(key) == 67, key
    assert stat.S_IMODE(os.stat(database).st_mode) == 0o600
    digest = hashlib.sha256(key.encode()).hexdigest()
    account = show("acme", database)
    assert account["keys"][0]["sha256"] == digest and account["requests_max"] == 8, account
    other = json.loads(run("account", "key", "acme", "--budget", "0.25", "--json", "--database", database))["key"]
    assert show("acme", database)["keys"][1]["budget"] == 0.25
    for one in key, other:  # nowhere, also not in the log beside the file
        for name in os.listdir(os.path.dirname(database)):
            with open(os.path.join(os.path.dirname(database), name), "rb") as file:
                assert one[3:].encode() not in file.read(), name
    run("account", "limit", "acme", "--prepaid", "--priority", "low", "--weight", "5", "--models", "a,b", "--group",
        "lab", "--tokens-per-minute", "1000", "--requests", "any", "--operator", "--database", database)
    account = show("acme", database)
    assert (account["billing"], account["priority"], account["weight"], account["models"], account["group"]) == (
        "prepaid", "low", 5, "a,b", "lab"), account
    assert (account["tokens_per_minute"], account["requests_max"], account["operator"]) == (1000, 0, True), account
    run("account", "limit", "acme", "--postpaid", "--client", "--models", "any", "--group", "none", "--database", database)
    account = show("acme", database)
    assert (account["billing"], account["operator"], account["models"], account["group"]) == (
        "postpaid", False, "", ""), account
    run("account", "top-up", "acme", "25.000000001", "--database", database)
    run("account", "top-up", "--database", database, "--", "acme", "-5")
    assert run("account", "show", "acme", "--database", database).count("balance 20.000000001,") == 1
    run("account", "purge-cache", "acme", "--database", database)
    run("account", "revoke", "acme", "--key", digest[:8], "--database", database)
    assert [each["revoked"] for each in show("acme", database)["keys"]] == [True, False]
    run("account", "revoke", "acme", "--database", database)
    assert "revoked" in run("account", "list", "--database", database)
    refuse(1, "is revoked", "account", "key", "acme", "--database", database)


def check_import(database, folder):
    path = os.path.join(folder, "who.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write("accounts:\n  - {name: old, keys: [\"sha256:%s\"], group: lab, requests-max: 2}\n" % ("ab" * 32))
    assert run("account", "import", path, "--database", database) == "1 accounts\n"
    account = show("old", database)
    assert account["keys"][0]["sha256"] == "ab" * 32 and account["group"] == "lab" and account["requests_max"] == 2
    refuse(1, "account 'old' exists already", "account", "import", path, "--database", database)
    refuse(1, "absent.yaml", "account", "import", os.path.join(folder, "absent.yaml"), "--database", database)


def check_wrong(database):
    refuse(2, "--database FILE is missing", "account", "list")
    refuse(2, "no subject named 'frob'", "account", "frob", "--database", database)
    refuse(2, "create wants one name", "account", "create", "--database", database)
    refuse(2, "top-up wants a name and an amount", "account", "top-up", "acme", "--database", database)
    refuse(2, "--prepaid and --postpaid", "account", "create", "x", "--prepaid", "--postpaid", "--database", database)
    refuse(2, "a number from 1 on, or any", "account", "create", "x", "--requests", "0", "--database", database)
    refuse(1, "expected an amount", "account", "top-up", "acme", "much", "--database", database)
    refuse(1, "no account 'x'", "account", "show", "x", "--database", database)
    refuse(1, "is not a name of an account", "account", "create", "a b", "--database", database)
    refuse(1, "`fathom account create` makes one", "account", "list", "--database", database + ".none")


def main():
    with tempfile.TemporaryDirectory() as folder:
        database = os.path.join(folder, "fathom.db")
        check_life(database)
        check_wrong(database)
        check_import(os.path.join(folder, "second.db"), folder)


main()
