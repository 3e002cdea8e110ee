"""Lathe as a Conan package, built from this clone with the system's libraries: docs/install.md.

    conan create tools/packages/conan -s compiler.cppstd=20
"""
import pathlib
import re
import shutil

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy
from conan.tools.scm import Git
from conan.tools.system.package_manager import Apt

REQUIRED = ["libeigen3-dev", "libfmt-dev", "nlohmann-json3-dev"]
FEATURES = {  # LATHE_<name> of CMakeLists.txt: its Debian package
    "onednn": "libdnnl-dev", "zlib": "zlib1g-dev", "curl": "libcurl4-openssl-dev", "jpeg": "libjpeg-dev", "png": "libpng-dev",
    "webp": "libwebp-dev", "distributed": "libgloo-dev"}
NOT_BUILT = (".", "course/", "docs/", "examples/", "tests/", "tiny/")  # folders that a package needs nothing of, but this:
BUILT = "tests/emulation/"  # its list of sources is read


class Lathe(ConanFile):
    name = "lathe"
    description = "A standalone deep-learning runtime"
    license = "MIT"
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "command": [True, False], **{name: [True, False] for name in FEATURES}}
    default_options = {"shared": False, "command": True, **{name: True for name in FEATURES}}

    def clone(self):
        return pathlib.Path(self.recipe_folder).parents[2]

    def set_version(self):
        text = (self.clone() / "CMakeLists.txt").read_text(encoding="utf-8")
        self.version = re.search(r"^project\(lathe VERSION ([\d.]+)", text, re.M)[1]

    def export_sources(self):
        for name in Git(self, str(self.clone())).included_files():
            if name.startswith(BUILT) or not name.startswith(NOT_BUILT):
                to = pathlib.Path(self.export_sources_folder) / name
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(self.clone() / name, to)

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("Lathe runs on Linux")
        check_min_cppstd(self, 20)

    def system_requirements(self):
        Apt(self).install(REQUIRED + [package for name, package in FEATURES.items() if self.options.get_safe(name)], check=True)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self, generator="Ninja")
        toolchain.cache_variables.update({
            "LATHE_CUDA": "OFF", "LATHE_BUILD_TESTS": False, "LATHE_BUILD_EXAMPLES": False, "LATHE_UNITY": "ON", "LATHE_PCH": True,
            "LATHE_BUILD_CLI": bool(self.options.command)})
        for name in FEATURES:
            toolchain.cache_variables[f"LATHE_{name.upper()}"] = "ON" if self.options.get_safe(name) else "OFF"
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, str(pathlib.Path(self.package_folder) / "licenses"))

    def package_info(self):
        # find_package(lathe) reads the file that Lathe installs. What follows is for other build systems.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/lathe"]
        self.cpp_info.libs = ["lathe"]
        if self.options.shared:
            self.cpp_info.defines = ["LATHE_SHARED"]
            return
        linked = {"z": self.options.zlib, "gloo": self.options.distributed}
        self.cpp_info.system_libs = [*(name for name, is_on in linked.items() if is_on), "dl", "m", "pthread"]
        self.cpp_info.exelinkflags = ["-Wl,--gc-sections"]
