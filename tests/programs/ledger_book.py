# SPDX-License-Identifier: Apache-2.0
"""Fills the file of a ledger by hand, for the tests that look at what is printed of it."""
import sqlite3

from command import run

NOON = 1795435200 // 86400 * 86400 + 43200
HOUR = NOON // 3600
PRICE = (14000, 140000, 280000)  # picos of a token: hit, miss, output


def fill(path, account, tokens, first=1, hour=HOUR):
    """One entry of `tokens` (hit, miss, output) in that hour, and a node for half an hour of it."""
    amount = (sum(a * b for a, b in zip(PRICE, tokens)) + 500) // 1000
    run("account", "create", account, "--database", path)
    with sqlite3.connect(path) as database:
        put = database.execute
        put("INSERT OR IGNORE INTO settings VALUES ('currency', 'USD')")
        number = put("SELECT id FROM accounts WHERE name = ?", (account,)).fetchone()[0]
        put("INSERT OR IGNORE INTO prices VALUES (1, ?, ?, ?, ?, ?, ?)", PRICE * 2)
        put("INSERT INTO entries (high, low, gateway, sequence, ended, account, key, is_charged, http_status, choices,"
            " hit, miss, output, device, host, disk, computed, made, recomputed, units, price, amount, list_amount,"
            " total_ns) VALUES (?, 1, 1, 1, ?, ?, 0, 1, 200, 1, ?, ?, ?, ?, 0, 0, ?, ?, 0, 1, 1, ?, ?, 1)",
            (first, hour * 3600 + 5, number, *tokens, tokens[0], tokens[1], tokens[2], amount, amount))
        put("INSERT INTO hours VALUES (?, ?, 1, ?, ?, ?, ?, ?)", (hour, number, *tokens, amount, amount))
        put("UPDATE accounts SET balance = balance - ?, requests = 1, tokens = ? WHERE id = ?",
            (amount, sum(tokens), number))
        put("INSERT OR IGNORE INTO node_hours VALUES (?, 99, 2, 1800, 8000000000)", (hour,))
    database.close()
    return amount
