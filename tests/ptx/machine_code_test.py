#!/usr/bin/env python3
"""The machine code of the kernels that a training step's time goes to, against limits; needs no GPU.

    machine_code_test.py [LIBRARY]     LIBRARY: liblathe.a of a build with nvcc; without it only the reader is tested

A limit is broken when a kernel no longer reads and writes 16 bytes at once, when numbers of its threads lie in memory instead of in
registers, when fewer threads fit, or when its loop needs more instructions. The figures are those of nvcc 13.0 for sm_90, with room
for another version of nvcc; tools/machine_code.py prints the ones of a build.
"""
import collections
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import kernel_report  # noqa: E402
import machine_code  # noqa: E402

# Of the instances, but for those in f64, that move 16 bytes at once: the least part of an SM's threads, the most instructions per 16
# bytes. In brackets, what nvcc 13.0 makes.
LIMITS = {
    "stats_kernel": (0.5, 115),  # 90
    "train_kernel": (0.25, 70),  # 54
    "apply_kernel": (0.25, 70),  # 54
    "sums_kernel": (0.25, 105),  # 81
    "input_kernel": (0.25, 87),  # 67
    "update_kernel": (0.5, 130),  # 97
    "layer_step_kernel": (0.5, 120),  # 94
    "norm_parts_kernel": (0.5, 500),  # 392
    "unscale_kernel": (0.75, 40),  # 26
    "pointwise_packet_kernel": (0.5, 760),  # 582, of the division of i8 that rounds down; f16 has 432 at most, of tanh
    "reduce_rows_kernel": (0.25, 240),  # 181
    "dropout_kernel": (0.75, 60),  # 44
    "random_kernel": (0.75, 140),  # 109
    "random_kernel of normals": (0.75, 205),  # 160
}


def test_the_reader():
    """Instructions as cuobjdump 13.5 prints them: words, and what the reader makes of them."""
    accesses = [(0x0000000412047981, 0x000E62000C1E1D00, 16),  # LDG.E.128 R4, desc[UR4][R18.64]
                (0x0000000408067981, 0x000E62000C1E1B00, 8),  # LDG.E.64 R6, desc[UR4][R8.64]
                (0x0000000812007986, 0x0001E2000C101D04, 16)]  # STG.E.128 desc[UR4][R18.64], R8
    for low, high, size in accesses:
        assert low & 0xFFF in machine_code.LOADS | machine_code.STORES and machine_code.access_bytes(high) == size, hex(low)
    for at, low, target in [(0x50, 0x00000000003C8947, 0x150), (0x130, 0xFFFFFFFC00D40947, 0x90), (0x540, 0xFFFFFFFC008C8947, 0x380)]:
        assert low & 0xFFF == machine_code.BRANCH and 16 * machine_code.branch_target(at // 16, low) == target, hex(at)
    code = b"".join(word.to_bytes(8, "little") for word in (*accesses[1][:2], *accesses[2][:2], 0xFFFFFFFC00D40947, 0, 0, 0))
    assert machine_code.loops(code) == [machine_code.Loop(4, 24, 16)], "a branch to before the code is no loop"
    back = 0xFFFFFFFC00000947 | 0xF0 << 16  # four instructions back from the next one
    code = b"".join(word.to_bytes(8, "little") for word in (*accesses[0][:2], *accesses[1][:2], *accesses[2][:2], back, 0, *accesses[1][:2]))
    assert machine_code.loops(code) == [machine_code.Loop(4, 40, 16)], machine_code.loops(code)
    full = machine_code.Kernel("k", 90, 32, 0, 0, 256, b"", False)
    assert machine_code.occupancy(full) == 1 and machine_code.occupancy(full._replace(registers=33)) == 0.75
    assert machine_code.occupancy(full._replace(threads=512, registers=65)) == 0.25
    assert machine_code.occupancy(full._replace(shared=100 * 1024)) == 0.25
    assert [machine_code.fits(full._replace(threads=1024, registers=n))["registers"] for n in (64, 65)] == [1, 0]


def faults_in(kernels):
    names = kernel_report.demangle([k.symbol for k in kernels])
    wide = collections.defaultdict(list)
    for kernel in kernels:
        name = kernel_report.short_name(names[kernel.symbol])
        of = names[kernel.symbol].replace("(anonymous namespace)::", "").split("(")[0]
        name += " of normals" if "NormalValues" in of else ""
        in_f64 = "double" in of or "Polygamma" in of  # which computes in f64 for every dtype
        loop = machine_code.hottest(kernel) if name in LIMITS and not in_f64 else None
        if loop and loop.widest == 16:
            wide[name].append((kernel, 16 * loop.instructions / loop.bytes))
    for name, (part, most) in LIMITS.items():
        row = wide[name]
        if not row:
            yield f"{name}: no instance moves 16 bytes at once"
            continue
        least, steps, stack = min(machine_code.occupancy(k) for k, _ in row), max(n for _, n in row), max(k.stack for k, _ in row)
        print(f"{name:<26} {len(row):>3} instances, {max(k.registers for k, _ in row):>3} registers, occupancy {least:.0%}, "
              f"{steps:.0f} instructions per 16 bytes")
        if stack:
            yield f"{name}: {stack} bytes of stack"
        if least < part:
            yield f"{name}: {least:.0%} of an SM's threads, not {part:.0%}"
        if steps > most:
            yield f"{name}: {steps:.0f} instructions per 16 bytes, not {most}"


def main():
    test_the_reader()
    print("passed: the reader")
    if len(sys.argv) < 2:
        print("skipped: kernels were not compiled by nvcc\n1 passed, 0 failed, 1 skipped")
        return 0
    kernels = [k for k in machine_code.kernels_of(sys.argv[1]) if k.architecture == 90]
    if not kernels:
        print("skipped: the limits are those of sm_90, for which nothing was compiled\n1 passed, 0 failed, 1 skipped")
        return 0
    found = list(faults_in(kernels))
    print("\n".join(found))
    print(f"{len(kernels)} instances\n{1 if found else 2} passed, {1 if found else 0} failed, 0 skipped")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
