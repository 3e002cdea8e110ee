#!/usr/bin/env python3
"""Costs of small work with gradients, where bookkeeping is all: lathe against LibTorch's C++, taking turns, one thread each.

    compare_small_op.py [--build build/release] [--rounds 5] [--json]        (needs Debian's libtorch-dev)

Compiles small_op_lathe.cpp against the installed form of the build and small_op_torch.cpp against LibTorch, both with -O2, and
prints medians in microseconds and the medians of the rounds' ratios; small_op_lathe.cpp says what is measured.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
NAMES = ("add", "chain", "grad of grad", "makemore", "resnet graph")


def build_lathe(args, folder):
    subprocess.run(["cmake", "--install", args.build, "--prefix", f"{folder}/lathe"], check=True, stdout=subprocess.DEVNULL)
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(small_op CXX)\nfind_package(lathe CONFIG REQUIRED)\n"
        f'add_executable(ours "{HERE}/small_op_lathe.cpp")\ntarget_link_libraries(ours lathe::lathe)\n')
    subprocess.run(["cmake", "-S", folder, "-B", folder / "b", "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-O2",
                    f"-DCMAKE_PREFIX_PATH={folder}/lathe"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", folder / "b"], check=True, stdout=subprocess.DEVNULL)
    return folder / "b/ours"


def build_torch(folder):
    program = folder / "theirs"
    subprocess.run(["g++", "-std=c++17", "-O2", "-w", "-I/usr/include/torch/csrc/api/include", HERE / "small_op_torch.cpp", "-o",
                    program, "-ltorch", "-ltorch_cpu", "-lc10"], check=True)
    return program


def microseconds(program):
    """The median over the windows, for each measurement."""
    out = subprocess.run([program], check=True, stdout=subprocess.PIPE, text=True).stdout
    return [statistics.median(column) for column in zip(*(map(float, line.split()) for line in out.splitlines()))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(HERE.parents[1] / "build/release"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        ours, theirs = build_lathe(args, folder), build_torch(folder)
        rounds = [(microseconds(ours), microseconds(theirs)) for _ in range(args.rounds)]
    results = {}
    for i, name in enumerate(NAMES):
        pairs = [(a[i], b[i]) for a, b in rounds]
        results[name] = {"ours_us": statistics.median(a for a, _ in pairs), "torch_us": statistics.median(b for _, b in pairs),
                         "ratio": statistics.median(a / b for a, b in pairs)}
    if args.json:
        print(json.dumps(results))
        return
    for name, r in results.items():
        print(f"{name:<14}ours {r['ours_us']:9.3f} us   LibTorch {r['torch_us']:9.3f} us   ratio {r['ratio']:.2f}")


if __name__ == "__main__":
    main()
