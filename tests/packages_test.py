#!/usr/bin/env python3
"""tools/packages over an installation that is laid out as Lathe's but takes no time to compile: its command prints which file
the library opened libpng from. tools/packages/try.sh tries Lathe itself, in an empty system.

    packages_test.py SOURCE_ROOT COMPILER
"""
import atexit
import base64
import csv
import functools
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

ROOT, COMPILER = pathlib.Path(sys.argv[1]), sys.argv[2]
PACKAGES = ROOT / "tools/packages"
LIBRARY = r"""
#include <dlfcn.h>
extern "C" const char* lathe_picture() {
  void* png = dlopen("libpng16.so.16", RTLD_NOW);
  Dl_info info;
  return png != nullptr && dladdr(dlsym(png, "png_get_io_ptr"), &info) != 0 ? info.dli_fname : dlerror();
}
"""
COMMAND = r"""
#include <cstdio>
extern "C" const char* lathe_picture();
int main(int count, char**) { std::puts(count > 1 ? "lathe 0.1.0 (a toy)" : lathe_picture()); }
"""


def run(*command, **options):
    return subprocess.run([str(word) for word in command], text=True, capture_output=True, check=True, **options).stdout


@functools.lru_cache(None)
def compiled():
    """What cmake --install would leave, made once."""
    folder = pathlib.Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    prefix = folder / "prefix"
    for name in ("bin", "lib/x/pkgconfig", "share/lathe/algos"):
        (prefix / name).mkdir(parents=True)
    for name, text in (("library", LIBRARY), ("command", COMMAND)):
        (folder / f"{name}.cpp").write_text(text)
    run(COMPILER, "-shared", "-fPIC", folder / "library.cpp", "-o", prefix / "lib/x/liblathe.so.0.1.0", "-Wl,-soname,liblathe.so.0.1", "-ldl")
    (prefix / "lib/x/liblathe.so.0.1").symlink_to("liblathe.so.0.1.0")
    run(COMPILER, folder / "command.cpp", prefix / "lib/x/liblathe.so.0.1", "-o", prefix / "bin/lathe", "-Wl,-rpath,$ORIGIN/../lib/x")
    return prefix


def installation(folder, opened="libpng16.so.16"):
    prefix = pathlib.Path(shutil.copytree(compiled(), folder / "prefix", symlinks=True))
    (prefix / "lib/x/pkgconfig/lathe.pc").write_text(f"opened={opened}\n")
    return prefix


def made(script, prefix, out, pattern, **options):
    run(sys.executable, "-B", PACKAGES / script, prefix, out, **options)
    return next(out.glob(pattern))


def check_parts(folder, parts):
    assert "Copyright" in (folder / "LICENSE").read_text() and "libpng16.so.16" in (folder / "NOTICE").read_text()
    names = [part["name"] for part in json.loads(parts.read_text())["packages"]]
    assert names[0] == "lathe" and {"libpng16.so.16", "libz.so.1", "Eigen, which is compiled in"} <= set(names), names


def test_an_archive_works_from_any_folder(folder):
    prefix = installation(folder)
    archive = made("archive.py", prefix, folder / "out", "lathe-0.1.0-linux-*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder / "un packed")
    root = next((folder / "un packed").iterdir())
    shutil.rmtree(prefix)
    assert run(root / "bin/lathe", env={}) == f"{root / 'bin/../lib/x'}/../../lib/lathe/libpng16.so.16\n", run(root / "bin/lathe", env={})
    check_parts(root / "share/lathe", root / "share/lathe/lathe.spdx.json")


def test_a_wheel_holds_what_the_command_opens(folder):
    wheel = made("wheel.py", installation(folder), folder / "out", "lathe-0.1.0-py3-none-manylinux_*.whl")
    site = folder / "site"
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site)
    for name in ("bin/lathe", "lib/liblathe.so.0.1"):
        (site / "lathe" / name).chmod(0o755)  # as pip does
    assert run(site / "lathe/bin/lathe", env={}) == f"{site / 'lathe/bin/../lib'}/libpng16.so.16\n"
    info = next(site.glob("*.dist-info"))
    check_parts(info, info / "sboms/lathe.spdx.json")
    for name, digest, size in csv.reader((info / "RECORD").read_text().splitlines()):
        content = (site / name).read_bytes()
        sha256 = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        assert name.endswith("RECORD") or (digest, size) == (f"sha256={sha256}", str(len(content))), name


def test_equal_installations_give_equal_bytes(folder):
    prefix = installation(folder)
    for script, pattern in (("archive.py", "*.tar.gz"), ("wheel.py", "*.whl")):
        first = made(script, prefix, folder / "first", pattern, umask=0o022)
        moved = prefix.rename(folder / f"moved-{script}")
        (moved / "bin/lathe").touch()
        (moved / "share").chmod(0o700)
        (moved / "lib/x/pkgconfig/lathe.pc").chmod(0o600)
        second = made(script, moved, folder / "second", pattern, umask=0o077)
        prefix = moved
        assert first.name == second.name and first.read_bytes() == second.read_bytes(), script


