#!/usr/bin/env python3
"""What was built loads no library from the current folder, the command has its hardening, and a shared library would have what it calls.

    binaries_test.py BUILD LATHE [--hardened] [--on-demand NAME...]
BUILD: the build folder; --hardened: optimised, by g++ 12 or later; NAME: of a library that is opened at its first use, "libdnnl.so.2"
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from elf import check_search_path, linked_below, readelf

BUILD, LATHE = pathlib.Path(sys.argv[1]), sys.argv[2]
HARDENED = "--hardened" in sys.argv[3:]
# Loaded when they are needed, so no program lists them.
ON_DEMAND = [*sys.argv[sys.argv.index("--on-demand") + 1:], "libgomp.so.1", "libdw.so.1", "libcuda.so.1", "libnvidia-ml.so.1", "libcudnn.so.9",
             *(f"lib{name}.so.{major}" for name in ("cublas", "cublasLt", "nvrtc", "cupti") for major in (12, 13)), "libcurand.so.10"]


def environment(**extra):
    """The environment, in which a search path has no relative entry of its own."""
    folders = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder.startswith("/")]
    kept = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH" and not k.startswith("LATHE_")}
    return {**kept, **({"LD_LIBRARY_PATH": ":".join(folders)} if folders else {}), **extra}


def loaded(program, folder):
    """What the dynamic linker says it would load, from a folder."""
    result = subprocess.run([str(program)], env=environment(LD_TRACE_LOADED_OBJECTS="1"), cwd=folder, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert result.returncode == 0, f"{program}: {result.stdout}"
    return result.stdout


def plant(folder, names):
    """Files that end any program that loads them."""
    for name in names:
        (folder / name).write_text("not a library\n")


def test_no_search_path_has_an_empty_or_relative_entry(folder):
    binaries = linked_below(BUILD, ("CMakeFiles", "consumers"))
    assert pathlib.Path(LATHE) in binaries, f"{LATHE} is not among {binaries}"
    for binary in binaries:
        check_search_path(binary)


def test_a_library_in_the_current_folder_is_not_loaded(folder):
    for program in linked_below(BUILD, ("CMakeFiles", "consumers")):
        if program.suffix == ".so" or "INTERP" not in readelf("-l", program):
            continue
        names = re.findall(r"^\s+(\S+) => ", loaded(program, "/"), re.MULTILINE)
        plant(folder, names)
        assert str(folder) not in loaded(program, folder) and "=> ./" not in loaded(program, folder), program


def test_the_command_trains_among_planted_libraries(folder):
    plant(folder, [*re.findall(r"^\s+(\S+) => ", loaded(LATHE, "/"), re.MULTILINE), *ON_DEMAND])
    for words in (["--version"], ["train", "--dataset", "synthetic", "--synthetic-size", "8", "--model", "resnet20",
                                  "--batch-size", "4", "--max-steps", "1", "--device", "cpu", "--quiet"]):
        result = subprocess.run([LATHE, *words], env=environment(), cwd=folder, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT)
        assert result.returncode == 0, f"{words}: exit {result.returncode}\n{result.stdout}"


def test_the_command_is_hardened(folder):
    segments, dynamic, symbols = readelf("-l", LATHE), readelf("-d", LATHE), readelf("--dyn-syms", LATHE)
    stack = re.search(r"GNU_STACK\s.*?\s([RWE]+)\s+0x", segments)
    assert stack and "E" not in stack[1], "an executable stack"
    if not HARDENED:
        return
    assert "GNU_RELRO" in segments and "BIND_NOW" in dynamic, "addresses of functions can be written to"
    assert re.search(r"FLAGS_1\).*PIE", dynamic), "always at the same address"
    imported = re.findall(r" UND (\w+)", symbols)
    assert "__stack_chk_fail" in imported, "no stack protector"
    assert any(re.match(r"__\w+_chk$", name) for name in imported), "not fortified"
    assert any("__glibcxx_assert_fail" in name for name in imported), "indices are not checked"


def symbols_of(archive):
    """The last three columns of a static library's symbols: visibility, section ("UND" if it is not defined there), name."""
    return re.findall(r"(\S+) +(\S+) (\S+)$", readelf("-s", archive), re.MULTILINE)


def test_the_command_calls_nothing_that_a_shared_library_hides(folder):
    hidden = {name for visibility, section, name in symbols_of(BUILD / "liblathe.a") if visibility == "HIDDEN" and section != "UND"}
    command = symbols_of(BUILD / "tools/cli/liblathe_trainer.a")
    called = {name for _, section, name in command if section == "UND"} - {name for _, section, name in command if section != "UND"}
    assert len(hidden) > 1000 and len(called) > 100, f"{len(hidden)} hidden symbols, {len(called)} called ones"
    assert not called & hidden, f"without LATHE_API: {sorted(called & hidden)}"


def test_the_library_runs_nothing_before_main(folder):
    """Else a program that links it statically holds all that the initialiser names: tables of operators, five megabytes."""
    if not HARDENED:
        return
    begun = {name for _, section, name in symbols_of(BUILD / "liblathe.a") if section != "UND" and name.startswith("_GLOBAL__sub_I_")}
    # Gloo's header has a global of its own; nvcc registers kernels.
    unexpected = {name for name in begun if not re.search(r"gloo|cudafe|tmpxft", name) and not name.endswith(".cold")}
    assert not unexpected, f"make these constexpr, or static inside a function: {sorted(unexpected)}"


def main():
    passed = failed = 0
    for name, test in sorted(globals().items()):
        if not name.startswith("test_"):
            continue
        with tempfile.TemporaryDirectory(prefix="lathe-binaries-") as folder:
            try:
                test(pathlib.Path(folder))
                passed += 1
            except (AssertionError, OSError, subprocess.CalledProcessError) as error:
                failed += 1
                print(f"FAILED {name}: {error}")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    sys.exit(1 if failed else 0)


main()
