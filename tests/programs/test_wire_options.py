#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_wire_options.py FATHOM: a gateway or a unit that others could reach without keys does not start."""
import os
import tempfile

from command import refuse, run

with tempfile.TemporaryDirectory() as folder:
    key = os.path.join(folder, "k")
    run("keygen", key)
    for command, address, peers in (("gateway", "--listen", "--wire-allow"), ("unit", "--connect", "--wire-gateway")):
        common = [command, address, "tcp://127.0.0.1:9"]
        refuse(1, "--wire-key and %s need each other" % peers, *common, "--wire-key", key + ".secret")
        refuse(1, "--wire-key and %s need each other" % peers, *common, peers, key + ".public")
        refuse(1, "keys are mutually exclusive", *common, "--wire-plain", "--wire-key", key + ".secret",
               peers, key + ".public")
        refuse(1, "is not limited to this machine, and there are no keys", command, address, "tcp://192.0.2.1:9")
