#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""engine_only.py ROOT BUILD: builds with -Dserving=disabled while pkg-config can see
nothing: the engine needs a C compiler and Meson. Then computes goldens with what it built."""
import os
import subprocess
import sys


def run(*command, **keywords):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, **keywords)
    if done.returncode:
        sys.exit("%s\nexit code %d\n%s" % (" ".join(command), done.returncode, done.stdout[-8000:]))
    return done.stdout


def main():
    root, build = sys.argv[1:3]
    nothing = build + ".pkgconfig"
    os.makedirs(nothing, exist_ok=True)
    environment = dict(os.environ, PKG_CONFIG_LIBDIR=nothing, PKG_CONFIG_PATH="")
    if not os.path.exists(os.path.join(build, "build.ninja")):
        run("meson", "setup", build, root, "-Dserving=disabled", "-Dtests=disabled", env=environment)
    run("ninja", "-C", build, "-j2", "fathom", env=environment)
    fathom = os.path.join(build, "fathom")
    assert run(fathom, "version").startswith("fathom ")
    libraries = run("ldd", fathom)
    for name in ("event", "pcre", "crypto", "ssl", "yaml"):
        assert "lib" + name not in libraries, "the engine links lib%s:\n%s" % (name, libraries)
    print(run(sys.executable, os.path.join(root, "bench", "goldens.py"), fathom))


main()
