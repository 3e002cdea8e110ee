#!/usr/bin/env python3
"""What the configure step makes of its surroundings.

    configure_test.py --cmake=CMAKE --generator=NAME --source=ROOT
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# CUDA is looked for only where a test is about it: trying nvcc out takes seconds.
NOTHING_BUILT = ["-DLATHE_CUDA=OFF", "-DLATHE_BUILD_TESTS=OFF", "-DLATHE_BUILD_CLI=OFF", "-DLATHE_BUILD_EXAMPLES=OFF", "-DLATHE_INSTALL=OFF"]


def cmake(options, source, build, *settings, **environment):
    """Exit code and output of a configure step, each run of blanks as one."""
    result = subprocess.run([options.cmake, "-G", options.generator, "-S", source, "-B", build, *settings], text=True, env={**os.environ, **environment},
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    return result.returncode, " ".join(result.stdout.split())


_known = []  # what the first configure step found out about the compiler, as settings: 0.7 s of processor time each


def cmake_lathe(options, source, build, *settings, **environment):
    """A configure step of lathe, or of a project that holds it, without what no test here is about."""
    result = cmake(options, source, build, *NOTHING_BUILT, *_known, *settings, **environment)
    if not _known and result[0] == 0:
        cache = (build / "CMakeCache.txt").read_text()
        _known.extend(f"-D{name}={value}" for name, value in
                      re.findall(r"^(LATHE_HAS_\w+|CMAKE_CXX_LINK_\w+|CMAKE_HAVE_LIBC_PTHREAD):INTERNAL=(.*)$", cache, re.MULTILINE))
        assert len(_known) > 3, cache
    return result


def configure(options, folder, *settings, **environment):
    """Configures lathe in a new build folder."""
    return cmake_lathe(options, options.source, folder / "build", *settings, **environment)


def make_onednn(folder, version):
    """As much of a oneDNN as is looked at."""
    include, lib = folder / "onednn/include", folder / "onednn/lib"
    (include / "oneapi/dnnl").mkdir(parents=True)
    lib.mkdir()
    (include / "dnnl.hpp").touch()
    (lib / "libdnnl.so").touch()
    numbers = zip(("MAJOR", "MINOR", "PATCH"), version.split("."))
    (include / "oneapi/dnnl/dnnl_version.h").write_text("".join(f"#define DNNL_VERSION_{k} {v}\n" for k, v in numbers))
    return f"-DDNNL_ROOT={folder}/onednn"


def test_onednn_is_loaded_by_the_name_that_the_distribution_gave_it(options, folder):
    setting = make_onednn(folder, "3.7.2")
    compiler = shutil.which("c++")
    for name in ("libdnnl.so.3", "libdnnl.so.3.6"):  # without a compiler: of the version
        if name != "libdnnl.so.3":
            if compiler is None:
                return
            subprocess.run([compiler, "-shared", "-nostdlib", "-x", "c++", "/dev/null", f"-Wl,-soname,{name}", "-o", folder / "onednn/lib/libdnnl.so"], check=True)
        code, text = configure(options, folder, setting, "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
        assert code == 0, text
        commands = [c["command"] for c in json.loads((folder / "build/compile_commands.json").read_text()) if c["file"].endswith("onednn_table.cpp")]
        assert len(commands) == 1 and f'"{name}\\"' in commands[0], commands


def test_onednn_of_another_version_is_off_with_the_reason(options, folder):
    for version in ("2.5.4", "4.0.0"):
        with tempfile.TemporaryDirectory(dir=folder) as place:
            code, text = configure(options, pathlib.Path(place), make_onednn(pathlib.Path(place), version))
            assert code == 0, text
            assert f"oneDNN off found in version {version}, not 2.6 or later and below 4" in text, text


def test_onednn_4_asked_for_is_an_error(options, folder):
    code, text = configure(options, folder, make_onednn(folder, "4.0.0"), "-DLATHE_ONEDNN=ON")
    assert code != 0 and "LATHE_ONEDNN=ON but it was found in version 4.0.0" in text, text


def test_onednn_2_and_3_are_taken(options, folder):
    for version, remark in (("2.7.3", ":"), ("3.7.2", ", which has no Winograd convolution:")):
        with tempfile.TemporaryDirectory(dir=folder) as place:
            code, text = configure(options, pathlib.Path(place), make_onednn(pathlib.Path(place), version))
            assert code == 0 and f"oneDNN on found {version}{remark}" in text, text


def test_an_installed_package_links_nothing_that_is_opened_later(options, folder):
    """Only a line for who makes packages names these libraries."""
    code, text = configure(options, folder, make_onednn(folder, "2.7.3"), "-DLATHE_INSTALL=ON")
    assert code == 0, text
    for name in ("latheConfig.cmake", "lathe.pc"):
        package = (folder / "build" / name).read_text()
        opened = re.findall("^opened=.*", package, re.M)
        assert (name == "lathe.pc") == (len(opened) == 1 and "libdnnl.so." in opened[0]), package
        others = re.sub("^opened=.*", "", package, flags=re.M)
        assert not re.search("dnnl|openmp|curl|jpeg|png|webp", others, re.I), package


def make_cudnn(prefix, version, library):
    """As much of a cuDNN as is looked at."""
    (prefix / "include").mkdir(parents=True)
    (prefix / "lib").mkdir()
    numbers = zip(("MAJOR", "MINOR", "PATCHLEVEL"), version.split("."))
    lines = "".join(f"#define CUDNN_{k} {v}\n" for k, v in numbers)
    (prefix / "include/cudnn_version.h").write_text(lines + "#define CUDNN_VERSION (CUDNN_MAJOR * 10000)\n")
    (prefix / "lib" / library).parent.mkdir(exist_ok=True)
    (prefix / "lib" / library).touch()
    return prefix


def find_cudnn(options, folder, *settings, **environment):
    """What cmake/FindCUDNN.cmake finds where neither a toolkit nor the system has one: "version library", or "none"."""
    project = folder / "project"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(p LANGUAGES NONE)\n"
        f'list(PREPEND CMAKE_MODULE_PATH "{options.source}/cmake")\n'
        "set(CMAKE_FIND_USE_CMAKE_SYSTEM_PATH OFF)\nset(CMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH OFF)\n"
        "find_package(CUDNN QUIET)\nset(found none)\nif(CUDNN_FOUND)\n  set(found ${CUDNN_VERSION} ${CUDNN_LIBRARY})\nendif()\n"
        "if(CUDNN_FOUND AND NOT TARGET CUDNN::headers)\n  message(FATAL_ERROR no-target)\nendif()\n"
        'string(REPLACE ";" " " found "${found}")\nmessage(STATUS "found <${found}>")\n')
    elsewhere = {"CUDNN_ROOT": "", "CUDNN_PATH": "", "VIRTUAL_ENV": "", "CONDA_PREFIX": "", "CUDNN_PYTHON_PREFIX": ""}
    code, text = cmake(options, project, folder / "build", *settings, **{**elsewhere, **environment})
    assert code == 0, text
    return re.search("found <(.*)>", text)[1]


def test_cudnn_is_found_where_it_is_said_to_be(options, folder):
    prefix = make_cudnn(folder / "cudnn", "9.19.0", "libcudnn.so.9")
    expected = f"9.19.0 {prefix}/lib/libcudnn.so.9"
    for name in ("CUDNN_ROOT", "CUDNN_PATH"):
        for settings, environment in (([f"-D{name}={prefix}"], {}), ([], {name: str(prefix)})):
            with tempfile.TemporaryDirectory(dir=folder) as build:
                found = find_cudnn(options, pathlib.Path(build), *settings, **environment)
                assert found == expected, (name, found)


def test_cudnn_is_found_in_a_wheel(options, folder):
    python = folder / "venv"
    wheel = make_cudnn(python / "lib/python3.11/site-packages/nvidia/cudnn", "9.5.1", "libcudnn.so.9")
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "CUDNN_PYTHON_PREFIX"):
        with tempfile.TemporaryDirectory(dir=folder) as build:
            found = find_cudnn(options, pathlib.Path(build), **{name: str(python)})
            assert found == f"9.5.1 {wheel}/lib/libcudnn.so.9", (name, found)


def test_cudnn_is_found_where_debian_packages_put_it(options, folder):
    usr = make_cudnn(folder / "usr", "9.19.0", "x86_64-linux-gnu/libcudnn.so.9")
    found = find_cudnn(options, folder, f"-DCMAKE_PREFIX_PATH={usr}", "-DCMAKE_LIBRARY_ARCHITECTURE=x86_64-linux-gnu")
    assert found == f"9.19.0 {usr}/lib/x86_64-linux-gnu/libcudnn.so.9", found


def test_cudnn_library_must_be_of_its_headers_version(options, folder):
    for library in ("libcudnn.so.8", "libcudnn.so"):
        with tempfile.TemporaryDirectory(dir=folder) as build:
            prefix = make_cudnn(pathlib.Path(build) / "cudnn", "9.19.0", library)
            found = find_cudnn(options, pathlib.Path(build), f"-DCUDNN_ROOT={prefix}")
            assert found == "none", (library, found)


_has_nvcc = None
_nvcc = []  # the one that was found, as a setting: only the first configure step tries it out in a project of its own


def has_nvcc(options, folder):
    """Whether lathe's own search comes as far as the libraries; found out once."""
    global _has_nvcc
    if _has_nvcc is None:
        code, text = configure(options, folder / "first", "-DLATHE_CUDA=AUTO")
        assert code == 0, text
        _has_nvcc = "nvcc was not found" not in text and "cannot build a program" not in text
        if _has_nvcc:
            found = re.search("^CMAKE_CUDA_COMPILER:[A-Z]+=(.*)$", (folder / "first/build/CMakeCache.txt").read_text(), re.MULTILINE)
            _nvcc.append(f"-DCMAKE_CUDA_COMPILER={found[1]}")
    return _has_nvcc


