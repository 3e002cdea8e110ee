#!/usr/bin/env bash
# Tries a package of Lathe where nothing else of Lathe is: installs it as docs/install.md says, trains like tools/train.sh, and runs
# README's program. For an empty system, OUT being a folder with the packages:
#     FILES=OUT tools/fresh_root.sh bookworm tools/packages/try.sh wheel|debian|archive
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
packages=$HOME/files
way=${1:?usage: tools/packages/try.sh wheel|debian|archive}
cd "$(mktemp -d)"

# shellcheck disable=SC2024  # the log is the user's
install() {
  sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q "$@" </dev/null >apt.log 2>&1 || { tail -20 apt.log >&2; exit 1; }
}

sudo apt-get update -q >/dev/null
install --no-install-recommends dataset-fashion-mnist
case $way in
  wheel)
    install --no-install-recommends python3-venv
    python3 -m venv env
    env/bin/pip install --quiet "$packages"/lathe-*.whl
    export PATH=$PWD/env/bin:$PATH
    ;;
  debian)
    install "$packages"/lathe_*.deb "$packages"/liblathe*.deb
    install --no-install-recommends g++ pkg-config
    ;;
  archive)
    tar -xf "$packages"/lathe-*.tar.gz
    mv lathe-*/ moved
    install --no-install-recommends g++ cmake make
    export PATH=$PWD/moved/bin:$PATH
    ;;
esac

lathe --version
lathe train

case $way in
  wheel) python3 "$root/examples/c/reaction.py" "$(python -c 'import lathe; print(lathe.library_path())')" "$root/examples/c/reaction.pt2" ;;
  debian)
    # shellcheck disable=SC2046
    g++ -std=c++20 "$root/examples/quickstart.cpp" $(pkg-config --cflags --libs lathe) -o quickstart
    ./quickstart
    ;;
  archive)
    cp "$root/examples/quickstart.cpp" .
    cat >CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.25)
project(app LANGUAGES CXX)
find_package(lathe CONFIG REQUIRED)
add_executable(app quickstart.cpp)
target_link_libraries(app PRIVATE lathe::lathe)
END
    cmake -S . -B build -DCMAKE_PREFIX_PATH="$PWD/moved" >cmake.log
    cmake --build build
    build/app
    ;;
esac
echo "try: $way works"
