#!/usr/bin/env bash
# Makes all packages of a version from a clean checkout: Debian packages with their source, an archive and a wheel, and beside
# them the licences (NOTICE) and the list of parts (SPDX) of what archive and wheel carry, and SHA256SUMS.
#     tools/release.sh OUT        OUT is a new or empty folder
#     tools/release.sh --check    only tells whether this checkout can be released
#
# It refuses files that are not as in the commit, a version that CHANGELOG.md has no section for, and a version whose tag
# (v0.1.0) is at another commit. All packages hold one build, which computes on the CPU. It needs what
# `tools/install_deps.sh build-essential debhelper help2man lintian patchelf` installs.
# Two runs give equal bytes, in whatever folders, on systems with the same versions of all Debian packages.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

fail() {
  echo "release: $*" >&2
  exit 1
}

[ $# -eq 1 ] || fail "usage: tools/release.sh OUT|--check"
version=$(sed -n 's/^project(lathe VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")
changed=$(git -C "$root" status --porcelain)
[ -z "$changed" ] || fail "these files are not as in the last commit; commit or remove them:"$'\n'"$changed"
grep -q -E "^## ${version//./\\.}( |$)" "$root/CHANGELOG.md" ||
  fail "CHANGELOG.md has no section \"## $version\", the version of CMakeLists.txt; write it, or rename \"## Unreleased\""
commit=$(git -C "$root" rev-parse HEAD)
tagged=$(git -C "$root" rev-parse --quiet --verify "refs/tags/v$version^{commit}" || true)
[ -z "$tagged" ] || [ "$tagged" = "$commit" ] ||
  fail "v$version is the tag of ${tagged::12}, and this is ${commit::12}; raise the version, or check out v$version"
if [ "$1" = --check ]; then
  echo "release: $version can be released from ${commit::12}"
  exit 0
fi

mkdir -p "$1"
out=$(cd "$1" && pwd)
[ -z "$(ls -A "$out")" ] || fail "$out is not empty"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct)
export SOURCE_DATE_EPOCH LC_ALL=C.UTF-8 TZ=UTC

"$root/tools/packages/debian.sh" "$work/debian" "$work/prefix"
named=$(grep -r -l -F "$work/" "$work/prefix" || true)
[ -z "$named" ] || fail "these files name the folder that they were built in, so another one gives other bytes:"$'\n'"$named"
python3 -B "$root/tools/packages/archive.py" "$work/prefix" "$out"
python3 -B "$root/tools/packages/wheel.py" "$work/prefix" "$out"
# Not .changes and .buildinfo: they say when and where they were made.
mv "$work"/debian/*.deb "$work"/debian/*.dsc "$work"/debian/*.tar.* "$out"
tar -x -f "$out"/lathe-*.tar.gz -C "$out" --strip-components=3 --wildcards '*/share/lathe/NOTICE' '*/share/lathe/lathe.spdx.json'
mv "$out/lathe.spdx.json" "$out/lathe-$version.spdx.json"
(cd "$out" && sha256sum -- * >"$work/SHA256SUMS")
mv "$work/SHA256SUMS" "$out"
echo "release: $version from ${commit::12} is in $out; to publish it: git tag v$version $commit"
