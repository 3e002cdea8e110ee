#!/usr/bin/env python3
"""Uses the library the way other projects do.

static: installs the library that was just built, then finds it through find_package and through pkg-config.
shared: builds it inside another project (add_subdirectory) as a shared library, installs that, finds it both ways.
"""
import argparse
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from elf import check_search_path, linked_below  # noqa: E402

WARNINGS = ["-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"]
# What Qt and X11 define. docs/library.md names those that must come after Lathe's headers.
MACROS = """#include <functional>
#define slots
#define signals public
#define emit
#define foreach(variable, container) for (variable : container)
#define forever for (;;)
#define Bool int
#define Status int
#define True 1
#define False 0
#define Success 0
#define Always 2
#define Above 0
#define Below 1
"""
OUTERMOST = re.compile(r"(?<![\w:}>)])(?!const::)([A-Za-z_]\w*)(?:\[\w+\])*::")  # namespaces in a name; "f() const::{lambda…" has none


def run(*command, **environment):
    """Runs a command and returns its output; its whole output and the command are the error text."""
    result = subprocess.run([str(c) for c in command], env={**os.environ, **environment}, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    if result.returncode != 0:
        raise AssertionError(f"exit {result.returncode} of {' '.join(map(str, command))}\n{result.stdout}")
    return result.stdout


def lacks_for_wheels():
    """What tools/packages/wheel.py and its test need and is not installed; None if all is there."""
    missing = [program for program in ("patchelf", "dpkg-query") if shutil.which(program) is None]
    if importlib.util.find_spec("ensurepip") is None:
        missing.append("python3-venv")
    return f"{' and '.join(missing)} not installed" if missing else None


class Consumer:
    def __init__(self, options):
        self.o = options
        self.work = pathlib.Path(options.work)
        self.prefix = self.work / "prefix"
        shutil.rmtree(self.prefix, ignore_errors=True)

    def cmake_build(self, project, *settings, source=None, program="consumer"):
        """Configures and builds one of the projects beside this file, or that in `source`; returns its program."""
        build = self.work / project
        run(self.o.cmake, "-S", source or HERE / project, "-B", build, "-G", "Ninja", f"-DCMAKE_CXX_COMPILER={self.o.compiler}",
            f"-DCMAKE_CXX_COMPILER_LAUNCHER={self.o.launcher}", "-DCMAKE_BUILD_TYPE=", "-DCMAKE_CXX_FLAGS=-O0",
            *self.o.setting, *settings)
        run(self.o.cmake, "--build", build)
        return build / program

    def install(self, build):
        run(self.o.cmake, "--install", build, "--prefix", self.prefix)
        for header in self.prefix.rglob("*.h"):
            assert header.is_relative_to(self.prefix / "include/lathe"), f"{header} is outside include/lathe"

    def check_runs(self, program, **environment):
        printed = run(program, **environment)
        assert printed.startswith("lathe 0."), f"{program} printed {printed!r}"

    def check_needs(self, program):
        """What a machine without a GPU, images or downloads lacks is not needed to start."""
        dynamic = run("readelf", "-d", program)
        opened_later = r"NEEDED.*\[lib(?:cublas|cuda|cudnn|curand|curl|dnnl|gomp|jpeg|nv|png|webp)"
        assert not re.findall(opened_later, dynamic), dynamic

    def check_small(self, program):
        """A program that starts no ranks needs only libraries that every C++ program has, and zlib."""
        libraries = run("ldd", program).splitlines()
        assert len(libraries) <= 12 and not any("gloo" in line for line in libraries), libraries

    def check_waits(self, program, **environment):
        """How OpenMP's threads wait, in libgomp's own words: passively, unless the user has said otherwise."""
        if not self.o.onednn:
            return
        unset = [f"--unset={name}" for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")]
        for said, spins in (({}, "0"), ({"OMP_WAIT_POLICY": "active"}, "30000000000"), ({"GOMP_SPINCOUNT": "1234"}, "1234")):
            command = ["env", *unset, *(f"{k}={v}" for k, v in said.items()), program]
            printed = run(*command, OMP_DISPLAY_ENV="verbose", **environment)
            found = re.search(r"GOMP_SPINCOUNT = '(\d+)'", printed)
            assert found or "OPENMP DISPLAY ENVIRONMENT" in printed, f"OpenMP was not used: {printed}"
            assert not found or found[1] == spins, f"{program} with {said}: {found[0]}, expected {spins}"

    def check_shared(self, program, expected):
        self.check_needs(program)
        loads = "liblathe.so" in run("ldd", program)
        assert loads == expected, f"{program} {'loads' if loads else 'does not load'} liblathe.so"

    # --- the ways -------------------------------------------------------------------------------------------------

    def find_package(self):
        program = self.cmake_build("find_package", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        self.check_runs(program)
        self.check_waits(program)
        self.check_shared(program, self.o.kind == "shared")
        folder = self.work / "run"
        shutil.rmtree(folder, ignore_errors=True)
        run(program.with_name("fit_resumed"), folder, "cpu", "32")
        assert (folder / "last.safetensors").is_file()
        own_model = program.with_name("own_model")
        if self.o.kind == "static":  # the other project builds no command
            assert "PatchMixer" in run(own_model, "summary", "--model", "patch_mixer")
            self.check_needs(own_model)

    def custom_op(self):
        """A project that has an op of its own, with a CUDA kernel if the library has the backend."""
        program = self.cmake_build("custom_op", f"-DCMAKE_PREFIX_PATH={self.prefix}", program="custom_op",
                                   source=pathlib.Path(self.o.source) / "examples/custom_op")
        printed = run(program, "1000")
        assert printed.endswith("all right\n"), f"{program} printed {printed!r}"

    def pkg_config(self):
        lib = next(self.prefix.rglob("liblathe.*")).parent
        search = {"PKG_CONFIG_PATH": str(lib / "pkgconfig")}
        flags = run(self.o.pkg_config, "--cflags", "--libs", "lathe", **search).split()
        program = self.work / "pkg_config_consumer"
        run(self.o.compiler, *WARNINGS, "-Wsign-conversion", self.o.program, *flags, "-o", program)
        self.check_needs(program)
        if self.o.kind == "static":
            self.check_small(program)
        self.check_runs(program, LD_LIBRARY_PATH=str(lib))
        self.check_waits(program, LD_LIBRARY_PATH=str(lib))
        if self.o.kind == "static":  # the shared library installs the same headers
            self.headers([flag for flag in flags if not flag.startswith(("-L", "-l", "-Wl,"))])

    def headers(self, flags):
        """Each installed header compiles with a user's warnings, after Qt's macros and most of X11's."""
        source, include = self.work / "headers.cpp", self.prefix / "include"
        headers = sorted(str(header.relative_to(include)) for header in include.rglob("*.h"))
        # launch.h needs CUDA's headers, a bridge those of its library.
        included = [header for header in headers if not header.endswith("gpu/launch.h") and "/bridge/" not in header]
        source.write_text(MACROS + "".join(f"#include <{header}>\n" for header in included))
        run(self.o.compiler, *WARNINGS, "-fsyntax-only", source, *flags)
        if old := shutil.which("clang++-14"):  # Debian 12's, whose library lacks parts of C++20
            run(old, *WARNINGS, "-fsyntax-only", self.o.program, *flags)

    def other_languages(self):
        """The C interface, from C through pkg-config and from Python through ctypes."""
        examples = pathlib.Path(self.o.source) / "examples/c"
        lib = next(self.prefix.rglob("liblathe.so"))
        flags = run(self.o.pkg_config, "--cflags", "--libs", "lathe", PKG_CONFIG_PATH=str(lib.parent / "pkgconfig")).split()
        program = self.work / "reaction"
        run("cc", "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", examples / "reaction.c", *flags, "-o", program)
        run(program, examples / "reaction.pt2", LD_LIBRARY_PATH=str(lib.parent))
        run(sys.executable, examples / "reaction.py", lib, examples / "reaction.pt2")

    def names(self):
        """Of two functions with one name, the linker keeps one: the archives share none with a program that compiles the
        same header-only libraries with other options. NVTX's names carry its version, and are meant to be shared."""
        archives = sorted(self.prefix.rglob("*.a"))
        assert archives, f"no archive in {self.prefix}"
        ours = re.compile(r"lathe|std|__gnu_cxx|__cxxabiv1|gloo|nvtx\w+_v3|EigenFor(Baseline|Avx2)|(dnnl|fmt|nlohmann)_for_lathe")
        for archive in archives:
            defined = run("nm", "--defined-only", "--extern-only", "--format=just-symbols", archive).replace("DW.ref.", "")
            readable = subprocess.run(["c++filt"], input=defined, text=True, stdout=subprocess.PIPE, check=True).stdout
            foreign = sorted({line for line in readable.splitlines() for outer in OUTERMOST.findall(line) if not ours.fullmatch(outer)})
            assert "lathe::" in readable and not foreign, f"{archive} defines:\n" + "\n".join(foreign[:20])

    def command(self):
        self.check_needs(self.prefix / "bin/lathe")
        run(self.prefix / "bin/lathe", "--version")

    def wheel(self):
        """The command in a wheel, installed by pip: it finds its libraries inside the package."""
        out, environment = self.work / "wheel", self.work / "venv"
        for folder in (out, environment):
            shutil.rmtree(folder, ignore_errors=True)
        run(sys.executable, pathlib.Path(self.o.source) / "tools/packages/wheel.py", self.prefix, out)
        run(sys.executable, "-m", "venv", environment)
        run(environment / "bin/pip", "install", "--no-index", next(out.glob("*.whl")))
        assert run(environment / "bin/lathe", "--version") == run(self.prefix / "bin/lathe", "--version")
        (command,) = environment.rglob("lathe/bin/lathe")
        libraries = run("ldd", command)
        assert "libgloo" not in libraries or re.search(rf"libgloo\S* => {re.escape(str(environment))}", libraries), libraries
        licences = next(environment.rglob("*.dist-info/NOTICE")).read_text(encoding="utf-8")
        for held in ("libz.so.1", "fmt, which is compiled in", "Mozilla Public License Version 2.0"):
            assert held in licences, held
        (file,) = self.prefix.rglob("lathe.pc")
        opened = re.search(r"^opened=(.*)$", file.read_text(encoding="utf-8"), re.M)[1].split()
        carried = {path.name for path in command.parents[1].glob("lib/*")}
        assert (len(opened) > 0 or not self.o.onednn) and carried.issuperset(opened), (opened, carried)

    def search_paths(self):
        """No library is looked for in the current folder."""
        installed, built = linked_below(self.prefix), linked_below(self.work, ("CMakeFiles", "prefix"))
        assert (len(installed) > 0 or self.o.kind == "static") and len(built) > 0, (installed, built)
        for binary in [*installed, *built]:
            check_search_path(binary)

    def debug_information(self):
        """Why folders of this machine may be in what is installed; None if they may not."""
        files = (path for path in self.prefix.rglob("*") if path.is_file() and path.suffix not in (".h", ".json"))
        return "has debug information" if any(b"\0.debug_info\0" in path.read_bytes() for path in files) else None

    def folders(self):
        """What is installed names no folder that it was built in, so another folder gives the same bytes."""
        folders = b"|".join(re.escape(os.fsencode(str(folder))) for folder in (self.o.source, self.o.build, self.work))
        for path in self.prefix.rglob("*"):
            named = path.is_file() and re.search(rb"(?<![\w.$}/-])(?:" + folders + rb")/", path.read_bytes())
            assert not named, f"{path} names {named[0]}"

    def add_subdirectory(self):
        program = self.cmake_build("add_subdirectory", f"-DLATHE_SOURCE={self.o.source}", "-DBUILD_SHARED_LIBS=ON",
                                   "-DLATHE_INSTALL=ON", "-DLATHE_PCH=ON", "-DLATHE_UNITY=ALL")
        self.check_runs(program)
        self.check_shared(program, True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["static", "shared"])
    for name in ("cmake", "source", "build", "program", "work", "compiler", "launcher", "pkg-config"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--onednn", action="store_true", help="built with oneDNN")
    parser.add_argument("--setting", action="append", default=[], help="for every configure step")
    options = parser.parse_args()
    consumer = Consumer(options)
    counts = {"passed": 0, "failed": 0, "skipped": 0}

    def case(name, function, unless=None):
        if unless:
            outcome, text = "skipped", f" ({unless})"
        else:
            try:
                function()
                outcome, text = "passed", ""
            except (AssertionError, OSError) as error:
                outcome, text = "failed", f": {error}"
        counts[outcome] += 1
        print(f"{outcome}: {options.kind} {name}{text}")

    if options.kind == "static":
        case("install", lambda: consumer.install(options.build))
        case("installed command", consumer.command)
        case("names in the archives", consumer.names)
        case("wheel", consumer.wheel, unless=lacks_for_wheels())
    else:
        case("add_subdirectory", consumer.add_subdirectory)
        case("install", lambda: consumer.install(consumer.work / "add_subdirectory"))
    case("find_package", consumer.find_package)
    case("custom_op", consumer.custom_op, unless=None if options.kind == "static" else "checked with the static library")
    no_pkg_config = "pkg-config is not installed" if not options.pkg_config or "NOTFOUND" in options.pkg_config else None
    case("pkg-config", consumer.pkg_config, unless=no_pkg_config)
    if options.kind == "shared":
        case("other languages", consumer.other_languages, unless=no_pkg_config)
    case("search paths", consumer.search_paths)
    case("folders", consumer.folders, unless=consumer.debug_information())

    print("{passed} passed, {failed} failed, {skipped} skipped".format(**counts))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