def test_an_archive_is_of_the_time_of_its_source(folder):
    archive = made("archive.py", installation(folder), folder / "out", "*.tar.gz", env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"})
    with tarfile.open(archive) as tar:
        assert {entry.mtime for entry in tar} == {1700000000}
        (name,) = [name for name in tar.getnames() if name.endswith("spdx.json")]
        assert json.load(tar.extractfile(name))["creationInfo"]["created"] == "2023-11-14T22:13:20Z"


def release_of(checkout):
    """What tools/release.sh says of a checkout: its exit code and its lines."""
    result = subprocess.run([checkout / "tools/release.sh", "--check"], text=True, capture_output=True)
    return result.returncode, result.stdout + result.stderr


def git(checkout, *arguments):
    return run("git", "-C", checkout, "-c", "user.name=A", "-c", "user.email=a@localhost", "-c", "tag.gpgsign=false", *arguments)


def test_a_release_is_of_a_clean_checkout_with_notes_and_a_tag_of_its_own(folder):
    if shutil.which("git") is None:
        return
    (folder / "tools").mkdir()
    shutil.copy(ROOT / "tools/release.sh", folder / "tools")
    (folder / "CMakeLists.txt").write_text("project(lathe VERSION 1.2.3 LANGUAGES CXX)\n")
    (folder / "CHANGELOG.md").write_text("## Unreleased\n\n## 1.2.30\n\n## 1x2.3\n")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "one")
    code, said = release_of(folder)
    assert code == 1 and 'no section "## 1.2.3"' in said, said
    (folder / "CHANGELOG.md").write_text("## 1.2.3 (2026-12-01)\n")
    code, said = release_of(folder)
    assert code == 1 and " M CHANGELOG.md" in said, said
    git(folder, "commit", "--quiet", "-a", "-m", "two")
    code, said = release_of(folder)
    assert code == 0 and "1.2.3 can be released" in said, said
    git(folder, "tag", "v1.2.3")
    assert release_of(folder)[0] == 0
    (folder / "mine.cpp").touch()
    code, said = release_of(folder)
    assert code == 1 and "?? mine.cpp" in said, said
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "three")
    code, said = release_of(folder)
    assert code == 1 and "v1.2.3 is the tag of " in said, said


def test_a_library_that_is_missing_is_named(folder):
    prefix = installation(folder, opened="libpng16.so.16 libnone.so.7")
    for script in ("archive.py", "wheel.py"):
        result = subprocess.run([sys.executable, PACKAGES / script, prefix, folder / "out"], text=True, capture_output=True)
        assert result.returncode != 0 and "Lathe was built with libnone.so.7" in result.stderr, result


def test_the_debian_package_of_the_library_bears_its_soname(folder):
    version = re.search(r"^project\(lathe VERSION (\d+\.\d+)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]
    control = (PACKAGES / "debian/control").read_text()
    assert re.findall(r"^Package: (\S+)", control, re.M) == [f"liblathe{version}", "liblathe-dev", "lathe"]
    assert (PACKAGES / f"debian/liblathe{version}.install").is_file() and f"debian/liblathe{version}.substvars" in (PACKAGES / "debian/rules").read_text()


def development_packages(text):
    return set(re.findall(r"[\w.+-]+-dev\b", text))


def installed():
    return development_packages((ROOT / "tools/install_deps.sh").read_text()) - {"doctest-dev"}


def test_debian_packages_are_built_with_what_install_deps_installs(folder):
    control = (PACKAGES / "debian/control").read_text()
    needed = development_packages(control.split("Build-Depends:")[1].split("\nStandards")[0])
    assert needed == installed(), needed ^ installed()


def test_the_conan_recipe_has_an_option_for_each_optional_library(folder):
    recipe = (PACKAGES / "conan/conanfile.py").read_text()
    optional = set(re.findall(r"^set\(LATHE_(\w+) AUTO", (ROOT / "CMakeLists.txt").read_text(), re.M)) - {"CUDA", "NCCL"}
    options = {name.upper() for name in re.findall(r'"(\w+)": "[\w.+-]+-dev"', recipe)}
    assert options == optional, options ^ optional
    assert development_packages(recipe) == installed(), development_packages(recipe) ^ installed()


def main():
    if shutil.which("patchelf") is None:
        print("patchelf is not installed\n0 passed, 0 failed, 1 skipped")
        return 0
    tests = {name: test for name, test in globals().items() if name.startswith("test_")}
    failed = 0
    for name, test in tests.items():
        with tempfile.TemporaryDirectory() as folder:
            try:
                test(pathlib.Path(folder).resolve())
            except (AssertionError, subprocess.CalledProcessError) as error:
                failed += 1
                print(f"{name}: {error} {getattr(error, 'stderr', '')}")
    print(f"{len(tests) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
