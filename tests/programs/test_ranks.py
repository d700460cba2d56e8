#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_ranks.py FATHOM GOLDENS MODEL SERVING [END_UNSAID]: models over several processes. Whatever the number of
ranks, the replicas, the placement and the schedule: the same logits to the last digit, the same routing, drafts and
tokens as one process, in every activation mode; the ranks are really there and share the work; and what
goes wrong is told once, with the right exit code."""
import glob
import json
import os
import subprocess
import sys
import tempfile

fathom, goldens, tiny = sys.argv[1:4]
serving = sys.argv[4] == "1"
end_unsaid = sys.argv[5] if len(sys.argv) > 5 else None  # to be loaded into ranks: their end is told to nobody
cases = ["v2lite-softmax-greedy-yarn", "v3-bf16-negbias-dense0-mtp", "v3-fp8-odd-noq-g1-noyarn",
         "v3-fp8-yarn-g8-mtp-sharded"]
# Open MPI keeps memory to its end, by the thousand pieces
environment = dict(os.environ, ASAN_OPTIONS="detect_leaks=0:" + os.environ.get("ASAN_OPTIONS", ""))


def run(*arguments, code=0, timeout=900, **keywords):
    done = subprocess.run([fathom, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=timeout, env=keywords.get("env", environment))
    told = " ".join(map(str, arguments))[:2000]
    assert done.returncode == code, (told, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    # Open MPI's own event loop complains now and then of a file that it has just closed itself.
    said = [line for line in done.stderr.splitlines() if not line.startswith("[warn] Epoll ")]
    if code == 0:
        assert not said, done.stderr
        return json.loads(done.stdout)
    assert done.stdout == "" and len(said) == 1, done
    return said[0]


def ids(tokens):
    return ",".join(map(str, tokens))


def prompts_of(folder):
    """The case's prompts, at most 40 tokens of each."""
    with open(folder + "/golden.json", encoding="utf-8") as file:
        return [prompt["tokens"][:40] for prompt in json.load(file)["prompts"][:4]]


def take_ranks(found, count):
    """Checks and removes what a result says about its ranks."""
    ranks = found.pop("ranks")
    assert [rank["rank"] for rank in ranks] == list(range(count)), ranks
    assert len({rank["pid"] for rank in ranks}) == count, ranks
    assert sum(rank["tokens_dispatched"] > 0 for rank in ranks) >= min(count, 4), ranks
    return ranks


def check_logits(folder, activations, prompt, counts, *more):
    study = ["logits", "--model", folder, "--activations", activations, "--tokens", ids(prompt), "--last", 3,
             "--top", 1000, "--routing", "--json", *more]
    alone = run(*study)
    for options in counts:
        found = run(*study, "--ranks", *options)
        ranks = take_ranks(found, options[0])
        assert found == alone, (folder, activations, options)
        experts = sum(rank["slots"] for rank in ranks)
        assert ranks[0]["slots"] == ranks[-1]["slots"] and experts >= 12, ranks


def check_several(folder, activations):
    """Several prompts in one run: each gets what it gets alone, on any number of ranks."""
    prompts = prompts_of(folder)
    common = ["--model", folder, "--activations", activations, "--json"]
    answer = ["generate", *common, "--max-new", 6, "--greedy", "--ignore-eos"]
    study = ["logits", *common, "--last", 2, "--top", 1000]
    alone = [run(*answer, "--tokens", ids(prompt)) for prompt in prompts]
    seen = [run(*study, "--tokens", ids(prompt)) for prompt in prompts]
    several = ";".join(map(ids, prompts))
    assert run(*answer, "--tokens", several) == {"prompts": alone}
    for count in (2, 4, 3):
        found = run(*answer, "--tokens", several, "--ranks", count, "--experiment", "placement-seed=%d" % count)
        take_ranks(found, count)
        assert found == {"prompts": alone}, (folder, count)
        found = run(*study, "--tokens", several, "--ranks", count, "--redundant-experts", count)
        take_ranks(found, count)
        assert found == {"prompts": seen}, (folder, count)


