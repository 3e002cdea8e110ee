#!/usr/bin/env python3
"""Writes golden_logits.h: what torchvision's ResNet-18 and 34 compute, with weights that the test can build itself.

    golden_logits.py > golden_logits.h        (needs PyTorch; made with 1.13 on the CPU, in f64)

Every entry of the state dict is filled from its name: u(stream, i) of golden_resnet.py with stream = CRC-32 of the name. So an
entry under another name, or of another shape, changes every logit. The network is written out as in torchvision's resnet.py;
torchvision itself is compared with where it is installed.
"""
import math
import zlib

import torch
from torch import nn
from torch.nn import functional as F

from golden_resnet import uniform

IMAGES = 1000


class BasicBlock(nn.Module):
    def __init__(self, inplanes, planes, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = None
        if stride != 1 or inplanes != planes:
            self.downsample = nn.Sequential(nn.Conv2d(inplanes, planes, 1, stride, bias=False), nn.BatchNorm2d(planes))

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))) + shortcut)


class ResNet(nn.Module):
    def __init__(self, layers, num_classes=1000):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        inplanes = 64
        for number, blocks in enumerate(layers, 1):
            planes = 32 << number
            stage = [BasicBlock(inplanes if i == 0 else planes, planes, 2 if number > 1 and i == 0 else 1) for i in range(blocks)]
            setattr(self, f"layer{number}", nn.Sequential(*stage))
            inplanes = planes
        self.fc = nn.Linear(inplanes, num_classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


def make(name):
    try:
        import torchvision
        return getattr(torchvision.models, name)()
    except ImportError:
        return ResNet({"resnet18": (2, 2, 2, 2), "resnet34": (3, 4, 6, 3)}[name])


def fill(net):
    """Convolutions: variance 2 / fan_out, of depthwise ones 2 / fan_in; matrices: u / sqrt(fan_in); scales and variances 1 + u/10; the rest u/10; counts 7."""
    for name, value in net.state_dict().items():
        if name.endswith("num_batches_tracked"):
            value.fill_(7)
            continue
        u = uniform(zlib.crc32(name.encode()), value.numel()).reshape(value.shape)
        if value.dim() == 4:
            channels = 1 if value.shape[1] == 1 else value.shape[0]
            u = u * math.sqrt(6 / (channels * math.prod(value.shape[2:])))
        elif value.dim() == 2:
            u = u / math.sqrt(value.shape[1])
        else:
            u = u / 10 + (1 if name.endswith(("weight", "running_var")) else 0)
        value.copy_(torch.from_numpy(u))


def images(dtype=torch.float64, side=64):
    return torch.from_numpy(1.7 * uniform(IMAGES, 2 * 3 * side * side).reshape(2, 3, side, side)).to(dtype)


def logits(name):
    net = make(name).double().eval()
    fill(net)
    with torch.no_grad():
        return net(images())


def main():
    print("// Made by golden_logits.py with PyTorch", torch.__version__.split("a")[0] + "; do not edit.")
    print("#pragma once\n\nnamespace lathe::test {\n")
    print("struct GoldenLogits {\n  double norm;               // of all 2 x 1000\n"
          "  double every_fortieth[50];  // of them, from the first on\n};\n")
    for name in ["resnet18", "resnet34"]:
        y = logits(name).flatten()
        values = [float(v).hex() for v in y[::40]]
        rows = ",\n     ".join(", ".join(values[i:i + 4]) for i in range(0, len(values), 4))
        print(f"inline constexpr GoldenLogits k{name.replace('resnet', 'ResNet')}Logits = {{\n    {float(y.norm()).hex()},\n    {{{rows}}}}};\n")
    print("}  // namespace lathe::test")


if __name__ == "__main__":
    main()
