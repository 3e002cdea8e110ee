#!/usr/bin/env python3
"""Times of single ops on one thread, lathe's and PyTorch's, in turns; prints microseconds and PyTorch's time by ours.

    compare_ops.py [--build build/release] [--sizes 1024,65536,4194304] [--ops flip,nonzero] [--rounds 3] [--json]   (needs PyTorch)

The operands have about `size` numbers of f32. A window is the least time of a call in 20 ms; the ratio is the median over pairs of
windows. ops_lathe.cpp has the same table. PyTorch keeps large blocks of memory, without which it is slower.
"""
import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from lathe_program import compile_program

KEEP_BLOCKS = {name: str(1 << 40) for name in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")}


def table(torch, size):
    """From an op's name to a call of PyTorch's op."""
    F = torch.nn.functional
    side, half = math.isqrt(size), math.isqrt(size // 4)
    x, y = torch.randn(side, side), torch.randn(side, side)
    p, m = torch.rand(side, side) + 0.5, x > 0
    images, v, rows = torch.randn(1, 4, half, half), torch.randn(side * side), torch.randn(side)
    columns, places = torch.randint(0, side, (side,)), torch.randint(0, side, (side, side))
    whole, three, q = torch.randint(0, 1000, (side * side,)), torch.tensor([0, 1, 2]), torch.randn(side, 32)
    bits = m.float()
    return {
        "add": lambda: x + y, "add transposed": lambda: x + y.t(), "add row": lambda: x + rows, "mul": lambda: x * y,
        "div": lambda: x / p, "pow": lambda: torch.pow(p, x), "maximum": lambda: torch.maximum(x, y), "gt": lambda: x > y,
        "remainder": lambda: torch.remainder(x, p), "atan2": lambda: torch.atan2(x, y), "where": lambda: torch.where(m, x, y),
        "masked_fill": lambda: torch.masked_fill(x, m, 0.5), "clamp": lambda: torch.clamp(x, -1, 1), "exp": lambda: torch.exp(x),
        "log": lambda: torch.log(p), "sqrt": lambda: torch.sqrt(p), "sin": lambda: torch.sin(x), "tanh": lambda: torch.tanh(x),
        "sigmoid": lambda: torch.sigmoid(x), "gelu": lambda: F.gelu(x), "silu": lambda: F.silu(x), "softplus": lambda: F.softplus(x),
        "mish": lambda: F.mish(x), "floor": lambda: torch.floor(x), "clone": lambda: x.clone(),
        "transposed copy": lambda: x.t().contiguous(), "sum": lambda: x.sum(), "sum rows": lambda: x.sum(1),
        "sum columns": lambda: x.sum(0), "mean": lambda: x.mean(), "var": lambda: x.var(1), "amax": lambda: x.amax(1),
        "argmax": lambda: x.argmax(1), "prod": lambda: x.prod(1), "norm": lambda: x.norm(), "all": lambda: m.all(),
        "logsumexp": lambda: x.logsumexp(1), "softmax": lambda: x.softmax(1), "log_softmax": lambda: x.log_softmax(1),
        "cumsum": lambda: x.cumsum(1), "cumprod": lambda: x.cumprod(1), "sort": lambda: x.sort(1), "topk": lambda: x.topk(5, 1),
        "unique": lambda: whole.unique(return_inverse=True, return_counts=True), "bincount": lambda: whole.bincount(),
        "nonzero": lambda: m.nonzero(), "masked_select": lambda: x.masked_select(m),
        "index_select rows": lambda: x.index_select(0, columns), "index_select columns": lambda: x.index_select(1, columns),
        "index column": lambda: x[:, 2].clone(), "index columns": lambda: x[:, columns],
        "index_put_": lambda: x.index_put_((three,), torch.tensor(1.0)), "gather": lambda: x.gather(1, places),
        "scatter_add": lambda: x.scatter_add(1, places, y), "scatter": lambda: x.scatter(1, places, y),
        "index_add": lambda: x.index_add(0, columns, y), "take": lambda: x.take(whole % x.numel()),
        "flip": lambda: x.flip(1), "flip rows": lambda: x.flip(0), "roll": lambda: x.roll(3, 1), "cat": lambda: torch.cat((x, y), 1),
        "stack": lambda: torch.stack((x, y), 2), "tril": lambda: x.tril(), "repeat": lambda: x.repeat(1, 2),
        "repeat_interleave": lambda: x.repeat_interleave(2, 1), "pad": lambda: F.pad(images, (2, 2, 2, 2)),
        "pad reflect": lambda: F.pad(images, (2, 2, 2, 2), mode="reflect"), "pixel_shuffle": lambda: F.pixel_shuffle(images, 2),
        "upsample nearest": lambda: F.interpolate(images, scale_factor=2.0),
        "upsample bilinear": lambda: F.interpolate(images, scale_factor=2.0, mode="bilinear"),
        "avg_pool2d": lambda: F.avg_pool2d(images, 2), "max_pool2d": lambda: F.max_pool2d(images, 2), "dot": lambda: v @ v,
        "einsum ij,ij->": lambda: torch.einsum("ij,ij->", x, y), "cdist": lambda: torch.cdist(q, q), "mse_loss": lambda: F.mse_loss(x, y),
        "l1_loss": lambda: F.l1_loss(x, y), "smooth_l1_loss": lambda: F.smooth_l1_loss(x, y), "huber_loss": lambda: F.huber_loss(x, y),
        "bce_with_logits": lambda: F.binary_cross_entropy_with_logits(x, bits), "cross_entropy": lambda: F.cross_entropy(x, columns),
        "layer_norm": lambda: F.layer_norm(x, (side,)), "cast f64": lambda: x.double(), "cast bf16": lambda: x.bfloat16(),
        "randn": lambda: torch.randn(side, side), "rand": lambda: torch.rand(side, side),
    }


def least(call):
    """The least time of a call in a window of 20 ms, three calls at least; in microseconds."""
    end, best, calls = time.perf_counter() + 0.02, math.inf, 0
    while calls < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        best, calls = min(best, time.perf_counter() - start), calls + 1
    return best * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(pathlib.Path(__file__).resolve().parents[2] / "build/release"))
    parser.add_argument("--sizes", default="1024,65536,4194304")
    parser.add_argument("--ops", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if any(name not in os.environ for name in KEEP_BLOCKS):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | KEEP_BLOCKS)
    import torch
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        program = compile_program("ops_lathe.cpp", args.build, pathlib.Path(folder) / "ops")
        ours = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        for size in map(int, args.sizes.split(",")):
            for name, call in table(torch, size).items():
                if args.ops and name not in args.ops.split(","):
                    continue
                pairs = []
                for _ in range(args.rounds):
                    print(name, size, file=ours.stdin)
                    pairs.append((float(ours.stdout.readline()), least(call)))
                rows.append([name, size, statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs),
                             statistics.median(b / a for a, b in pairs)])
                if not args.json:
                    print("{:<22}{:>9} numbers: ours {:11.2f} us   PyTorch {:11.2f} us   ratio {:.2f}".format(*rows[-1]), flush=True)
        ours.stdin.close()
    if args.json:
        print(json.dumps(rows))
    ratios = sorted(row[-1] for row in rows)
    print(f"{len(ratios)} times: median {statistics.median(ratios):.2f}, {sum(r < 0.9 for r in ratios)} below 0.9", file=sys.stderr)


if __name__ == "__main__":
    main()