def check_moves(folder, activations, counts):
    """Experts change slots again and again between the steps of a run: nothing changes but where they lie."""
    prompts = prompts_of(folder)[:3]
    answer = ["generate", "--model", folder, "--activations", activations, "--json", "--max-new", 10, "--greedy",
              "--ignore-eos", "--tokens", ";".join(map(ids, prompts))]
    alone = run(*answer)
    for count, *options in counts:
        found = run(*answer, "--ranks", count, "--experiment", "reshuffle-steps=2", *options)
        ranks = take_ranks(found, count)
        assert found == alone, (folder, activations, count, options)
        assert all(rank["experts_moved"] > 8 and rank["bytes_moved"] > 0 for rank in ranks), ranks


def check_rebalance_bench(folder):
    """It moves experts in the background, splits replicas no worse by flow, and notices a damaged expert on every rank."""
    command = ["bench", "rebalance", "--model", folder, "--ranks", "2", "--runs", "1", "--steps", "64",
               "--sequences", "2", "--batch", "4", "--rebalance-mbps", "0", "--json"]
    done = subprocess.run([fathom, *command, "--redundant-experts", "8", "--damage"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=900, env=environment)
    assert done.returncode == 0, done
    assert done.stderr.count("\n") == 2 and done.stderr.count("checksum differs") == 2, done.stderr
    found = json.loads(done.stdout)
    take_ranks(found, 2)
    assert found["damage_noticed"] == 2, found
    (replicas,) = found["replicas"]
    assert 1 <= replicas["flow_max_by_mean"] <= replicas["turns_max_by_mean"], replicas
    drained = run(*command, "--redundant-experts", "32", "--drain")
    for part, what in ((found, "moving"), (drained, "draining")):
        part = part[what + "_and_quiet"]
        assert part["adoptions"] > 0 and part["bytes_moved"] > 0 and part[what]["median_ms"] > 0, part
        assert 0 < part["quiet"]["median_ms"] <= part["quiet"]["p99_ms"], part
    assert "--ranks" in run("bench", "rebalance", code=2)


def check_weights(folder):
    """A rank holds its share of the experts alone, and what all need is read once for all of them."""
    study = ["logits", "--model", folder, "--tokens", "5,6,7", "--json"]
    read = [sum(rank["read_bytes"] for rank in take_ranks(run(*study, "--ranks", count), count))
            for count in (2, 4, 8)]
    assert read[0] == read[1] == read[2], read
    ranks = take_ranks(run(*study, "--ranks", 4), 4)
    assert all(rank["mapped_bytes"] == rank["weight_bytes"] for rank in ranks), ranks
    ranks = take_ranks(run(*study, "--ranks", 4, "--weights-dir", "private"), 4)
    assert all(rank["mapped_bytes"] == 0 for rank in ranks), ranks
    assert sum(rank["read_bytes"] for rank in ranks) > read[1] * 1.2, (ranks, read)
    bytes_of = [take_ranks(run(*study, "--ranks", count), count)[0]["weight_bytes"] for count in (2, 4, 8)]
    assert bytes_of[0] > bytes_of[1] > bytes_of[2], bytes_of
    assert abs((bytes_of[0] - bytes_of[1]) - 2 * (bytes_of[1] - bytes_of[2])) < 1 << 16, bytes_of
    redundant = take_ranks(run(*study, "--ranks", 4, "--redundant-experts", 4), 4)
    assert redundant[0]["slots"] == 9 and redundant[0]["weight_bytes"] > bytes_of[1], redundant


def check_weights_files(folder):
    """The next start maps what the last one packed, and gives the same; the command's own files go with it."""
    study = ["logits", "--model", folder, "--activations", "fp8", "--tokens", "5,6,7,8", "--top", 1000, "--json"]
    alone = run(*study)
    with tempfile.TemporaryDirectory() as place:
        for start, seed in enumerate((0, 0, 7)):
            found = run(*study, "--ranks", 4, "--weights-dir", place + "/kept",
                        "--experiment", "placement-seed=%d" % seed, *["--weights-verify"][start:])
            read = [rank["read_bytes"] for rank in take_ranks(found, 4)]
            assert found == alone and (sum(read) == 0) == (start == 1), (start, read)
        for start in range(2):
            assert run(*study, "--weights-dir", place + "/alone") == alone
        assert len(os.listdir(place + "/kept")) == 5 and len(os.listdir(place + "/alone")) == 2
        # experts that moved while steps ran are found as what they are by then
        answer = ["generate", "--model", folder, "--tokens", "5,6,7,8", "--max-new", 16, "--greedy",
                  "--ignore-eos", "--json"]
        wanted = run(*answer)
        for start in range(3):
            found = run(*answer, "--ranks", 3, "--weights-dir", place + "/moved", "--experiment", "reshuffle-steps=2",
                        "--rebalance-mbps", 0, *["--weights-verify"][start:])
            ranks = take_ranks(found, 3)
            assert found == wanted and sum(rank["experts_moved"] for rank in ranks) > 0, ranks
        # no room: memory of each rank's own, told once
        namespace = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
                     'mount -t tmpfs -o size=200k none "$0" && exec "$@" --weights-dir "$0"', place]
        if subprocess.run([*namespace, "true"], capture_output=True).returncode == 0:
            done = subprocess.run([*namespace, fathom, *map(str, study), "--ranks", "3"], stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=900, env=environment)
            assert done.returncode == 0 and done.stderr.count("\n") == 1, done
            assert "No space left" in done.stderr, done.stderr
            found = json.loads(done.stdout)
            take_ranks(found, 3)
            assert found == alone
    process = subprocess.Popen([fathom, *map(str, study), "--ranks", "2"], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, env=environment)
    assert process.wait(900) == 0
    assert not glob.glob("/dev/shm/fathom-*/%d-*" % process.pid)


