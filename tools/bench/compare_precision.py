#!/usr/bin/env python3
"""Does training in bf16 go as in f32? The same weights, the same images in the same order, 200 steps.

    compare_precision.py --data-root DIR [--lathe PATH] [--dataset cifar10] [--model resnet20] [--steps 200] [--last 50] [--amp bf16]
                         [--threads 2] [--out FILE]

Trains with `lathe train` in f32 three times that differ in nothing but the order of their sums (Winograd's convolutions, direct
ones on NHWC images, direct ones on row-major images), then under autocast. Prints for each the loss of the first step and the
mean of the last 50. The exit code is 0 if the half run's first loss is within 1e-2 of f32's and its mean lies within the spread
of the three (smallest to largest), else 7. One JSON line per run goes to FILE; runs it already holds are not repeated.

Rounding is amplified from step to step, so after 200 steps the three are samples of what chance makes of one training: of four
samples of one distribution the fourth lies between the others half of the time. A run outside by less than the spread is no
evidence of a loss of quality; one outside by several spreads is.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

F32 = {"f32, Winograd": [], "f32, direct, NHWC": ["--conv-exact"], "f32, direct, row-major": ["--conv-exact", "--layout", "nchw"]}


def losses_of(args, flags):
    """The loss of every step."""
    with tempfile.TemporaryDirectory() as folder:
        command = [args.lathe, "train", "--dataset", args.dataset, "--model", args.model, "--max-steps", args.steps, "--log-every", 1,
                   "--batch-size", 128, "--optimizer", "sgd", "--lr", 0.1, "--momentum", 0.9, "--weight-decay", 5e-4, "--scheduler",
                   "none", "--threads", args.threads, "--eval-every", 0, "--run-dir", folder, "--quiet", *flags]
        command += ["--data-root", args.data_root] if args.data_root else []
        done = subprocess.run(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"compare_precision: {done.stderr.strip()}")
        rows = [json.loads(line) for line in open(pathlib.Path(folder) / "metrics.jsonl")]
    losses = [row["loss"] for row in rows if row["split"] == "train"]
    if len(losses) != args.steps:
        sys.exit(f"compare_precision: {len(losses)} losses of {args.steps} steps")
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lathe", default=str(pathlib.Path(__file__).parents[2] / "build/release/bin/lathe"))
    parser.add_argument("--data-root")
    parser.add_argument("--dataset", default="cifar10")
    parser.add_argument("--model", default="resnet20")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--last", type=int, default=50)
    parser.add_argument("--amp", default="bf16", choices=("fp16", "bf16"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out")
    args = parser.parse_args()

    kept = {}
    if args.out and pathlib.Path(args.out).exists():
        kept = {row["run"]: row["losses"] for row in map(json.loads, open(args.out))}
    runs = {}
    for name, flags in {**F32, args.amp: ["--amp", args.amp]}.items():
        runs[name] = kept.get(name) or losses_of(args, flags)
        if args.out and name not in kept:
            with open(args.out, "a") as file:
                file.write(json.dumps({"run": name, "losses": runs[name]}) + "\n")
        print(f"{name:<24} first loss {runs[name][0]:.4f}, mean of the last {args.last} {statistics.mean(runs[name][-args.last:]):.4f}",
              flush=True)

    means = {name: statistics.mean(losses[-args.last:]) for name, losses in runs.items()}
    low, high = min(means[name] for name in F32), max(means[name] for name in F32)
    first = abs(runs[args.amp][0] - runs["f32, direct, NHWC"][0])
    inside = low <= means[args.amp] <= high
    print(f"first losses differ by {first:.4f}; the mean {means[args.amp]:.4f} lies {'within' if inside else 'outside of'} "
          f"[{low:.4f}, {high:.4f}]")
    sys.exit(0 if first <= 1e-2 and inside else 7)


if __name__ == "__main__":
    main()