def test_cudnn_8_turns_cuda_off_with_the_reason(options, folder):
    if not has_nvcc(options, folder):
        return
    prefix = make_cudnn(folder / "cudnn", "8.9.7", "libcudnn.so.8")
    code, text = configure(options, folder, "-DLATHE_CUDA=AUTO", *_nvcc, f"-DCUDNN_ROOT={prefix}")
    assert code == 0 and f"CUDA off cuDNN 8.9.7 in {prefix}/include is too old, 9 is needed: install" in text, text
    code, text = configure(options, folder, "-DLATHE_CUDA=ON")
    assert code != 0 and "lathe: LATHE_CUDA=ON, but cuDNN 8.9.7 in" in text, text


def test_kernels_are_for_the_gpus_that_are_here(options, folder):
    if not has_nvcc(options, folder):
        return
    for name, answer, expected in (("two", "echo 8.9; echo 9.0; echo 8.9", "sm_89, sm_90"), ("none", "exit 9", "sm_90")):
        tool = folder / name / "nvidia-smi"
        tool.parent.mkdir()
        tool.write_text(f"#!/bin/sh\n{answer}\n")
        tool.chmod(0o755)
        code, text = configure(options, folder / name, "-DLATHE_CUDA=AUTO", *_nvcc, PATH=f"{tool.parent}:{os.environ['PATH']}")
        assert code == 0 and (f"for {expected}; cuDNN" in text or "CUDA off" in text), text


