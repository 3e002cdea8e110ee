"""Builds README's program with the package, and runs it and the command."""
from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, cmake_layout


class Consumer(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeToolchain", "VirtualRunEnv"

    def requirements(self):
        self.requires(self.tested_reference_str, run=True)  # the command of a static library, too

    def layout(self):
        cmake_layout(self)

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        if not can_run(self):
            return
        self.run(f"{self.cpp.build.bindir}/quickstart", env="conanrun")
        if self.dependencies["lathe"].options.command:
            self.run("lathe --version", env="conanrun")
