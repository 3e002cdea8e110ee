#!/usr/bin/env python3
"""Whether captured steps with cuDNN's fused patterns learn as well as queued steps without them, on the emulated GPU.

    tools/emulated_learning.py LATHE [--seeds N] [--images N] [--epochs N] [--recompute] [--folder DIR]

LATHE is the command of a build with LATHE_CUDA=EMULATE. It trains ResNet-8 in fp16 on the first images of Fashion-MNIST (Debian's package
dataset-fashion-mnist), halved to 14 x 14, and tests it on the first 512 test images. Seeds are by turns, so that a run that is cut off
has compared something. The table says for each way the mean accuracy and its standard error. The ways agree if their means differ by no
more than the standard error of that difference.

fused: one CUDA graph; every batch norm, relu and convolution for which the emulated cuDNN has a fused engine takes it. No search decides:
the script writes the file of --algo-cache itself.   split: --no-capture --no-cudnn-benchmark, so that nothing is fused.

A run of 1,024 images and 3 epochs takes one to two minutes of processor time.
"""
import argparse
import gzip
import json
import os
import pathlib
import re
import statistics
import struct
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path("/usr/share/datasets/fashion-mnist")
SIDE, TEST_IMAGES, BATCH = 14, 512, 32
FUSED = ("forward statistics", "forward norm_relu", "backward_weight norm_relu", "backward_input relu_norm")
PLAIN = ("forward none", "backward_weight none", "backward_input none")


def halved(pixels):
    """A 28 x 28 image, each 2 x 2 pixels as their mean."""
    at = lambda r, c: pixels[r * 28 + c]
    return bytes((at(r, c) + at(r, c + 1) + at(r + 1, c) + at(r + 1, c + 1) + 2) // 4 for r in range(0, 28, 2) for c in range(0, 28, 2))


def write_subset(folder, part, count):
    with gzip.open(SOURCE / f"{part}-images-idx3-ubyte.gz") as file:
        images = file.read(16 + count * 784)[16:]
    with gzip.open(SOURCE / f"{part}-labels-idx1-ubyte.gz") as file:
        labels = file.read(8 + count)[8:]
    small = b"".join(halved(images[i * 784 : (i + 1) * 784]) for i in range(count))
    (folder / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, count, SIDE, SIDE) + small)
    (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, count) + labels)


def crc32c(data):
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def force_fused(found, path):
    """Writes a file of choices: for the convolutions of `found`, in batches of BATCH, each fused pattern by its engine."""
    cache = json.loads(found.read_text())
    choice = lambda key, engine: {
        "candidates": [{"compiles": False, "deterministic": True, "down_converts": False, "engine": engine, "ms": 1.0, "narrow_sums": False,
                        "note": "", "outcome": "timed", "runs": 9, "tensor_cores": True, "workspace_bytes": 0}],
        "chosen": 0, "key": key, "search_ms": 1.0, "used": cache["choices"][0]["used"]}
    choices = {}
    for key in (entry["key"] for entry in cache["choices"]):
        if not key.startswith("forward none "):
            continue
        key = re.sub(r"\b([xy]=f16\[)\d+,", rf"\g<1>{BATCH},", key.removeprefix("forward none "))
        ways = [(way, "7:0=2") for way in PLAIN]
        if not re.search(r" w=f16\[\d+,8,", key):  # the first one has no norm before it
            ways += [(way, "8:0=2") for way in FUSED]
        choices |= {f"{way} {key}": choice(f"{way} {key}", engine) for way, engine in ways}
    cache["choices"] = list(choices.values())
    text = json.dumps(cache["choices"], separators=(",", ":"), sort_keys=True)
    cache["checksum"] = f"crc32c {crc32c(text.encode())}"
    path.write_text(json.dumps(cache, indent=1))


def train(lathe, data, run, *flags):
    command = [lathe, "train", "--model", "resnet8", "--dataset", "fashion-mnist", "--data-root", data, "--image-size", str(SIDE), "--device",
               "cuda:0", "--amp", "fp16", "--augment", "none", "--threads", "1", "--quiet", "--run-dir", run, *map(str, flags)]
    done = subprocess.run(command, env={"LATHE_EMULATED_WATCH": "0", **os.environ}, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return float(re.search(r"test accuracy ([0-9.]+) %", done.stdout + done.stderr)[1])


def summary(accuracies):
    mean = statistics.mean(accuracies)
    return mean, statistics.stdev(accuracies) / len(accuracies) ** 0.5 if len(accuracies) > 1 else float("inf")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lathe", type=os.path.abspath)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--images", type=int, default=1024, help="for training, a multiple of 32")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--recompute", action="store_true", help="a third way: fused with --recompute")
    parser.add_argument("--folder", type=pathlib.Path, help="keeps the runs here")
    options = parser.parse_args()
    scratch = tempfile.TemporaryDirectory()
    folder = options.folder or pathlib.Path(scratch.name)
    folder.mkdir(parents=True, exist_ok=True)
    for part, count in (("train", options.images), ("t10k", TEST_IMAGES)):
        write_subset(folder, part, count)

    found, forced = folder / "found.json", folder / "fused.json"
    if not forced.exists():
        train(options.lathe, folder, folder / "search", "--batch-size", 2, "--max-steps", 1, "--eval-every", 0, "--no-capture", "--algo-cache", found)
        force_fused(found, forced)
    fused = ["--algo-cache", forced]
    ways = {"fused": fused, "split": ["--no-capture", "--no-cudnn-benchmark"]}
    if options.recompute:
        ways["fused, recompute"] = [*fused, "--recompute"]
    results = {way: [] for way in ways}
    for seed in range(options.seeds):
        for way, flags in ways.items():
            run = folder / f"{way.replace(', ', '-')}-{seed}"
            accuracy = train(options.lathe, folder, run, "--batch-size", BATCH, "--epochs", options.epochs, "--eval-every", 0, "--seed", seed, *flags)
            results[way].append(accuracy)
            print(f"seed {seed}, {way}: {accuracy:.2f} %", flush=True)
    for way, accuracies in results.items():
        mean, error = summary(accuracies)
        print(f"{way}: mean {mean:.2f} %, standard error {error:.2f}, of {len(accuracies)} seeds")
    split, split_error = summary(results["split"])
    good = True
    for way in results:
        if way == "split":
            continue
        mean, error = summary(results[way])
        of_both = (error**2 + split_error**2) ** 0.5
        agrees = abs(mean - split) <= of_both
        good &= agrees
        print(f"{way} - split: {mean - split:+.2f}, standard error of the difference {of_both:.2f}: {'agree' if agrees else 'differ'}")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