def test_nvcc_that_does_not_work_turns_cuda_off(options, folder):
    code, text = configure(options, folder, "-DLATHE_CUDA=AUTO", CUDACXX="/bin/false")
    assert code == 0 and "CUDA off nvcc (/bin/false) cannot build a program here" in text, text


def test_no_search_path_is_changed_on_install(options, folder):
    """CMake would leave an empty entry in what was built."""
    for shared in ("OFF", "ON"):
        build = folder / shared
        code, text = cmake_lathe(options, options.source, build, f"-DBUILD_SHARED_LIBS={shared}", "-DLATHE_BUILD_CLI=ON", "-DLATHE_INSTALL=ON",
                           "-DCMAKE_INSTALL_LIBDIR=lib/of/some/depth")
        assert code == 0, text
        rules = "".join(path.read_text() for path in build.rglob("cmake_install.cmake"))
        assert "bin/lathe" in rules and "RPATH_CHANGE" not in rules, re.findall("RPATH_CHANGE[^)]*", rules)


def git(folder, *arguments):
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "init.defaultBranch=main"]
    return subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def revision_of(options, folder):
    """What LatheRevision.cmake makes of a source folder, and when the file was last written."""
    output = folder.parent / "revision.cpp"
    subprocess.run([options.cmake, f"-DGIT={shutil.which('git')}", f"-DSOURCE={folder}", f"-DOUTPUT={output}", "-P",
                    f"{options.source}/cmake/LatheRevision.cmake"], check=True)
    return re.search('return "(.*)"', output.read_text())[1], output.stat().st_mtime_ns


