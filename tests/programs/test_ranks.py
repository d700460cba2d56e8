#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_ranks.py FATHOM GOLDENS MODEL SERVING [all]: models over several processes, and with `all` in more ways. Whatever the number of
ranks, the replicas, the placement and the schedule: the same logits to the last digit, the same routing, drafts and
tokens as one process, in every activation mode and either order of summing experts; the ranks are really there and share the work; and what
goes wrong is told once, with the right exit code."""
import glob
import json
import os
import subprocess
import sys
import tempfile

fathom, goldens, tiny = sys.argv[1:4]
serving = sys.argv[4] == "1"
cases = ["v2lite-softmax-greedy-yarn", "v3-bf16-negbias-dense0-mtp", "v3-fp8-odd-noq-g1-noyarn",
         "v3-fp8-yarn-g8-mtp-sharded"]
# Experts in four bits, and sparse attention of 16 rows. The emulated device refuses them.
of_cpus = [("v4-bf16-flash", "bf16", "--mtp"), ("v41-bf16-base", "f32"),
           ("k2thinking-int4-g32", "bf16"), ("k2thinking-int4-g32", "int8"), ("v32-bf16-dsa-mtp", "bf16", "--mtp"),
           ("v32-fp8-dsa-ue8m0", "fp8"), ("glm5-bf16-dsa-shared", "f32", "--mtp")]


def run(*arguments, code=0, timeout=900):
    done = subprocess.run([fathom, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=timeout)
    told = " ".join(map(str, arguments))[:2000]
    assert done.returncode == code, (told, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    if code == 0:
        assert not done.stderr, done.stderr
        found = json.loads(done.stdout)
        found.pop("times", None)  # all else is the same on any number of ranks
        return found
    said = [line for line in done.stderr.splitlines() if " does nothing without " not in line]
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
        assert ranks[0]["slots"] == ranks[-1]["slots"] and experts >= 10, ranks


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
        found = run(*answer, "--tokens", several, "--ranks", count, "--experiment", "placement-seed=%s" % count)
        take_ranks(found, count)
        assert found == {"prompts": alone}, (folder, count)
        found = run(*study, "--tokens", several, "--ranks", count, "--redundant-experts", count)
        take_ranks(found, count)
        assert found == {"prompts": seen}, (folder, count)


def check_early(folder):
    """Of four answers in a micro-batch two have their core attention begun early: all get the tokens of one process."""
    prompts = [prompt[:length] for prompt in prompts_of(folder) for length in (40, 23, 12, 7)]
    answer = ["generate", "--model", folder, "--activations", "bf16", "--json", "--max-new", 5, "--greedy", "--ignore-eos",
              "--tokens", ";".join(map(ids, prompts))]
    found = run(*answer, "--ranks", 2, "--schedule", "decode-early")
    take_ranks(found, 2)
    assert found == run(*answer), folder


def check_moves(folder, activations, counts, *more):
    """Experts change slots again and again between the steps of a run: nothing changes but where they lie."""
    prompts = prompts_of(folder)[:3]
    answer = ["generate", "--model", folder, "--activations", activations, "--json", "--max-new", 10, "--greedy",
              "--ignore-eos", "--tokens", ";".join(map(ids, prompts)), *more]
    alone = run(*answer)
    for count, *options in counts:
        found = run(*answer, "--ranks", count, "--experiment", "reshuffle-steps=2", *options)
        ranks = take_ranks(found, count)
        assert found == alone, (folder, activations, count, options)
        assert all(rank["experts_moved"] > 8 and rank["bytes_moved"] > 0 for rank in ranks), ranks


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
            found = run(*study, "--ranks", 4, "--weights-dir", place + "/kept", "--experiment", "placement-seed=%s" % seed,
                        *["--weights-verify"][start:])
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
                                  capture_output=True, text=True, timeout=900)
            assert done.returncode == 0 and done.stderr.count("\n") == 1, done
            assert "No space left" in done.stderr, done.stderr
            found = json.loads(done.stdout)
            take_ranks(found, 3)
            assert found == alone
    process = subprocess.Popen([fathom, *map(str, study), "--ranks", "2"], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL)
    assert process.wait(900) == 0
    assert not glob.glob("/dev/shm/fathom-*/%d-*" % process.pid)


def check_link(folder):
    """A slow link takes time and changes nothing."""
    study = ["logits", "--model", folder, "--tokens", ids(range(20, 90)), "--json"]
    slow = run(*study, "--ranks", 2, "--schedule", "prefill-dual-batch", "--experiment", "link-gbps=1,link-us=50")
    take_ranks(slow, 2)
    assert slow == run(*study)


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
        assert "layer 0: expert 31 has no slot" in run(*answer, "--placement", place, code=1)  # also with one rank
        assert "nothing.json" in run(*answer, "--placement", room + "/nothing.json", code=1)
        assert "nothing.json" in run(*answer, "--ranks", 2, "--placement", room + "/nothing.json", code=1)


def check_groups(ways):
    """Where a rank has all that a token needs of a group, one row comes back, whatever the mode and the schedule."""
    study = ["logits", "--model", tiny, "--tokens", ids(range(20, 180)), "--top", 1000, "--json"]
    with tempfile.TemporaryDirectory() as room:
        load, place = room + "/load.json", room + "/placement.json"
        with open(load, "w", encoding="utf-8") as file:
            json.dump([[1] * 64] * 3, file)
        with open(place, "w", encoding="utf-8") as file:
            json.dump(run("eplb", "--load", load, "--slots", 64, "--groups", 8, "--nodes", 8, "--ranks", 8, "--locality",
                          "strict", "--json"), file)
        for activations, schedule in ways:
            results, sent = {}, {}
            for order in "experts", "groups":
                options = [*study, "--activations", activations, "--expert-sum", order]
                found = run(*options, "--ranks", 8, "--placement", place, "--schedule", schedule)
                sent[order] = sum(rank["bytes_sent"] for rank in take_ranks(found, 8))
                results[order] = run(*options)
                assert found == results[order], (activations, order)
            assert results["experts"] != results["groups"], activations
            assert sent["groups"] < 0.75 * sent["experts"], (activations, sent)


def check_nodes(ways):
    """Rows that go once to each node, and sums that are made there, change nothing but what travels."""
    study = ["logits", "--model", tiny, "--tokens", ids(range(20, 340)), "--top", 1000, "--json", "--chunk", 64]
    for activations, order, ranks, each, *more in ways:
        options, between = [*study, "--activations", activations, "--expert-sum", order], {}
        alone = run(*options)
        for levels in "one", "two":
            found = run(*options, "--ranks", ranks, *more, "--experiment", "ranks-per-node=%s,levels=%s" % (each, levels))
            between[levels] = sum(rank["bytes_between_nodes"] for rank in take_ranks(found, ranks))
            assert found == alone, (activations, order, ranks, each, more, levels)
        assert (0 < between["two"] < between["one"]) == (each > 1), (activations, order, ranks, each, between)


def check_failures(folder):
    assert "nodes of 3 ranks" in run("logits", "--model", tiny, "--tokens", "5", "--ranks", 4, "--experiment",
                                     "ranks-per-node=3", code=1)
    assert "nowhere" in run("logits", "--model", "/nowhere", "--tokens", "5", "--ranks", 2, code=1)
    assert "is not a token id" in run("generate", "--model", folder, "--tokens", "99999", "--ranks", 2, code=1)
    assert "--tokens" in run("logits", "--ranks", 2, code=2)
    assert "--ranks" in run("logits", "--tokens", "5", "--ranks", 0, code=2)


def check_more(folders, mtp):
    """The same in other modes, schedules, numbers of ranks and ways to move experts."""
    one_by_one = ["--expert-sum", "experts"]
    check_logits(folders[2], "fp8-f32", prompts_of(folders[2])[2], [[2]])
    for activations, ranks, schedule in (("f32", 2, "quad-batch"), ("bf16", 8, "octo-batch"), ("fp8", 4, "octo-batch")):
        check_logits(tiny, activations, list(range(20, 320)), [[ranks, "--schedule", schedule, "--experiment", "link-gbps=1"]])
    check_several(mtp, "f32")
    check_nodes([("bf16", "experts", 8, 2, "--schedule", "decode-five-stage", "--redundant-experts", 24, "--replica-choice", "flow",
                  "--experiment", "reshuffle-steps=1"),
                 ("f32", "groups", 8, 4, "--redundant-experts", 8), ("bf16", "groups", 4, 1, "--schedule", "octo-batch")])
    check_moves(mtp, "bf16", [[4, "--experiment", "ranks-per-node=2,levels=two", "--redundant-experts", 4],
                                 [8, "--experiment", "ranks-per-node=4,levels=two"]], "--expert-sum", "groups")
    if serving:
        check_groups([("f32", "sequential"), ("fp8", "octo-batch")])
    check_moves(mtp, "bf16", [[2, "--redundant-experts", 7, "--rebalance-from", "checkpoint"], [4, "--rebalance-memory", 1]])
    check_logits(tiny, "fp8", list(range(20, 340)),
                 [[4, "--experiment", "reshuffle-steps=1", "--redundant-experts", 4]], "--chunk", 64, "--mtp")
    check_moves(folders[2], "fp8", [[4, "--rebalance-mbps", 0, "--replica-choice", "flow"],
                                     [8, "--schedule", "decode-five-stage", "--rebalance-from", "checkpoint"]])
    check_logits(folders[3], "fp8", prompts_of(folders[3])[3], [[2], [8, "--redundant-experts", 16]], "--mtp", *one_by_one)
    check_logits(tiny, "f32", list(range(20, 340)),
                 [[2, "--schedule", "decode-five-stage"],
                  [8, "--replica-choice", "flow", "--experiment", "reshuffle-steps=1", "--redundant-experts", 24]],
                 "--chunk", 64, "--mtp", *one_by_one)
    check_moves(mtp, "bf16", [[2, "--redundant-experts", 7], [4, "--schedule", "decode-five-stage"]], *one_by_one)


def main():
    folders = [goldens + "/" + case for case in cases]
    mtp = folders[1]
    check_logits(folders[0], "f32", prompts_of(folders[0])[1], [[2], [4, "--experiment", "placement-seed=5"]])
    check_logits(folders[1], "bf16", prompts_of(mtp)[1],
                 [[2, "--redundant-experts", 7], [8, "--experiment", "placement-seed=3"]], "--mtp")
    check_logits(folders[2], "fp8", prompts_of(folders[2])[1],
                 [[2, "--experiment", "placement-seed=9"], [4, "--redundant-experts", 2], [8, "--experiment", "placement-seed=1"]])
    check_logits(folders[3], "fp8", prompts_of(folders[3])[3], [[2], [8, "--redundant-experts", 16]], "--mtp")
    check_logits(tiny, "fp8", list(range(20, 90)),
                 [[2, "--schedule", "prefill-dual-batch"], [4, "--schedule", "decode-five-stage"],
                  [8, "--redundant-experts", 8, "--experiment", "placement-seed=2"]])
    for case, mode, *options in of_cpus:
        folder = goldens + "/" + case
        check_logits(folder, mode, prompts_of(folder)[3], [[2], [4, "--redundant-experts", 4]], *options)
    # a prompt that micro-batches share, and index keys with it
    check_logits(folder, mode, list(range(20, 390)), [[4, "--schedule", "octo-batch", "--experiment", "link-gbps=1"]], *options)
    check_logits(folders[1], "bf16", prompts_of(mtp)[1], [[2, "--schedule", "octo-batch"]], "--mtp")
    check_several(folders[2], "fp8")
    check_early(mtp)
    check_moves(folders[0], "f32", [[2], [8, "--redundant-experts", 4]])
    check_logits(tiny, "bf16", list(range(20, 340)),
                 [[2, "--replica-choice", "flow", "--redundant-experts", 16],
                  [4, "--replica-choice", "flow", "--redundant-experts", 8, "--schedule", "prefill-dual-batch"],
                  [8, "--replica-choice", "flow", "--experiment", "reshuffle-steps=1", "--redundant-experts", 24]],
                 "--chunk", 64)
    check_logits(folders[0], "bf16", prompts_of(folders[0])[1], [[2], [8, "--redundant-experts", 3]], "--expert-sum", "experts")
    if serving:
        check_placement(mtp)
        check_groups([("bf16", "prefill-dual-batch")])
    check_weights(mtp)
    check_weights_files(folders[2])
    check_link(folders[2])
    check_nodes([("fp8", "groups", 4, 2, "--schedule", "prefill-dual-batch", "--experiment",
                  "placement-seed=3,link-gbps=2,node-link-gbps=6")])
    check_failures(mtp)
    if "all" in sys.argv[5:]:
        check_more(folders, mtp)


if __name__ == "__main__":
    main()
