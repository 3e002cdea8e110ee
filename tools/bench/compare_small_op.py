#!/usr/bin/env python3
"""Cost of a small op with gradients on (add of 16 floats), lathe against LibTorch's C++, taking turns.

    compare_small_op.py [--build build/release] [--rounds 5] [--json]        (needs Debian's libtorch-dev)

Compiles small_op_lathe.cpp against the installed form of the build and small_op_torch.cpp against LibTorch, both with -O2, and
prints medians in nanoseconds and the median of the rounds' ratios.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


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


def nanoseconds(program):
    out = subprocess.run([program], check=True, stdout=subprocess.PIPE, text=True).stdout
    return statistics.median(map(float, out.split()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(HERE.parents[1] / "build/release"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        ours, theirs = build_lathe(args, folder), build_torch(folder)
        rounds = [(nanoseconds(ours), nanoseconds(theirs)) for _ in range(args.rounds)]
    result = {"ours_ns": statistics.median(r[0] for r in rounds), "torch_ns": statistics.median(r[1] for r in rounds),
              "ratio": statistics.median(a / b for a, b in rounds)}
    print(json.dumps(result) if args.json else
          f"add of 16 floats with grad: ours {result['ours_ns']:.0f} ns, LibTorch {result['torch_ns']:.0f} ns, ratio {result['ratio']:.2f}")


if __name__ == "__main__":
    main()
