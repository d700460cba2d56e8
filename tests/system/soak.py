#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""soak.py FATHOM SECONDS [SHORTER]: a server under 64 streaming clients for that long, of all kinds at a time: short prompts,
long ones, prompts that begin alike, talks with several answers, penalties and log probabilities; a tenth of them
leave in the middle of their answers. All the while the KV pages must add up, and in the end nothing may be left
behind: no request, no page held, every request accounted for, memory as it was once all had warmed up. Prints what
it saw; `./dev soak` runs it. SHORTER divides the lengths of prompts and answers, for slow builds."""
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

fathom, seconds = sys.argv[1], int(sys.argv[2])
shorter = int(sys.argv[3]) if len(sys.argv) > 3 else 1
PATIENCE = 900
LEAVE = ["--leave-percent", "10", "--seconds", str(seconds), "--timeout", str(PATIENCE), "--json"]
GROWTH_MAX = 0.03  # of the resident memory, from the second quarter of the time to the last
GROWTH_MIN = 3 << 20  # bytes: less is no leak
WARM_SECONDS = 120  # in less, not all has been used once


def write_shared_prefixes(path):
    """A trace whose prompts share their first blocks of 512 tokens, all due at once."""
    chance = random.Random(7)
    with open(path, "w", encoding="utf-8") as file:
        for number in range(400 * seconds):
            family = chance.randrange(8)
            file.write(json.dumps({"timestamp": 0, "input_length": chance.randrange(520, 1400) // shorter + 1,
                                   "output_length": chance.randrange(2, 120) // shorter + 1,
                                   "hash_ids": [family, 10 + chance.randrange(4), 100 + number]}) + "\n")


def lengths(prompt, output):
    """Options of `bench serve`: from a low to a high number of tokens."""
    prompt, output = ("%d:%d" % tuple(max(2, number // shorter) for number in pair) for pair in (prompt, output))
    return ["--prompt-tokens", prompt, "--output-tokens", output]


def kinds(trace):
    """Name, clients, options of `bench serve`."""
    chosen = {"n": 2, "frequency_penalty": 0.5, "presence_penalty": 0.2, "repetition_penalty": 1.1, "min_p": 0.02,
              "logprobs": True, "top_logprobs": 3}
    completion = {"logprobs": 2, "logit_bias": {"345": -5}, "min_tokens": 2, "stop": ["zebra"], "echo": False}
    return (
        ("short prompts", 24, lengths((5, 60), (20, 200))),
        ("long prompts", 8, lengths((800, 1800), (10, 60))),
        ("shared prefixes", 16, ["--trace", trace]),
        ("talks", 8, ["--endpoint", "chat", "--temperature", "1", "--no-ignore-eos", "--extra", json.dumps(chosen),
                      *lengths((4, 80), (20, 100))]),
        ("log probabilities", 8, ["--temperature", "0.8", "--extra", json.dumps(completion),
                                  *lengths((20, 300), (10, 100))]),
    )


def metrics(admin):
    text = urllib.request.urlopen(admin + "/metrics", timeout=PATIENCE).read().decode()
    return {name: float(value) for name, value in re.findall(r"^([a-z_]+(?:\{[^}]*\})?) (\S+)$", text, re.MULTILINE)}


def resident_bytes(pid):
    with open("/proc/%d/statm" % pid, encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def pages(seen, state):
    return seen['fathom_kv_pages{state="%s"}' % state]


def pages_add_up(seen):
    total = sum(pages(seen, state) for state in ("free", "held", "cached"))
    assert total == seen["fathom_kv_pages_capacity"] > 0, seen


def watch(admin, server, clients):
    """Until the clients end; resident bytes, once a second."""
    series = []
    while any(client.poll() is None for client in clients):
        pages_add_up(metrics(admin))
        series.append(resident_bytes(server.pid))
        time.sleep(1)
    return series


def median(values):
    return sorted(values)[len(values) // 2]


def memory_is_flat(series):
    """From the second quarter on: in the first one everything is used for the first time."""
    step = max(1, len(series) // 20)
    print("resident MiB:", *("%.1f" % (value / 2**20) for value in series[::step]))
    quarter = len(series) // 4
    early, late = median(series[quarter:2 * quarter] or series), median(series[-quarter:] or series)
    print("from the second quarter to the last: %+.2f MiB" % ((late - early) / 2**20))
    if seconds >= WARM_SECONDS:
        assert late - early < max(GROWTH_MIN, GROWTH_MAX * early), (early, late)


def nothing_is_left(admin, results):
    until = time.monotonic() + PATIENCE
    last = metrics(admin)
    while any(last[name] for name in ("fathom_requests_held", "fathom_requests_running", "fathom_requests_waiting")):
        assert time.monotonic() < until, last
        time.sleep(0.1)
        last = metrics(admin)
    pages_add_up(last)
    assert pages(last, "held") == 0, last
    http = sum(value for name, value in last.items()
               if name.startswith("fathom_http_requests_total") and "completions" in name)
    sent = sum(result["requests"] for result in results)
    left = sum(result["left"] for result in results)
    assert http == sent and left > 0, (http, sent, left)
    ended = {name.split('"')[1]: value for name, value in last.items()
             if name.startswith("fathom_requests_ended_total")}
    print("server: %d requests; ended: %s" % (
        http, ", ".join("%s %d" % (reason, count) for reason, count in ended.items() if count)))
    assert 0 < last["fathom_requests_cancelled_total"] <= left, (last, left)
    assert not ended["failed"] and not any(ended[name] for name in ended if name.startswith("refused")), ended
    print("steps %d, preemptions %d, pages evicted %d, cache hits %d of %d prompt tokens" % tuple(
        last["fathom_" + name] for name in ("steps_total", "preemptions_total", "kv_pages_evicted_total",
                                            "prompt_cache_hit_tokens_total", "prompt_tokens_total")))
    assert last["fathom_prompt_cache_hit_tokens_total"] + last["fathom_prompt_cache_miss_tokens_total"] == \
        last["fathom_prompt_tokens_total"], last


def load(url, folder):
    trace = os.path.join(folder, "shared.jsonl")
    write_shared_prefixes(trace)
    clients = [subprocess.Popen([fathom, "bench", "serve", url, "--concurrency", str(count), "--seed", str(number),
                                 *options, *LEAVE], stdout=subprocess.PIPE, text=True)
               for number, (_, count, options) in enumerate(kinds(trace), 1)]
    return clients


def read_results(clients):
    results = []
    for (name, count, _), client in zip(kinds(""), clients):
        result = json.loads(client.communicate()[0])
        print("%-18s %2d clients, %5d requests, %4d left; TTFT p50 %6.1f p99 %7.1f ms; TPOT p50 %6.2f p99 %6.2f ms" % (
            name, count, result["requests"], result["left"], *(
                1e3 * result[figure][share] for figure in ("ttft_seconds", "tpot_seconds") for share in ("p50", "p99"))))
        assert client.returncode == 0 and result["failed"] == 0, result
        results.append(result)
    return results


def main():
    with tempfile.TemporaryDirectory() as folder, open(folder + "/log", "w+", encoding="utf-8") as log:
        server = subprocess.Popen([fathom, "serve", "--port", "0", "--max-batch-rows", "48", "--kv-memory", "24MiB"],
                                  stdout=subprocess.PIPE, stderr=log, text=True)
        clients = []
        try:
            url = server.stdout.readline().removeprefix("listening on ").strip()
            with open(log.name, encoding="utf-8") as said:  # before the line of the clients
                admin = re.search(r"operator is listened to url=(\S+)\n", said.read()).group(1)
            clients = load(url, folder)
            series = watch(admin, server, clients)
            results = read_results(clients)
            nothing_is_left(admin, results)
            memory_is_flat(series)
            server.send_signal(signal.SIGTERM)
            assert server.wait(PATIENCE) == 0
        finally:
            for process in [server, *clients]:
                process.kill()
            log.seek(0)
            said = log.read()
            if server.returncode or "Sanitizer" in said:
                print(said[-20000:])
        assert "Sanitizer" not in said
    print("ok: %d s" % seconds)


main()
