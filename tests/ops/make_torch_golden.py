#!/usr/bin/env python3
"""Writes golden_torch.safetensors: what PyTorch and torchvision compute, with gradients.

    make_torch_golden.py        (needs PyTorch, torchvision and safetensors; made with 2.15.0 and 0.29.2 on the CPU)

Each case has its inputs under "CASE.x0", "CASE.x1", its results under "CASE.y0", …, and under "CASE.g0", … the gradients of
sum over k of sum(y_k cos(i + k)) by the floating inputs, where i counts elements. The table in golden_torch_test.cpp has the same cases.
"""
import pathlib

import safetensors.torch
import torch
import torchvision.ops
from torch.nn import functional as F

INTEGERS = {"u8": torch.uint8, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64}
CONSTANT = []  # floating inputs without a gradient


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def constant(values, dtype=torch.float64):
    tensor = torch.tensor(values, dtype=dtype)
    CONSTANT.append(tensor)
    return tensor


def bits(a, b):
    return a & b, a | b, a ^ b, ~a, a << b, a >> b


def bitwise_cases():
    for name, dtype in INTEGERS.items():
        info = torch.iinfo(dtype)
        a = torch.randint(info.min, info.max, (40,), dtype=dtype)
        b = torch.randint(0 if name == "u8" else -3, info.bits + 3, (40,), dtype=dtype)
        yield f"bitwise_{name}", [a, b], bits
    flags = torch.tensor([[False, True], [True, True]]), torch.tensor([[True, False], [True, False]])
    yield "bitwise_bool", flags, lambda a, b: (a & b, a | b, a ^ b, ~a)
    small = torch.randint(-100, 100, (4,), dtype=torch.int8)
    yield "bitwise_promoted", [torch.randint(0, 255, (3, 1), dtype=torch.uint8), small], lambda a, b: (a & b, a | b, a ^ b, a << b, a >> b)
    yield "bitwise_numbers", [small], lambda a: (a & 300, a | 300, a ^ -1, a << 2, a >> 2, a << -1, a >> 9)
    yield "bitwise_of_bool_and_numbers", [flags[0]], lambda a: (a & 3, a | 2, a ^ True)


def scatter_cases():
    shapes = {"rows": ((4, 3), 0, (6, 3), (6, 3)), "lines": ((2, 3, 4), -1, (2, 3, 9), (2, 3, 9)), "vector": ((5,), 0, (3,), (3,))}
    for reduction in ("sum", "prod", "mean", "amax", "amin"):
        for include_self in (True, False):
            for kind, (x, dim, index, source) in shapes.items():
                def f(x, index, source, dim=dim, reduction=reduction, include_self=include_self):
                    return x.scatter_reduce(dim, index, source, reduction, include_self=include_self)
                name = f"scatter_reduce_{reduction}_{kind}_{'with' if include_self else 'without'}"
                yield name, [randn(*x), torch.randint(0, x[dim], index), randn(*source)], f
    ties = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64), torch.tensor([0, 0, 1, 1, 1]), torch.tensor([1.0, 1.0, 2.0, 4.0, 4.0], dtype=torch.float64)
    yield "scatter_reduce_ties", [t.clone() for t in ties], lambda x, i, s: (x.scatter_reduce(0, i, s, "amax"), x.scatter_reduce(0, i, s, "amin"))
    zeros = torch.tensor([2.0, 0.0, 3.0], dtype=torch.float64), torch.tensor([0, 0, 1, 1]), torch.tensor([0.0, 5.0, 2.0, 4.0], dtype=torch.float64)
    yield "scatter_reduce_one_zero", list(zeros), lambda x, i, s: x.scatter_reduce(0, i, s, "prod")
    whole = torch.randint(-9, 9, (4,)), torch.randint(0, 4, (9,)), torch.randint(-9, 9, (9,))
    yield "scatter_reduce_integers", list(whole), lambda x, i, s: tuple(x.scatter_reduce(0, i, s, r) for r in ("sum", "prod", "mean", "amax", "amin"))


