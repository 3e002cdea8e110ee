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


def group(before, width):
    conv1, conv2 = nn.Conv2d(before, width, 3, padding=1, bias=False), nn.Conv2d(width, width, 3, padding=1, bias=False)
    norm1, norm2 = (nn.BatchNorm2d(width, eps=1e-12, momentum=0.4) for _ in range(2))
    return [conv1, nn.MaxPool2d(2), norm1, nn.GELU(), conv2, norm2, nn.GELU()]


class CifarNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.whiten = nn.Conv2d(3, 24, 2)
        self.groups = nn.Sequential(nn.GELU(), *group(24, 64), *group(64, 256), *group(256, 256))
        self.head = nn.Linear(256, 10, bias=False)

    def forward(self, x):
        return self.head(self.groups(self.whiten(x)).amax((2, 3)))


def orthogonalized(x):
    """Three steps of Newton and Schulz for a matrix that is not taller than wide."""
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(3):
        gram = x @ x.T
        x = 3.4445 * x + (-4.775 * gram + 2.0315 * gram @ gram) @ x
    return x


def main():
    net = CifarNet().double()
    fill(net)
    norms = {f"groups.{i}.weight" for i, layer in enumerate(net.groups) if isinstance(layer, nn.BatchNorm2d)}
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
    print(f"""// Losses of CifarNet as PyTorch {torch.__version__.split('+')[0]} computes them. Written by golden_cifarnet.py.
#pragma once

// clang-format off
// {STEPS} training steps, then an evaluation.
inline constexpr double kCifarNetLosses[] = {{""")
    for loss in losses:
        print(f"    {loss!r},")
    print("};\n// clang-format on")


if __name__ == "__main__":
    main()
