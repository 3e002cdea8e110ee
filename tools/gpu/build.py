"""Builds the tree where no pack was brought: gpu_check.py without --programs."""
import glob
import os
import sys

from gpu import machine
from gpu.schedule import Step
from gpu.steps import BENCH, ROOT

STEP = Step("build", 3600, "the tree, in build/gpu", "nothing")


def build(steps):
    """With the toolkit of the machine, or else with one made of NVIDIA's wheels; cuDNN may be a wheel either way."""
    folder, toolkit, prefix = ROOT / "build/gpu", [], ROOT / "build/cuda-toolkit"
    has_nvcc = os.environ.get("CUDACXX") or machine.tool("nvcc")
    if not has_nvcc:
        steps.call("toolkit", sys.executable, ROOT / "tools/cuda_from_wheels.py", prefix)
        toolkit = [f"-DCMAKE_CUDA_COMPILER={prefix}/bin/nvcc", f"-DCUDAToolkit_ROOT={prefix}"]
    elif "CUDNN_ROOT" not in steps.env:
        wheels = [p for site in sys.path for p in glob.glob(f"{site}/nvidia/cudnn")]
        steps.env |= {"CUDNN_ROOT": wheels[0]} if wheels else {}
    steps.call("configure", "cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DLATHE_CUDA=ON",
               "-DLATHE_WERROR=OFF", *toolkit)
    steps.call("build", "cmake", "--build", folder, "--parallel", os.cpu_count())
    recorder, cuda = folder / "librecord_kernels.so", os.environ.get("CUDA_PATH", "/usr/local/cuda")
    steps.call("recorder", "g++", "-std=c++20", "-O2", "-shared", "-fPIC", f"-I{cuda}/include", f"-I{cuda}/extras/CUPTI/include",
               BENCH / "record_kernels.cpp", "-o", recorder, *(f"-L{p}" for p in machine.library_folders(None)), "-lcupti", may_fail=True)
    steps.recorder = recorder
    steps.tests = sorted(p for p in folder.glob("tests/**/test_*") if p.is_file() and os.access(p, os.X_OK))
