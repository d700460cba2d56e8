#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants one breach at a time into a small tree and looks that the law names it: a law that finds nothing
is only worth something if it can find."""
import os
import re
import subprocess
import sys
import tempfile

import laws

LICENCE = "/* SPDX-License-Identifier: Apache-2.0 */\n"
HEADER = LICENCE + "#pragma once\nint a_one(int x);\n"
ROOMS = """base           ->
contract       ->
serving/text   ->
serving/policy -> base
serving/unit   ->
compute/model  ->
<time.h>       : host
<event2/*>     : host
"""
FUNCTIONS = "".join("int a_f%d(int x) {\n    return x;\n}\n\n" % i for i in range(25))

failures = []


def write(root, path, text):
    os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
    with open(os.path.join(root, path), "w", encoding="utf-8") as file:
        file.write(text)


def sound_tree(root):
    os.makedirs(os.path.join(root, "docs"))
    write(root, "docs/rooms.txt", ROOMS)
    write(root, "tests/house/lengths.txt", "")
    write(root, "tests/house/covered.txt", "")
    write(root, "docs/terms.txt", "tell | * | to send | report\n")
    write(root, "README.md", "# A house\n\n[The tour](docs/tour.md#one-step), [here](#a-house)\n")
    write(root, "docs/architecture.md", "# Rooms\n")
    write(root, "docs/api.md", "# API\n\n## Contents\n\n* [One field](#one-field)\n\n## One field\n")
    write(root, "dev", "# %s\ncmd_serve() {\n}\n" % LICENCE.strip("/* \n"))
    write(root, "docs/tour.md", "# One *step*\n\n`src/base/a.c:a_f1` returns.\n")
    write(root, "src/base/a.h", HEADER)
    write(root, "src/base/a.c", LICENCE + '#include "base/a.h"\n\n' + FUNCTIONS)
    write(root, "src/serving/policy/b.c", LICENCE + '#include "base/a.h"\nint b_one(int x);\n')
    write(root, "tests/base/test_a.c", LICENCE)
    write(root, "tests/serving/policy/test_b.c", LICENCE)
    write(root, "tests/base/meson.build", "# SPDX-License-Identifier: Apache-2.0\n'a'\n")
    write(root, "tests/serving/policy/meson.build", "# SPDX-License-Identifier: Apache-2.0\n'b'\n")


def law(root, name, *arguments):
    found = laws.judge(name, root, *arguments)
    return int(bool(found)), "\n".join(found)


def expect(name, needle, plant, *arguments):
    with tempfile.TemporaryDirectory() as root:
        sound_tree(root)
        code, text = law(root, name, *arguments)
        if code:
            failures.append("%s finds fault with a sound tree: %s" % (name, text))
        plant(root)
        code, text = law(root, name, *arguments)
        if code != 1 or needle not in text:
            failures.append("%s: expected '%s', found %d '%s'" % (name, needle, code, text))


def planting(*files):
    """Writes files: path, text, path, text..."""
    return lambda root: [write(root, *file) for file in zip(files[::2], files[1::2])]


def text_laws():
    expect("includes", "room base may not include serving/policy/b.h",
           planting("src/base/c.c", LICENCE + '#include "serving/policy/b.h"\n'))
    expect("includes", "room serving/policy may not include <time.h>",
           planting("src/serving/policy/c.c", LICENCE + "#include <time.h>\n"))
    expect("includes", "room serving/text may not include <event2/http.h>",
           planting("src/serving/text/c.c", LICENCE + "#include <event2/http.h>\n"))
    expect("includes", 'are written "room/file.h", found "a.h"',
           planting("src/base/c.c", LICENCE + '#include "a.h"\n'))
    expect("includes", "a step's flow may not include compute/model/scratch.h",
           planting("src/compute/model/draft.c", LICENCE + '#include "compute/model/scratch.h"\n'))
    expect("includes", "compute/gpu/gpu_layers.h is a higher layer of its room", lambda root: (
        write(root, "docs/rooms.txt", ROOMS + "compute/gpu ->\n"),
        write(root, "src/compute/gpu/gpu_layers.h", LICENCE),
        write(root, "src/compute/gpu/gpu_state.c", LICENCE + '#include "compute/gpu/gpu_layers.h"\n')))
    expect("includes", "docs/rooms.txt names the rooms", planting("src/util/c.c", LICENCE))
    expect("includes", "no file of serving/policy includes base: strike it out",
           planting("src/serving/policy/b.c", LICENCE))
    expect("includes", "compute/ includes nothing of serving/", lambda root: (
        write(root, "docs/rooms.txt", ROOMS.replace("compute/model  ->", "compute/model -> serving/policy")),
        write(root, "src/compute/model/c.c", LICENCE + '#include "serving/policy/b.h"\n')))
    expect("headers", "src/base/c.h: does not compile alone",
           planting("src/base/c.h", LICENCE + "#pragma once\nsize_t c;\n"),
           "cc")
    expect("headers", "src/base/c.h: expected #pragma once", planting("src/base/c.h", LICENCE), "cc")
    expect("lengths", "src/base/c.c:c_long: 72 lines; at most 70", planting(
        "src/base/c.c", "static int c_long(int x,\n    int y) {\n" + "    x++;\n" * 69 + "}\n"))
    expect("lengths", "tests/base/c.c:a_case_that_is_long: 71 lines; at most 70", planting(
        "tests/base/c.c", "TEST(a_case_that_is_long) {\n" + "    x++;\n" * 69 + "}\n"))
    expect("lengths", "src/base/c.c: 1001 lines; at most 1000", planting("src/base/c.c", "\n" * 1001))
    expect("lengths", "src/base/gone.c has shrunk to 0: strike it out",
           planting("tests/house/lengths.txt", "src/base/gone.c 1200\n"))
    expect("banned", "src/serving/policy/c.c:2: malloc() allocates",
           planting("src/serving/policy/c.c", "/* malloc() in words is fine */\nvoid *p = malloc(1);\n"))
    expect("banned", "src/base/c.c:1: strcpy() knows no bound", planting("src/base/c.c", "strcpy(a, b);\n"))
    expect("banned", "src/compute/model/c.c:1: clock_gettime() reads the clock",
           planting("src/compute/model/c.c", "clock_gettime(0, 0);\n"))
    expect("banned", "src/compute/model/mtp.c:1: linear_run() computes", planting("src/compute/model/mtp.c", "linear_run(a);\n"))
    expect("owners", "src/serving/unit/c.c:1: changes a request's state", planting(
        "src/serving/unit/c.c", "void f(struct r *request) { request->state = 1; }\n"))
    expect("owners", "src/serving/unit/c.c:1: changes a request's state", planting(
        "src/serving/unit/c.c", "void f(struct u *unit) { unit->counts[1]--; }\n"))
    for line in ("request->life.state = 1;", "request->life.at[PART_PROMPT].unit = 3;", "leader->choices[i]->life.arrival++;",
                 "gateway->requests.counts[0]--;", "gateway->requests.waiting.count += 1;", "unit->bound--;",
                 "unit->promised_pages = 0;", "request->id.attempt++;", "struct request_binding *binding = at;"):
        expect("owners", "src/serving/gateway/c.c:1: changes a request's life", planting("src/serving/gateway/c.c", line + "\n"))
    expect("banned", "src/compute/model/batch.h:2: a step's flow names values by tokens' indices",
           planting("src/compute/model/batch.h", "void forward_run(float *logits);\nfloat *x;\n"))
    expect("banned", "src/compute/model/mtp.c:1: a step's flow names values by tokens' indices",
           planting("src/compute/model/mtp.c", "x = model->weights.mtp;\n"))
    expect("names", "src/serving/policy/a.h: a.h is also found in src/base/a.h",
           planting("src/serving/policy/a.h", LICENCE))
    expect("names", "src/serving/policy/d.c: struct c is also found in src/base/c.c", lambda root: (
        write(root, "src/base/c.c", "struct c {\n    int x;\n};\n"),
        write(root, "src/serving/policy/d.c", "struct c {\n    int y;\n};\n")))
    expect("functions", "c_one has external linkage: expected a name that begins with d_",
           planting("src/base/d.c", "int c_one(int x) {\n    return x;\n}\n"))
    expect("functions", "work() is also found in src/base/c.c", lambda root: (
        write(root, "src/base/c.c", "static int work(int x) {\n    return x;\n}\n"),
        write(root, "src/base/d.c", "static int work(int x) {\n    return x;\n}\n")))
    for path, text in (("src/base/tell_all.h", LICENCE), ("src/base/c.h", "struct tell {\n    int x;\n};\n"),
                       ("src/base/c.c", "static int c_tell(int x) {\n    return x;\n}\n"),
                       ("src/base/c.h", "struct c {\n    int x, tell;\n};\n")):
        expect("terms", "'tell' is said as report", planting(path, text))
    expect("comments", "src/base/c.h:1: a comment stands alone", planting("src/base/c.h", "int c; /* ... and d */\n"))
    expect("comments", "a comment names its subject", planting("src/base/c.h", "int c; /* Of all that came. */\n"))
    expect("comments", "src/base/c.h:1: a comment stands alone", planting("src/base/c.h", "int c; /* likewise */\n"))
    for line in (" * " + "x" * 98, "int c; /* " + "x" * 88 + " */"):
        expect("comments", "src/base/c.h:1: 101 columns; a comment has at most 100", planting("src/base/c.h", line + "\n"))
    expect("comments", "src/base/c.c:2: a text stands alone", planting("src/base/c.c", "{.help =\n    \"... and d\"},\n"))
    for line in ("/* ---- title ------------", "/* --- title --- */", "/* ---- */", " * ------------ */"):
        expect("comments", "src/base/c.c:1: a ruler is", planting("src/base/c.c", line + "\n"))
    expect("words", "src/base/c.c: the first line carries", planting("src/base/c.c", "int c;\n"))
    expect("words", "docs/c.md:1: names a path", planting("docs/c.md", "see /wo" + "rk/main\n"))
    expect("words", "docs/c.md:1: names a path", planting("docs/c.md", "see ../sha" + "red/goldens/x\n"))
    expect("mirrors", "src/base/c.c: has neither tests/base/test_c.c", planting("src/base/c.c", LICENCE))
    expect("mirrors", "src/bench/c.c: has neither tests/bench/test_c.c", planting("src/bench/c.c", LICENCE))
    expect("mirrors", "tests/programs/test_c.py: strike it out", planting(
        "src/bench/c.c", LICENCE, "tests/programs/test_c.py", LICENCE, "tests/programs/meson.build", "'c'",
        "tests/house/covered.txt", "src/bench/c.c tests/programs/test_c.py\n"))
    expect("mirrors", "tests/base/test_a.c: strike it out", planting(
        "src/base/a_avx2.c", LICENCE, "tests/house/covered.txt", "src/base/a_avx2.c tests/base/test_a.c\n"))
    expect("mirrors", "tests/base/test_z.py: is not in", planting("tests/base/test_z.py", LICENCE))
    expect("mirrors", "tests/base/test_z.c: is not in tests/base/meson.build",
           planting("tests/base/test_z.c", LICENCE))
    expect("mirrors", "src/base/a.c has tests/base/test_a.c: strike it out",
           planting("tests/house/covered.txt", "src/base/a.c tests/base/test_a.c\n"))
    expect("mirrors", "60 sources; at most 57", planting(
        "tests/house/covered.txt", "".join("src/base/%d.c tests/base/test_a.c\n" % i for i in range(60))))
    for name in ("test_that_it_works", "it_works"):
        for head in ("static void %s(void **state)", "TEST(%s)", "TEST_AROUND(%s, open_one, NULL)"):
            expect("cases", name + " says not in a sentence", planting(
                "tests/base/test_a.c", LICENCE + head % name + " {\n}\n"))
    expect("tour", "no such file: src/base/gone.c",
           planting("docs/tour.md", "`src/base/gone.c:gone_one` is first.\n"))
    expect("tour", "src/base/a.c defines no function a_gone", planting(
        "docs/tour.md", "`src/base/a.c:a_f1`, then `src/base/a.c:a_gone`.\n"))
    expect("tour", "a stop is written", planting("docs/tour.md", "`src/base/a.c:a_f1`, `src/base/a.h`\n"))
    mutation = "A planted bug.\n\n--- a/src/base/d.c\n+++ b/src/base/d.c\n@@ -1,1 +1,1 @@\n-int %s;\n+int wrong;\n"
    write_mutation = lambda text: planting("src/base/d.c", "int right;\n", "tests/simulate/mutations/d.patch", mutation % text)
    expect("mutations", "tests/simulate/mutations/d.patch: does not apply any more", write_mutation("gone"))
    expect("mutations", "tests/simulate/mutations/d.patch: calls gone, which does not exist", planting(
        "src/base/d.c", "int right;\n", "tests/simulate/mutations/d.patch", (mutation % "right").replace("wrong", "wrong = gone()")))
    expect("documents", "README.md: 96 lines; at most 95", planting("README.md", "\n" * 96))
    expect("documents", "docs/architecture.md: 351 lines", planting("docs/architecture.md", "\n" * 351))
    expect("documents", "docs/c.md: links to gone.md", planting("docs/c.md", "[gone](gone.md)\n"))
    expect("documents", "docs/tour.md has no heading #gone", planting("docs/c.md", "[gone](tour.md#gone)\n"))
    expect("documents", "docs/api.md: the contents do not list 'Another field'", planting(
        "docs/api.md", "# API\n\n## Contents\n\n* [One field](#one-field)\n\n## One field\n\n### Another field\n"))
    expect("documents", "docs/c.md: ./dev has no command gone", planting("docs/c.md", "Run `./dev serve`, `./dev gone 3`.\n"))
    expect("documents", "docs/c.md: no meson.build of tests lists a test gone", planting(
        "docs/c.md", "Run `meson test -C build --suite base`, `meson test -C build\n--setup long a gone`.\n"))
    expect("documents", "docs/c.md: src has no base/gone.h", planting(
        "docs/c.md", "See `base/a`, `src/base/a.c`, `serving/policy` and `base/gone.h`.\n"))
    expect("documents", "docs/operations.md: the program logs no line 'is gone …'", planting(
        "src/base/c.c", LICENCE + 'log_say("is " "there");\nlog_say("came "\n    "back");\n', "docs/operations.md",
        "## Subjects\n\n| `a` | `came back` | |\n| | `is gone …` | `not a line` |\n"))
    expect("documents", "docs/c.md:2: 'Nobody': write 'no client, none'", planting(
        "docs/c.md", "A `told` in code.\nNobody reads this.\n"))
    expect("documents", "bench/c.py cannot be run", planting("docs/c.md", "Measured by `bench/c.py FATHOM`.\n"))
    expect("documents", "docs/c.sh cannot be run", planting("docs/c.md", "```sh\ndocs/c.sh FATHOM\n```\n", "docs/c.sh", ""))


