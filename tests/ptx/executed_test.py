#!/usr/bin/env python3
"""The kernel tests over the compiled kernels, without a GPU; and that every kernel that was compiled is run by one of them.

    executed_test.py [PROGRAM LIBRARY]        PROGRAM: ptx_kernels, in a build with nvcc; without it the test is skipped
                                              LIBRARY: liblathe.a, whose kernels they are

The program says at its end which kernels its PTX holds, and how often each one was launched (LATHE_PTX_REPORT). A kernel
counts as run if one of its instances did. Each tensor has memory of its own (LATHE_NO_CACHE), so that an access beside it
is noticed. A GPU refuses a block whose threads need more registers than an SM has; PTX has no such limit, so the blocks
that were launched are held against the registers in the machine code.
"""
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import kernel_report  # noqa: E402
import machine_code  # noqa: E402

# Cases that are left out: patterns of doctest's, by reason.
LEFT_OUT = {
    "cuDNN and cuRAND do not start without a driver": [
        "out of memory: a step that fails*", "out of memory: the same for pinned*",
        "out of memory: the same for host*", "out of memory: a load that fails*", "out of memory: the error names*",
        "random source: cuRAND's*", "sync check on a GPU: the search*", "training step:*"],
    "they ask about kept memory, and LATHE_NO_CACHE keeps none": [
        "check_determinism on a GPU: what is captured*", "fused groups: a captured graph*", "prefetch: the host waits for no batch*",
        "profiler on a GPU: a graph can be*"],
}


# As runtime.cpp writes them: threads of the largest block; instructions of warps; accesses of threads to global memory, their bytes,
# and those of the widest.
Count = collections.namedtuple("Count", "launches threads instructions accesses bytes widest")

# What a training step's time outside the libraries goes to. In each, some instance moves 16 bytes at once: batch norm; optimiser
# and what comes before it; casts, copies and pointwise operations; reductions; random numbers.
WIDE = ["stats_kernel", "train_kernel", "apply_kernel", "sums_kernel", "input_kernel", "update_kernel",
        "layer_step_kernel", "norm_parts_kernel", "unscale_kernel", "pointwise_packet_kernel", "reduce_rows_kernel",
        "dropout_kernel", "random_kernel"]


def executed(program):
    """What the program printed, its exit status, and the counts of each kernel's symbol."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report"
        environment = dict(os.environ, LATHE_PTX_REPORT=str(report), LATHE_NO_CACHE="1")
        excluded = ",".join(pattern for patterns in LEFT_OUT.values() for pattern in patterns)
        ran = subprocess.run([program, f"-tce={excluded}"], env=environment, text=True, errors="replace", capture_output=True)
        counts = {}
        for line in report.read_text().splitlines() if report.exists() else []:
            *numbers, symbol = line.split()
            counts[symbol] = Count(*map(int, numbers))
        return ran.stdout + ran.stderr, ran.returncode, counts


def too_large(counts, library):
    """A line for each instance that was launched in blocks that do not fit into an SM, by registers or __launch_bounds__."""
    for kernel in machine_code.kernels_of(library):
        threads = counts[kernel.symbol].threads if kernel.symbol in counts else 0
        if threads and machine_code.fits(kernel._replace(threads=threads))["registers"] == 0:
            yield (f"{kernel.symbol} was launched in blocks of {threads} threads with {kernel.registers} registers each, "
                   f"more than sm_{kernel.architecture} has for a block")
        if kernel.bounded and threads > kernel.threads:
            yield f"{kernel.symbol} was launched in blocks of {threads} threads and is compiled for {kernel.threads} at most"


def print_table(kernels):
    """A line for each kernel; instructions are of threads, for each of their accesses to global memory."""
    print(f"{'kernel':<34} {'instances':>9} {'launches':>8} {'widest':>6} {'bytes':>6} {'instructions per access':>12}")
    for name, instances in sorted(kernels.items()):
        total = Count(*map(sum, zip(*instances)))
        ran = sum(count.launches > 0 for count in instances)
        accesses = max(total.accesses, 1)
        print(f"{name:<34} {f'{ran}/{len(instances)}':>9} {total.launches:>8} {max(count.widest for count in instances):>6} "
              f"{total.bytes / accesses:>6.1f} {32 * total.instructions / accesses:>12.0f}")


def main():
    if len(sys.argv) < 2:
        print("skipped: this build has no compiled kernels (no nvcc)")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    begin = time.monotonic()
    output, status, counts = executed(sys.argv[1])
    summary = re.findall(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", output, re.MULTILINE)
    passed, failed, skipped = map(int, summary[-1]) if summary else (0, 1, 0)
    print(re.sub(r"^\d+ passed, .*\n?", "", output, flags=re.MULTILINE))
    names = kernel_report.demangle(sorted(counts))
    kernels = collections.defaultdict(list)
    for symbol, count in counts.items():
        kernels[kernel_report.short_name(names[symbol])].append(count)
    never = sorted(name for name, instances in kernels.items() if not any(count.launches for count in instances))
    for name in never:
        print(f"{name} was compiled, but no case runs it")
    print_table(kernels)
    narrow = [name for name in WIDE if max((count.widest for count in kernels.get(name, [])), default=0) < 16]
    for name in narrow:
        print(f"{name} moves 16 bytes at once in no case" if name in kernels else f"{name} is in no object any more: mend WIDE")
    large = list(too_large(counts, sys.argv[2]))
    print("\n".join(large))
    launched = [count for count in counts.values() if count.launches > 0]
    print(f"{len(kernels) - len(never)} of {len(kernels)} kernels, {len(launched)} of {len(counts)} instances, "
          f"{sum(count.launches for count in launched)} launches, "
          f"{sum(count.instructions for count in launched) / 1e6:.1f} million instructions of warps, "
          f"{time.monotonic() - begin:.0f} s")
    if never or narrow or large or not counts or (status != 0 and failed == 0):
        failed += 1
    else:
        passed += 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
