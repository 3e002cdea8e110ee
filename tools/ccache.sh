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

"$@"
output='' dependencies=''
while [ $# -gt 1 ]; do
  case $1 in
    -o) output=$2 ;;
    -MF) dependencies=$2 ;;
  esac
  shift
done
# "target: file file \". All but the target, and but CMake's own files, which name the others with the clone's path.
rm -f "$output.sum"
if files=$(tr -s ' \\\n' '\n' <"$dependencies" | grep -v -e ':$' -e cmake_pch -e '^$'); then
  sum=$(xargs -d '\n' cat <<<"$files" | sha256sum) && echo "$sum" >"$output.sum"
fi
