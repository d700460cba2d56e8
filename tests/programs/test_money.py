#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_money.py FATHOM: amounts are read and written exactly, to the last nano."""
import os
import tempfile

from command import refuse, run


def main():
    with tempfile.TemporaryDirectory() as folder:
        database = os.path.join(folder, "fathom.db")
        run("account", "create", "acme", "--database", database)
        for amount, balance in (("0.1", "0.1"), ("0.2", "0.3"), ("0.000000001", "0.300000001"), ("1", "1.300000001"),
                                ("-1.300000002", "-0.000000001"), ("9000000000", "8999999999.999999999")):
            run("account", "top-up", "--database", database, "--", "acme", amount)
            assert " balance %s," % balance in run("account", "list", "--database", database), (amount, balance)
        for amount in ("0", "1.", ".5", "1e3", "1.0000000001", "9000000001", "1,5", "--1", "", "$5"):
            refuse(1, "expected an amount", "account", "top-up", "--database", database, "--", "acme", amount)


main()
