#!/usr/bin/env python3
"""What the configure step makes of its surroundings.

    configure_test.py --cmake=CMAKE --source=ROOT
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

NOTHING_BUILT = ["-DLATHE_BUILD_TESTS=OFF", "-DLATHE_BUILD_CLI=OFF", "-DLATHE_BUILD_EXAMPLES=OFF", "-DLATHE_INSTALL=OFF"]


def configure(options, folder, *settings):
    """Exit code and output of a configure step in a new build folder."""
    result = subprocess.run([options.cmake, "-S", options.source, "-B", folder / "build", *NOTHING_BUILT, *settings], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    return result.returncode, " ".join(result.stdout.split())


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


def test_onednn_3_is_off_with_the_reason(options, folder):
    code, text = configure(options, folder, make_onednn(folder, "3.4.1"))
    assert code == 0, text
    assert "oneDNN off found in version 3.4.1, not 2.6 or later and below 3" in text, text


def test_onednn_3_asked_for_is_an_error(options, folder):
    code, text = configure(options, folder, make_onednn(folder, "3.4.1"), "-DLATHE_ONEDNN=ON")
    assert code != 0 and "LATHE_ONEDNN=ON but it was found in version 3.4.1" in text, text


def test_onednn_2_is_taken(options, folder):
    code, text = configure(options, folder, make_onednn(folder, "2.7.3"))
    assert code == 0 and ("oneDNN on found 2.7.3" in text or "found without OpenMP" in text), text


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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("cmake", "source"):
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
