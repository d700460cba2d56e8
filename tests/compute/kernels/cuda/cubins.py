#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cubins.py NVCC SOURCES FILE.cu...: compiles the kernels for sm_90a as a GPU build does, and reads the machine code.

A kernel that spills registers, keeps arrays in local memory, or whose products ptxas serialises (its warnings C75xx)
fails; so does one that has another tensor instruction than its source asks for. Prints the table of docs/gpu.md:
registers, shared memory and threads of each kernel, the blocks that fit on a processor, and the opcodes."""
import collections
import os
import re
import struct
import subprocess
import sys
import tempfile

FLAGS = ["-cubin", "-O3", "-std=c++17", "-fmad=false", "-gencode=arch=compute_90a,code=sm_90a", "-lineinfo",
         "-Xptxas=-v,-warn-spills"]
# The low 12 bits of an instruction: what a kernel's products are (df0: a left operand in registers). HMMA may not be there for FP8: Hopper has no such.
OPCODES = {0x9f0: "HGMMA", 0xdf0: "HGMMA", 0x9f3: "QGMMA", 0x23c: "HMMA"}
WANTED = {"bf16_gemm": {"HGMMA"}, "fp8_gemm": {"QGMMA"}, "mla_decode": {"HGMMA"}, "mla_prompt": {"HGMMA"}}  # by the beginning of a kernel's name; others have none
REGISTERS_A_PROCESSOR, THREADS_A_PROCESSOR = 65536, 2048


def sections(data):
    """(name, content) of an ELF file's sections."""
    offset, = struct.unpack_from("<Q", data, 0x28)
    size, count, names_index = struct.unpack_from("<HHH", data, 0x3A)
    rows = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size) for i in range(count)]
    names = data[rows[names_index][4]:rows[names_index][4] + rows[names_index][5]]
    for row in rows:
        name = names[row[0]:names.index(b"\0", row[0])].decode()
        yield name, data[row[4]:row[4] + row[5]] if row[1] != 8 else b""


def plain_name(symbol):
    """fp8_gemm<64> of _Z8fp8_gemmILi64EEv..."""
    found = re.match(r"_Z(?:N\d+_GLOBAL__\w+?)?L?(\d+)", symbol)
    length = int(found.group(1))
    name, rest = symbol[found.end():found.end() + length], symbol[found.end() + length:]
    return name + ("<%s>" % ", ".join(re.findall(r"Li(\d+)E", rest.split("EEv")[0] + "E")) if rest.startswith("I") else "")


def compile_file(nvcc, sources, path, folder):
    out = os.path.join(folder, os.path.basename(path) + ".cubin")
    done = subprocess.run([nvcc, *FLAGS, "-I" + sources, path, "-o", out], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    with open(out, "rb") as file:
        return done.stdout + done.stderr, dict(sections(file.read()))


def judge(path, log, parts):
    """Breaches, and a row of the table for each kernel."""
    breaches = ["%s: %s" % (path, line) for line in log.splitlines() if re.search(r"\bC75\d\d|[Ss]pilled|serializ", line)]
    rows = []
    for found in re.finditer(r"Compiling entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) "
                             r"bytes spill loads.*?Used (\d+) registers", log, re.DOTALL):
        symbol, name = found.group(1), plain_name(found.group(1))
        stack, stores, loads, registers = map(int, found.groups()[1:])
        if stack or stores or loads:
            breaches.append("%s: %s: %d bytes of stack, %d + %d of spills" % (path, name, stack, stores, loads))
        code = parts[".text." + symbol]
        counts = collections.Counter(struct.unpack_from("<Q", code, at)[0] & 0xFFF for at in range(0, len(code), 16))
        tensor = {OPCODES[code]: count for code, count in counts.items() if code in OPCODES}
        wanted = next((ops for start, ops in WANTED.items() if name.startswith(start)), set())
        if set(tensor) != wanted:
            breaches.append("%s: %s: expected %s, found %s" % (path, name, wanted or "no product", tensor))
        # .nv.info.<kernel>: EIATTR_MAX_THREADS (0x05): three 32-bit numbers
        info, threads = parts.get(".nv.info." + symbol, b""), 0
        for at in range(0, len(info) - 15, 4):
            if info[at:at + 4] == b"\x04\x05\x0c\x00":
                threads, = struct.unpack_from("<I", info, at + 4)
        rows.append((name, registers, threads, tensor, sum(counts.values())))
    return breaches, rows


def main():
    nvcc, sources, files = sys.argv[1], sys.argv[2], sys.argv[3:]
    failures, kernels = [], []
    with tempfile.TemporaryDirectory() as folder:
        for path in files:
            log, parts = compile_file(nvcc, sources, path, folder)
            breaches, rows = judge(os.path.basename(path), log, parts)
            failures += breaches
            kernels += rows
    print("| kernel | registers | threads | blocks a processor by registers | products | instructions |")
    print("|---|---|---|---|---|---|")
    for name, registers, threads, tensor, count in kernels:
        by_registers = REGISTERS_A_PROCESSOR // (threads * ((registers + 7) // 8 * 8)) if threads else 0
        products = ", ".join("%d %s" % (n, op) for op, n in sorted(tensor.items())) or "-"
        print("| %s | %d | %d | %d | %s | %d |" % (name, registers, threads,
                                                 min(by_registers, THREADS_A_PROCESSOR // max(threads, 1)), products, count))
    if not kernels:
        failures.append("no kernel found")
    for failure in failures:
        print("breach:", failure)
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