def build_library(root, room, text):
    path = os.path.join(root, room)
    write(root, room + ".c", text)
    subprocess.run(["cc", "-w", "-O0", "-c", path + ".c", "-o", path + ".o"], check=True)
    subprocess.run(["ar", "rcs", path + ".a", path + ".o"], check=True)
    return "%s=%s.a" % (room, path)


def purity_law():
    libm = subprocess.run(["cc", "-print-file-name=libm.so.6"], capture_output=True, text=True,
                          check=True).stdout.strip()
    with tempfile.TemporaryDirectory() as root:
        sound_tree(root)
        write(root, "docs/rooms.txt", re.sub(r"(contract|text|unit) *->", r"\1 -> base", ROOMS))
        libraries = [build_library(root, "base", "int a_one(int x) { return x; }\n")]
        for room in ("contract", "serving/text", "serving/unit"):
            libraries.append(build_library(root, room, "int a_one(int);\nint %s_two(void) "
                                           "{ return a_one(2); }\n" % os.path.basename(room)))
        pure = build_library(root, "serving/policy", "double exp(double);\nint a_one(int);\n"
                             "int b(double x) { return a_one(2) + (int)exp(x); }\n")
        code, text = law(root, "purity", libm, *libraries, pure)
        if code:
            failures.append("purity finds fault with pure rooms: " + text)
        for call, needle in (("time(0)", "time()"), ("malloc(1)", "malloc()"), ("printf(0)", "printf()"),
                             ("unit_two()", "unit_two()"), ("pcre2_match_8()", "pcre2_match_8()")):
            impure = build_library(root, "serving/policy", "long %s();\nlong b(void) { return %s; }\n" % (
                needle[:-2], call))
            code, text = law(root, "purity", libm, *libraries, impure)
            if code != 1 or "src/serving/policy: is pure, but uses " + needle not in text:
                failures.append("purity does not see %s: %s" % (call, text))


