#!/usr/bin/env bash
# Fuzzes the parsers for longer than CI does: `tools/fuzz.sh [runs] [parser...]`, a million runs of every parser unless
# told otherwise. Builds the targets in the asan-ubsan preset, prints a line per parser; the first finding ends it, the
# input that shows it lies in build/asan-ubsan/tests/fuzz. docs/ci.md keeps the figures.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
runs=1000000
if [[ ${1:-} =~ ^[0-9]+$ ]]; then
  runs=$1
  shift
fi
"$root/tools/build.sh" asan-ubsan fuzz
cd "$root/build/asan-ubsan/tests/fuzz"
[ $# -gt 0 ] || set -- found/*
[ ! -d /dev/shm ] || export TMPDIR=/dev/shm
for parser in "$@"; do
  parser=${parser#found/}
  log=$parser.log
  corpus=("found/$parser")
  [ ! -d "$root/tests/fuzz/corpus/$parser" ] || corpus+=("$root/tests/fuzz/corpus/$parser")
  if ! LATHE_FUZZ_PARSER=$parser ./fuzz "${corpus[@]}" -runs="$runs" -timeout=20 -print_final_stats=1 -artifact_prefix="$parser-" >"$log" 2>&1; then
    tail -n 60 "$log"
    exit 1
  fi
  stat() { sed -n "s/^stat::$1: *//p" "$log"; }
  coverage=$(grep -o 'cov: [0-9]*' "$log" | tail -n 1)
  echo "$parser: $(stat number_of_executed_units) runs, $(stat average_exec_per_sec) per second, ${coverage#cov: } edges," \
    "$(stat peak_rss_mb) MiB"
done
