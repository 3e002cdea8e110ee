#!/usr/bin/env python3
"""tools/kernel_report.py over what ptxas 13.0 prints.

    kernel_report_test.py SCRIPT
"""
import pathlib
import re
import subprocess
import sys
import tempfile

SCRIPT = sys.argv[1]


def said(symbol, architecture, registers, spill=0):
    return (f"ptxas info    : Compiling entry function '{symbol}' for 'sm_{architecture}'\n"
            f"ptxas info    : Function properties for {symbol}\n"
            f"    {2 * spill} bytes stack frame, {spill} bytes spill stores, {spill} bytes spill loads\n"
            f"ptxas info    : Used {registers} registers, used 0 barriers, {2 * spill} bytes cumulative stack size\n"
            "ptxas info    : Compile time = 1.993 ms\n")


# void lathe::(anonymous namespace)::relu_kernel<float>(float*), the same for double, and a plain function
RELU_FLOAT = "_ZN5lathe12_GLOBAL__N_111relu_kernelIfEEvPT_"
RELU_DOUBLE = "_ZN5lathe12_GLOBAL__N_111relu_kernelIdEEvPT_"
FILL = "_Z11fill_kernelPfi"


def report(log):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "log"
        path.write_text(log)
        return subprocess.run([sys.executable, SCRIPT, "--log", path], text=True, capture_output=True)


def row_of(result, name):
    return next(line for line in result.stdout.splitlines() if line.startswith(name)).split()[1:]


def test_rows_hold_the_most_registers_per_architecture():
    result = report(said(RELU_FLOAT, 90, 20) + said(RELU_DOUBLE, 90, 24) + said(RELU_FLOAT, "100a", 18) + said(FILL, 90, 8))
    assert result.returncode == 0, result
    assert re.search(r"registers on sm_ +90 +100a ", result.stdout), result.stdout
    assert row_of(result, "relu_kernel") == ["2", "24", "18", "0", "0"], result.stdout
    assert row_of(result, "fill_kernel") == ["1", "8", "0", "0", "0"], result.stdout
    assert "4 instances, 0 spill" in result.stdout


def test_a_spill_fails_and_is_named():
    result = report(said(FILL, 90, 8) + said(RELU_DOUBLE, 90, 255, spill=16))
    assert result.returncode == 1, result
    assert "spills 32 bytes on sm_90: void lathe::(anonymous namespace)::relu_kernel<double>(double*)" in result.stdout, result.stdout


def test_a_log_without_kernels_is_an_error():
    result = report("[1/2] Building CUDA object a.cu.o\n")
    assert result.returncode != 0 and "names no kernel" in result.stderr, result


def main():
    failed = 0
    tests = [test for name, test in sorted(globals().items()) if name.startswith("test_")]
    for test in tests:
        try:
            test()
        except AssertionError as error:
            failed += 1
            print(f"FAILED {test.__name__}: {error}")
    print(f"{len(tests) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
