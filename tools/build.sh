#!/usr/bin/env bash
# Builds a preset, configured if need be: `tools/build.sh <preset> [target...] [-- -D<setting>...]`; all without a target.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

preset=${1:?usage: tools/build.sh <preset> [target...] [-- -D<setting>...]}
shift
targets=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  targets+=("$1")
  shift
done
[ $# -eq 0 ] || shift

if [ -z "${CMAKE_CXX_COMPILER_LAUNCHER:-}" ] && command -v ccache >/dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=$root/tools/ccache.sh CMAKE_CUDA_COMPILER_LAUNCHER=ccache
  # Another clone finds the same objects: paths count from the clone, and debug information may name another clone's folder.
  export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$root} CCACHE_NOHASHDIR=1
fi
build=$root/build/$preset
if [ $# -gt 0 ] || [ ! -f "$build/build.ninja" ] || [ "$root/CMakePresets.json" -nt "$build/build.ninja" ]; then
  (cd "$root" && cmake --preset "$preset" "$@")
fi
cmake --build "$build" --parallel "${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}" ${targets[@]:+--target "${targets[@]}"}
