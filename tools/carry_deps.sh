#!/usr/bin/env bash
# Collects the headers that Lathe is compiled with into .deps/ (which git ignores), for a machine that has a compiler and
# CUDA but cannot install packages: copy the tree with .deps/ there, and CMake takes what it does not find from it.
#     tools/carry_deps.sh [FOLDER with the headers; default: /usr/include]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
from=${1:-/usr/include}
to=$root/.deps/include

rm -rf "$root/.deps"
mkdir -p "$to"
for part in eigen3/Eigen doctest fmt nlohmann; do
  if [ ! -e "$from/$part" ]; then
    echo "carry_deps: $from/$part is not there (packages: libeigen3-dev doctest-dev libfmt-dev nlohmann-json3-dev)" >&2
    exit 1
  fi
  mkdir -p "$to/$(dirname "$part")"
  cp -r "$from/$part" "$to/$part"
done
echo ".deps/: $(du -sh "$root/.deps" | cut -f1) of headers"
