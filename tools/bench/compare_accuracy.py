#!/usr/bin/env python3
"""Does lathe learn as well as PyTorch, and in bfloat16 as well as in float32? Trains the same recipe on two sides over
several seeds and compares test accuracy.

    compare_accuracy.py --data-root DIR [--seeds 5] [--epochs 5] [--threads 2] [--sides ours,torch] [--out FILE]

Sides: ours (float32), ours-direct (without Winograd: `--conv-exact`), ours-bf16 and ours-fp16 (`--amp`), torch (float32).

ResNet-20 (He et al. 2016, option A shortcuts) on CIFAR-10: batch 128, SGD with momentum 0.9 and weight decay 5e-4, learning
rate 0.1 annealed linearly to 0 per step, pad-4 random crop and flip. DIR holds the official data_batch_*.bin files. Each run
appends one JSON line to FILE: {"side", "seed", "accuracy", "loss", "seconds"}; runs that FILE already holds are not repeated.
The last line printed is the verdict: means, standard errors, and whether the means differ by less than 2 standard errors and
less than 1 point. PyTorch is a test tool here; lathe does not need it.
"""
import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

LR, MOMENTUM, WEIGHT_DECAY, BATCH = 0.1, 0.9, 5e-4, 128
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


def train_ours(args, seed, *flags):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [args.lathe, "train", "--model", "resnet20", "--dataset", "cifar10", "--data-root", args.data_root,
             "--epochs", str(args.epochs), "--batch-size", str(BATCH), "--optimizer", "sgd", "--lr", str(LR),
             "--momentum", str(MOMENTUM), "--weight-decay", str(WEIGHT_DECAY), "--scheduler", "linear",
             "--augment", "crop,flip", "--seed", str(seed), "--threads", str(args.threads), "--run-dir", folder,
             *flags, "--device", args.device, "--quiet"], check=True, stdout=subprocess.DEVNULL)
        rows = [json.loads(line) for line in open(pathlib.Path(folder) / "metrics.jsonl")]
    last = [row for row in rows if row.get("split") in ("val", "test")][-1]
    return last["accuracy"], last["loss"]


def read_batches(root, names):
    import numpy
    import torch
    raw = numpy.concatenate([numpy.fromfile(root / n, numpy.uint8).reshape(-1, 3073) for n in names])
    return torch.from_numpy(raw[:, 1:].reshape(-1, 3, 32, 32).copy()), torch.from_numpy(raw[:, 0].astype("int64"))


def find_batches(data_root):
    for folder in (data_root, data_root / "cifar-10-batches-bin"):
        if (folder / "test_batch.bin").exists():
            return folder
    sys.exit(f"compare_accuracy: no test_batch.bin in {data_root}")


def train_torch(args, seed):
    import torch
    from torch.nn import functional as F
    from torch_models import resnet20
    torch.manual_seed(seed)
    torch.set_num_threads(args.threads)
    root = find_batches(pathlib.Path(args.data_root))
    x, y = read_batches(root, [f"data_batch_{i}.bin" for i in range(1, 6)])
    test_x, test_y = read_batches(root, ["test_batch.bin"])
    mean, std = torch.tensor(MEAN).view(1, 3, 1, 1), torch.tensor(STD).view(1, 3, 1, 1)
    padded = F.pad(x, (4, 4, 4, 4))
    net = resnet20().to(memory_format=torch.channels_last)
    opt = torch.optim.SGD(net.parameters(), LR, MOMENTUM, weight_decay=WEIGHT_DECAY)
    steps = (len(x) + BATCH - 1) // BATCH * args.epochs
    step = 0
    for _ in range(args.epochs):
        net.train()
        order = torch.randperm(len(x))
        for start in range(0, len(x), BATCH):
            rows = order[start:start + BATCH]
            n = len(rows)
            top, left = torch.randint(0, 9, (n,)), torch.randint(0, 9, (n,))
            r = torch.arange(32)
            c = torch.where(torch.rand(n, 1) < 0.5, r.flip(0), r)
            images = padded[rows.view(n, 1, 1, 1), torch.arange(3).view(1, 3, 1, 1),
                            (top.view(n, 1) + r).view(n, 1, 32, 1), (left.view(n, 1) + c).view(n, 1, 1, 32)]
            batch = ((images.float() / 255 - mean) / std).contiguous(memory_format=torch.channels_last)
            for group in opt.param_groups:
                group["lr"] = LR * (1 - step / steps)
            opt.zero_grad(set_to_none=True)
            F.cross_entropy(net(batch), y[rows]).backward()
            opt.step()
            step += 1
    net.eval()
    right, loss = 0, 0.0
    with torch.no_grad():
        for start in range(0, len(test_x), 500):
            batch = ((test_x[start:start + 500].float() / 255 - mean) / std).contiguous(
                memory_format=torch.channels_last)
            out, want = net(batch), test_y[start:start + 500]
            right += (out.argmax(1) == want).sum().item()
            loss += F.cross_entropy(out, want, reduction="sum").item()
    return right / len(test_x), loss / len(test_x)


TRAIN = {"ours": lambda args, seed: train_ours(args, seed, "--amp", "off"),
         "ours-direct": lambda args, seed: train_ours(args, seed, "--amp", "off", "--conv-exact"),
         "ours-bf16": lambda args, seed: train_ours(args, seed, "--amp", "bf16"),
         "ours-fp16": lambda args, seed: train_ours(args, seed, "--amp", "fp16"),
         "torch": train_torch}


def summary(rows, side):
    values = [100 * row["accuracy"] for row in rows if row["side"] == side]
    mean = sum(values) / len(values)
    spread = math.sqrt(sum((v - mean) ** 2 for v in values) / max(len(values) - 1, 1))
    return {"runs": len(values), "mean": mean, "standard_error": spread / math.sqrt(len(values))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", required=True)
    parser.add_argument("--lathe", default=str(pathlib.Path(__file__).parents[2] / "build/release/bin/lathe"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--sides", default="ours,torch")
    parser.add_argument("--device", default="cpu", help="of our sides; torch trains on the CPU")
    parser.add_argument("--out", default="accuracy.jsonl")
    args = parser.parse_args()
    sides = args.sides.split(",")
    if set(sides) - set(TRAIN) or len(set(sides)) != len(sides):
        parser.error(f"--sides {args.sides}: each of {', '.join(TRAIN)} at most once")
    rows = [json.loads(line) for line in open(args.out)] if os.path.exists(args.out) else []
    for seed in range(args.seeds):
        for side in sides:
            if any(r["side"] == side and r["seed"] == seed for r in rows):
                continue
            start = time.time()
            accuracy, loss = TRAIN[side](args, seed)
            rows.append({"side": side, "seed": seed, "accuracy": accuracy, "loss": loss,
                         "seconds": round(time.time() - start, 1)})
            with open(args.out, "a") as file:
                print(json.dumps(rows[-1]), file=file)
            print(json.dumps(rows[-1]), flush=True)
    if len(sides) == 2:
        first, second = (summary(rows, side) for side in sides)
        gap = abs(first["mean"] - second["mean"])
        error = math.hypot(first["standard_error"], second["standard_error"])
        print(json.dumps({sides[0]: first, sides[1]: second, "gap": gap, "standard_error_of_gap": error,
                          "equal": gap < 2 * error and gap < 1}))


if __name__ == "__main__":
    main()
