#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_bench_serve.py FATHOM: `fathom bench serve` against `fathom serve`, whose own counts must agree, and
against invented servers that break in every way."""
import asyncio
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import threading

from server import Server

fathom = sys.argv[1]
PATIENCE = 600
EXCERPT = os.path.join(os.path.dirname(__file__), "mooncake_excerpt.jsonl")


def bench(url, *options, code=0):
    done = subprocess.run([fathom, "bench", "serve", url, *options], text=True, capture_output=True,
                          timeout=PATIENCE)
    assert done.returncode == code, done
    return done


def figures(url, *options, code=0):
    return json.loads(bench(url, *options, "--json", code=code).stdout)


# --- our own server -----------------------------------------------------------------------------------

class SmallServer(Server):
    kv_memory = "16MiB"


def read_metrics(server):
    """Prometheus' text format, read strictly: {sample: value}."""
    with server.open("/metrics") as answer:
        text = answer.read().decode()
    assert text.endswith("\n")
    samples, types, family = {}, {}, None
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            family = re.fullmatch(r"# HELP ([a-z_0-9]+) .+", line).group(1)
        elif line.startswith("#"):
            name, kind = re.fullmatch(r"# TYPE ([a-z_0-9]+) (gauge|counter|histogram)", line).groups()
            assert name == family and name not in types, line
            types[name] = kind
        else:
            sample, value = re.fullmatch(
                r'([a-z_0-9]+(?:\{[a-z_]+="[^"\\]*"(?:,[a-z_]+="[^"\\]*")*\})?) ([0-9.]+|\+Inf)', line).groups()
            name = sample.split("{")[0]
            suffix = r"(_bucket|_sum|_count)" if types[family] == "histogram" else ""
            assert re.fullmatch(family + suffix, name) and sample not in samples, line
            samples[sample] = float(value)
    return samples


def sane(result, count):
    assert result["requests"] == count and result["failed"] == 0 and result["errors"] == {}, result
    for name in ("ttft", "tpot", "itl", "e2e", "queue"):
        stats = result[name + "_seconds"]
        order = [stats[key] for key in ("p50", "p90", "p95", "p99", "max")]
        assert order == sorted(order) and order[0] >= 0 and stats["mean"] <= stats["max"], (name, stats)
    assert 0 < result["ttft_seconds"]["p50"] <= result["e2e_seconds"]["p50"] <= result["seconds"], result
    wanted = result["output_tokens"] / result["seconds"]
    assert abs(result["output_tokens_per_second"] - wanted) < 0.01 * wanted, result


def counts_agree_with_the_server(server):
    before = read_metrics(server)
    result = figures(server.url, "--requests", "24", "--concurrency", "6", "--prompt-tokens", "10:90",
                     "--output-tokens", "2:20", "--seed", "5")
    after = read_metrics(server)
    sane(result, 24)
    grown = {name: value - before.get(name, 0) for name, value in after.items()}
    assert grown["fathom_prompt_tokens_total"] == result["prompt_tokens"], (grown, result)
    assert grown["fathom_output_tokens_total"] == result["output_tokens"], (grown, result)
    assert grown['fathom_http_requests_total{endpoint="completions",status="200"}'] == 24
    for name in ("time_to_first_token_seconds", "time_per_output_token_seconds", "request_seconds",
                 "queue_seconds", "prompt_length_tokens", "output_length_tokens"):
        assert grown["fathom_%s_count" % name] == 24, name
        assert grown['fathom_%s_bucket{le="+Inf"}' % name] == 24, name
    assert grown["fathom_prompt_length_tokens_sum"] == result["prompt_tokens"]
    assert grown["fathom_step_batch_tokens_sum"] >= result["output_tokens"]
    assert grown["fathom_step_compute_seconds_count"] == grown["fathom_steps_total"]
    assert grown["fathom_request_seconds_sum"] <= 24 * result["e2e_seconds"]["mean"], "the server saw less"
    assert 2 <= result["running_max"] <= 6 and result["prompt_lengths"]["max"] <= 90, result
    again = figures(server.url, "--requests", "24", "--concurrency", "3", "--prompt-tokens", "10:90",
                    "--output-tokens", "2:20", "--seed", "5")
    assert again["prompt_tokens"] == result["prompt_tokens"], "the seed decides"


def arrivals_come_at_their_rate(url):
    result = figures(url + "/v1/", "--requests", "60", "--rate", "60", "--prompt-tokens", "8",
                     "--output-tokens", "2", "--endpoint", "chat", "--warmup", "3")
    sane(result, 60)
    assert result["seconds"] > 0.5, "sixty arrivals at 60/s take about a second, however fast the server"
    assert result["output_lengths"]["max"] == 2


