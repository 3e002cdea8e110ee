#!/usr/bin/env python3
"""Do LARS and LAMB reach with batches of 4096 what SGD reaches with 128, in the same epochs?

    large_batch.py --lathe PATH [--dataset fashion-mnist] [--data-root DIR] [--model resnet8] [--epochs 6] [--batch 4096]
                   [--micro 256] [--shrink 1] [--seeds 1] [--threads 2] [--only NAME,…] [--out FILE]
                   [--lars-lr 1] [--lamb-lr 0.01] [--novograd-lr 0.01]

Trains each variant with `lathe train`, large batches by accumulation of `--micro` images, and prints a table: mean test accuracy
of the last epoch, its difference from SGD at 128, and seconds. --shrink N makes of Fashion-MNIST or MNIST images of 28 / N pixels,
means of N x N, for little work (it needs NumPy). One JSON line per run goes to FILE; runs it already holds are not
repeated. The exit code is 0 if LARS and LAMB are within one point of SGD at 128, else 7.
"""
import argparse
import gzip
import json
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile
import time

REFERENCE, BATCH = "sgd-128", 128


def variants(args):
    """Name → flags. A large batch warms up over a sixth of the run; polynomial decay is that of the LARS paper."""
    large = ["--batch-size", args.micro, "--accumulate", args.batch // args.micro, "--warmup-epochs", args.epochs / 6,
             "--scheduler", "poly", "--power", 2]
    sgd = ["--optimizer", "sgd", "--lr", 0.1, "--weight-decay", 5e-4]
    return {
        REFERENCE: [*sgd, "--batch-size", BATCH, "--scheduler", "cosine"],
        f"sgd-{args.batch}": [*sgd, *large],
        f"sgd-{args.batch}-scaled": [*sgd, *large, "--lr-scale-batch"],
        f"lars-{args.batch}": ["--optimizer", "lars", "--lr", args.lars_lr, *large],
        f"lamb-{args.batch}": ["--optimizer", "lamb", "--lr", args.lamb_lr, *large],
        f"novograd-{args.batch}": ["--optimizer", "novograd", "--lr", args.novograd_lr, *large],
    }


def shrink(source, target, factor):
    """The data set in `source`, each factor x factor pixels one, in `target`."""
    import numpy
    target.mkdir(parents=True, exist_ok=True)
    for part in ("train", "t10k"):
        raw = gzip.open(source / f"{part}-images-idx3-ubyte.gz").read()
        magic, n, rows, columns = struct.unpack(">4i", raw[:16])
        pixels = numpy.frombuffer(raw, numpy.uint8, offset=16).reshape(n, rows // factor, factor, columns // factor, factor)
        means = pixels.astype(numpy.uint16).mean((2, 4)).round()
        header = struct.pack(">4i", magic, n, rows // factor, columns // factor)
        (target / f"{part}-images-idx3-ubyte").write_bytes(header + means.astype(numpy.uint8).tobytes())
        labels = f"{part}-labels-idx1-ubyte"
        (target / labels).write_bytes(gzip.open(source / f"{labels}.gz").read())


def train(args, flags, seed):
    data = ["--dataset", args.dataset, "--model", args.model, "--epochs", args.epochs, "--seed", seed, "--threads", args.threads]
    data += ["--data-root", args.data_root] if args.data_root else []
    data += ["--image-size", 32 // args.shrink] if args.shrink > 1 else []
    data += ["--synthetic-size", args.synthetic_size] if args.dataset == "synthetic" else []
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([args.lathe, "train", *map(str, [*data, *flags]), "--run-dir", folder, "--quiet", "--json"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    seconds = time.monotonic() - began
    if done.returncode == 6:  # diverged: a result
        return {"accuracy": 0.0, "steps": 0, "seconds": seconds, "note": done.stderr.strip()}
    if done.returncode != 0:
        sys.exit(f"large_batch: {done.stderr.strip()}")
    last = json.loads(done.stdout.splitlines()[-1])
    return {"accuracy": last["accuracy"], "steps": last["steps"], "seconds": seconds}


def read_results(path):
    if not path or not pathlib.Path(path).exists():
        return []
    return [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lathe", required=True)
    parser.add_argument("--dataset", default="fashion-mnist")
    parser.add_argument("--data-root")
    parser.add_argument("--synthetic-size", type=int, default=20000)
    parser.add_argument("--model", default="resnet8")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--micro", type=int, default=256)
    parser.add_argument("--shrink", type=int, default=1, choices=(1, 2, 4))
    parser.add_argument("--lars-lr", type=float, default=1)
    parser.add_argument("--lamb-lr", type=float, default=0.01)
    parser.add_argument("--novograd-lr", type=float, default=0.01)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--out")
    args = parser.parse_args()
    if args.batch % args.micro:
        parser.error("--batch must be a multiple of --micro")
    shrunk = tempfile.TemporaryDirectory()
    if args.shrink > 1:
        source = pathlib.Path(args.data_root or "/usr/share/datasets") / args.dataset
        shrink(source, pathlib.Path(shrunk.name) / args.dataset, args.shrink)
        args.data_root = shrunk.name

    chosen = {name: flags for name, flags in variants(args).items() if not args.only or name in args.only.split(",")}
    results = read_results(args.out)
    for name, flags in chosen.items():
        key = {"variant": name, "dataset": args.dataset, "model": args.model, "epochs": args.epochs, "shrink": args.shrink, "flags": " ".join(map(str, flags))}
        for seed in range(args.seeds):
            if any(r["seed"] == seed and key.items() <= r.items() for r in results):
                continue
            results.append({**key, "seed": seed, **train(args, flags, seed)})
            print(json.dumps(results[-1]), file=sys.stderr, flush=True)
            if args.out:
                with open(args.out, "a") as file:
                    file.write(json.dumps(results[-1]) + "\n")

    means = {}
    for name, flags in chosen.items():
        mine = [r for r in results if r["variant"] == name and r["flags"] == " ".join(map(str, flags)) and r["epochs"] == args.epochs
                and r["model"] == args.model and r["dataset"] == args.dataset and r["shrink"] == args.shrink]
        means[name] = (statistics.mean(r["accuracy"] for r in mine), len(mine), mine[0]["steps"], statistics.mean(r["seconds"] for r in mine))
    print(f"{args.model} on {args.dataset}, {args.epochs} epochs\n{'variant':<20} {'accuracy %':>10} {'points':>7} {'seeds':>5} {'steps':>6} {'s/run':>7}")
    base = means.get(REFERENCE, (None,))[0]
    for name, (accuracy, seeds, steps, seconds) in means.items():
        points = f"{100 * (accuracy - base):+.2f}" if base is not None else ""
        print(f"{name:<20} {100 * accuracy:>10.2f} {points:>7} {seeds:>5} {steps:>6} {seconds:>7.1f}")
    judged = [means[name][0] for name in means if name.startswith(("lars-", "lamb-"))]
    if base is not None and judged and min(judged) < base - 0.01:
        sys.exit(7)


main()
