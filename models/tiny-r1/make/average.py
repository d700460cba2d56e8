#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""average.py FIRST SECOND OUT: the mean of two checkpoints of train.py, of which the second went on from the first.

The mean of two ends makes fewer mistakes than either: what each run learned by chance is halved."""
import argparse

import torch


def mean(first, second):
    """The mean of two tensors; of whole numbers the second."""
    return (first + second) / 2 if first.is_floating_point() else second


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("first")
    parser.add_argument("second")
    parser.add_argument("out")
    options = parser.parse_args()
    first, second = (torch.load(path, map_location="cpu") for path in (options.first, options.second))
    model = {name: mean(first["model"][name], tensor) for name, tensor in second["model"].items()}
    torch.save({**{key: value for key, value in second.items() if key != "state"}, "model": model}, options.out)


if __name__ == "__main__":
    main()