def some_clients_leave(server):
    """And the server notices; with --seconds as many begin as fit."""
    before = read_metrics(server)
    result = figures(server.url, "--seconds", "2", "--concurrency", "8", "--prompt-tokens", "10:40",
                     "--output-tokens", "150:250", "--leave-percent", "40")
    after = read_metrics(server)
    while after["fathom_requests_held"]:
        after = read_metrics(server)
    assert result["failed"] == 0 and 0 < result["left"] < result["requests"] < 2000, result
    assert result["ttft_seconds"]["count"] == result["requests"] - result["left"], result
    cancelled = after["fathom_requests_cancelled_total"] - before["fathom_requests_cancelled_total"]
    assert 0 < cancelled <= result["left"], (cancelled, result)


def traces_are_played(url):
    with tempfile.TemporaryDirectory() as folder:
        azure, mooncake = os.path.join(folder, "a.csv"), os.path.join(folder, "m.jsonl")
        with open(azure, "w") as file:
            file.write("TIMESTAMP,ContextTokens,GeneratedTokens\n")
            for i in range(8):
                file.write("2023-11-16 18:15:%02d.0000000,%d,%d\n" % (40 + i, 20 + i, 3 + i))
        with open(mooncake, "w") as file:
            for i in range(4):
                file.write(json.dumps({"timestamp": i * 50, "input_length": 1000, "output_length": 900,
                                       "hash_ids": [0, i]}) + "\n")
        result = figures(url, "--trace", azure, "--speed", "20")
        sane(result, 8)
        assert result["prompt_tokens"] == sum(20 + i for i in range(8)), result
        assert result["output_tokens"] == sum(3 + i for i in range(8)), result
        assert result["seconds"] >= 7 / 20, result
        result = figures(url, "--trace", mooncake, "--max-prompt", "600", "--max-output", "4")
        sane(result, 4)
        assert (result["prompt_tokens"], result["output_tokens"]) == (2400, 16), result
        again = figures(url, "--trace", mooncake, "--max-prompt", "600", "--max-output", "4")
        assert again["cached_tokens"] >= 4 * 512, "the same blocks are the same tokens"


def scaled_traces_share_what_they_should(url):
    """Asked one after the other, the hits are those of an endless cache of whole blocks, whatever the scale."""
    for scale, seed in ((0.125, 3), (0.25, 4)):
        played = ["--trace", EXCERPT, "--scale-tokens", str(scale), "--max-prompt", "700", "--max-output", "2",
                  "--seed", str(seed)]
        plan = json.loads(subprocess.run([fathom, "bench", "serve", "--describe", "--json", *played], check=True,
                                         stdout=subprocess.PIPE).stdout)
        assert plan["requests"] == 31 and 0 < plan["ideal"]["block_cached_tokens"], plan
        result = figures(url, *played, "--concurrency", "1", "--trace-rate", "1000")
        sane(result, 31)
        assert result["ideal"] == plan["ideal"], (result, plan)
        assert result["prompt_tokens"] == plan["ideal"]["prompt_tokens"], (result, plan)
        assert result["cached_tokens"] == plan["ideal"]["block_cached_tokens"], result
    half = json.loads(subprocess.run([fathom, "bench", "serve", "--describe", "--json", "--trace", EXCERPT, "--sample",
                                      "2", "--trace-rate", "4"], check=True, stdout=subprocess.PIPE).stdout)
    assert 4 < half["requests"] < 28 and abs(half["seconds"] - half["requests"] / 4) < 1e-3, half


def mistakes_are_named(url):
    for options, words in (
            (["--prompt-tokens", "9:3"], "--prompt-tokens"), (["--output-tokens", "x"], "--output-tokens"),
            (["--token-ids", "5"], "--token-ids"), (["--extra", "[]"], "--extra"),
            (["--trace", "/nowhere"], "/nowhere"), (["--trace", EXCERPT, "--sample", "1000000000"], "--sample")):
        text = bench(url, *options, code=1).stderr
        assert words in text and text.count("\n") == 1, text
    done = subprocess.run([fathom, "bench", "serve"], text=True, capture_output=True)
    assert done.returncode == 2 and "URL" in done.stderr, done
    assert "TLS" in bench("https://localhost", code=1).stderr
    assert "port" in bench("http://localhost:x", code=1).stderr
    text = bench("http://127.0.0.1:1", code=1).stderr
    assert "cannot connect to http://127.0.0.1:1" in text and "running" in text, text
    result = figures(url, "--requests", "2", "--prompt-tokens", "60000", code=1)
    assert result["errors"]["http_4xx"]["count"] == 2, result
    assert "context" in result["errors"]["http_4xx"]["first"], result


def our_server():
    server = SmallServer()
    try:
        url = server.url
        counts_agree_with_the_server(server)
        arrivals_come_at_their_rate(url)
        some_clients_leave(server)
        traces_are_played(url)
        scaled_traces_share_what_they_should(url)
        mistakes_are_named(url)
    finally:
        server.stop()


# --- invented servers ---------------------------------------------------------------------------------

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
TOKEN = b'data: {"choices":[{"text":"x","finish_reason":null}]}\n\n'
LAST = b'data: {"choices":[{"text":"","finish_reason":"length"}]}\n\n'
DONE = b"data: [DONE]\n\n"


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


