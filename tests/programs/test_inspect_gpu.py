#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_inspect_gpu.py FATHOM: `fathom inspect gpu` describes each GPU, or says in one line why it cannot."""
import re
import subprocess

from command import fathom, refuse, run

if subprocess.run([fathom, "inspect", "gpu"], capture_output=True, check=False).returncode == 0:
    found = run("inspect", "gpu")
    assert re.search(r"(?s)gpu 0.*compute capability.*libraries", found), found
else:
    refuse(1, r"-Dcuda=enabled|CUDA says '", "inspect", "gpu")
