#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""twin_against.py FATHOM FOLDER --trace FILE [options]: the real server under a trace, several times, and the twin on
the same requests, with the hardware file that `fathom bench calibrate` made of this machine. Fleets: one unit; a unit
for prompts and one for answers; two units of two ranks. Prints each figure of the runs, the twin's, and their
difference. A figure is good if it is within its aim, or within the spread of the runs.

FOLDER gets a checkpoint of against_model.json's shape (109 M random parameters: a step of one answer takes some
milliseconds, so the work of gateway and clients on the same CPUs matters little), calibrated.yaml (unless they
are there), a JSON file of each run, the scenarios, and the output of the twin.
Engines have one thread each, so that on two CPUs a unit computes on one, and client and gateway on the other; two
units of two ranks share both. All the while a loop of idle priority keeps each CPU awake: a virtual CPU that slept makes the
next steps a third longer, for longer than an answer takes. On a machine with other work `--nice -15`, as root, keeps
it away."""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
CONFIG = os.path.join(HERE, "against_model.json")
FLEETS = {
    "one unit": ["--units", "1"],
    "1+1 units": ["--prefill-units", "1", "--decode-units", "1"],
    "2 units of 2 ranks": ["--units", "2", "--ranks", "2"],
}
ENGINE = ["--threads", "1", "--kv-memory", "1GiB", "--cpu-mask", "auto"]
SERVE = ["--mtp", "off", "--rebalance", "off"]
# How far the twin may be away: percent of the real figure, but points of the hit rate.
AIMS = {"throughput": 3, "tpot_p50": 3, "tpot_mean": 3, "ttft_p50": 6, "ttft_p99": 12, "hit_rate": 0.1, "step_mean": 3}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fathom")
    parser.add_argument("folder")
    parser.add_argument("--trace", required=True)
    parser.add_argument("--name", help="of the trace in file names and tables; its file's if not given")
    parser.add_argument("--scale", default="0.03125", help="of all lengths, as bench serve takes --scale-tokens")
    parser.add_argument("--rate", default="6", help="requests a second")
    parser.add_argument("--requests", default="300")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--fleets", default=",".join(FLEETS), help="some of them, with commas between")
    parser.add_argument("--nice", type=int, default=0, help="of all that is run for real")
    parser.add_argument("--at-once", action="store_true", help="with --nice: it waits for no other process (SCHED_FIFO)")
    parser.add_argument("--again", action="store_true", help="the runs are in FOLDER already")
    found = parser.parse_args()
    found.name = found.name or os.path.basename(found.trace).split(".")[0]
    return found


def go_first(options):
    """In a child: what it starts goes before other work of this machine. Linux weighs sessions against each other."""
    if not options.nice:
        return
    if options.at_once:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    os.setsid()
    os.nice(options.nice)
    with open("/proc/self/autogroup", "w", encoding="ascii") as file:
        file.write(str(options.nice))


def run(options, *command, **more):
    return subprocess.run([options.fathom, *command], check=True, text=True, stdout=subprocess.PIPE,
                          stdin=subprocess.DEVNULL, preexec_fn=lambda: go_first(options), **more).stdout


def engine(options):
    return ["--model", os.path.join(options.folder, "model"), *ENGINE]


def make_model(options):
    path = os.path.join(options.folder, "model")
    if not os.path.exists(path):
        run(options, "make-checkpoint", "--shape", CONFIG, path)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(os.path.join(HERE, "..", "models", "tiny-r1", name), path)


def calibrate(options):
    """Also of two ranks, which wait for each other without pause: not before all else."""
    path = os.path.join(options.folder, "calibrated.yaml")
    if not os.path.exists(path):
        run(options, "bench", "calibrate", *engine(options), "--ranks", "2", "--rounds", "12", "--dir", options.folder, "--out", path)
    return path


# ---- for real -----------------------------------------------------------------------------------

class Server:
    def __init__(self, options, fleet):
        self.process = subprocess.Popen(
            [options.fathom, "serve", "--port", "0", *engine(options), *SERVE, *FLEETS[fleet]], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=lambda: go_first(options))
        self.url = self.process.stdout.readline().split()[-1]
        self.admin = next(line.split("url=")[1].strip() for line in self.process.stderr if "operator is listened to" in line)

    def metrics(self):
        """The counters of steps, of all units."""
        with urllib.request.urlopen(self.admin + "/metrics") as answer:
            lines = answer.read().decode().splitlines()
        return {line.split()[0]: float(line.split()[1]) for line in lines if line.startswith("fathom_") and
                "step" in line.split("{")[0].split()[0] and "bucket" not in line}

    def stop(self):
        self.process.terminate()
        self.process.communicate()


def run_for_real(options, fleet, path):
    server = Server(options, fleet)
    try:
        run(options, "bench", "serve", server.url, "--requests", "20", "--rate", "5", "--output-tokens", "20",
            "--seed", "99", "--extra", '{"return_token_ids":true}')  # other prompts than those that count
        before = server.metrics()
        found = json.loads(run(
            options, "bench", "serve", server.url, "--trace", options.trace, "--requests", options.requests,
            "--scale-tokens", options.scale, "--max-prompt", "1900", "--max-output", "140", "--trace-rate", options.rate,
            "--extra", '{"return_token_ids":true}', "--json", "--each"))
        after = server.metrics()
    finally:
        server.stop()
    found["steps"] = {name: value - before.get(name, 0) for name, value in after.items()}
    found["load_average"] = os.getloadavg()[0]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(found, file)
    return found


def since_sent(found):
    """The twin tells it; of a real run it is taken from each request: how late its client was is left out."""
    if "each" not in found:
        return found["ttft_seconds"]
    times = sorted(one["first"] - one["sent"] for one in found["each"])

    def percentile(share):
        at = share * (len(times) - 1)
        return times[int(at)] + (at - int(at)) * (times[min(int(at) + 1, len(times) - 1)] - times[int(at)])

    return {"p50": percentile(0.5), "p99": percentile(0.99)}


def step_mean(steps):
    """Seconds that a step computes, of all units and of the workers of each: the figure of a hardware file, without the
    time of gateway, clients and the unit's own loop. It shows which of them causes a miss in TPOT."""
    return steps["fathom_step_compute_seconds_sum"] / steps["fathom_step_compute_seconds_count"]


