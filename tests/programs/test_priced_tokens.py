#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_priced_tokens.py FATHOM: a server takes prices of the twin's form, by name or by path, and refuses what is none of
its form, another currency than its ledger's, and prices without a ledger."""
import os
import re
import sqlite3
import tempfile

from command import run


def main():
    with tempfile.TemporaryDirectory() as folder:
        database, prices = os.path.join(folder, "fathom.db"), os.path.join(folder, "prices.yaml")

        def write(text):
            with open(prices, "w", encoding="utf-8") as file:
                file.write(text)

        def refuse_prices(words, *more, name=prices):
            said = run("serve", "--port", "0", "--prices", name, *more, code=1)  # behind the log's lines
            assert re.search(words, said.splitlines()[-1]), said

        write("currency: EUR\nnode_hour: 1\ninput_hit: 1\ninput_miss: 2\noutput: 3\n")
        refuse_prices("--prices needs --database")
        refuse_prices("are mutually exclusive; `fathom account import who.yaml", "--database", database, "--accounts",
                      "who.yaml")
        run("account", "create", "acme", "--database", database)
        with sqlite3.connect(database) as file:
            file.execute("INSERT INTO settings VALUES ('currency', 'USD')")
        file.close()
        refuse_prices("counts in USD, and these prices are in EUR", "--database", database)
        write("currency: EUR\nnode_hour: 1\ninput_hit: 1\ninput_miss: 2\noutputs: 3\n")
        refuse_prices("outputs", "--database", database)
        write("currency: EURODOLLARS\nnode_hour: 1\ninput_hit: 1\ninput_miss: 2\noutput: 3\n")
        refuse_prices("expected a code as USD", "--database", database)
        write("currency: EUR\nnode_hour: 1\ninput_hit: 1\ninput_miss: 2\noutput: 1e7\n")
        refuse_prices("a price is above", "--database", database)
        write("currency: EUR\nnode_hour: 1\ninput_hit: 1\ninput_miss: 2\noutput: 3\nmodels:\n"
              "  - {name: m, input_hit: 1, input_miss: 2, output: 1e7}\n")
        refuse_prices("a price is above", "--database", database)
        write("currency: EUR\nnode_hour: 1\ninput_hit: 1\ninput_miss: 2\noutput: 3\nmodels:\n"
              + 2 * "  - {name: m, input_hit: 1, input_miss: 2, output: 3}\n")
        refuse_prices("'m' has prices already", "--database", database)
        refuse_prices("no prices is called 'cheap'", "--database", database, name="cheap")


main()
