#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_bench_layer.py FATHOM [DEVICE...]: `fathom bench layer`: every part of the layer has a line with a time, what it has
to do and its floor; the table has each point of the grid once; and clear refusals. On each DEVICE, a stand-in for a
GPU, the same parts have a time, the floors of an H800 and a word that the times mean nothing."""
import csv
import json
import subprocess
import sys
import tempfile

fathom = sys.argv[1]
SMALL = ("--shape", "tiny", "--rounds", "2", "--tokens", "3", "--context", "100", "--prompt-tokens", "70",
         "--prompt-context", "70", "--threads", "2")
BOTH = ["attention_norm", "down", "latent", "query", "rope", "output_input", "output", "attention_add", "gate_norm",
        "gate", "top_k", "send", "shared_up", "shared_silu", "shared_down", "expert_input", "expert_up",
        "expert_silu", "expert_down", "expert_result", "combine", "shared_add", "mlp_add"]
DECODE = sorted(BOTH + ["absorb_query", "core", "absorb_value"])
PROMPT = sorted(BOTH + ["core_prompt"])


def changed(*options):
    """SMALL with other values of some of its options."""
    values = dict(zip(SMALL[::2], SMALL[1::2]))
    values.update(zip(options[::2], options[1::2]))
    return [word for pair in values.items() for word in pair]


def run(*options):
    return subprocess.run([fathom, "bench", "layer", *options], text=True, capture_output=True, timeout=300)


def check_case(case, names):
    parts = {part["name"]: part for part in case["parts"]}
    assert sorted(parts) == names, parts.keys()
    for part in parts.values():
        assert part["us"] > 0 and part["bytes"] > 0 and part["floor_us"] > 0 and part["flop"] >= 0, part
        assert part["published_h800_us"] is None, part  # of another shape
    for key in ("flop", "bytes", "floor_us"):
        whole = sum(part[key] for part in parts.values())
        assert abs(case["layer"][key] - whole) <= 1e-3 * whole, (key, case["layer"], whole)
    return parts


def check_report():
    done = run(*SMALL, "--json")
    assert done.returncode == 0, done
    assert "memory: about" in done.stderr, done.stderr
    report = json.loads(done.stdout)
    decode, prompt = report["cases"]
    parts = check_case(decode, DECODE)
    assert (decode["tokens"], decode["context"], decode["experts"], decode["expert_rows"]) == (3, 100, 2, 12), decode
    assert parts["core"]["flop"] == 2 * 3 * 101 * 4 * (80 + 64), parts["core"]
    assert parts["expert_up"]["flop"] == 2 * 24 * 2 * 96 * 192, parts["expert_up"]
    parts = check_case(prompt, PROMPT)
    assert (prompt["tokens"], prompt["context"]) == (70, 64), prompt  # whole blocks before it
    assert parts["query"]["flop"] == 2 * 70 * 4 * 48 * 96, parts["query"]
    done = run(*SMALL, "--best", "--phase", "decode", "--activations", "f32", "--weights", "bf16",
               "--rows-per-expert", "5")
    assert done.returncode == 0 and "5 rows each" in done.stdout and "prompt:" not in done.stdout, done


def check_weights():
    for weights in ("int4-g32", "mxfp4"):
        done = run(*SMALL, "--phase", "decode", "--activations", "bf16", "--weights", weights, "--json")
        assert done.returncode == 0, done
        report = json.loads(done.stdout)
        assert report["weights"] == weights, report
        parts = check_case(report["cases"][0], DECODE)
        up = 2 * 96 * 192 * (0.5 + 2 / 32)  # gate and up; codes and a BF16 scale for each group
        assert parts["expert_up"]["bytes"] == 2 * up + 24 * 4 * (192 + 2 * 96), parts["expert_up"]


def check_device(device):
    done = run(*changed("--rounds", "1"), "--device", device, "--json")
    assert done.returncode == 0, done
    report = json.loads(done.stdout)
    assert report["engine"] == device, report
    decode, prompt = report["cases"]
    parts = check_case(decode, DECODE)
    check_case(prompt, PROMPT)
    core = parts["core"]  # by an H800's speed of reading, or of BF16 products
    assert abs(core["floor_us"] - 1e6 * max(core["bytes"] / 3.35e12, core["flop"] / 989e12)) <= 1e-4 * core["floor_us"], core
    done = run(*changed("--rounds", "1"), "--phase", "decode", "--activations", "f32", "--device", device)
    assert done.returncode == 0 and "these times mean nothing" in done.stdout, done
    if device == "emulated":  # further than the shape was made for
        done = run(*changed("--rounds", "1", "--context", "4096"), "--phase", "decode", "--device", device)
        assert done.returncode == 0, done


def check_table(folder):
    path = folder + "/table.csv"
    done = run(*SMALL, "--phase", "decode", "--table", path, "--sweep-tokens", "1,4", "--sweep-prompt", "64",
               "--sweep-context", "0,128,256", "--sweep-rows", "2,6,20")
    assert done.returncode == 0, done
    with open(path, encoding="utf-8") as file:
        lines = [line for line in file if not line.startswith("#")]
    rows = list(csv.DictReader(lines))
    assert list(rows[0]) == ["phase", "part", "tokens", "context", "expert_rows", "experts", "us", "flop", "bytes"]
    points = [(row["phase"], row["part"], int(row["tokens"]), int(row["context"]), int(row["expert_rows"]))
              for row in rows]
    assert len(set(points)) == len(points), "each point once"
    experts = [name for name in BOTH if name.startswith("expert_")]
    wanted = {("decode", "core", tokens, context, 0) for tokens in (1, 4) for context in (0, 128, 256)}
    wanted |= {("prompt", "core_prompt", 64, context, 0) for context in (0, 128, 256)}
    wanted |= {("experts", name, 0, 0, count) for name in experts for count in (2, 6, 20)}
    others = [name for name in BOTH if name not in experts]
    wanted |= {("decode", name, tokens, 0, 0) for name in others + ["absorb_query", "absorb_value"]
               for tokens in (1, 4)}
    wanted |= {("prompt", name, 64, 0, 0) for name in others}
    assert set(points) == wanted, set(points) ^ wanted
    assert all(float(row["us"]) > 0 and float(row["bytes"]) > 0 for row in rows), rows


def check_refusals(folder):
    for options, words in ((("--experts-here", "17"), "1 to 16"), (("--sweep-rows", "3,x"), "--sweep-rows"),
                           (("--shape", "v4"), "--shape"), (("--table", folder), folder),
                           (("--tokens", "0"), "--tokens"),
                           (("--device", "cuda"), "--device cpu")):
        done = run(*changed(*options))
        assert done.returncode and words in done.stderr, (options, done)


def check_memory():
    """A run that needs 300 GiB is refused before it takes any."""
    with open("/proc/meminfo", encoding="utf-8") as file:
        available = next(int(line.split()[1]) for line in file if line.startswith("MemAvailable"))
    if available < 200 << 20:
        done = run("--phase", "decode", "--tokens", "512", "--context", "524288")
        assert done.returncode and "MiB of memory" in done.stderr, done


stand_ins = [argument for argument in sys.argv[2:] if argument.startswith("emulated")]
for stand_in in stand_ins:
    check_device(stand_in)
if stand_ins:
    sys.exit()
check_report()
check_weights()
check_memory()
with tempfile.TemporaryDirectory() as scratch:
    check_table(scratch)
    check_refusals(scratch)
print("ok bench layer")
