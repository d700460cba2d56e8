#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_bench_nodes.py FATHOM: by `fathom bench nodes`, a prefill unit of the twin that places experts by price sends
less between nodes than one whose ranks are all alike, is better balanced than one that keeps groups whole where these
are unevenly loaded, and its steps take no longer than either's; a decode unit has all ranks alike."""
import json

from command import run

rows = json.loads(run("bench", "nodes", "--loads", "hot groups", "--json"))["nodes"]
found = {(row["unit"], row["ranks"]): row for row in rows}
assert len(rows) == len(found) == 4, found
alike, groups, price = (found["prompts", ranks] for ranks in ("alike", "groups", "price"))
assert price["kilobytes"] < alike["kilobytes"], (alike, price)
assert groups["kilobytes"] < price["kilobytes"] and groups["balance"] < price["balance"], (groups, price)
assert price["step_ms"] < alike["step_ms"] * 1.005 and price["step_ms"] < groups["step_ms"], found
assert 0 < price["moves_far"] < price["moves"], price
assert found["answers", "alike"]["balance"] > 0.7, found
run("bench", "nodes", "--loads", "even", code=2)