def choices_law():
    others = ("int rank_units_create(void);\nint supervise_unit_start(void);\n"
              "int supervise_agent_look(void);\n")
    machines = "int gateway_create(void);\n" + others
    calls = "gateway_create() + rank_units_create() + supervise_unit_start() + supervise_agent_look()"
    with tempfile.TemporaryDirectory() as root:
        product = [build_library(root, "serving/policy", "int balance_units(void) { return 1; }\n"
                                 "int rebalance_layer(void) { return 1; }\n"),
                   build_library(root, "serving/supervision", "int supervise_unit_start(void) { return 1; }\n"
                                 "int supervise_agent_look(void) { return 1; }\n"),
                   build_library(root, "serving/unit", "int rank_units_create(void) { return 1; }\n"),
                   build_library(root, "serving/gateway", "int gateway_create(void) { return 1; }\n")]
        for text, needle in (
                (machines + "int rebalance_layer(void);\nint twin(void) { return rebalance_layer() + %s; }\n" % calls, None),
                (machines + "int balance_units(void);\nint twin(void) { return balance_units() + %s; }\n" % calls,
                 "src/simulate: chooses with balance_units()"),
                ("int gateway_create(void) { return 2; }\n%sint twin(void) { return %s; }\n" % (others, calls),
                 "a gateway_create() of its own"),
                ("int twin(void) { return 1; }\n", "nobody calls rank_units_create()")):
            code, said = law(root, "choices", *product, build_library(root, "simulate", text))
            if code != (needle is not None) or (needle and needle not in said):
                failures.append("choices, where %s is wrong: %s" % (needle or "nothing", said))


