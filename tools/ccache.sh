#!/usr/bin/env bash
# Runs a compiler through ccache, with precompiled headers: the compiler launcher of tools/build.sh.
#
# A precompiled header names the files of its clone, so ccache must not hand one out to another clone: it is always made anew.
# What is compiled with it may come from another clone, if both headers are made of the same files. Their checksum stands
# in a file of the name that ccache looks for (pch_external_checksum).
set -euo pipefail
export CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_PCH_EXTSUM=1

is_header() {
  local argument
  for argument in "$@"; do
    [ "$argument" != c++-header ] || return 0
  done
  return 1
}
is_header "$@" || exec ccache "$@"

command=("$@") output='' dependencies=''
while [ $# -gt 1 ]; do
  case $1 in
    -o) output=$2 ;;
    -MF) dependencies=$2 ;;
  esac
  shift
done
# A checksum of other files than the header is made of would hand out wrong objects, to other clones too. Where there is
# none ccache reads the precompiled header itself: so the old one goes first, and there is no new one in doubt.
rm -f "$output.sum"
begin=$output.begin
trap 'rm -f "$begin"' EXIT  # also when the compiler fails
touch "$begin"
"${command[@]}"

# Whether a file was written after the compiler began, which may have read it before.
is_changed() {
  local file
  while IFS= read -r file; do
    [ ! "$file" -nt "$begin" ] || return 0
  done <<<"$files"
  return 1
}
# "target: file file \". All but the target, and but CMake's own files, which name the others with the clone's path. Names
# with spaces are not found whole, and then there is no checksum.
if files=$(tr -s ' \\\n' '\n' <"$dependencies" | grep -v -e ':$' -e cmake_pch -e '^$') &&
  sum=$(xargs -d '\n' cat <<<"$files" 2>/dev/null | sha256sum) && ! is_changed; then
  echo "$sum" >"$output.sum"
fi
