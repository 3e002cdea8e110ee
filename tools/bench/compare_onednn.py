#!/usr/bin/env python3
"""Which oneDNN computes which convolution fastest, and where ours beats all of them: onednn_layers.cpp compiled with each
version, and `lathe bench conv` of the same layers, by turns.

    compare_onednn.py --version 2.6 /usr/include /usr/lib/x86_64-linux-gnu --version 3.7 INCLUDE LIB[:LIB...] [--rounds 3]
                      [--lathe LATHE] [--threads 2] [--runs 5]

A folder LIB with ld-linux-x86-64.so.2 brings its own C library: programs run by that loader, so that a newer
distribution's library can be timed on an older one. The table has the least of all runs in ms, forward / input gradient /
weight gradient; of oneDNN the fastest of its ways, with a letter for it: d direct in place, b direct on blocks,
w Winograd. Forward passes have constant filters, which either side prepares before. A figure of oneDNN is one run, of
ours the mean of a window of several. Keep the machine quiet.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

PASSES = ("forward", "backward_input", "backward_weight")
MODELS = (("resnet18", 64, 32, "cifar"), ("resnet20", 128, 32, None), ("resnet50", 8, 224, "imagenet"))
LOADER = "ld-linux-x86-64.so.2"


def build(include, folders, folder, name):
    library = next((p for d in folders for p in sorted(pathlib.Path(d).glob("libdnnl.so*"))), None)
    if library is None:
        sys.exit(f"compare_onednn: no libdnnl.so in {':'.join(folders)}")
    program = pathlib.Path(folder) / f"layers-{name}"
    subprocess.run(["g++", "-std=c++20", "-O2", "-I", include, str(pathlib.Path(__file__).with_name("onednn_layers.cpp")), str(library),
                    "-Wl,--unresolved-symbols=ignore-in-shared-libs", "-o", str(program)], check=True)
    return program


def run_onednn(program, folders, args):
    environment = {**os.environ, "OMP_NUM_THREADS": str(args.threads)}
    loader = next((d for d in folders if (pathlib.Path(d) / LOADER).exists() and d not in ("/lib64", "/usr/lib/x86_64-linux-gnu")), None)
    command = [str(program), str(args.runs)]
    if loader:
        command = [f"{loader}/{LOADER}", "--library-path", ":".join(folders), *command]
    else:
        environment["LD_LIBRARY_PATH"] = ":".join(folders)
    out = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    for row in map(json.loads, out.splitlines()):
        if "layer" in row:
            yield row["layer"], row["pass"], row["ms"], {"in_place": "d", "blocks": "b", "winograd": "w"}[row["way"]]


def run_ours(args):
    for model, batch, size, stem in MODELS:
        command = [args.lathe, "bench", "conv", "--model", model, "--batch-size", str(batch), "--image-size", str(size), "--threads",
                   str(args.threads), "--json", *(["--stem", stem] if stem else [])]
        out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        for row in map(json.loads, out.splitlines()):
            if "x" not in row:
                continue
            n, c, h, _ = map(int, re.findall(r"\d+", row["x"]))
            k, _, r, _ = map(int, re.findall(r"\d+", row["w"]))
            stride = re.findall(r"\d+", row["stride"])[0]
            yield f"{c} -> {k} @{h}, {r}x{r} stride {stride}, batch {n}", row["pass"], 1000 * row["seconds_low"], ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", nargs=3, action="append", required=True, metavar=("NAME", "INCLUDE", "LIB"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--lathe", default=str(pathlib.Path(__file__).parents[2] / "build/release/bin/lathe"))
    args = parser.parse_args()
    best = collections.defaultdict(lambda: (1e30, ""))
    layers = {}
    with tempfile.TemporaryDirectory() as folder:
        sides = {name: (build(include, libraries.split(":"), folder, name), libraries.split(":"))
                 for name, include, libraries in args.version}
        for i in range(args.rounds):
            for name, (program, folders) in sides.items():
                for layer, which, ms, way in run_onednn(program, folders, args):
                    layers[layer] = None
                    best[layer, which, name] = min(best[layer, which, name], (ms, way))
            for layer, which, ms, way in run_ours(args):
                best[layer, which, "ours"] = min(best[layer, which, "ours"], (ms, way))
            print(f"round {i + 1} of {args.rounds}", file=sys.stderr, flush=True)
    names = [*sides, "ours"]
    missing = [layer for layer in layers if (layer, "forward", "ours") not in best]
    if missing:
        sys.exit(f"compare_onednn: lathe bench conv has no layer {missing[0]}")
    print("| layer | " + " | ".join(names) + " |\n" + "|---" * (len(names) + 1) + "|")
    for layer in layers:
        fastest = {which: min(best[layer, which, name][0] for name in names) for which in PASSES}
        cells = []
        for name in names:
            texts = []
            for which in PASSES:
                ms, way = best[layer, which, name]
                text = "-" if ms > 1e29 else f"{ms:.2f}{way}"
                texts.append(f"**{text}**" if ms == fastest[which] and ms < 1e29 else text)
            cells.append(" / ".join(texts))
        print(f"| {layer} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
