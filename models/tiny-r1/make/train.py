#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""train.py --data FOLDER[,FOLDER...] --out FILE (--tokens N | --minutes N): trains the model.

On a CPU with --fused, the compiled fused.c; on a GPU with --device cuda. The learning rate rises for a few
steps, stays, and falls linearly to nearly zero over the last part of the run (--decay). --resume continues
from a checkpoint, with the state of the optimizers if it has one."""
import argparse
import itertools
import os
import time

import numpy
import torch

import kernels
from model import CONFIG, Model, Precision

PAD = 2  # the id of the padding token
PAD_DOCUMENT = 64  # padding is cut into documents of at most this many tokens
WARM_UP_STEPS = 10
FIRST_STEP = 1 / 40  # of the rate, while the optimizers have no state
WEIGHT_DECAY = 0.05
MTP_WEIGHT = 0.3
MUON_MOMENTUM = 0.95
ADAM_MEAN, ADAM_SQUARE = 0.9, 0.98
GRADIENT_MAX = 1.0  # the norm of the gradients of what Adam moves
BIAS_SPEED = 1e-3  # of the experts' biases, per step
LOG_STEPS = 20


# ---- data

def read_folders(folders):
    """The data folders one after the other, again and again."""
    for folder in itertools.cycle(folders):
        data = numpy.load(os.path.join(folder, "train.npz"))
        print(f"data {folder}: {len(data['starts']) - 1} documents, {len(data['ids'])} tokens", flush=True)
        yield data["ids"], data["mask"], data["starts"]


def batches(folders, size, chance):
    """Lists of whole documents, in random order, of at most `size` tokens together: (ids, mask) of each."""
    for ids, mask, starts in read_folders(folders):
        order = chance.permutation(len(starts) - 1)
        spans, tokens = [], 0
        for document in order:
            begin, end = starts[document], starts[document + 1]
            if spans and tokens + end - begin > size:
                yield [(ids[a:b], mask[a:b]) for a, b in spans]
                spans, tokens = [], 0
            spans.append((begin, end))
            tokens += end - begin


def pack(documents, size, model, device):
    """The inputs of Model.loss: documents in a row, and padding."""
    ids = numpy.concatenate([ids for ids, _ in documents]).astype(numpy.int64)
    mask = numpy.concatenate([mask for _, mask in documents]).astype(bool)
    first = [0, *numpy.cumsum([len(ids) for ids, _ in documents]).tolist()]
    last = numpy.zeros(len(ids), bool)
    last[numpy.array(first[1:]) - 1] = True
    following, second = numpy.roll(ids, -1), numpy.roll(ids, -2)
    selected = numpy.roll(mask, -1) & ~last
    mtp_selected = numpy.roll(mask, -2) & ~last & ~numpy.roll(last, -1)
    padding = size - len(ids)
    if padding:
        pads = numpy.full(padding, PAD)
        ids, following, second = (numpy.append(each, pads) for each in (ids, following, second))
        first += range(first[-1] + min(padding, PAD_DOCUMENT), size + 1, PAD_DOCUMENT)
        first += [size] if first[-1] != size else []

    def tensor(array):
        return torch.from_numpy(numpy.ascontiguousarray(array)).to(device)
    return (tensor(ids), model.batch(first), tensor(numpy.flatnonzero(selected)), tensor(following),
            tensor(numpy.flatnonzero(mtp_selected)), tensor(second))


# ---- optimizers

def orthogonalize(matrices, steps=5):
    """Newton-Schulz: matrices [n, rows, columns] with all singular values near 1."""
    x = matrices if Precision.compute == torch.float32 else matrices.to(torch.bfloat16)
    tall = x.shape[1] > x.shape[2]
    if tall:
        x = x.transpose(1, 2).contiguous()
    x = x / (x.flatten(1).norm(dim=1)[:, None, None] + 1e-7)
    for _ in range(steps):
        square = torch.bmm(x, x.transpose(1, 2))
        factor = torch.baddbmm(square, square, square, beta=-4.7750, alpha=2.0315)
        x = torch.baddbmm(x, factor, x, beta=3.4445)
    return (x.transpose(1, 2) if tall else x).float()


class Optimizer:
    """Muon for matrices; Adam for embedding, head, gates and norms."""

    def __init__(self, model, state):
        self.state, self.step = state, 0
        self.muon, self.adam = [], []
        for name, parameter in model.named_parameters():
            by_adam = parameter.ndim < 2 or name in ("embed", "head") or name.endswith("gate")
            (self.adam if by_adam else self.muon).append((name, parameter))

    def clip(self):
        """Limits the gradients of what Adam moves. Muon's steps do not depend on the size of a gradient."""
        gradients = [parameter.grad for _, parameter in self.adam if parameter.grad is not None]
        norm = sum(float(gradient.pow(2).sum()) for gradient in gradients) ** 0.5
        if norm > GRADIENT_MAX:
            for gradient in gradients:
                gradient.mul_(GRADIENT_MAX / norm)

    def move_by_muon(self, name, parameter, rate):
        """A step of Muon with Nesterov's momentum. Gate and up lie in one tensor, but are two matrices."""
        momentum = self.state.setdefault(name, torch.zeros_like(parameter))
        momentum.mul_(MUON_MOMENTUM).add_(parameter.grad)
        update = parameter.grad.add(momentum, alpha=MUON_MOMENTUM)
        rows, columns = parameter.shape[-2:]
        if "gate_up" in name or "w13" in name:
            rows //= 2
        update = orthogonalize(update.reshape(-1, rows, columns)).reshape(parameter.shape)
        size = 0.2 * max(rows, columns) ** 0.5
        parameter.data.mul_(1 - rate * WEIGHT_DECAY).add_(update, alpha=-rate * size)

    def move_by_adam(self, name, parameter, rate):
        """A step of Adam."""
        gradient = parameter.grad
        mean, square = self.state.setdefault(name, (torch.zeros_like(parameter), torch.zeros_like(parameter)))
        mean.lerp_(gradient, 1 - ADAM_MEAN)
        square.mul_(ADAM_SQUARE).addcmul_(gradient, gradient, value=1 - ADAM_SQUARE)
        deviation = (square / (1 - ADAM_SQUARE ** self.step)).sqrt_().add_(1e-10)
        slower = 0.5 if name.endswith("gate") or name == "head" else 1.0
        parameter.data.addcdiv_(mean / (1 - ADAM_MEAN ** self.step), deviation, value=-rate * slower)

    def move(self, rate):
        """One step of all parameters that have a gradient, and no gradient afterwards."""
        self.step += 1
        self.clip()
        for parameters, move in ((self.muon, self.move_by_muon), (self.adam, self.move_by_adam)):
            for name, parameter in parameters:
                if parameter.grad is not None:
                    move(name, parameter, rate)
                    parameter.grad = None


