#!/usr/bin/env bash
# Runs tests as on another machine: `tools/test_as.sh <instruction set> <threads> [ctest arguments]`, after tools/test.sh has
# built them. The instruction set is SSE41, AVX2, AVX512_CORE, AVX512_CORE_BF16, or native for this processor's own; threads is a number.
# Without ctest arguments what depends on either; `tools/test_as.sh SSE41 1 -R .` runs everything.
#
# Limited are oneDNN (by ONEDNN_MAX_CPU_ISA), our own code (tests/cpu_limit.cpp, in the test programs and in
# tests/cli/lathe_limited) and the functions of libm (by GLIBC_TUNABLES), which round differently where there is no FMA.
# Ends with the line "N passed, N failed, N skipped".
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
isa=${1:?usage: tools/test_as.sh <SSE41|AVX2|AVX512_CORE|AVX512_CORE_BF16|native> <threads> [ctest arguments]}
threads=${2:?usage: tools/test_as.sh <SSE41|AVX2|AVX512_CORE|AVX512_CORE_BF16|native> <threads> [ctest arguments]}
shift 2

case $isa in
  native) ;;
  SSE41) export ONEDNN_MAX_CPU_ISA=$isa GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX,-AVX2,-FMA,-FMA4,-AVX512F ;;
  AVX2 | AVX512_CORE | AVX512_CORE_BF16) export ONEDNN_MAX_CPU_ISA=$isa ;;
  *) echo "tools/test_as.sh: $isa is none of SSE41, AVX2, AVX512_CORE, AVX512_CORE_BF16 and native" >&2; exit 2 ;;
esac
build=$root/build/release
export LATHE_TEST_THREADS=$threads LATHE_TEST_COMMAND=$build/tests/cli/lathe_limited
export OMP_WAIT_POLICY=passive  # more threads than processors would take them from one another

[ $# -gt 0 ] || set -- -R '^(ops|nn|optim|cli_train|cli_find)$'
results=$root/build/as-$isa-$threads/test-results.xml
mkdir -p "$(dirname "$results")"
rm -f "$results"
status=0
ctest --test-dir "$build" --output-on-failure --no-tests=error -j "${CTEST_PARALLEL_LEVEL:-$(nproc)}" \
  --output-junit "$results" --test-output-size-passed 10000000 --test-output-size-failed 10000000 "$@" || status=$?
python3 "$root/tools/sum_tests.py" "$results" || status=1
exit "$status"
