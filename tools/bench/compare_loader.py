#!/usr/bin/env python3
"""Images per second of our loader against torch.utils.data.DataLoader with transforms written after
torchvision's (torch_loader.py), taking turns.

    compare_loader.py [--build build/release] [--data-root DIR] [--rounds 3] [--seconds 3] [--json]    (needs torch, Pillow, NumPy)

Both read CIFAR-10's files (DIR/cifar-10-batches-bin; made of random bytes without DIR), shuffled, in batches of 128, normalised to f32. Each
round times every number of workers of both sides, one process after another. For either side that number counts
whose median is the best. --seconds is how long torch's side is timed; ours takes `lathe bench loader`'s own window.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy

HERE = pathlib.Path(__file__).resolve().parent
PIPELINES = {"pad-crop": (["--augment", "crop,flip"], "pad-crop 32x32, flip, normalise"),
             "resized-crop": (["--augment", "resized-crop,flip", "--image-size", "224"], "RandomResizedCrop(224), flip, normalise")}
OUR_WORKERS, THEIR_WORKERS = (0, 1, 2), (0, 1, 2, 4)


def make_files(root):
    folder = root / "cifar-10-batches-bin"
    folder.mkdir()
    noise = numpy.random.default_rng(0)
    for name in [f"data_batch_{k}" for k in range(1, 6)] + ["test_batch"]:
        records = noise.integers(0, 256, (10000, 3073), dtype=numpy.uint8)
        records[:, 0] %= 10
        records.tofile(folder / f"{name}.bin")


def ours(args, root, pipeline, workers):
    command = [args.build / "bin/lathe", "bench", "loader", "--json", "--dataset", "cifar10", "--data-root", root, "--batch-size", "128",
               "--workers", str(workers), *PIPELINES[pipeline][0]]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)["images_per_second"]


def theirs(args, root, pipeline, workers):
    command = [sys.executable, HERE / "torch_loader.py", root, pipeline, str(workers), str(args.seconds)]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def compare(args, root, pipeline):
    runs = [(name, rate, workers) for name, rate, counts in (("ours", ours, OUR_WORKERS), ("torch", theirs, THEIR_WORKERS)) for workers in counts]
    found = {}
    for _ in range(args.rounds):
        for name, rate, workers in runs:
            found.setdefault(name, {}).setdefault(workers, []).append(rate(args, root, pipeline, workers))
    medians = {name: {workers: statistics.median(values) for workers, values in counts.items()} for name, counts in found.items()}
    return {"pipeline": PIPELINES[pipeline][1], **medians, "ratio": max(medians["ours"].values()) / max(medians["torch"].values())}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parents[1] / "build/release")
    parser.add_argument("--data-root", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        root = args.data_root or pathlib.Path(name)
        if not args.data_root:
            make_files(root)
        for pipeline in PIPELINES:
            result = compare(args, root, pipeline)
            if args.json:
                print(json.dumps(result), flush=True)
                continue
            print(result["pipeline"])
            for side in ("ours", "torch"):
                print(f"  {side:5}", ", ".join(f"{workers} workers {rate:,.0f}" for workers, rate in result[side].items()))
            print(f"  ratio {result['ratio']:.1f}", flush=True)


if __name__ == "__main__":
    main()
