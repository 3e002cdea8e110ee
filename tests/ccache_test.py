#!/usr/bin/env python3
"""What tools/ccache.sh finds in the cache, compiled with a precompiled header by another clone.

    ccache_test.py LAUNCHER COMPILER
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

LAUNCHER, COMPILER = sys.argv[1:3]


@unittest.skipUnless(shutil.which("ccache"), "needs ccache")
class Clones(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        self.is_clang = "clang" in subprocess.run([COMPILER, "--version"], capture_output=True, text=True, check=True).stdout

    def run_in(self, clone, *command):
        subprocess.run([LAUNCHER, COMPILER, "-std=c++20", "-Winvalid-pch", *command], cwd=clone / "build", check=True,
                       env={**os.environ, "CCACHE_DIR": str(self.folder / "cache"), "CCACHE_BASEDIR": str(clone), "CCACHE_NOHASHDIR": "1"})

    def compile_in(self, name, header):
        """Compiles a source in a clone of this name, as CMake would."""
        clone = self.folder / name
        (clone / "build").mkdir(parents=True)
        (clone / "header.h").write_text(header)
        (clone / "source.cpp").write_text("int main() { return value(); }\n")
        pch = clone / "build/cmake_pch.hxx"
        pch.write_text(f'#pragma once\n#include "{clone}/header.h"\n')
        (clone / "build/cmake_pch.hxx.cxx").write_text("")
        made = f"{pch}.{'pch' if self.is_clang else 'gch'}"
        make = ["-Xclang", "-emit-pch", "-Xclang", "-include", "-Xclang", pch] if self.is_clang else ["-include", pch]
        self.run_in(clone, *make, "-x", "c++-header", "-MD", "-MT", "x.pch", "-MF", "x.d", "-o", made, "-c", f"{pch}.cxx")
        use = ["-Xclang", "-include-pch", "-Xclang", made] if self.is_clang else ["-include", pch]
        self.run_in(clone, *use, "-MD", "-MT", "x.o", "-MF", "x.o.d", "-o", "x.o", "-c", clone / "source.cpp")
        subprocess.run([COMPILER, "x.o", "-o", "x"], cwd=clone / "build", check=True)
        return subprocess.run([clone / "build/x"]).returncode, self.hits()

    def hits(self):
        text = subprocess.run(["ccache", "--print-stats"], env={**os.environ, "CCACHE_DIR": str(self.folder / "cache")},
                              capture_output=True, text=True, check=True).stdout
        return sum(int(count) for count in re.findall(r"^(?:direct|preprocessed)_cache_hit\s+(\d+)", text, re.MULTILINE))

    def test_the_same_headers_in_another_folder_are_a_hit_and_others_are_not(self):
        self.assertEqual(self.compile_in("first", "inline int value() { return 3; }\n"), (3, 0))
        self.assertEqual(self.compile_in("second", "inline int value() { return 3; }\n"), (3, 1))
        self.assertEqual(self.compile_in("third", "inline int value() { return 5; }\n"), (5, 1))

    def sum_after(self, folder, then=""):
        """Whether there is a checksum when a compiler's stand-in has made a header and done what `then` says."""
        folder = self.folder / folder
        folder.mkdir()
        header, made = folder / "header.h", folder / "x.gch"
        header.write_text("int x;\n")
        os.utime(header, (1, 1))
        (folder / "x.gch.sum").write_text("of an earlier header")
        compiler = folder / "compiler"
        compiler.write_text(f"#!/bin/sh\n: > '{made}'\nprintf 'x.pch: %s \\\n %s\n' '{header}' '{header}' > '{folder}/x.d'\n{then}\n")
        compiler.chmod(0o755)
        done = subprocess.run([LAUNCHER, compiler, "-x", "c++-header", "-MF", folder / "x.d", "-o", made, "-c", "x.cxx"], cwd=folder)
        return done.returncode, (folder / "x.gch.sum").exists()

    def test_there_is_no_checksum_of_other_files_than_the_compiler_read(self):
        self.assertEqual(self.sum_after("quiet"), (0, True))
        self.assertEqual(self.sum_after("saved", then="sleep 0.05; echo 'int y;' > header.h"), (0, False))
        self.assertEqual(self.sum_after("a name with spaces"), (0, False))
        self.assertEqual(self.sum_after("failed", then="exit 3"), (3, False))


if __name__ == "__main__":
    program = unittest.main(argv=sys.argv[:1], exit=False)
    bad = len(program.result.failures) + len(program.result.errors)
    print(f"{program.result.testsRun - bad - len(program.result.skipped)} passed, {bad} failed, {len(program.result.skipped)} skipped")
    sys.exit(bool(bad))
