#!/usr/bin/env bash
# Installs what is missing, builds and runs the tests: `tools/test.sh [--preset NAME] [-D<setting>...] [ctest arguments]`.
# Ends with the line "N passed, N failed, N skipped" over all test programs; needs no network once the packages are there.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

preset=release
settings=()
while [ $# -gt 0 ]; do
  case $1 in
    --preset) preset=$2; shift 2 ;;
    -D*) settings+=("$1"); shift ;;
    *) break ;;
  esac
done

compiler=()
case $preset in  # the sanitizers' own
  asan-ubsan | tsan) compiler=(clang-16 libclang-rt-16-dev lld-16) ;;
esac
"$root/tools/install_deps.sh" ${compiler[@]:+"${compiler[@]}"}
# What single tests start; a test whose program is missing is skipped.
"$root/tools/install_deps.sh" ccache fish gfortran graphviz groff-base libopencv-core-dev openssl patchelf zsh ||
  echo "test: some tests will be skipped" >&2
"$root/tools/build.sh" "$preset" ${settings[@]:+-- "${settings[@]}"}

build=$root/build/$preset
results=$build/test-results.xml
rm -f "$results"
status=0
ctest --test-dir "$build" --output-on-failure --no-tests=error -j "${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}" \
  --output-junit "$results" --test-output-size-passed 10000000 --test-output-size-failed 10000000 "$@" || status=$?
python3 "$root/tools/sum_tests.py" "$results" || status=1
exit "$status"