def bag_cases():
    index, offsets = torch.tensor([1, 4, 4, 6, 2, 0, 3, 1, 2, 5, 5]), torch.tensor([0, 3, 3, 8, 9])
    ends = torch.tensor([0, 3, 3, 8, 11])
    for mode in ("sum", "mean", "max"):
        yield f"embedding_bag_{mode}", [randn(7, 3), index, offsets], lambda w, i, o, mode=mode: F.embedding_bag(i, w, o, mode=mode)
        yield f"embedding_bag_{mode}_padding", [randn(7, 3), index, offsets], lambda w, i, o, mode=mode: F.embedding_bag(i, w, o, mode=mode, padding_idx=-3)
        yield f"embedding_bag_{mode}_ends", [randn(7, 3), index, ends], lambda w, i, o, mode=mode: F.embedding_bag(i, w, o, mode=mode, include_last_offset=True)
        yield f"embedding_bag_{mode}_rows", [randn(7, 3), index[:10].reshape(2, 5)], lambda w, i, mode=mode: F.embedding_bag(i, w, mode=mode)
    yield "embedding_bag_factors", [randn(7, 3), index, offsets, randn(11)], lambda w, i, o, f: F.embedding_bag(i, w, o, mode="sum", per_sample_weights=f, padding_idx=2)


def quantize_cases():
    x = torch.linspace(-3, 3, 301)
    for name, scale, zero_point, least, most in (("small", 0.1, 3, -8, 7), ("u8", 0.017, 128, 0, 255), ("i8", 0.25, 0, -128, 127)):
        yield f"fake_quantize_{name}", [x.clone()], lambda x, p=(scale, zero_point, least, most): torch.fake_quantize_per_tensor_affine(x, *p)
    scale, zero = constant([0.1, 0.03, 0.2], torch.float32), torch.tensor([0, 10, -5], dtype=torch.int32)
    yield "fake_quantize_channels", [torch.randn(4, 3, 5), scale, zero], lambda x, s, z: torch.fake_quantize_per_channel_affine(x, s, z, 1, -16, 15)
    one, first = constant([0.05], torch.float32), torch.tensor([7], dtype=torch.int32)
    yield "fake_quantize_tensors", [torch.randn(40), one, first], lambda x, s, z: torch.fake_quantize_per_tensor_affine(x, s, z, 0, 15)


def box_cases():
    boxes = [[0, 1.25, 1.5, 4.75, 5.25], [1, -2.5, -0.5, 3.0, 2.25], [1, 4.5, 3.25, 9.5, 8.0], [0, 20, 20, 24, 24], [0, 2.5, 2.5, 2.5, 2.5], [1, 0.0, 0.0, 6.0, 5.0]]
    for aligned in (False, True):
        for ratio in (-1, 2):
            def f(x, boxes, aligned=aligned, ratio=ratio):
                return (torchvision.ops.roi_align(x, boxes, (2, 3), 1.0, ratio, aligned), torchvision.ops.roi_align(x, boxes, 3, 0.6, ratio, aligned))
            yield f"roi_align_{ratio}_{'aligned' if aligned else 'whole'}", [randn(2, 3, 5, 6), constant(boxes)], f


def main():
    torch.manual_seed(50)
    out = {}
    for name, inputs, f in (case for cases in (bitwise_cases, scatter_cases, bag_cases, quantize_cases, box_cases) for case in cases()):
        xs = [x if not x.is_floating_point() or any(x is t for t in CONSTANT) else x.requires_grad_() for x in inputs]
        ys = f(*xs)
        ys = (ys,) if isinstance(ys, torch.Tensor) else tuple(ys)
        assert not any(key.startswith(name + ".") for key in out), name
        leaves = [x for x in xs if x.requires_grad]
        if leaves:
            loss = sum((y.reshape(-1) * torch.cos(torch.arange(y.numel(), dtype=y.dtype) + k)).sum() for k, y in enumerate(ys))
            gradients = iter(torch.autograd.grad(loss, leaves))
            out.update({f"{name}.g{k}": next(gradients).clone() for k, x in enumerate(xs) if x.requires_grad})
        for kind, tensors in (("x", xs), ("y", ys)):
            out.update({f"{name}.{kind}{k}": t.detach().clone().contiguous() for k, t in enumerate(tensors)})
    safetensors.torch.save_file(out, pathlib.Path(__file__).with_name("golden_torch.safetensors"))


if __name__ == "__main__":
    main()