class Invented:
    """An HTTP server on a thread of its own; answers with what `answer(number, writer)` writes."""

    def __init__(self, answer):
        self.answer, self.number, self.started = answer, 0, threading.Event()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        self.started.wait()

    def run(self):
        asyncio.set_event_loop(self.loop)
        server = self.loop.run_until_complete(
            asyncio.start_server(self.serve, "127.0.0.1", 0, backlog=2000))
        self.url = "http://127.0.0.1:%d" % server.sockets[0].getsockname()[1]
        self.started.set()
        self.loop.run_forever()
        server.close()
        left = asyncio.all_tasks(self.loop)
        for task in left:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self.loop.close()

    async def serve(self, reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"Content-Length: (\d+)", head)
                await reader.readexactly(int(length.group(1)) if length else 0)
                if head.startswith(b"GET"):
                    body = b'{"data":[{"id":"m"}]}'
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
                    continue
                self.number += 1
                if not await self.answer(self.number - 1, writer):
                    break
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        writer.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()


async def break_in_every_way(number, writer):
    way = number % 8
    if way == 1:
        writer.write(b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n")
    elif way == 2:
        writer.write(b"HTTP/1.1 500 Oh\r\nContent-Length: 30\r\n\r\n" + b'{"error":{"message":"no luck"}}'[:30])
    elif way == 3:
        writer.write(HEAD + chunk(TOKEN) + chunk(b'data: {"error":{"message":"engine lost"}}\n\n') +
                     chunk(DONE) + b"0\r\n\r\n")
    elif way == 4:
        writer.write(HEAD + chunk(TOKEN))
        await writer.drain()
        return False
    elif way == 5:
        writer.write(b"SSH-2.0\r\n\r\n")
        return False
    elif way == 6:
        writer.write(HEAD + chunk(TOKEN) + b"0\r\n\r\n")
    elif way == 7:
        writer.write(HEAD + chunk(TOKEN) + b"zz\r\n")
        return False
    else:
        writer.write(HEAD + chunk(TOKEN * 3) + chunk((LAST + DONE)[:20]) + chunk((LAST + DONE)[20:]) + b"0\r\n\r\n")
    return True


def failures_are_counted_by_kind():
    with Invented(break_in_every_way) as server:
        result = figures(server.url, "--requests", "16", "--concurrency", "1", code=1)
    errors = {name: error["count"] for name, error in result["errors"].items()}
    assert errors == {"refused": 2, "http_5xx": 2, "in_stream": 2, "broken": 8}, errors
    assert result["failed"] == 14 and result["ttft_seconds"]["count"] == 2, result
    assert result["output_tokens"] == 6, "three events each, without usage from the server"
    assert result["errors"]["in_stream"]["first"] == "engine lost", result


async def say_only_the_end(number, writer):
    """An answer of one token without text: its end alone, then usage; the third has no token at all."""
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":%d}}\n\n' % (number % 3 < 2)
    if number % 3 == 1:
        usage = b""
    writer.write(HEAD + chunk(LAST) + chunk(usage + DONE) + b"0\r\n\r\n")
    return True


def answers_without_text_are_answers():
    with Invented(say_only_the_end) as server:
        result = figures(server.url, "--requests", "9", "--concurrency", "1", "--output-tokens", "1", code=1)
    assert result["errors"] == {"broken": {"count": 3, "first": "the answer has no tokens"}}, result
    assert result["output_tokens"] == 6 and result["ttft_seconds"]["count"] == 6, result


async def close_behind_each(number, writer):
    writer.write(HEAD + chunk(TOKEN + LAST + DONE) + b"0\r\n\r\n")
    await writer.drain()
    return False


def a_server_that_closes_its_connections_is_no_failure():
    with Invented(close_behind_each) as server:
        assert figures(server.url, "--requests", "30", "--concurrency", "3")["failed"] == 0


async def say_nothing(number, writer):
    await asyncio.sleep(PATIENCE)


def silence_ends():
    with Invented(say_nothing) as server:
        result = figures(server.url, "--requests", "2", "--timeout", "4", code=1)
    assert result["errors"]["timeout"]["count"] == 2, result


class Thousand:
    """Answers once all are there."""

    def __init__(self):
        self.all_there = asyncio.Event()

    async def __call__(self, number, writer):
        writer.write(HEAD)
        if number == 999:
            self.all_there.set()
        await self.all_there.wait()
        for _ in range(4):
            await asyncio.sleep(0.2)
            writer.write(chunk(TOKEN))
        return last_words(writer)


def last_words(writer):
    writer.write(chunk(LAST + DONE) + b"0\r\n\r\n")
    return True


def a_thousand_streams_at_a_time():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with Invented(Thousand()) as server:
        result = figures(server.url, "--requests", "1000", "--concurrency", "1000")
    assert result["running_max"] == 1000 and result["output_tokens"] == 4000, result


our_server()
failures_are_counted_by_kind()
answers_without_text_are_answers()
a_server_that_closes_its_connections_is_no_failure()
silence_ends()
a_thousand_streams_at_a_time()
print("ok")