def recorded_law():
    machine = "{NUMBER(unit_options, rows, 4), TEXT(gateway_options, rows)};\noptions.more = more;\n"
    unit = "struct unit_options {\n    int rows; /* rooms */\n    const char (*more)[4];\n};\n"
    with tempfile.TemporaryDirectory() as root:
        write(root, "src/programs/recorded_machine.c", machine)
        write(root, "src/serving/gateway/gateway.h", "struct gateway_options {\n    int rows;\n};\n")
        for text, needle in ((unit, ""),
                             (unit.replace("};", "    bool room[2];\n};"), "unit.h: unit_options.room is not told"),
                             (unit.replace("rows;", "rows, room;"), "unit.h: unit_options.room is not told")):
            write(root, "src/serving/unit/unit.h", text)
            code, said = law(root, "recorded")
            if code != bool(needle) or needle not in said:
                failures.append("recorded, where %s is wrong: %s" % (needle or "nothing", said))
        write(root, "src/serving/gateway/gateway.h", "struct gateway_options {\n    int more, page;\n};\n")
        if "gateway.h: gateway_options.page is not told" not in law(root, "recorded")[1]:
            failures.append("recorded does not see an option of the gateway")


text_laws()
purity_law()
choices_law()
recorded_law()
print("\n".join(failures))
sys.exit(1 if failures else 0)