def test_revision_is_that_of_the_sources(options, folder):
    root = folder / "sources"
    (root / "vendored").mkdir(parents=True)
    assert revision_of(options, root)[0] == ""
    if shutil.which("git") is None:
        return
    git(root, "init", "--quiet")
    (root / "file").write_text("1")
    git(root, "add", "file")
    git(root, "commit", "--quiet", "--message=one")
    git(root, "tag", "a-tag")
    head = git(root, "rev-parse", "HEAD")
    revision, written = revision_of(options, root)
    assert revision == head[:12]
    assert revision_of(options, root) == (revision, written)  # not written again
    (root / "file").write_text("2")
    assert revision_of(options, root)[0] == revision + "-dirty"
    assert revision_of(options, root / "vendored")[0] == ""  # of somebody else's repository


def test_only_the_own_launcher_precompiles_through_ccache(options, folder):
    script = folder / "script.cmake"
    script.write_text(f'include("{options.source}/cmake/LathePrecompiled.cmake")\nmessage(STATUS "<${{LATHE_PRECOMPILES}}>")\n')
    expected = {"": "ON", "distcc": "ON", f"{options.source}/tools/ccache.sh": "ON", "ccache": "OFF", "/usr/bin/ccache": "OFF", "sccache": "OFF",
                "ccache;--config-path=x": "OFF", "/usr/bin/env;ccache;distcc": "OFF"}
    for launcher, answer in expected.items():
        text = subprocess.run([options.cmake, f"-DCMAKE_CXX_COMPILER_LAUNCHER={launcher}", "-P", script], text=True, check=True,
                              stdout=subprocess.PIPE).stdout
        assert f"<{answer}>" in text, (launcher, text)


def flags_in_a_project(options, folder, *settings):
    """How a project that holds lathe compiles the first 16 of its sources, together, and what its configure step says."""
    project = folder / "project"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(f"""
        cmake_minimum_required(VERSION 3.25)
        project(user LANGUAGES CXX)
        add_subdirectory("{options.source}" lathe)
    """)
    code, text = cmake_lathe(options, project, folder / "build", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", *settings)
    assert code == 0, text
    commands = json.loads((folder / "build/compile_commands.json").read_text())
    command, = [c["command"] for c in commands if c["file"].endswith("lathe.dir/Unity/unity_0_cxx.cxx")]
    return command.split(), text


def test_a_project_without_a_build_type_gets_an_optimised_lathe(options, folder):
    flags, text = flags_in_a_project(options, folder)
    assert "-O3" in flags and "-DNDEBUG" in flags, flags
    assert "CMAKE_BUILD_TYPE is not set; Lathe itself is compiled with -O3" in text, text


def test_what_a_project_says_of_optimisation_stays(options, folder):
    for settings in (["-DCMAKE_BUILD_TYPE=Debug"], ["-DCMAKE_CXX_FLAGS=-g -O0"]):
        with tempfile.TemporaryDirectory(dir=folder) as place:
            flags, text = flags_in_a_project(options, pathlib.Path(place), *settings)
            assert "-O3" not in flags and "CMAKE_BUILD_TYPE is not set" not in text, flags


def test_an_older_standard_is_refused_in_one_line(options, folder):
    compiler = shutil.which("c++")
    if compiler is None:
        return
    (folder / "lathe").symlink_to(options.source)
    (folder / "main.cpp").write_text("#include <lathe/lathe.h>\nint main() {}\n")
    result = subprocess.run([compiler, "-std=c++17", "-fsyntax-only", f"-I{folder}", folder / "main.cpp"], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    errors = [line for line in result.stdout.splitlines() if "error:" in line]
    assert result.returncode != 0 and len(errors) == 1 and "C++20" in errors[0], result.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("cmake", "generator", "source"):
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args()
    passed = failed = 0
    for name, test in sorted(globals().items()):
        if not name.startswith("test_"):
            continue
        with tempfile.TemporaryDirectory(prefix="lathe-configure-") as folder:
            try:
                test(options, pathlib.Path(folder))
                passed += 1
            except AssertionError as error:
                failed += 1
                print(f"FAILED {name}: {error}")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