def check_overlap(folder):
    """A slow link takes time and changes nothing; the bench tells what the schedules hide of it."""
    study = ["logits", "--model", folder, "--tokens", ids(range(20, 90)), "--json"]
    slow = run(*study, "--ranks", 2, "--schedule", "prefill-dual-batch",
               "--experiment", "link-gbps=1,link-us=50")
    take_ranks(slow, 2)
    assert slow == run(*study)
    found = run("bench", "overlap", "--model", folder, "--ranks", 2, "--prompt", 128, "--batch", "2", "--runs", 1,
                "--steps", 1, "--experiment", "link-gbps=0.05", "--json")
    take_ranks(found, 2)
    kinds = ["sequential", "prefill-dual-batch", "decode-five-stage", "quad-batch", "hexa-batch",
             "octo-batch", "auto"]
    assert [(one["batch"], one["schedule"]) for one in found["runs"]] == [(b, k) for b in (0, 2) for k in kinds]
    for one in found["runs"]:
        assert one["comm_seconds"] > 0 and one["seconds"] > one["exposed_seconds"] >= 0, one
        assert one["schedule"] != "auto" or (one["takes"] in kinds and one["best"] in kinds and one["reason"]), one
    assert found["measured"] == 2 and 0 <= found["near_best"] <= 2, found
    assert found["crossover"]["any"] in (0, 2) and found["crossover"]["decode-five-stage"] in (0, 2), found
    assert found["runs"][0]["seconds"] > found["runs"][0]["comm_seconds"] * 0.9, found["runs"][0]
    assert "--ranks" in run("bench", "overlap", code=2)


