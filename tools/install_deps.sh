#!/usr/bin/env bash
# Installs the Debian packages that building and testing Lathe needs, and those named as arguments.
# Quick when nothing is missing. Without root and without sudo it prints the one line to run and stops.
set -euo pipefail

packages=(
  g++ cmake ninja-build pkg-config python3   # tools; python3 drives the tests of the command
  libeigen3-dev libfmt-dev nlohmann-json3-dev doctest-dev
  libdnnl-dev zlib1g-dev libcurl4-openssl-dev libjpeg-dev libpng-dev libwebp-dev
  libgloo-dev
  "$@"
)

if ! command -v dpkg-query >/dev/null; then
  echo "install_deps: not a Debian system; CMake will name what is missing" >&2
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  as_root=(sudo)
  if ! command -v sudo >/dev/null || { [ ! -t 0 ] && ! sudo -n true 2>/dev/null; }; then
    echo "install_deps: root is needed to install packages; run: su -c 'apt-get install ${missing[*]}'" >&2
    exit 1
  fi
fi

echo "installing: ${missing[*]}"
install() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends "${missing[@]}" </dev/null
}
# A fresh machine has no package lists and an old one has stale lists, so fetch them before the first attempt.
"${as_root[@]}" apt-get update -q </dev/null || echo "install_deps: apt-get update failed; trying the lists at hand" >&2
if ! install; then
  echo "install_deps: apt-get could not install: ${missing[*]}" >&2
  exit 1
fi