def figures(found):
    first = since_sent(found)
    return {"throughput": found["output_tokens"] / found["seconds"],
            "tpot_p50": 1e3 * found["tpot_seconds"]["p50"], "tpot_mean": 1e3 * found["tpot_seconds"]["mean"],
            "ttft_p50": 1e3 * first["p50"], "ttft_p99": 1e3 * first["p99"],
            "hit_rate": 100 * found["cached_tokens"] / found["prompt_tokens"], "step_mean": 1e3 * step_mean(found["steps"])}


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


# ---- the twin -----------------------------------------------------------------------------------

def run_twin(options, fleet, hardware, run_path):
    scenario = os.path.join(options.folder, "%s.scenario.yaml" % fleet.replace(" ", "_"))
    with open(scenario, "w", encoding="utf-8") as file:
        file.write(scenario_of(options, fleet, hardware))
    return json.loads(run(options, "sim", scenario, "--against", run_path, "--json"))


SCENARIO = """
model: {%s}
hardware: %s
fleet:
  through_api: true
  prefix_blocks: 262144
  units:
%s
load:  # what --against brings comes instead
  mix: {requests_per_s: 1, requests: 1, tokens: {answer: 8, text: 64}}
"""
# The defaults of `fathom serve`; pages are those of its --kv-memory.
UNIT = ("  - {role: %s, count: %d, ranks: %d, rows: 64, requests: %d, step_tokens: 512, context_tokens: 2048, pages: %d, "
        "balance_experts: false}")
UNITS = {"one unit": [("both", 1, 1)], "1+1 units": [("prefill", 1, 1), ("decode", 1, 1)],
         "2 units of 2 ranks": [("both", 2, 2)]}


# Keys of a checkpoint's config.json, and the twin's names of them.
FIGURES = {"layers": "num_hidden_layers", "dense_layers": "first_k_dense_replace", "hidden": "hidden_size",
           "heads": "num_attention_heads", "q_rank": "q_lora_rank", "kv_rank": "kv_lora_rank",
           "rope_dim": "qk_rope_head_dim", "nope_dim": "qk_nope_head_dim", "value_dim": "v_head_dim",
           "experts": "n_routed_experts", "experts_per_token": "num_experts_per_tok", "expert_groups": "n_group",
           "groups_per_token": "topk_group", "expert_hidden": "moe_intermediate_size",
           "shared_experts": "n_shared_experts", "dense_hidden": "intermediate_size", "vocab": "vocab_size"}


def model_of(options, config):
    inspected = json.loads(run(options, "inspect", "model", os.path.join(options.folder, "model"), "--json"))
    kv_bytes = inspected["kv_bytes_per_token"]["bf16"]
    figures = {name: config[key] for name, key in FIGURES.items()}
    figures.update(name="model", kv_bytes_per_token=kv_bytes, mtp_acceptance=0)
    return ", ".join("%s: %s" % pair for pair in figures.items())


def scenario_of(options, fleet, hardware):
    with open(hardware, encoding="utf-8") as file:
        pages = int(re.search(r"page_count: (\d+)", file.read()).group(1))
    units = [UNIT % (role, count, ranks, 64 + 256 // ranks, pages // ranks) for role, count, ranks in UNITS[fleet]]
    return SCENARIO % (model_of(options, read(CONFIG)), os.path.abspath(hardware), "\n".join(units))


def compare(name, real, twin):
    low, high, middle = min(real), max(real), statistics.median(real)
    error = twin - middle if name == "hit_rate" else 100 * (twin - middle) / middle
    well = abs(error) <= AIMS[name] or low <= twin <= high
    return "%-11s %9.2f %9.2f %9.2f %9.2f %+8.2f %s %5g  %s" % (
        name, low, middle, high, twin, error, "points" if name == "hit_rate" else "%     ", AIMS[name],
        "well" if well else "MISSED")


class Awake:
    """All CPUs, by loops that give way to everything."""

    def __enter__(self):
        self.loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=lambda: os.sched_setscheduler(
            0, os.SCHED_IDLE, os.sched_param(0))) for _ in range(os.cpu_count())]

    def __exit__(self, *_):
        for loop in self.loops:
            loop.kill()
            loop.wait()


def main():
    with Awake():
        compare_all(arguments())


def compare_all(options):
    os.makedirs(options.folder, exist_ok=True)
    make_model(options)
    hardware = calibrate(options)
    for fleet in options.fleets.split(","):
        paths = [os.path.join(options.folder, "%s.%s.%d.json" % (options.name, fleet.replace(" ", "_"), turn))
                 for turn in range(options.runs)]
        runs = [figures(read(path) if options.again else run_for_real(options, fleet, path)) for path in paths]
        print("%s, %s requests at %s a second, lengths times %s, %s" % (
            options.name, options.requests, options.rate, options.scale, fleet))
        print("%-11s %9s %9s %9s %9s %8s        %5s" % ("", "least", "median", "most", "twin", "error", "aim"))
        twins = [figures(run_twin(options, fleet, hardware, path)) for path in paths]
        for name in AIMS:
            print(compare(name, [run[name] for run in runs], statistics.median(twin[name] for twin in twins)))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
