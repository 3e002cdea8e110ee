#!/usr/bin/env python3
"""Writes golden_pth.h: small files as torch.save makes them, for pth_test.cpp and the fuzz target.

    golden_pth.py > golden_pth.h        (needs PyTorch; made with 1.13 on the CPU)

What they hold is written out in pth_test.cpp.
"""
import argparse
import collections
import io

import torch


def saved(value, **options):
    file = io.BytesIO()
    torch.save(value, file, **options)
    return file.getvalue()


def dtypes():
    """One tensor of each dtype; a 0-d and an empty one."""
    values = {
        "bool": torch.tensor([True, False]),
        "u8": torch.tensor([0, 255], dtype=torch.uint8),
        "i8": torch.tensor([-128, 127], dtype=torch.int8),
        "i16": torch.tensor([-32768], dtype=torch.int16),
        "i32": torch.tensor([1 << 30, -1], dtype=torch.int32),
        "i64": torch.tensor(1 << 60),
        "f16": torch.tensor([1.0, 65504.0], dtype=torch.float16),
        "bf16": torch.tensor([1.0, 3e38], dtype=torch.bfloat16),
        "f32": torch.tensor([[1.5, -2.0, 0.0]]),
        "f64": torch.tensor([0.1], dtype=torch.float64),
        "none": torch.zeros(3, 0),
    }
    return collections.OrderedDict(values)


def views():
    """Several looks at one storage; a parameter; a nested dictionary beside other things."""
    base = torch.arange(12.0).reshape(3, 4)
    state = {"base": base, "transposed": base.t(), "column": base[:, 1], "tail": base[1:, 2:],
             "expanded": base[0, :1].expand(2, 3), "parameter": torch.nn.Parameter(torch.ones(2)),
             "nhwc": torch.arange(24.0).reshape(1, 2, 3, 4).contiguous(memory_format=torch.channels_last)}
    return {"epoch": 3, "best": 0.5, "name": "a", "flags": [True, None, (1, 2)], "state_dict": state}


def module():
    """A module's state dict, with the versions that it carries."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 1, bias=False), torch.nn.BatchNorm2d(2))
    for i, value in enumerate(net.state_dict().values()):
        value.fill_(i)
    return net.state_dict()


def literal(data):
    """A C++ string literal per line; a hexadecimal escape ends with its literal."""
    lines, line = [], ""
    for byte in data:
        text = chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}"
        if len(line) + len(text) > 96:
            lines.append(line)
            line = ""
        line += text
    return "\n".join(f'    "{line}"' for line in lines + [line])


def main():
    print("// Made by golden_pth.py with PyTorch", torch.__version__.split("a")[0] + "; do not edit.")
    print("// clang-format off\n#pragma once\n\n#include <string_view>\n\nnamespace lathe::test {\n")
    for name, data in [("Dtypes", saved(dtypes())), ("Views", saved(views())), ("Module", saved(module())),
                       ("Protocol4", saved(views(), pickle_protocol=4)), ("Model", saved(torch.nn.Flatten())),
                       ("Trainer", saved({"model": module(), "epoch": 3, "args": argparse.Namespace(lr=0.1, names=["a"])})),
                       ("Legacy", saved({"w": torch.ones(1)}, _use_new_zipfile_serialization=False))]:
        print(f"inline constexpr std::string_view kPth{name}(\n{literal(data)}, {len(data)});\n")
    print("}  // namespace lathe::test")


if __name__ == "__main__":
    main()
