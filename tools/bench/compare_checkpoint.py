#!/usr/bin/env python3
"""Saves and loads ResNet-18 with SGD's momentum, 89 MB, by lathe and by PyTorch, taking turns; prints medians in milliseconds.

    compare_checkpoint.py [--build build/release] [--folder .] [--rounds 5] [--json]        (needs PyTorch)

Both write a temporary file in `--folder`, sync it and move it over the old one; ours holds a checksum, too, and reading it checks
that. Files are read from the page cache, into the model and the optimizer.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

import torch
from torch.nn import functional as F

import torch_models
from lathe_program import compile_program


class Theirs:
    def __init__(self, path):
        self.path = path
        self.model = torch_models.resnet18()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        F.cross_entropy(self.model(torch.randn(2, 3, 32, 32)), torch.zeros(2, dtype=torch.int64)).backward()
        self.optimizer.step()

    def save(self):
        temporary = self.path + ".tmp"
        with open(temporary, "wb") as file:
            torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self.path)
        folder = os.open(os.path.dirname(self.path), os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)

    def load(self):
        state = torch.load(self.path)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])

    def rounds(self):
        for _ in range(7):
            times = [time.perf_counter()]
            for step in (self.save, self.load):
                step()
                times.append(time.perf_counter())
            yield [(b - a) * 1e3 for a, b in zip(times, times[1:])]


def medians(pairs):
    return [statistics.median(column) for column in zip(*pairs)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(pathlib.Path(__file__).resolve().parents[2] / "build/release"))
    parser.add_argument("--folder", default=".")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        program = compile_program("checkpoint_lathe.cpp", args.build, f"{folder}/ours")
        theirs = Theirs(f"{folder}/theirs.pth")
        ours, torch_ms = [], []
        for _ in range(args.rounds):
            out = subprocess.run([program, f"{folder}/ours.safetensors"], check=True, stdout=subprocess.PIPE, text=True).stdout
            ours.append(medians([map(float, line.split()) for line in out.splitlines()]))
            torch_ms.append(medians(theirs.rounds()))
    result = {}
    for k, what in enumerate(("save", "load")):
        result[what] = {"ours_ms": statistics.median(r[k] for r in ours), "torch_ms": statistics.median(r[k] for r in torch_ms),
                        "ratio": statistics.median(a[k] / b[k] for a, b in zip(ours, torch_ms))}
    if args.json:
        print(json.dumps(result))
    else:
        for what, r in result.items():
            print(f"{what}: ours {r['ours_ms']:.0f} ms, PyTorch {torch.__version__} {r['torch_ms']:.0f} ms, ratio {r['ratio']:.2f}")


if __name__ == "__main__":
    main()
