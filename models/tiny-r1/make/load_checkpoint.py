#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""load_checkpoint.py FOLDER CHECKPOINT: the reverse of export.py, for train.py --resume.

A checkpoint made so has no state of the optimizers, and its weights are those that FP8 can hold. Exported
again it gives the same file."""
import argparse

import torch

from export import NORMS, PROJECTIONS
from infer import read_model
from model import CONFIG, Model


class Load:
    """The tensors of the training: name -> tensor."""

    def __init__(self, config, weights):
        self.config, self.weights, self.state = config, weights, {}
        layers = config["num_hidden_layers"]
        self.state["embed"] = weights["model.embed_tokens.weight"]
        for layer in range(layers):
            dense = layer < config["first_k_dense_replace"]
            self.load_block(f"model.layers.{layer}.", f"layers.{layer}.", dense)
        self.state["norm.weight"] = weights["model.norm.weight"]
        self.state["head"] = weights["lm_head.weight"]
        mtp = f"model.layers.{layers}."
        for name in ("enorm", "hnorm", "eh_proj"):
            self.state[name + ".weight"] = weights[f"{mtp}{name}.weight"]
        self.load_block(mtp, "mtp.", False)
        self.state["mtp_norm.weight"] = weights[mtp + "shared_head.norm.weight"]

    def gate_up(self, source):
        """Gate and up in one tensor."""
        return torch.cat([self.weights[source + "gate_proj.weight"], self.weights[source + "up_proj.weight"]])

    def load_mlp(self, source, target):
        """An MLP."""
        self.state[target + "gate_up.weight"] = self.gate_up(source)
        self.state[target + "down_proj.weight"] = self.weights[source + "down_proj.weight"]

    def load_block(self, source, target, dense):
        """A layer."""
        for name in (*NORMS, *(f"self_attn.{name}" for name in PROJECTIONS)):
            self.state[f"{target}{name}.weight"] = self.weights[f"{source}{name}.weight"]
        source, target = source + "mlp.", target + "mlp."
        if dense:
            self.load_mlp(source, target)
            return
        experts = [f"{source}experts.{expert}." for expert in range(self.config["n_routed_experts"])]
        self.state[target + "gate"] = self.weights[source + "gate.weight"]
        self.state[target + "bias"] = self.weights[source + "gate.e_score_correction_bias"]
        self.state[target + "load"] = torch.zeros(len(experts))
        self.state[target + "w13"] = torch.stack([self.gate_up(expert) for expert in experts])
        self.state[target + "w2"] = torch.stack([self.weights[each + "down_proj.weight"] for each in experts])
        self.load_mlp(source + "shared_experts.", target + "shared.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("checkpoint")
    parser.add_argument("--total", type=int, default=0, help="tokens that these weights have seen")
    options = parser.parse_args()
    config, weights = read_model(options.folder)
    model = Model(CONFIG)
    model.load_state_dict(Load(config, weights).state)
    torch.save({"model": model.state_dict(), "cfg": CONFIG, "total": options.total}, options.checkpoint)


if __name__ == "__main__":
    main()
