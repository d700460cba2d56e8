#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_keygen.py FATHOM: `fathom keygen` writes a pair of keys, the secret one for its owner alone, and overwrites none; an
API key comes with the digest of an accounts file."""
import hashlib
import os
import stat
import tempfile

from command import refuse, run

with tempfile.TemporaryDirectory() as folder:
    name = os.path.join(folder, "unit")
    assert run("keygen", name) == "%s.public\n%s.secret\n" % (name, name)
    assert stat.S_IMODE(os.stat(name + ".secret").st_mode) == 0o600
    with open(name + ".secret", encoding="ascii") as file:
        secret = file.read()
    refuse(1, "unit", "keygen", name)
    with open(name + ".secret", encoding="ascii") as file:
        assert file.read() == secret, "an existing key was overwritten"
key, digest = run("keygen", "--api-key").split()
assert "sha256:" + hashlib.sha256(key.encode()).hexdigest() == digest, (key, digest)
assert run("keygen", "--api-key").split()[0] != key
refuse(2, "either NAME or --api-key", "keygen")
