#!/usr/bin/env python3
"""Writes golden_cifarnet.h: losses of CifarNet's training steps as PyTorch computes them, in f64.

    golden_cifarnet.py > golden_cifarnet.h        (needs PyTorch; made with 2.15 on the CPU)

Weights, images and labels come from a hash, as in golden_resnet.py. Filters of 3x3 are trained by Muon with normalised
weights, all else by SGD.
"""
import torch
from golden_resnet import batch, fill
from torch import nn
from torch.nn import functional as F

STEPS, COUNT, SIDE = 10, 8, 16


def conv(before, width):
    return nn.Conv2d(before, width, 3, padding=1, bias=False)


def norm(width):
    return nn.BatchNorm2d(width, eps=1e-12, momentum=0.4)


class Shortcut(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(conv(width, width), norm(width), nn.GELU(), conv(width, width), norm(width))

    def forward(self, x):
        return self.body(x) + x


def group(before, width, residual):
    rest = [Shortcut(width)] if residual else [conv(width, width), norm(width)]
    return [conv(before, width), nn.MaxPool2d(2), norm(width), nn.GELU(), *rest, nn.GELU()]


class CifarNet(nn.Module):
    def __init__(self, widths, residual):
        super().__init__()
        self.whiten = nn.Conv2d(3, 24, 2)
        groups = [group(before, width, residual) for before, width in zip((24, *widths), widths)]
        self.groups = nn.Sequential(nn.GELU(), *sum(groups, []))
        self.head = nn.Linear(widths[-1], 10, bias=False)

    def forward(self, x):
        return self.head(self.groups(self.whiten(x)).amax((2, 3)))


def orthogonalized(x):
    """Three steps of Newton and Schulz for a matrix that is not taller than wide."""
    assert x.shape[0] <= x.shape[1], x.shape
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(3):
        gram = x @ x.T
        x = 3.4445 * x + (-4.775 * gram + 2.0315 * gram @ gram) @ x
    return x


def losses_of(net):
    fill(net.double())
    norms = {f"{name}.weight" for name, layer in net.named_modules() if isinstance(layer, nn.BatchNorm2d)}
    filters, others = [], []
    for name, p in net.named_parameters():
        if name == "whiten.weight" or name in norms:
            p.requires_grad_(False)
        else:
            (filters if p.dim() == 4 else others).append(p)
    sgd = torch.optim.SGD(others, 0.02, 0.85, weight_decay=0.01, nesterov=True)
    buffers = [torch.zeros_like(p) for p in filters]
    losses = []
    for step in range(STEPS):
        x, y = batch(step, COUNT, SIDE, torch.float64)
        loss = F.cross_entropy(net(x), y, label_smoothing=0.2)
        net.zero_grad()
        loss.backward()
        losses.append(loss.item())
        sgd.step()
        with torch.no_grad():
            for p, buffer in zip(filters, buffers):
                buffer.mul_(0.6).add_(p.grad)
                update = orthogonalized((p.grad + 0.6 * buffer).flatten(1)).reshape(p.shape)
                p.mul_(len(p) ** 0.5 / p.norm()).sub_(0.24 * update)
    net.eval()
    x, y = batch(STEPS, COUNT, SIDE, torch.float64)
    losses.append(F.cross_entropy(net(x), y).item())
    return losses


def main():
    print(f"""// Losses of CifarNet as PyTorch {torch.__version__.split('+')[0]} computes them. Written by golden_cifarnet.py.
#pragma once

// clang-format off
// {STEPS} training steps, then an evaluation.""")
    for name, net in (("kCifarNetLosses", CifarNet((64, 256, 256), False)), ("kResidualLosses", CifarNet((16, 24, 32), True))):
        print(f"inline constexpr double {name}[] = {{")
        for loss in losses_of(net):
            print(f"    {loss!r},")
        print("};")
    print("// clang-format on")


if __name__ == "__main__":
    main()