def balance(layers, moving):
    """Balances the load without an auxiliary loss: a bias moves by the sign of its expert's lack."""
    for layer in layers:
        count = layer.count.float()
        layer.skew = float(count.max() / count.mean())
        if moving:
            layer.bias += BIAS_SPEED * torch.sign(count.mean() - count)


# ---- the run

class Run:
    """A training run."""

    def __init__(self, options):
        self.options = options
        torch.manual_seed(options.seed)
        if options.fused:
            kernels.load(os.path.abspath(options.fused))
        Precision.compute = torch.float32 if options.fp32 else torch.bfloat16
        self.model = Model(CONFIG).to(options.device)
        state, self.tokens_before = {}, 0
        if options.resume:
            checkpoint = torch.load(options.resume, map_location=options.device)
            self.model.load_state_dict(checkpoint["model"])
            state, self.tokens_before = checkpoint.get("state", {}), checkpoint["total"]
        self.optimizer = Optimizer(self.model, state)
        self.data = batches(options.data, options.batch, numpy.random.default_rng(options.seed))
        self.history, self.tokens = [], 0
        self.started = self.saved = time.time()
        self.model.train()

    def progress(self):
        """The share of the run that is over."""
        if self.options.minutes:
            return (time.time() - self.started) / (self.options.minutes * 60)
        return self.tokens / self.options.tokens

    def next_batch(self):
        """The next packed documents."""
        return pack(next(self.data), self.options.batch, self.model, self.options.device)

    def step(self, progress):
        """One step: loss, gradients, optimizers, biases."""
        number = self.optimizer.step + 1
        rise = min(1, number / WARM_UP_STEPS) if self.optimizer.state else FIRST_STEP
        fall = min(1, (1 - progress) / self.options.decay)
        rate = self.options.rate * rise * max(fall, 0.01)
        ids, batch, selected, following, mtp_selected, second = self.next_batch()
        with_mtp = number % self.options.mtp_every == 0
        found = self.model.loss(ids, batch, selected, following, mtp_selected if with_mtp else None, second)
        (found[0] + MTP_WEIGHT * self.options.mtp_every * found[2]).backward()
        self.optimizer.move(rate)
        layers = self.model.expert_layers()
        balance(layers if with_mtp else layers[:-1], progress < 0.95)
        self.tokens += self.options.batch
        values = [float(value) for value in found]
        if not with_mtp and self.history:
            values[2:] = self.history[-1][2:]
        self.history.append(values)
        return rate

    def log(self, progress, rate):
        """Prints a line of the means since the last one."""
        loss, right, mtp_loss, mtp_right = numpy.mean(self.history[-LOG_STEPS:], 0)
        speed = self.tokens / (time.time() - self.started)
        skew = " ".join(f"{getattr(layer, 'skew', 0):.2f}" for layer in self.model.expert_layers())
        print(f"step {self.optimizer.step} {self.tokens / 1e6:.2f}M {speed:.0f}/s {100 * progress:.1f} % "
              f"rate {rate:.1e} loss {loss:.4f} right {right:.4f} mtp {mtp_loss:.4f} right {mtp_right:.4f} "
              f"skew {skew}", flush=True)

    def save(self, **more):
        """Writes the checkpoint, at once or not at all."""
        self.saved = time.time()
        checkpoint = {"model": self.model.state_dict(), "cfg": CONFIG, "hist": numpy.array(self.history),
                      "tok": self.tokens, "total": self.tokens_before + self.tokens, **more}
        torch.save(checkpoint, self.options.out + ".part")
        os.replace(self.options.out + ".part", self.options.out)

    def measure_skew(self, count=8):
        """The load of the experts, largest by mean, over some batches without training."""
        layers = self.model.expert_layers()
        for layer in layers:
            layer.load.zero_()
        with torch.no_grad():
            for _ in range(count):
                self.model.loss(*self.next_batch())
        return [float(layer.load.max() / layer.load.mean()) for layer in layers]

    def train(self):
        """Steps until the run is over."""
        while self.progress() < 1:
            progress = self.progress()
            rate = self.step(progress)
            if self.optimizer.step % LOG_STEPS == 0:
                self.log(progress, rate)
            if time.time() - self.saved > self.options.save_every * 60:
                self.save(state=self.optimizer.state)
        skew = self.measure_skew()
        self.save(skew=skew)
        print(f"{self.tokens} tokens, {self.optimizer.step} steps, skew {skew}, "
              f"loss {numpy.mean(self.history[-50:], 0).tolist()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", required=True, type=lambda text: text.split(","),
                        help="folders with train.npz, with commas between them")
    parser.add_argument("--out", required=True, help="the checkpoint to write")
    parser.add_argument("--resume", help="the checkpoint to begin with")
    parser.add_argument("--tokens", type=float, default=36e6, help="the length of the run")
    parser.add_argument("--minutes", type=float, help="its length in time, in place of tokens")
    parser.add_argument("--decay", type=float, default=0.65, help="the share of it in which the rate falls")
    parser.add_argument("--rate", type=float, default=4e-3, help="learning rate")
    parser.add_argument("--batch", type=int, default=4096, help="tokens of a step")
    parser.add_argument("--mtp-every", type=int, default=2,
                        help="compute the MTP loss in each n-th step only, with n times its weight")
    parser.add_argument("--save-every", type=float, default=5, help="minutes between checkpoints")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fused", help="the compiled fused.c, on a CPU")
    parser.add_argument("--fp32", action="store_true", help="products in float, without --fused")
    parser.add_argument("--device", default="cpu")
    Run(parser.parse_args()).train()


if __name__ == "__main__":
    main()
