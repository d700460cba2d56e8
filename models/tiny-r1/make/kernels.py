# SPDX-License-Identifier: Apache-2.0
"""The kernels of fused.c as functions of torch. They run on CPUs, with activations in bfloat16."""
import ctypes

import torch

BF16 = torch.bfloat16
PADDING = 64  # rows of an expert are padded to a multiple, so that few shapes of products occur
HEAD_ROWS = 1024  # rows of logits at a time
LOSS_FACTOR = 1024.0  # keeps gradients of logits, in bfloat16, away from zero

library = None


def load(path):
    """Loads the compiled fused.c. From then on model.py uses it."""
    global library
    library = ctypes.CDLL(path)


def call(name, *arguments):
    """Calls a kernel: tensors as pointers (None as NULL), whole numbers as int, others as float."""
    converted = []
    for argument in arguments:
        if argument is None:
            converted.append(ctypes.c_void_p(0))
        elif isinstance(argument, torch.Tensor):
            converted.append(ctypes.c_void_p(argument.data_ptr()))
        else:
            converted.append((ctypes.c_int if isinstance(argument, int) else ctypes.c_float)(argument))
    getattr(library, name)(*converted)


class RmsNorm(torch.autograd.Function):
    """x float [T, D], weight [D] -> bfloat16 [T, D]."""

    @staticmethod
    def forward(ctx, x, weight, eps):
        rows, width = x.shape
        y, scale = torch.empty(rows, width, dtype=BF16), torch.empty(rows)
        call("rms_forward", x, x.stride(0), weight, y, scale, rows, width, eps)
        ctx.save_for_backward(x, weight, scale)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, weight, scale = ctx.saved_tensors
        rows, width = x.shape
        dx, dweight = torch.empty(rows, width), torch.zeros(width)
        call("rms_backward", x, x.stride(0), weight, scale, dy.contiguous(), dx, dweight, rows, width)
        return dx, dweight, None


