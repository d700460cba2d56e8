#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""laws.py LAW ROOT [...]: the laws of the house, each a test of its own.

  includes ROOT                 docs/rooms.txt: who may include whom, and foreign headers by the door
  headers  ROOT CC...           every header compiles alone
  purity   ROOT ROOM=LIB...     what the pure rooms' libraries leave undefined (nm -u) is on the list
  choices  ROOT ROOM=LIB...     what is simulated chooses nothing: simulate calls no policy (but where
                                experts lie, which is the engine's part), and defines no function that
                                the product has
  lengths  ROOT                 files <= 1,000 lines, functions <= 70, but for tests/house/lengths.txt
  banned   ROOT                 calls that a room, or anyone, may not make
  owners   ROOT                 states that one file alone changes
  names    ROOT                 a file's basename, and what a struct or an enum is called, are found once
  functions ROOT                an external function is <file>_<verb>; a function's name is found once, but
                                for IDIOMS and the kernels' instruction sets
  terms    ROOT                 docs/terms.txt: words that name nothing any more
  plain    ROOT                 words of our own making stand in src, docs and helps PLAIN_MAX times at most
  comments ROOT                 comments and helps stand alone, at most 100 columns wide; rulers have one form
  words    ROOT                 licence line first; no path of a build machine anywhere
  mirrors  ROOT                 every src/*.c and *.cu has its test file (tests_of says which), or stands in
                                tests/house/covered.txt, which is short
  cases    ROOT                 the name of a test's case is a sentence
  tour     ROOT                 every stop of docs/tour.md is a function of that file
  recorded ROOT                 recordings tell every option with which a machine is created
  documents ROOT                short ones stay short; links between *.md lead to a file and a heading, and the contents
                                of docs/api.md list each heading; what they run exists: files of ours
                                (`folder/file.py ARGUMENTS`), commands of ./dev, tests of `meson test -C build`; files of src/ that they name exist, and the program
                                logs the lines of docs/operations.md
  mutations ROOT                every bug of tests/simulate/mutations can still be planted, as `./dev mutants` does

Prints one line per breach and exits with 1 if there is any."""
import concurrent.futures
import fnmatch
import os
import re
import subprocess
import sys

# A step's flow, and the headers behind which its values lie (compute/model/compute.h).
FLOW = re.compile(r"src/compute/model/(batch|draft|forward|mtp|plan_check|stages)\.[ch]$")
VALUES = tuple("compute/model/%s.h" % name for name in ("attention", "compute_layer", "experts", "mlp", "scratch", "token_loop"))
PURE_ROOMS = ("contract", "serving", "simulate") # each with the rooms in it
FILE_LINES_MAX = 1000
COVERED_MAX = 57
FUNCTION_LINES_MAX = 70

# Files of a room in layers, from below: a file includes only those of its room that come before it.
LAYERS = {"compute/gpu": ("gpu_kernels gpu_hopper_limits gpu_hopper gpu_rounds gpu_peers gpu_state gpu_graphs gpu_layers gpu_comm "
                          "gpu_exchange compute_gpu gpu_program").split()}

breaches = []


def breach(place, text):
    breaches.append("%s: %s" % (place, text))


def walk(root, *suffixes, under=""):
    """Paths of our own files, relative to the root, sorted."""
    found = []
    for folder, names, files in os.walk(os.path.join(root, under)):
        names[:] = sorted(n for n in names if not n.startswith(("build", ".git", ".deps")) and
                          n not in ("node_modules", "corpus", "__pycache__", "vendor"))
        for name in sorted(files):
            if name != ".git" and (not suffixes or name.endswith(suffixes)):
                found.append(os.path.relpath(os.path.join(folder, name), root))
    return found


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def code_of(text):
    """C text with comments, strings and characters blanked; lines stay where they are."""
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.DOTALL)


def room_of(path):
    return os.path.dirname(path)[len("src/"):]


def lies_in(room, places):
    """Whether the room is one of the places, or in one of them."""
    return any(room == place or room.startswith(place + "/") for place in places)


# --- includes ---------------------------------------------------------------------------------------

def read_rooms(root):
    rooms, foreign = {}, []
    for line in read(root, "docs/rooms.txt").splitlines():
        if "->" in line and not line.startswith("#"):
            room, allowed = line.split("->")
            rooms[room.strip()] = allowed.split()
        elif line.startswith("<"):
            header, allowed = line.split(":")
            foreign.append((header.strip()[1:-1], allowed.split()))
    return rooms, foreign


def check_include(rooms, foreign, root, path, place, opener, target):
    room = room_of(path)
    if opener == "<":
        for pattern, allowed in foreign:
            if fnmatch.fnmatch(target, pattern) and not lies_in(room, allowed) and path[4:] not in allowed:
                breach(place, "room %s may not include <%s>" % (room, target))
        return
    other = os.path.dirname(target)
    if other not in rooms:
        breach(place, 'includes are written "room/file.h", found "%s"' % target)
    elif other != room and other not in rooms[room]:
        breach(place, "room %s may not include %s" % (room, target))
    elif FLOW.match(path) and target in VALUES:
        breach(place, "a step's flow may not include %s: it knows tokens, not values" % target)
    elif not os.path.exists(os.path.join(root, "src", target)):
        breach(place, "no such header: %s" % target)
    elif other == room and room in LAYERS:
        own, its = (LAYERS[room].index(os.path.splitext(os.path.basename(each))[0]) for each in (path, target))
        if its > own:
            breach(place, "%s is a higher layer of its room" % target)


def law_includes(root):
    rooms, foreign = read_rooms(root)
    used = {}
    for path in walk(root, ".c", ".h", ".inc", ".cu", ".cuh", under="src"):
        if room_of(path) not in rooms:
            breach(path, "C files lie in src/<room>/, and docs/rooms.txt names the rooms")
            continue
        for number, line in enumerate(read(root, path).splitlines(), 1):
            found = re.match(r'\s*#\s*include\s*([<"])([^>"]+)', line)
            if found:
                check_include(rooms, foreign, root, path, "%s:%d" % (path, number), *found.groups())
                used.setdefault(room_of(path), set()).add(os.path.dirname(found.group(2)))
    for room, allowed in rooms.items():  # the law itself has no circles
        for other in allowed:
            if room in rooms[other]:
                breach("docs/rooms.txt", "%s and %s include one another" % (room, other))
            if other not in used.get(room, ()):
                breach("docs/rooms.txt", "no file of %s includes %s: strike it out" % (room, other))
            if room.startswith("compute/") and other.startswith("serving/"):
                breach("docs/rooms.txt", "compute/ includes nothing of serving/")


# --- headers ----------------------------------------------------------------------------------------

def law_headers(root, *compiler):
    flags = ["-std=gnu11", "-D_GNU_SOURCE", "-DFATHOM_SERVING", "-I" + os.path.join(root, "src"),
             "-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-unused-function", "-Werror",
             "-fsyntax-only", "-x", "c", "-"]

    def compile_alone(path):  # twice: it may be included again
        text = '#include "%s"\n' % os.path.relpath(path, "src") * 2
        done = subprocess.run(list(compiler) + flags, input=text, capture_output=True, text=True)
        return path, done.returncode, done.stderr

    headers = walk(root, ".h", under="src")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for path, code, text in pool.map(compile_alone, headers):
            if code:
                breach(path, "does not compile alone:\n" + text)
    for path in headers:
        if "\n#pragma once\n" not in read(root, path):
            breach(path, "expected #pragma once")


# --- purity -----------------------------------------------------------------------------------------

# memory and strings: pure functions of their arguments, without locale, state or allocation
PURE_C = set("""memcpy memmove memset memcmp memchr memrchr memmem rawmemchr strlen strnlen strcmp strncmp
    strchr strrchr strstr strspn strcspn strpbrk bcmp abort""".split())
PURE_RUNTIME = re.compile(r"_GLOBAL_OFFSET_TABLE_|__stack_chk_fail|__(mem|str)\w+_chk|"
                          r"__(asan|ubsan|tsan|sanitizer|gcov|sancov)_\w+|"
                          r"__(u?div|u?mod|mul|popcount|clz|ctz|ash[lr]|lshr)\w*[dt]i\d|"
                          r"__u?(float|fix)\w+")


def symbols(path, *flags):
    text = subprocess.run(["nm", "-P", *flags, path], capture_output=True, text=True, check=True)
    return {line.split()[0].split("@")[0] for line in text.stdout.splitlines()
            if len(line.split()) >= 2}


def law_purity(root, libm, *pairs):
    rooms, _ = read_rooms(root)
    libraries = dict(pair.split("=", 1) for pair in pairs)
    math = symbols(libm, "-D", "--defined-only")
    owned = {room: symbols(path, "--defined-only", "-g") for room, path in libraries.items()}
    for room in (room for room in rooms if lies_in(room, PURE_ROOMS)):
        parent = os.path.dirname(room)
        if room not in libraries and (parent in libraries or not walk(root, ".c", under="src/" + room)):
            continue  # a room in a room lies in that one's library
        if room not in libraries:
            breach("src/" + room, "has no static library to look into")
            continue
        allowed = set(PURE_C) | math | owned[room]
        for other in rooms[room]:
            allowed |= owned.get(other, owned.get(os.path.dirname(other), set()))
        for symbol in sorted(symbols(libraries[room], "-u")):
            if symbol not in allowed and not PURE_RUNTIME.fullmatch(symbol):
                breach("src/" + room, "is pure, but uses %s()" % symbol)


# --- choices ----------------------------------------------------------------------------------------

# What the hosts' side of the product asks of serving/policy, too (host/engine/rebalancer, lanes;
# host/process/agent/unit_places, agent), and texts.
NO_SCHEDULER = re.compile(r"(balance_experts|rebalance|move_experts|choose_overlap|place_ranks"
                          r"|balance_traffic)\w*|\w+_name")


def law_choices(root, *pairs):
    libraries = dict(pair.split("=", 1) for pair in pairs)
    simulated = [room for room in libraries if lies_in(room, ("simulate",))]
    policy = symbols(libraries["serving/policy"], "--defined-only", "-g")
    product = {symbol: room for room, path in libraries.items() if room not in simulated
               for symbol in symbols(path, "--defined-only", "-g")}
    called = set()
    for room in simulated:
        undefined = symbols(libraries[room], "-u")
        called |= undefined
        for symbol in sorted(undefined & policy):
            if not NO_SCHEDULER.fullmatch(symbol):
                breach("src/" + room, "chooses with %s(), which only machines may" % symbol)
        for symbol in sorted(symbols(libraries[room], "--defined-only", "-g") & set(product)):
            breach("src/" + room, "has a %s() of its own beside that of src/%s" % (symbol, product[symbol]))
    for machine in ("gateway_create", "rank_units_create", "supervise_unit_start", "supervise_agent_look"):
        if machine not in called:
            breach("src/simulate", "does not run the product's machines: nobody calls %s()" % machine)


# --- lengths ----------------------------------------------------------------------------------------

def functions_of(text):
    """(name, lines) of each function body in clang-formatted C: from its first line to its `}`."""
    for name, count, _ in definitions_of(text):
        yield name, count


def definitions_of(text):
    """(name, lines, head) of each function body; the head is what stands before the name."""
    lines = code_of(text).splitlines()
    start = None
    for number, line in enumerate(lines):
        if start is None and re.match(r"[A-Za-z_]", line):
            start = number
        if start is not None and line.startswith("}"):
            head = " ".join(lines[start:number])
            found = re.match(r"TEST\w*\((\w+)", head) or re.match(r"[^={;]*?(\w+)\s*\([^={]*\{", head)
            if found:
                yield found.group(1), number - start + 1, head[:found.start(1)]
            start = None
        elif start is not None and line.rstrip().endswith(";"):
            text = "".join(lines[start:number + 1])
            if text.count("{") == text.count("}"):
                start = None


def measure_lengths(root):
    lengths = {}
    for path in walk(root, ".c", ".h", ".inc", ".cu", ".cuh", ".py", ".js", ".mjs", ".css", ".html", "dev"):
        text = read(root, path)
        lengths[path] = (text.count("\n"), FILE_LINES_MAX)
        if path.endswith((".c", ".h", ".inc", ".cu", ".cuh")):
            for name, count in functions_of(text):
                lengths["%s:%s" % (path, name)] = (count, FUNCTION_LINES_MAX)
    return lengths


def law_lengths(root):
    known = {}
    for line in read(root, "tests/house/lengths.txt").splitlines():
        if line and not line.startswith("#"):
            place, count = line.split()
            known[place] = int(count)
    lengths = measure_lengths(root)
    for place, (count, limit) in lengths.items():
        if count > known.get(place, limit):
            breach(place, "%d lines; at most %d" % (count, known.get(place, limit)))
    for place, count in known.items():
        now, limit = lengths.get(place, (0, 0))
        if now < count:
            breach("tests/house/lengths.txt", "%s has shrunk to %d: %s" % (
                place, now, "lower it" if now > limit else "strike it out"))
    if sum(1 for place in lengths if ":" in place) < 20:
        breach("tests/house/laws.py", "found hardly any functions: functions_of is broken")


# --- banned calls -----------------------------------------------------------------------------------

ALLOCATE = "malloc calloc realloc free aligned_alloc posix_memalign strdup strndup asprintf vasprintf"
CLOCK = "clock_now_ns clock_gettime gettimeofday time clock nanosleep usleep sleep"
BANNED = (  # names, where they may stand, why
    (ALLOCATE, r"src/(base|host|compute|command|bench|programs)/", "allocates"),
    # team: spins for a while, then sleeps; peer_watch: how long a rank is silent; exchange: times transfers, and slows them down; move_transport: keeps to a rate;
    # job: how long a failure may stay unexplained;
    # weights_file: waits for a process that is dying; device_mailboxes: rests until an emulated device's peers have come
    (CLOCK, r"src/(host|command|bench|programs)/|src/base/clock\.h|src/compute/kernels/team\.c|"
     r"src/compute/exchange/(exchange|job|move_transport|peer_watch)\.c|src/compute/weights/weights_file\.c|src/compute/emulated/device_mailboxes\.c",
     "reads the clock, which only the host does"),
    ("token_loop_run token_loop_normalize token_loop_linear linear_job linear_prepare linear_run team_run tensor_to_float",
     r"src/(?!compute/model/(batch|draft|forward|mtp|plan_check|stages)\.)", "computes, which a step's flow leaves to compute/model/compute.h"),
    ("sprintf vsprintf strcpy strcat strncpy strncat gets stpcpy", None, "knows no bound: format_text"),
    ("atoi atol atoll atof", None, "cannot tell an error: strtol, strtod"),
    ("strtok rand srand random drand48 alloca setlocale tmpnam mktemp system popen", None,
     "has hidden state or a better successor"),
    ("assert", None, "vanishes with NDEBUG: check()"),
)


def law_banned(root):
    for path in walk(root, ".c", ".h", ".inc", ".cu", ".cuh", under="src"):
        for number, line in enumerate(code_of(read(root, path)).splitlines(), 1):
            for name in re.findall(r"(?<![\w.>])(\w+)\s*\(", line):
                for names, where, why in BANNED:
                    if name in names.split() and not (where and re.match(where, path)):
                        breach("%s:%d" % (path, number), "%s() %s" % (name, why))
            if FLOW.match(path) and re.search(r"\bfloat\b(?! \*logits\b)|(->|\.)weights\b", line):
                breach("%s:%d" % (path, number), "a step's flow names values by tokens' indices, never by pointers")


# --- owners -----------------------------------------------------------------------------------------

CHANGE = r"\s*(\+\+|--|[-+|&]?=[^=])"
OWNED = (  # where, what changes it, who may, what it is
    ("src/serving/unit/", r"request->state\s*=[^=]|->counts\[[^]]*\]" + CHANGE,
     ("unit_request.c",), "a request's state and the counts of states"),
    ("src/serving/gateway/", r"\blife(\.|->)[\w.\[\]]+" + CHANGE + r"|\blife\s*=[^=]"
     r"|(->|\.)requests\.[\w.\[\]]+" + CHANGE + r"|->(bound|promised_pages)" + CHANGE + r"|->id\.attempt" + CHANGE +
     r"|(?<!const )struct request_(life|binding|list|table) \*",
     ("request.c", "request.h", "request_list.c", "request_list.h"), "a request's life, or the tables and counts that follow from it"),
)


def law_owners(root):
    for path in walk(root, ".c", ".h", under="src"):
        for where, pattern, owners, what in OWNED:
            if not path.startswith(where) or os.path.basename(path) in owners:
                continue
            for number, line in enumerate(code_of(read(root, path)).splitlines(), 1):
                if re.search(pattern, line):
                    breach("%s:%d" % (path, number), "changes %s, which only %s does" % (what, owners[0]))


# --- names ----------------------------------------------------------------------------------------

SAME_NAMES = {"meson.build"}


def law_names(root):
    found = {}  # a name's files
    for path in walk(root, under="src"):
        found.setdefault(os.path.basename(path), set()).add(path)
        if path.endswith((".c", ".h", ".inc", ".cu", ".cuh")):
            for name in re.findall(r"^((?:struct|enum|union) \w+) \{", code_of(read(root, path)), re.MULTILINE):
                found.setdefault(name, set()).add(path)
    for name, paths in sorted(found.items()):
        if len(paths) > 1 and name not in SAME_NAMES:
            breach(sorted(paths)[-1], "%s is also found in %s" % (name, sorted(paths)[0]))


# --- functions ------------------------------------------------------------------------------------

# What a static function may be called in any file. All other names are found by one search.
IDIOMS = set("""add begin close compare end fill find grow init next open pop print push put read refuse run start
    write""".split())
INSTRUCTION_SETS = "src/compute/kernels"  # a table of kernels for each: the same names on purpose
TABLES = ("src/compute/gpu/gpu_hopper.c",)  # functions are named after the table's members
LIBRARIES = re.compile(r"main|char|__tsan_\w+|__attribute__")  # names that others prescribe, and types


def starts_with_file(name, stems):
    return any(name == stem or name.startswith((stem + "_", stem.rstrip("s") + "_")) for stem in stems)


def law_functions(root):
    declared = {}  # a name's headers
    for path in walk(root, ".h", under="src"):
        stem = os.path.splitext(os.path.basename(path))[0]
        text = code_of(read(root, path))
        actions = " ".join(re.findall(r"^command_action ([\w,\s]+);", text, re.MULTILINE))
        for name in re.findall(r"\b(\w+)\(", text) + re.findall(r"\w+", actions):
            declared.setdefault(name, set()).add(stem)
    found = {}  # a name's files
    for path in walk(root, ".c", ".h", under="src"):
        stem = os.path.splitext(os.path.basename(path))[0]
        kernels = os.path.dirname(path) == INSTRUCTION_SETS
        if kernels or path in TABLES or path.endswith("_none.c"):
            continue
        for name, _, head in definitions_of(read(root, path)):
            if LIBRARIES.fullmatch(name) or name.isupper():
                continue
            if not re.search(r"\bstatic\b", head) and not starts_with_file(name, {stem} | declared.get(name, set())):
                breach(path, "%s has external linkage: expected a name that begins with %s_" % (name, stem))
            if name not in IDIOMS:
                found.setdefault(name, set()).add(path)
    for name, paths in sorted(found.items()):
        if len(paths) > 1:
            breach(sorted(paths)[-1], "%s() is also found in %s: begin it with the file's name" % (name, sorted(paths)[0]))


# --- terms ----------------------------------------------------------------------------------------

def named_in(path, text):
    """(kind, name) of what a file names for others: itself, structs, enums, functions, and a header's members."""
    code = code_of(text)
    yield "file", os.path.splitext(os.path.basename(path))[0]
    for name in re.findall(r"^(?:struct|enum|union) (\w+) \{", code, re.MULTILINE):
        yield "struct or enum", name
    for name, _ in functions_of(text):
        yield "function", name
    if path.endswith(".h"):
        for body in re.findall(r"^(?:struct|union) \w+ \{(.*?)^\}", code, re.MULTILINE | re.DOTALL):
            for member in re.sub(r"\[[^]]*\]", "", body).replace(",", ";").split(";"):
                name = re.search(r"\(\*(\w+)\)", member) or re.search(r"(\w+)\s*$", member)
                if name:
                    yield "member", name.group(1)


def term_holds_in(rooms, path):
    """Whether a row is about a file: `rooms` are "*", paths below src, or "-path" for all but that."""
    place = path[len("src/"):]
    without = [room[1:] for room in rooms if room.startswith("-")]
    within = [room for room in rooms if not room.startswith("-") and room != "*"]
    return not place.startswith(tuple(without)) and (not within or place.startswith(tuple(within)))


def law_terms(root):
    rows = []
    for line in read(root, "docs/terms.txt").splitlines():
        if line.strip() and not line.startswith("#"):
            word, rooms, _, term = (cell.strip() for cell in line.split("|"))
            rows.append((word, rooms.split(), term))
    for path in walk(root, ".c", ".h", under="src"):
        here = [(word, term) for word, rooms, term in rows if term_holds_in(rooms, path)]
        for kind, name in set(named_in(path, read(root, path))):
            for word, term in here:
                if "_%s_" % word in "_%s_" % name.lower():
                    breach(path, "%s %s: '%s' is said as %s (docs/terms.txt)" % (kind, name, word, term))


# --- plain ----------------------------------------------------------------------------------------

PLAIN = re.compile(r"\b(told|whose|nobody|beside|whoever)\b", re.IGNORECASE)
PLAIN_MAX = 40


def law_plain(root):
    counts = {}
    for path in walk(root, ".c", ".h", ".cu", ".cuh", ".inc", ".md", ".js", ".html", "/dev"):
        if path.startswith(("src/", "docs/")) or path in ("README.md", "dev"):
            count = len(PLAIN.findall(read(root, path)))
            if count:
                counts[path] = count
    if sum(counts.values()) > PLAIN_MAX:
        for path, count in sorted(counts.items(), key=lambda each: -each[1]):
            breach(path, "told, whose, nobody, beside or whoever: %d times; %d in all, at most %d" % (
                count, sum(counts.values()), PLAIN_MAX))


# --- comments -------------------------------------------------------------------------------------

COLUMNS_MAX = 100  # of a comment: clang-format wraps code alone


def law_comments(root):
    ruler = re.compile(r"\s*/\* ---- \S(?:.*\S)? ---- \*/")
    for path in walk(root, ".c", ".h", ".inc", ".cu", ".cuh"):
        if not path.startswith(("src/", "tests/", "bench/")):
            continue
        for number, line in enumerate(read(root, path).splitlines(), 1):
            place = "%s:%d" % (path, number)
            if path.startswith("src/") and re.search(r"/\*+\s*(What|Of|As|And|So)\b", line):
                breach(place, "a comment names its subject: it does not begin with What, Of, As, And or So")
            if len(line) > COLUMNS_MAX and re.search(r"^\s*(/?\*|//)|[;,{] /[*/]", line):
                breach(place, "%d columns; a comment has at most %d" % (len(line), COLUMNS_MAX))
            if re.search(r"(/\*|//)\s*\.\.\.", line):
                breach(place, "a comment stands alone: it does not begin with '...'")
            if re.search(r'help\s*=\s*"\.\.\. |^\s*"\.\.\. ', line):
                breach(place, "a text stands alone: it does not begin with '...'")
            if re.search(r"/\* likewise\b", line):
                breach(place, "a comment stands alone: it says what it is like")
            if re.match(r"\s*(/\*|//) ?--[- ]|\s*\* ?-{8,}", line) and not ruler.fullmatch(line):
                breach(place, "a ruler is /* ---- title ---- */")


# --- words ------------------------------------------------------------------------------------------

LICENCE = "SPDX-License-Identifier: Apache-2.0"
SOURCES = (".c", ".h", ".inc", ".cu", ".cuh", ".py", ".sh", ".js", ".mjs", ".css", ".html", "meson.build", "/dev")
DATA = (".gz", ".safetensors", ".jsonl", ".bin", ".npy", ".png", ".ico", ".trips", "tokenizer.json")


def law_words(root):
    machine_path = re.compile(r"(?<![\w./-])(\.\./)?" + "sha" + r"red/(design|goldens|bench|models)|/wo" + r"rk/")
    for path in walk(root):
        if ("/" + path).endswith(SOURCES):
            head = read(root, path).splitlines()[:2]
            if not any(LICENCE in line for line in head):
                breach(path, "the first line carries '%s'" % LICENCE)
        if path.endswith(DATA) or "/seeds/" in path or path.startswith("tests/golden/"):
            continue
        for number, line in enumerate(read(root, path).splitlines(), 1):
            if machine_path.search(line):
                breach("%s:%d" % (path, number), "names a path of one machine")


# --- mirrors ----------------------------------------------------------------------------------------

VARIANT = re.compile(r"_(c|avx2|avx512|avx512bf16|amx|neon|neonbf16|cpu|cuda|emulated|gpu|none)$")


def tests_of(path):
    """Where a source's own test may be. Programs and benchmarks are tested from outside, as a whole. What one header has
    for several instruction sets or devices, or for builds with and without a library, is tested by that header's test."""
    room, name = os.path.split(os.path.splitext(path[len("src/"):])[0])
    names = [name] + [VARIANT.sub("", name)] * bool(VARIANT.search(name))
    tests = ["tests/%s/test_%s.c" % (room, each) for each in names]
    return tests + ["tests/programs/test_%s.py" % name] * (room in ("programs", "bench"))


def law_mirrors(root):
    covered = {}
    for line in read(root, "tests/house/covered.txt").splitlines():
        if line and not line.startswith("#"):
            source, test = line.split(None, 2)[:2]
            covered[source] = test
    for path in walk(root, ".c", ".cu", under="src"):
        tests = tests_of(path)
        own = [test for test in tests if os.path.exists(os.path.join(root, test))]
        if own and path in covered:
            breach("tests/house/covered.txt", "%s has %s: strike it out" % (path, own[0]))
        if not own and path not in covered:
            breach(path, "has neither %s nor a line in tests/house/covered.txt" % tests[0])
    for each in [each for pair in covered.items() for each in pair]:
        if not os.path.exists(os.path.join(root, each)):
            breach("tests/house/covered.txt", "%s does not exist" % each)
    if len(covered) > COVERED_MAX:
        breach("tests/house/covered.txt", "%d sources; at most %d" % (len(covered), COVERED_MAX))
    for path in walk(root, ".c", ".py", under="tests"):
        folder, name = os.path.split(path)
        if name.startswith("test_"):
            listed = read(root, folder + "/meson.build")
            if os.path.splitext(name)[0][5:] not in listed:
                breach(path, "is not in %s/meson.build, so it never runs" % folder)


# --- cases ------------------------------------------------------------------------------------------

def law_cases(root):
    for path in walk(root, ".c", under="tests"):
        for one, other in re.findall(r"^static void (\w+)\(void \*\*\w+\) \{|^TEST\w*\((\w+)[^)]*\) \{", read(root, path), re.MULTILINE):
            name = one or other
            if name.startswith("test_") or name.count("_") < 2:
                breach(path, "%s says not in a sentence what holds" % name)


# --- recorded ---------------------------------------------------------------------------------------

RECORDED = "src/programs/recorded_machine.c"
CREATED_WITH = (("src/serving/unit/unit.h", "unit_options"), ("src/serving/gateway/gateway.h", "gateway_options"))


def members_of(text, struct):
    """The names of a struct's members."""
    body = re.search(r"^struct %s \{(.*?)^\};" % struct, code_of(text), re.MULTILINE | re.DOTALL).group(1)
    for member in re.sub(r"\[[^]]*\]", "", body).replace(",", ";").split(";")[:-1]:
        yield (re.search(r"\(\*(\w+)\)", member) or re.search(r"(\w+)\s*$", member)).group(1)


def law_recorded(root):
    """A member has a row, or is set by name when a machine is made anew."""
    text = code_of(read(root, RECORDED))
    for path, struct in CREATED_WITH:
        rows = re.findall(r"\b(?:NUMBER|TEXT|BYTES)\(%s,\s*(\w+)" % struct, text)
        for member in members_of(read(root, path), struct):
            if member not in rows and not re.search(r"\boptions\.%s =" % member, text):
                breach(path, "%s.%s is not told in recordings: give it a row in %s" % (struct, member, RECORDED))


# --- documents --------------------------------------------------------------------------------------

DOCUMENTS = (("README.md", 95), ("docs/architecture.md", 350))  # the most lines of each
WITH_CONTENTS = ("docs/api.md",)
# Words that documents for readers do without, each with what to write instead.
PLAIN_WORDS = {"told": "sent, reported", "whose": "that has", "nobody": "no client, none", "beside": "next to, compared with",
               "whoever": "any client that"}


def law_tour(root):
    text = read(root, "docs/tour.md")
    stops = re.findall(r"`(src/[\w/]+\.c):(\w+)`", text)
    for path, function in stops:
        if not os.path.exists(os.path.join(root, path)):
            breach("docs/tour.md", "no such file: " + path)
        elif function not in (name for name, _ in functions_of(read(root, path))):
            breach("docs/tour.md", "%s defines no function %s" % (path, function))
    if not stops or len(stops) < text.count("`src/"):
        breach("docs/tour.md", "a stop is written `src/.../file.c:function`")


def anchors_of(text):
    """The headings of a Markdown text as links name them."""
    heads = re.findall(r"^#+ +(.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def judge_commands(path, text, dev_commands, test_names):
    """Programs, commands of ./dev and names of tests that a document asks its reader to run."""
    for command in re.findall(r"`\./dev ([a-z][a-z0-9-]*)", text):
        if command not in dev_commands:
            breach(path, "./dev has no command %s" % command)
    for command in re.findall(r"`meson test -C build\s([^`]*)`", text):
        for name in re.sub(r"--(suite|setup)\s+\S+|(?<!\S)-\S+", "", command).split():
            if name not in test_names and not any(name.startswith(part) for part in test_names if part.endswith("_")):
                breach(path, "no meson.build of tests lists a test %s" % name)


def judge_contents(path, text):
    for head in re.findall(r"^###? +(.+)$", text, re.MULTILINE):
        for anchor in anchors_of("# " + head) - {"contents"}:
            if "](#%s)" % anchor not in text:
                breach(path, "the contents do not list '%s'" % head)


def judge_words(path, text):
    """Documents for readers are in plain words. Quoted code may contain any word."""
    for number, line in enumerate(text.splitlines(), 1):
        for word in re.findall(r"\b(%s)\b" % "|".join(PLAIN_WORDS), re.sub(r"`[^`]*`", "", line), re.IGNORECASE):
            breach("%s:%d" % (path, number), "'%s': write '%s'" % (word, PLAIN_WORDS[word.lower()]))


def judge_sources(path, text, sources):
    """Files and folders of src/ that a document names, with or without their suffix."""
    rooms = "host|serving|policy|compute|simulate|base|contract|programs|bench|command"
    for name in re.findall(r"`(?:src/)?((?:%s)/[\w/]*\w(?:\.(?:c|h|cu|cuh|inc))?)`" % rooms, text):
        if not any(("/" + source).endswith("/" + name) for source in sources):
            breach(path, "src has no %s" % name)


def judge_log_lines(root, path):
    """Each line of the log that the table of subjects quotes is a text of the program; `...` stands for any part."""
    if not os.path.exists(os.path.join(root, path)):
        return
    texts = re.sub(r'"\s*\n\s*"', "", "".join(read(root, source) for source in walk(root, ".c", ".h", under="src")))
    for row in read(root, path).partition("## Subjects")[2].partition("\n## ")[0].splitlines():
        for line in re.findall(r"`([^`]+)`", "".join(row.split("|")[2:3])):
            for part in line.split("…"):
                if part.strip(" ,") not in texts:
                    breach(path, "the program logs no line '%s'" % line)


def law_documents(root):
    sources = set()
    for source in walk(root, under="src"):
        stem = os.path.splitext(source)[0]
        sources |= {source, stem} | {"/".join(source.split("/")[:depth]) for depth in range(1, source.count("/") + 1)}
    judge_log_lines(root, "docs/operations.md")
    listed = "".join(read(root, path) for path in walk(root, "meson.build", under="tests"))
    fuzzed = [os.path.basename(path)[5:-2] for path in walk(root, ".c", under="tests/fuzz")]
    test_names = set(re.findall(r"'([\w]+)'", listed)) | {"replay_" + name for name in fuzzed}
    dev_commands = set(re.findall(r"^cmd_([\w-]+)\(\)", read(root, "dev"), re.MULTILINE)) | {"help"}
    for path in walk(root, ".md"):
        judge_commands(path, read(root, path), dev_commands, test_names)
        judge_sources(path, read(root, path), sources)
        if path.startswith("docs/") or "/" not in path:
            judge_words(path, read(root, path))
    for path in WITH_CONTENTS:
        judge_contents(path, read(root, path))
    for path, limit in DOCUMENTS:
        count = read(root, path).count("\n")
        if count > limit:
            breach(path, "%d lines; at most %d" % (count, limit))
    for path in walk(root, ".md"):
        for program in re.findall(r"(?:^|`)((?:[\w-]+/)+[\w-]+\.(?:py|sh)) +\S", read(root, path), re.MULTILINE):
            if not os.access(os.path.join(root, program), os.X_OK):
                breach(path, "%s cannot be run" % program)
        for target, anchor in re.findall(r"\]\(([^)\s#]*)#?([^)\s]*)\)", read(root, path)):
            other = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
            if "://" in target:
                continue
            if not os.path.exists(os.path.join(root, other)):
                breach(path, "links to %s, which does not exist" % target)
            elif anchor and other.endswith(".md") and anchor not in anchors_of(read(root, other)):
                breach(path, "%s has no heading #%s" % (other, anchor))


def law_mutations(root):
    called = {name for path in walk(root, ".c", ".h", under="src") for name in re.findall(r"\b(\w+)\(", read(root, path))}
    for path in walk(root, ".patch", under="tests/simulate/mutations"):
        planted = subprocess.run(["patch", "-p1", "--forward", "--reject-file=-", "--fuzz=0", "--dry-run", "-d", root, "-i",
                                  os.path.abspath(os.path.join(root, path))], capture_output=True, text=True)
        if planted.returncode:
            breach(path, "does not apply any more: " + planted.stdout.strip().replace("\n", "; "))
        added = "".join(re.findall(r"^\+(?!\+\+)(.*\n)", read(root, path), re.MULTILINE))
        for name in sorted(set(re.findall(r"\b(\w+)\(", code_of(added))) - called):
            breach(path, "calls %s, which does not exist" % name)


LAWS = {"includes": law_includes, "headers": law_headers, "purity": law_purity, "choices": law_choices,
        "functions": law_functions, "terms": law_terms, "plain": law_plain, "lengths": law_lengths, "banned": law_banned, "owners": law_owners, "names": law_names,
        "comments": law_comments, "words": law_words, "mirrors": law_mirrors, "cases": law_cases, "tour": law_tour,
        "recorded": law_recorded, "documents": law_documents, "mutations": law_mutations}


def judge(name, root, *arguments):
    """The breaches of one law in a tree."""
    breaches.clear()
    LAWS[name](root, *arguments)
    return list(breaches)


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in LAWS:
        sys.exit(__doc__)
    found = judge(*sys.argv[1:])
    for line in found:
        print(line)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
