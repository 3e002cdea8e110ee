"""A C++ program of a comparison, linked with the library of a build folder that is not installed."""
import pathlib
import subprocess

HERE = pathlib.Path(__file__).resolve().parent


def compile_program(source, build, program):
    """Compiles `source`, a file beside this one, against the static library in `build`; → `program`."""
    build = pathlib.Path(build)
    words = next(line for line in (build / "lathe.pc").read_text().splitlines() if line.startswith("Libs:")).split()
    libraries = [word for word in words[1:] if not word.startswith("-L") and word != "-llathe"]
    subprocess.run(["g++", "-std=c++20", "-O2", f"-I{build}/include", HERE / source, build / "liblathe.a", *libraries, "-o", program],
                   check=True)
    return program