class SwiGlu(torch.autograd.Function):
    """h [T, 2F], gate and up -> [T, F]."""

    @staticmethod
    def forward(ctx, h):
        ctx.save_for_backward(h)
        a = torch.empty(h.shape[0], h.shape[1] // 2, dtype=BF16)
        call("swiglu_forward", h, a, *a.shape)
        return a

    @staticmethod
    def backward(ctx, da):
        h, = ctx.saved_tensors
        dh = torch.empty_like(h)
        call("swiglu_backward", h, da.contiguous(), dh, h.shape[0], h.shape[1] // 2)
        return dh


class Attention(torch.autograd.Function):
    """Attention over packed documents; `first` has where they begin, `heads` their count and widths."""

    @staticmethod
    def forward(ctx, query, kv, key_rope, cosine, sine, first, heads):
        count, plain, rope, value, scale = heads
        output = torch.empty(query.shape[0], count * value, dtype=BF16)
        call("attention_forward", query, kv, key_rope, key_rope.stride(0), cosine, sine, first,
             len(first) - 1, output, *heads)
        ctx.save_for_backward(query, kv, key_rope, cosine, sine, first)
        ctx.heads = heads
        return output

    @staticmethod
    def backward(ctx, doutput):
        query, kv, key_rope, cosine, sine, first = ctx.saved_tensors
        dquery, dkv = torch.empty_like(query), torch.empty_like(kv)
        dkey_rope = torch.empty(query.shape[0], ctx.heads[2])
        call("attention_backward", query, kv, key_rope, key_rope.stride(0), cosine, sine, first,
             len(first) - 1, doutput.contiguous(), dquery, dkv, dkey_rope, *ctx.heads)
        return dquery, dkv, dkey_rope, None, None, None, None


def expert_rows(count):
    """The slice of rows of each expert, and the number of all rows."""
    slices, first = [], 0
    for rows in ((count + PADDING - 1) // PADDING * PADDING).tolist():
        slices.append(slice(first, first + rows))
        first += rows
    return slices, first


class Experts(torch.autograd.Function):
    """All routed experts: x [T, D], weight [T, K], index [T, K], count [E] -> [T, D].

    gate_up is [E, 2F, D], down [E, D, F]; rows are sorted by expert."""

    @staticmethod
    def forward(ctx, x, weight, gate_up, down, index, count):
        (tokens, width), chosen, hidden = x.shape, index.shape[1], down.shape[2]
        slices, rows = expert_rows(count)
        first = torch.tensor([each.start for each in slices], dtype=torch.int32)
        position = torch.empty(tokens * chosen, dtype=torch.int32)
        token = torch.empty(rows, dtype=torch.int32)
        call("slots", index, first, position, token, tokens, chosen, len(slices), rows)
        inputs = torch.empty(rows, width, dtype=BF16)
        call("gather", x, token, inputs, rows, width)
        h = torch.empty(rows, 2 * hidden, dtype=BF16)
        a = torch.empty(rows, hidden, dtype=BF16)
        outputs = torch.empty(rows, width, dtype=BF16)
        gate_up16, down16 = gate_up.to(BF16), down.to(BF16)
        used = [(expert, at) for expert, at in enumerate(slices) if at.stop > at.start]
        for expert, at in used:
            torch.mm(inputs[at], gate_up16[expert].t(), out=h[at])
        call("swiglu_forward", h, a, rows, hidden)
        for expert, at in used:
            torch.mm(a[at], down16[expert].t(), out=outputs[at])
        y = torch.empty(tokens, width, dtype=BF16)
        weight = weight.contiguous()
        call("combine", outputs, position, weight, y, tokens, chosen, width)
        ctx.save_for_backward(weight, gate_up16, down16, position, inputs, h, a, outputs)
        ctx.used = used
        return y

    @staticmethod
    def backward(ctx, dy):
        weight, gate_up, down, position, inputs, h, a, outputs = ctx.saved_tensors
        (tokens, chosen), (rows, width), hidden = weight.shape, inputs.shape, a.shape[1]
        doutputs, dweight = torch.empty(rows, width, dtype=BF16), torch.empty(tokens, chosen)
        call("combine_backward", dy.contiguous(), outputs, position, weight, doutputs, dweight, tokens,
             chosen, width, rows)
        da, dh = torch.empty_like(a), torch.empty_like(h)
        dinputs = outputs  # the outputs are not needed any more: their memory is used again
        dgate_up, ddown = torch.zeros_like(gate_up), torch.zeros_like(down)
        for expert, at in ctx.used:
            torch.mm(doutputs[at], down[expert], out=da[at])
            torch.mm(doutputs[at].t(), a[at], out=ddown[expert])
        call("swiglu_backward", h, da, dh, rows, hidden)
        for expert, at in ctx.used:
            torch.mm(dh[at].t(), inputs[at], out=dgate_up[expert])
            torch.mm(dh[at], gate_up[expert], out=dinputs[at])
        dx = torch.empty(tokens, width, dtype=BF16)
        call("combine", dinputs, position, None, dx, tokens, chosen, width)
        return dx, dweight, dgate_up.float(), ddown.float(), None, None


class Head(torch.autograd.Function):
    """The mean cross entropy of h [N, D] @ weight^T against right [N], of the first `rows` rows.

    The gradients are computed at once, so no more than HEAD_ROWS rows of logits exist at a time."""

    @staticmethod
    def forward(ctx, h, weight, right, rows):
        weight16 = weight.to(BF16)
        dh, dweight = torch.empty_like(h), torch.zeros(weight.shape)
        loss, hit = torch.empty(h.shape[0]), torch.empty(h.shape[0], dtype=torch.int64)
        for i in range(0, h.shape[0], HEAD_ROWS):
            part = h[i:i + HEAD_ROWS]
            logits = part @ weight16.t()
            call("cross_entropy", logits, right[i:], loss[i:], hit[i:], *logits.shape, LOSS_FACTOR)
            if i + HEAD_ROWS > rows:
                logits[max(rows - i, 0):].zero_()
            dh[i:i + HEAD_ROWS] = logits @ weight16
            dweight += logits.t() @ part
        ctx.save_for_backward(dh, dweight)
        ctx.rows = rows
        return loss[:rows].mean(), hit[:rows].float().mean()

    @staticmethod
    def backward(ctx, gradient, _):
        dh, dweight = ctx.saved_tensors
        factor = float(gradient) / ctx.rows / LOSS_FACTOR
        return dh * factor, dweight * factor, None, None


def route(scores, bias, groups, kept, chosen):
    """The chosen experts of each token [T, K], and the tokens of each expert [E]."""
    tokens, experts = scores.shape
    index = torch.empty(tokens, chosen, dtype=torch.int32)
    count = torch.empty(experts, dtype=torch.int32)
    call("route", scores, bias, index, count, tokens, experts, groups, kept, chosen)
    return index, count
