#!/usr/bin/env python3
"""Writes golden_resnet.h: losses and gradients of ResNet training steps as PyTorch computes them.

    golden_resnet.py > golden_resnet.h        (needs PyTorch; made with 1.13.1 on the CPU)

Weights, images and labels come from a hash, so that golden_resnet_test.cpp builds the same ones without files:
u(stream, i) in [-1, 1) = mix(stream * 2654435761 + i) / 2^31 - 1, mix being the 32-bit finaliser of MurmurHash3.
"""
import math
import pathlib
import sys

import numpy
import torch
from torch.nn import functional as F

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tools/bench"))
from torch_models import resnet18, resnet20  # noqa: E402

IMAGES, LABELS, SIGNS = 1000, 2000, 3000  # streams; parameter k has stream k


def uniform(stream, count):
    x = (numpy.arange(count, dtype=numpy.uint64) + numpy.uint64(stream * 2654435761 % 2**32)) & numpy.uint64(0xFFFFFFFF)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, None)):
        x ^= x >> numpy.uint64(shift)
        if factor:
            x = x * numpy.uint64(factor) & numpy.uint64(0xFFFFFFFF)
    return x.astype(numpy.float64) / 2**31 - 1


def fill(net):
    """Convolutions: uniform with variance 2 / fan_out; fc: u / sqrt(fan_in); batch norm: weight 1 + u/10, bias u/10; fc bias: u/10."""
    for k, (name, p) in enumerate(net.named_parameters()):
        u = uniform(k, p.numel()).reshape(p.shape)
        if p.dim() == 2:
            u = u / math.sqrt(p.shape[1])
        elif p.dim() == 4:
            fan_out = p.shape[0] * math.prod(p.shape[2:])
            u = u * math.sqrt(6 / fan_out)
        else:
            u = u / 10 + (1 if name.endswith("weight") else 0)
        p.data = torch.from_numpy(u).to(p.dtype)


def batch(step, n, size, dtype):
    x = 1.7 * uniform(IMAGES + step, n * 3 * size * size).reshape(n, 3, size, size)
    y = numpy.floor((uniform(LABELS + step, n) + 1) * 5).astype("int64")
    return torch.from_numpy(x).to(dtype), torch.from_numpy(y)


def relu_inputs(net, x):
    seen, relu = [], F.relu
    F.relu = lambda z: (seen.append(z.double()), relu(z))[1]
    try:
        with torch.no_grad():
            net(x)
    finally:
        F.relu = relu
    return seen


def quietest_step(n, size):
    """Of 64 steps that whose activations f32 is least likely to move across zero, where relu would switch a gradient on or
    off: (how often the error of f32 fits between zero and the nearest activation, in the worst layer; the step)."""
    net64, net32 = resnet18().double(), resnet18()
    fill(net64)
    fill(net32)

    def distance(step):
        x, _ = batch(step, n, size, torch.float64)
        pairs = zip(relu_inputs(net64, x), relu_inputs(net32, x.float()))
        return min((exact.abs().min() / (exact - rounded).abs().max()).item() for exact, rounded in pairs)
    return max((distance(step), step) for step in range(64))


def train(net, steps, n, size, dtype, first=0):
    net = net.to(dtype)
    fill(net)
    opt = torch.optim.SGD(net.parameters(), 0.01, 0.9, weight_decay=5e-4)
    losses = []
    for step in range(first, first + steps):
        x, y = batch(step, n, size, dtype)
        opt.zero_grad(set_to_none=True)
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        losses.append(loss.item())
        if step < first + steps - 1:
            opt.step()
    return losses, net


def gradient_rows(net):
    """Per parameter: the norm of its gradient, and its products with three fixed sign vectors, which see any other error."""
    for name, p in net.named_parameters():
        g = p.grad.double().numpy().ravel()
        signs = [numpy.where(uniform(SIGNS + s, g.size) < 0, -1.0, 1.0) for s in range(3)]
        yield name, numpy.linalg.norm(g), [float(g @ s) for s in signs]


def show(values):
    return ", ".join(float(v).hex() for v in values)


def main():
    torch.set_num_threads(2)
    print("// Made by golden_resnet.py with PyTorch", torch.__version__.split("+")[0] + "; do not edit.")
    print("#pragma once\n\nnamespace lathe::test {\n")
    print("struct GoldenGradient {\n  const char* name;\n  double norm;\n  double products[3];\n};\n")
    losses, _ = train(resnet20(), 50, 8, 16, torch.float64)
    print(f"// ResNet-20, f64, batches of 8 16x16 images: the loss before each of 50 steps.\n"
          f"inline constexpr double kResnet20Losses[] = {{{show(losses)}}};\n")
    losses, _ = train(resnet18(), 3, 2, 16, torch.float64)
    print(f"// ResNet-18, f64, batches of 2 16x16 images.\ninline constexpr double kResnet18Losses[] = {{{show(losses)}}};\n")
    distance, step = quietest_step(2, 16)
    losses, net = train(resnet18(), 1, 2, 16, torch.float64, step)
    print(f"// ResNet-18, two 16x16 images, in f64: of 64 steps the one whose activations keep farthest from zero, in every layer\n"
          f"// at least {distance:.1f} times the largest error of f32 there.\n"
          f"inline constexpr unsigned kQuietStep = {step};\n"
          f"inline constexpr double kResnet18Loss = {show(losses)};")
    print("inline constexpr GoldenGradient kResnet18Gradients[] = {")
    for name, norm, products in gradient_rows(net):
        print(f'    {{"{name}", {norm.hex()}, {{{show(products)}}}}},')
    print("};\n\n}  // namespace lathe::test")


if __name__ == "__main__":
    main()