def check_placement(folder):
    """Where experts lie is read from a file, as fathom eplb prints it; a wrong file is refused in one line."""
    with tempfile.TemporaryDirectory() as room:
        load, place = room + "/load.json", room + "/placement.json"
        with open(load, "w", encoding="utf-8") as file:
            json.dump([[1 + (7 * layer + expert) % 5 * expert for expert in range(32)] for layer in range(2)], file)
        answer = ["logits", "--model", folder, "--tokens", "5,6,7,8,9", "--top", 400, "--json"]
        alone = run(*answer)
        found = run("eplb", "--load", load, "--slots", 36, "--groups", 8, "--nodes", 2, "--ranks", 4, "--json")
        with open(place, "w", encoding="utf-8") as file:
            json.dump(found, file)
        ranked = run(*answer, "--ranks", 4, "--placement", place)
        assert take_ranks(ranked, 4)[0]["slots"] == 9 and ranked == alone, ranked
        assert "36 slots" in run(*answer, "--ranks", 8, "--placement", place, code=1)
        found["slot_to_expert"][1][5] = 31 if found["slot_to_expert"][1][5] != 31 else 30
        found["slot_to_expert"][0] = [expert % 31 for expert in range(36)]
        with open(place, "w", encoding="utf-8") as file:
            json.dump(found, file)
        assert "layer 0: expert 31 has no slot" in run(*answer, "--ranks", 4, "--placement", place, code=1)
        assert "nothing.json" in run(*answer, "--ranks", 2, "--placement", room + "/nothing.json", code=1)


def check_bench():
    """The micro-benchmark counts what it sends: every token once to the other rank, unless no expert is there."""
    found = run("bench", "exchange", "--ranks", 2, "--tokens", 16, "--hidden", 256, "--experts", 8,
                "--experts-per-token", 7, "--rounds", 7, "--json")
    assert found["ranks"] == 2 and found["rounds"] == 7, found
    # 256 codes and two scales a token; the heads of messages besides
    assert 16 * 264 < found["dispatch"]["bytes"] < 16 * 264 + 1024, found
    assert 16 * 3 * 512 <= found["combine"]["bytes"] <= 16 * 4 * 512, found
    for part in ("dispatch", "combine"):
        figures = found[part]
        assert 0 < figures["low"] <= figures["seconds"] <= figures["high"], found
        assert figures["alltoallv_seconds"] > 0 and figures["ratio"] > 0, found
    assert "--ranks" in run("bench", "exchange", code=2)


