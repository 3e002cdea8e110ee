#!/usr/bin/env python3
"""Writes golden_models.h: names, shapes and results of torchvision's models.

    golden_models.py > golden_models.h        (needs torchvision; made with 0.29.2 on the CPU, in f64)

Weights are those of golden_logits.py: every entry of the state dict is a function of its name. Images are 32 x 32.
"""
import sys
import zlib

import torch
import torchvision
from torchvision.models import VisionTransformer

from golden_logits import fill, images

NAMES = ("resnet18 resnet34 resnet50 resnet101 resnet152 wide_resnet50_2 wide_resnet101_2 vgg11 vgg13 vgg16 vgg19 vgg11_bn vgg13_bn "
         "vgg16_bn vgg19_bn mobilenet_v2 efficientnet_b0 convnext_tiny vit_s_16 vit_b_16").split()


def make(name, **options):
    """A model of torchvision; vit_s_16 is its VisionTransformer with the sizes of arXiv:2012.12877."""
    if name == "vit_s_16":
        return VisionTransformer(options.pop("image_size", 224), 16, 12, 6, 384, 1536, **options)
    return getattr(torchvision.models, name)(**options)


def tiny_vit():
    return VisionTransformer(image_size=32, patch_size=16, num_layers=2, num_heads=6, hidden_dim=384, mlp_dim=1536)


def row(name):
    """Counts, and the CRC-32 of all lines `name [sizes]`, sorted."""
    with torch.device("meta"):
        net = make(name)
    state = net.state_dict()
    lines = sorted(f"{key} [{','.join(map(str, value.shape))}]\n" for key, value in state.items())
    parameters = sum(p.numel() for p in net.parameters())
    return f'    {{"{name}", {parameters}, {len(state)}, 0x{zlib.crc32("".join(lines).encode()):08x}}},'


def result(name, net, run):
    net = net.double().eval()
    fill(net)
    with torch.no_grad():
        y = run(net)(images(side=32)).flatten()
    assert y.isfinite().all() and 1e-2 < y.norm() < 1e6, y.norm()
    values = [float(v).hex() for v in y[::len(y) // 20][:20]]
    rows = ",\n     ".join(", ".join(values[i:i + 4]) for i in range(0, 20, 4))
    print(f"inline constexpr GoldenResult {name} = {{\n    {float(y.norm()).hex()},\n    {{{rows}}}}};\n")


def main():
    print("// Made by golden_models.py with torchvision", torchvision.__version__.split("+")[0] + "; do not edit.")
    print("#pragma once\n\n#include <cstddef>\n#include <cstdint>\n\nnamespace lathe::test {\n")
    print("struct GoldenModel {\n  const char* name;\n  int64_t parameters;\n  size_t entries;\n  uint32_t names;  // of all, with their shapes\n};\n")
    print("// With the default options.\ninline constexpr GoldenModel kGoldenModels[] = {")
    print("\n".join(map(row, NAMES)), "\n};\n", sep="")
    print("struct GoldenResult {\n  double norm;        // of all numbers of the result\n"
          "  double values[20];  // of them, in equal steps from the first on\n};\n")
    whole = lambda net: net  # noqa: E731
    for name, constant in [("resnet50", "kResNet50"), ("mobilenet_v2", "kMobileNetV2"), ("efficientnet_b0", "kEfficientNetB0"),
                           ("convnext_tiny", "kConvNeXtTiny")]:
        result(constant, make(name), whole)
        print(name, "done", file=sys.stderr)
    print("// Its layers before the classifier.")
    result("kVgg11Features", make("vgg11_bn"), lambda net: net.features)
    print("// Two layers for images of 32 x 32, 384 wide, with 6 heads.")
    result("kTinyViT", tiny_vit(), whole)
    print("}  // namespace lathe::test")


if __name__ == "__main__":
    main()
