#!/usr/bin/env python3
"""Compiles every CUDA kernel for all architectures and prints a table of their registers; fails if one spills.

    tools/kernel_report.py [ARCHITECTURE...]        default: all that nvcc 13 accepts, 75 to 120
    tools/kernel_report.py --log FILE               of what `nvcc -Xptxas=-v` printed elsewhere

One row per kernel: how many instances of the template there are, and the most registers that one of them takes on each
architecture. A spill puts registers into memory behind a kernel's back; it is listed by instance. Needs nvcc, no GPU;
builds in build/kernels, the kernels only.
"""
import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ARCHITECTURES = ["75", "80", "86", "89", "90", "100", "120"]
ENTRY = re.compile(r"Compiling entry function '(\w+)' for 'sm_(\w+)'")
SPILL = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
REGISTERS = re.compile(r"Used (\d+) registers")

Instance = collections.namedtuple("Instance", "symbol architecture registers stack spill")


def parse(log):
    """Every compiled instance, in order; one that several files compile counts once."""
    found = {}
    entry = stack = spill = None
    for line in log.splitlines():
        if match := ENTRY.search(line):
            entry, stack, spill = match.groups(), 0, 0
        elif entry and (match := SPILL.search(line)):
            stack, spill = int(match[1]), int(match[2]) + int(match[3])
        elif entry and (match := REGISTERS.search(line)):
            found[entry] = Instance(*entry, int(match[1]), stack, spill)
            entry = None
    return list(found.values())


def demangle(symbols):
    result = subprocess.run(["c++filt"], input="\n".join(symbols), text=True, capture_output=True, check=True)
    return dict(zip(symbols, result.stdout.splitlines()))


def short_name(signature):
    """relu_kernel of "void lathe::(anonymous namespace)::relu_kernel<float>(float*)"."""
    depth, plain = 0, ""
    for letter in signature.replace("(anonymous namespace)::", ""):
        if letter == "(" and depth == 0:
            break
        depth += {"<": 1, ">": -1}.get(letter, 0)
        plain += letter if depth == 0 and letter != ">" else ""
    return plain.split()[-1].split("::")[-1]


def print_table(instances, names):
    architectures = sorted({i.architecture for i in instances}, key=lambda a: int(re.match(r"\d+", a)[0]))
    rows = collections.defaultdict(list)
    for instance in instances:
        rows[short_name(names[instance.symbol])].append(instance)
    print(f"{'kernel':<40} {'instances':>9}  registers on sm_ {' '.join(f'{a:>4}' for a in architectures)}  {'stack':>6} {'spill':>6}")
    for name, row in sorted(rows.items()):
        most = [max((i.registers for i in row if i.architecture == a), default=0) for a in architectures]
        print(f"{name:<40} {len({i.symbol for i in row}):>9} {'':<17}{' '.join(f'{m:>4}' for m in most)}"
              f"  {max(i.stack for i in row):>6} {max(i.spill for i in row):>6}")


def compile_kernels(architectures):
    """What nvcc says while it compiles the kernels of the library and nothing else."""
    build = ROOT / "build/kernels"
    listed = ";".join([f"{a}-real" for a in architectures[:-1]] + architectures[-1:])  # PTX of the last one, for newer GPUs
    subprocess.run(["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DLATHE_CUDA=ON",
                    f"-DCMAKE_CUDA_ARCHITECTURES={listed}", "-DCMAKE_CUDA_FLAGS=-Xptxas=-v", "-DLATHE_BUILD_TESTS=OFF",
                    "-DLATHE_BUILD_CLI=OFF", "-DLATHE_BUILD_EXAMPLES=OFF"], check=True, stdout=subprocess.DEVNULL)
    targets = subprocess.run(["ninja", "-C", build, "-t", "targets", "all"], check=True, text=True, capture_output=True).stdout
    objects = re.findall(r"^(\S+\.cu\.o): ", targets, re.MULTILINE)
    for name in objects:
        (build / name).unlink(missing_ok=True)  # nvcc speaks only when it compiles
    jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", str(len(os.sched_getaffinity(0))))
    lines = []
    with subprocess.Popen(["ninja", "-C", build, "-j", jobs, *objects], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as ninja:
        for line in ninja.stdout:
            lines.append(line)
            if line.startswith("["):
                print(line.rstrip(), file=sys.stderr)
    log = "".join(lines)
    (build / "ptxas.log").write_text(log)
    if ninja.returncode != 0:
        sys.exit(f"{log}\nkernel_report: the kernels do not compile")
    return log


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("architectures", nargs="*", default=ARCHITECTURES)
    parser.add_argument("--log", type=pathlib.Path)
    options = parser.parse_args()
    log = options.log.read_text() if options.log else compile_kernels(options.architectures)
    instances = parse(log)
    if not instances:
        sys.exit("kernel_report: the log names no kernel; was it compiled with -Xptxas=-v?")
    names = demangle(sorted({i.symbol for i in instances}))
    print_table(instances, names)
    spilling = [i for i in instances if i.spill]
    for i in spilling:
        print(f"spills {i.spill} bytes on sm_{i.architecture}: {names[i.symbol]}")
    print(f"{len(instances)} instances, {len(spilling)} spill")
    return 1 if spilling else 0


if __name__ == "__main__":
    sys.exit(main())
