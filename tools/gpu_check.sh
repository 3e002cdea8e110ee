#!/usr/bin/env bash
# Everything that only a machine with a GPU can show, in one run: builds with CUDA, runs all tests, the kernel tests under
# compute-sanitizer, the kernel and convolution benchmarks, an epoch of CIFAR-10 where $LATHE_DATA_ROOT holds it, and the
# comparison with PyTorch where python3 has it. The machine needs CUDA (a toolkit, or NVIDIA's wheels: see
# tools/cuda_from_wheels.py), cuDNN, CMake, ninja and Python; headers that it cannot install travel in .deps/
# (tools/carry_deps.sh).
#     tools/gpu_check.sh [FOLDER for reports; default: build/gpu-check] [PART...]
# Parts: tests sanitizer bench train compare; all of them if none is named. The build always comes first. Writes report.md and report.json there; ends with the line "N passed, N failed, N skipped".
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=$(realpath -m "${1:-$root/build/gpu-check}")
build=$root/build/gpu
[ $# -eq 0 ] || shift
parts=" ${*:-tests sanitizer bench train compare} "
mkdir -p "$out"
cd "$root" || exit 1

steps=()  # "name|seconds|status"
failed=0
# step <name> <command...>: output goes to <name>.log.
step() {
  local name=$1 start=$SECONDS status=0
  shift
  echo "=== $name: $*"
  "$@" >"$out/$name.log" 2>&1 || status=$?
  steps+=("$name|$((SECONDS - start))|$status")
  if [ "$status" -ne 0 ]; then
    failed=$((failed + 1))
    tail -n 40 "$out/$name.log"
  fi
  return "$status"
}

wants() { [[ $parts == *" $1 "* ]]; }

# Without a toolkit, one made of NVIDIA's wheels; beside a toolkit, its cuDNN may be a wheel.
toolkit=()
if [ -z "${CUDACXX:-}" ] && ! command -v nvcc >/dev/null && [ ! -x "${CUDA_PATH:-/usr/local/cuda}/bin/nvcc" ]; then
  if step toolkit python3 tools/cuda_from_wheels.py "$root/build/cuda-toolkit"; then
    toolkit=(-DCMAKE_CUDA_COMPILER="$root/build/cuda-toolkit/bin/nvcc" -DCUDAToolkit_ROOT="$root/build/cuda-toolkit")
  fi
elif [ -z "${CUDNN_ROOT:-}" ]; then
  wheel=$(python3 -c 'from importlib.metadata import distribution
print(distribution("nvidia-cudnn-cu13").locate_file("nvidia/cudnn"))' 2>/dev/null || true)
  [ -z "$wheel" ] || export CUDNN_ROOT=$wheel
fi

step configure cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DLATHE_CUDA=ON -DLATHE_WERROR=ON \
  ${toolkit[@]:+"${toolkit[@]}"} &&
  step build cmake --build "$build" --parallel "$(nproc)" &&
  {
    step info "$build/bin/lathe" info
    if wants tests; then
      step tests ctest --test-dir "$build" --output-on-failure --timeout 900 --output-junit "$build/test-results.xml"
    fi
    sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null || true)
    if wants sanitizer && [ -z "$sanitizer" ]; then
      echo "compute-sanitizer is not here: its four checks are skipped" | tee "$out/sanitizer.log"
    elif wants sanitizer; then
      for tool in memcheck racecheck initcheck synccheck; do
        step "sanitizer-$tool" env LATHE_NO_CACHE=1 timeout 300 "$sanitizer" --tool "$tool" --error-exitcode 9 \
          "$build/tests/cuda/test_cuda"
      done
    fi
    if wants bench; then
      step bench-kernels "$build/bin/lathe" bench kernels --device cuda --json
      step bench-conv "$build/bin/lathe" bench conv --device cuda --model resnet18 --batch-size 512 --json
    fi
    if wants train && [ -n "${LATHE_DATA_ROOT:-}" ]; then
      step train "$build/bin/lathe" train --device cuda --dataset cifar10 --model resnet18 --epochs 1 --run-dir "$out/run"
    fi
    if wants compare && python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
      for amp in off fp16; do
        for batch in 128 512; do
          step "compare-$amp-$batch" python3 tools/bench/compare_torch.py --device cuda --lathe "$build/bin/lathe" \
            --model resnet18 --batch "$batch" --amp "$amp" --json
        done
      done
      step compare-224 python3 tools/bench/compare_torch.py --device cuda --lathe "$build/bin/lathe" --model resnet18 \
        --batch 256 --image-size 224 --amp fp16 --variants eager,compile --json
    fi
  }

python3 tools/gpu_report.py --out "$out" --build "$build" "${steps[@]}"
if [ -f "$build/test-results.xml" ]; then
  python3 tools/sum_tests.py --failed "$((failed > 0 ? failed : 0))" "$build/test-results.xml"
else
  python3 tools/sum_tests.py --failed 1
fi