def check_trace(folder):
    """Every rank's stages and transfers are in the file, each layer's; the report adds them up."""
    with tempfile.TemporaryDirectory() as place:
        path = place + "/trace.json"
        take_ranks(run("logits", "--model", folder, "--tokens", ids(range(20, 90)), "--json", "--ranks", 2,
                       "--schedule", "quad-batch", "--experiment", "link-gbps=1", "--trace", path), 2)
        with open(path, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        stages = [event for event in events if event["ph"] == "X"]
        layers = {event["args"]["layer"] for event in stages}
        for rank in (0, 1):
            for lane in "abcd":
                names = [event["name"] for event in stages if event["pid"] == rank and event["name"][-1] == lane]
                assert len(names) % (6 * len(layers)) == 0 and len(set(names)) == 6, names  # perhaps two steps
        begins = {event["id"]: event["ts"] for event in events if event["ph"] == "b"}
        ends = {event["id"]: event["ts"] for event in events if event["ph"] == "e"}
        assert begins.keys() == ends.keys() and all(begins[i] <= ends[i] for i in begins), (begins, ends)
        report = run("trace", "report", path, "--json")
        assert report["ranks"] == 2 and report["bytes"] > 0, report
        assert abs(report["transfer_us"] - sum(ends[i] - begins[i] for i in begins)) < 1, report
        work = sum(event["dur"] - event["args"]["waited_us"] for event in stages)
        assert abs(report["work_us"] - work) < 1, (report, work)
        with open(path, "w", encoding="utf-8") as file:
            file.write('{"traceEvents":[\n{"ph":}\n]}\n')
        assert "line 2" in run("trace", "report", path, code=1)
    assert "/nowhere" in run("trace", "report", "/nowhere", code=1)


def check_late_end():
    """A rank that ended well counts as ended well, also if mpirun did not notice it in time, as on a busy machine."""
    answer = ["generate", "--tokens", "5,6,7,8", "--max-new", 8, "--greedy", "--ignore-eos", "--json"]
    found = run(*answer, "--ranks", 3, env=dict(environment, LD_PRELOAD=end_unsaid))
    take_ranks(found, 3)
    assert found == run(*answer)


def check_failures(folder):
    assert "nowhere" in run("logits", "--model", "/nowhere", "--tokens", "5", "--ranks", 2, code=1)
    assert "is no token" in run("generate", "--model", folder, "--tokens", "99999", "--ranks", 2, code=1)
    assert "--tokens" in run("logits", "--ranks", 2, code=2)
    assert "--ranks" in run("logits", "--tokens", "5", "--ranks", 0, code=2)
    words = run("logits", "--model", folder, "--tokens", "5", "--ranks", 2, code=1,
                env=dict(environment, PATH="/nowhere"))
    assert "openmpi-bin" in words, words


def main():
    folders = [goldens + "/" + case for case in cases]
    mtp = folders[1]
    check_logits(folders[0], "f32", prompts_of(folders[0])[1], [[2], [4, "--experiment", "placement-seed=5"]])
    check_logits(folders[1], "bf16", prompts_of(mtp)[1],
                 [[2, "--redundant-experts", 7], [8, "--experiment", "placement-seed=3"]], "--mtp")
    check_logits(folders[2], "fp8", prompts_of(folders[2])[1],
                 [[2, "--experiment", "placement-seed=9"], [4, "--redundant-experts", 2],
                  [8, "--experiment", "placement-seed=1"]])
    check_logits(folders[2], "fp8-f32", prompts_of(folders[2])[2], [[2]])
    check_logits(folders[3], "fp8", prompts_of(folders[3])[3], [[2], [8, "--redundant-experts", 16]], "--mtp")
    check_logits(tiny, "fp8", list(range(20, 90)),
                 [[2, "--schedule", "prefill-dual-batch"], [4, "--schedule", "decode-five-stage"],
                  [8, "--redundant-experts", 8, "--experiment", "placement-seed=2"]])
    check_logits(folders[1], "bf16", prompts_of(mtp)[1], [[2, "--schedule", "octo-batch"]], "--mtp")
    for activations, ranks, schedule in (("f32", 2, "quad-batch"), ("bf16", 8, "octo-batch"), ("fp8", 4, "octo-batch")):
        check_logits(tiny, activations, list(range(20, 320)),
                     [[ranks, "--schedule", schedule, "--experiment", "link-gbps=1"]])
    check_several(folders[2], "fp8")
    check_several(mtp, "f32")
    check_moves(folders[0], "f32", [[2], [8, "--redundant-experts", 4]])
    check_moves(mtp, "bf16", [[2, "--redundant-experts", 7, "--rebalance-from", "checkpoint"], [4, "--rebalance-memory", 1]])
    check_logits(tiny, "fp8", list(range(20, 340)),
                 [[4, "--experiment", "reshuffle-steps=1", "--redundant-experts", 4]], "--chunk", 64, "--mtp")
    check_logits(tiny, "bf16", list(range(20, 340)),
                 [[2, "--replica-choice", "flow", "--redundant-experts", 16],
                  [4, "--replica-choice", "flow", "--redundant-experts", 8, "--schedule", "prefill-dual-batch"],
                  [8, "--replica-choice", "flow", "--experiment", "reshuffle-steps=1", "--redundant-experts", 24]],
                 "--chunk", 64)
    check_moves(folders[2], "fp8", [[4, "--rebalance-mbps", 0, "--replica-choice", "flow"],
                                     [8, "--schedule", "decode-five-stage", "--rebalance-from", "checkpoint"]])
    check_bench()
    check_rebalance_bench(mtp)
    if serving:
        check_placement(mtp)
    check_weights(mtp)
    check_weights_files(folders[2])
    check_overlap(folders[2])
    check_trace(mtp)
    if end_unsaid:
        check_late_end()
    check_failures(mtp)


if __name__ == "__main__":
    main()
