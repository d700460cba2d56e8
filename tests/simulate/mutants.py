#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Are bugs found by the seeds? Plants each of tests/simulate/mutations/*.patch, alone, in a copy of the
sources, and lives one seed after another until one breaks; those of mutations/hosts are for the seeds
of fleets on hosts, those of mutations/managers for fleets whose manager starts and ends units, and
those of mutations/twin for the twin's. A patch that does not apply any more, or that no seed finds, fails.

    mutants.py ROOT DIRECTORY [SEEDS [NAME...]]
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

TEST = "tests/simulate/world/test_fleet_world"
TESTS = {"hosts": "tests/simulate/world/test_fleet_hosts", "managers": "tests/simulate/world/test_fleet_managers",
         "twin": "tests/simulate/simulator/test_simulator_seeds"}
TIME_MAX = 900  # seconds; seeds take a tenth of one


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, **options)


def prepare(root, work):
    """A copy of the sources with a build of its own; kept between runs, so that little is built again."""
    source = work / "source"
    files = run("git", "-C", root, "ls-files", "-co", "--exclude-standard", "-z", check=True).stdout
    wanted = {name for name in files.split("\0") if name and (root / name).is_file()}
    for name in wanted:
        target = source / name
        if target.is_file() and target.read_bytes() == (root / name).read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, target)
        os.utime(target)
    for stale in set(str(p.relative_to(source)) for p in source.rglob("*") if p.is_file()) - wanted:
        (source / stale).unlink()
    build = work / "build"
    if not (build / "build.ninja").exists():
        run("meson", "setup", build, source, check=True)
    return source, build


def test_of(patch):
    return TESTS.get(patch.parent.name, TEST)


def compile_test(build, test):
    done = run("ninja", "-C", build, test)
    if done.returncode:
        sys.exit("mutants: the test does not build:\n" + done.stdout[-2000:])


def first_seed(build, test, count):
    """Which seed breaks first, and why; None."""
    environment = dict(os.environ, FATHOM_SEEDS=f"0 {count}", CMOCKA_MESSAGE_OUTPUT="STDOUT")
    try:
        done = run(build / test, env=environment, timeout=TIME_MAX)
    except subprocess.TimeoutExpired:
        return "a machine that never ends"
    told = done.stdout + done.stderr
    if done.returncode == 0:
        return None
    seeds = re.findall(r"# seed (\d+);", told)
    if not seeds:
        return f"exit code {done.returncode} without a seed: " + told[-200:]
    why = re.search(r"seed \d+: (.*)", told) or re.search(r"(check failed: .*) at ", told)
    return f"seed {seeds[0]}: " + (why.group(1) if why else "it ended")


def main():
    root, work = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 100
    names = sys.argv[4:]
    patches = sorted((root / "tests/simulate/mutations").glob("**/*.patch"))
    patches = [p for p in patches if not names or p.stem in names]
    source, build = prepare(root, work)
    for test in sorted({test_of(patch) for patch in patches}):
        compile_test(build, test)
        if not names and first_seed(build, test, count):
            sys.exit(f"mutants: a seed of {test} breaks without any planted bug")
    failed = 0
    for patch in patches:
        plant = ("patch", "-p1", "--forward", "--reject-file=-", "--fuzz=0", "-d", source, "-i", patch)
        planted = run(*plant, "--dry-run")
        if planted.returncode:
            print(f"{patch.stem}: DOES NOT APPLY ANY MORE\n{planted.stdout}", flush=True)
            failed += 1
        else:
            run(*plant, check=True)
            compile_test(build, test_of(patch))
            found = first_seed(build, test_of(patch), count)
            run(*plant, "--reverse", check=True)
            print(f"{patch.stem}: " + (found or "NOT FOUND"), flush=True)
            failed += found is None
    print(f"{len(patches) - failed} of {len(patches)} planted bugs found within {count} seeds")
    sys.exit(failed > 0)


main()
