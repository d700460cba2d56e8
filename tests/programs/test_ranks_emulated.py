#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_ranks_emulated.py FATHOM GOLDENS MODEL SERVING [all]: ranks with an emulated device each, started by the program:
the same logits, routing, drafts and tokens as one CPU, which has the arithmetic of the devices' reference bodies; also while
experts change their slots. With `all` of four ranks, in more modes and schedules, by nodes and with MTP."""
import sys

import test_ranks as ranks

DEVICE = ["--device", "emulated"]
SAME = ["--cpu-mask", "avx512"]  # a CPU with as much or less, and no BF16 products


def there(*ways):
    return [[*way, *DEVICE] for way in ways]


def main():
    folders = [ranks.goldens + "/" + case for case in ranks.cases]
    mtp, prompt = folders[1], ranks.prompts_of(folders[1])[1]
    ranks.check_logits(mtp, "bf16", prompt, there([2, "--redundant-experts", 7, "--schedule", "decode-five-stage"]), "--mtp", *SAME)
    ranks.check_moves(folders[2], "fp8", there([2]), *SAME)
    if "all" not in sys.argv[5:]:
        return
    tokens = list(range(20, 180))
    for mode, schedule in (("bf16", "prefill-dual-batch"), ("fp8", "octo-batch"), ("f32", "sequential")):
        ranks.check_logits(ranks.tiny, mode, tokens,
                           there([4, "--schedule", schedule, "--experiment", "placement-seed=3,link-gbps=2"],
                                 [4, "--redundant-experts", 8, "--replica-choice", "flow", "--experiment",
                                  "ranks-per-node=2,levels=two,reshuffle-steps=1"]), "--chunk", 64, "--mtp", *SAME)
    for folder, mode, order in ((mtp, "bf16", "groups"), (folders[3], "fp8", "experts")):
        ranks.check_moves(folder, mode, there([4, "--rebalance-from", "checkpoint"],
                                              [2, "--redundant-experts", 8, "--rebalance-mbps", 0, "--schedule", "quad-batch"]),
                          "--expert-sum", order, *SAME)


if __name__ == "__main__":
    main()
