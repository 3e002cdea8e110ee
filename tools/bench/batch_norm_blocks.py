#!/usr/bin/env python3
"""Links batch_norm_times.cpp twice: with the kernels as they are, and with the same compiled for blocks of 256 threads.

    batch_norm_blocks.py BUILD FOLDER       makes FOLDER/batch_norm_512 and FOLDER/batch_norm_256; BUILD has CUDA
"""
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
KERNELS = ("batch_norm_cuda.cu", "batch_norm_backward_cuda.cu")


def compile_kernels(build, threads, folder):
    """The objects of KERNELS, compiled as in the build but for the size of a block."""
    objects = []
    for entry in json.loads((build / "compile_commands.json").read_text()):
        name = pathlib.Path(entry["file"]).name
        if name in KERNELS and "lathe.dir" in entry["command"]:
            objects.append(folder / f"{name}.o")
            words = shlex.split(entry["command"])
            words[words.index("-o") + 1] = str(objects[-1])
            subprocess.run([*words, f"-DLATHE_BATCH_NORM_THREADS={threads}"], cwd=entry["directory"], check=True)
    if len(objects) != len(KERNELS):
        sys.exit(f"batch_norm_blocks: {build} compiles {len(objects)} of {', '.join(KERNELS)}")
    return objects


def main():
    build, folder = (pathlib.Path(word).resolve() for word in sys.argv[1:])
    lines = (build / "lathe.pc").read_text().splitlines()
    libraries = [w for line in lines if line.startswith("Libs:") for w in line.split()[1:] if w not in ("-llathe", "-L${libdir}")]
    libraries += [w for line in lines if line.startswith("Cflags:") for w in line.split() if w.startswith("-D")]
    values = dict(line.split("=", 1) for line in lines if line.startswith("cuda_libdir="))
    libraries = [word.replace("${cuda_libdir}", values.get("cuda_libdir", "")) for word in libraries]
    with tempfile.TemporaryDirectory() as scratch:
        for threads in (512, 256):
            # These stand before the library, whose own are then not taken.
            kernels = [] if threads == 512 else compile_kernels(build, threads, pathlib.Path(scratch))
            subprocess.run(["g++", "-std=c++20", "-O2", "-s", f"-I{build}/include", HERE / "batch_norm_times.cpp", *kernels,
                            build / "liblathe.a", *libraries, "-o", folder / f"batch_norm_{threads}"], check=True)


if __name__ == "__main__":
    main()
