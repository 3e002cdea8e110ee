#!/usr/bin/env bash
# Installs what is missing, builds the release and trains: `tools/train.sh [arguments of lathe train]`.
# Without arguments `lathe train` chooses a model and a data set that suit the machine, and fetches the set if need be.
# The first build on a machine without a GPU leaves CUDA out; a build folder that is there already keeps its settings.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

if [ "${1-}" = --help ] || [ "${1-}" = -h ]; then
  sed -n '2,/^set/{/^#/s/^# //p}' "$0"
  exit 0
fi

settings=()
if [ ! -e "$root/build/release/CMakeCache.txt" ] && [ ! -e /dev/nvidiactl ] && [ ! -e /dev/dxg ]; then
  settings=(-- -DLATHE_CUDA=OFF)
  echo "train: no GPU here, so this build leaves CUDA out (tools/build.sh release -- -DLATHE_CUDA=ON adds it)"
fi
"$root/tools/install_deps.sh" dataset-fashion-mnist
"$root/tools/build.sh" release lathe_cli ${settings[@]:+"${settings[@]}"}
[ $# -gt 0 ] || set -- --download
exec "$root/build/release/bin/lathe" train "$@"
