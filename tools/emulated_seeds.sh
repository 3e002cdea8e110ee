#!/usr/bin/env bash
# Runs a test program of a build with the emulated GPU under many orders of blocks, threads and queued work:
#   tools/emulated_seeds.sh PROGRAM [FIRST] [LAST] [argument of the program...]
# Each seed once as blocks one after another and work as late as it may, and once with 4 blocks taking turns and work at any
# moment. Ends with the number of seeds, and with code 1 after the first that failed.
set -uo pipefail
program=${1:?usage: emulated_seeds.sh PROGRAM [FIRST] [LAST] [argument...]}
first=${2:-1} last=${3:-20}
shift $(($# < 3 ? $# : 3))
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for ((seed = first; seed <= last; ++seed)); do
  for mode in "1 0" "4 3"; do
    read -r resident early <<<"$mode"
    if ! LATHE_EMULATED_SEED=$seed LATHE_EMULATED_RESIDENT=$resident LATHE_EMULATED_EARLY=$early \
      "$program" "$@" >"$log" 2>&1; then
      tail -60 "$log"
      echo "failed with LATHE_EMULATED_SEED=$seed LATHE_EMULATED_RESIDENT=$resident LATHE_EMULATED_EARLY=$early"
      exit 1
    fi
    echo "seed $seed, resident $resident, early $early: $(grep -E '^[0-9]+ passed' "$log" | tail -1)"
  done
done
echo "$((last - first + 1)) seeds, two orders each"
