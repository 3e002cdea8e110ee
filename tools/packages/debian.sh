#!/usr/bin/env bash
# Makes Debian packages of the last commit: source, liblathe0.1, liblathe-dev and lathe. Ends with lintian's judgement.
#     tools/packages/debian.sh OUT
# The system must have lintian and the Build-Depends of debian/control; `tools/install_deps.sh debhelper lintian` installs all.
# DEB_BUILD_OPTIONS and the variables of dpkg-buildflags(1) work as for any Debian package.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
mkdir -p "${1:?usage: tools/packages/debian.sh OUT}"
out=$(cd "$1" && pwd)

version=$(sed -n 's/^project(lathe VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")
tree=$out/lathe-$version
rm -rf "$tree"
git -C "$root" archive --prefix="lathe-$version/" HEAD | gzip -n >"$out/lathe_$version.orig.tar.gz"
tar -xf "$out/lathe_$version.orig.tar.gz" -C "$out"
cp -r "$root/tools/packages/debian" "$tree/debian"
cat >"$tree/debian/changelog" <<END
lathe ($version-1) unstable; urgency=medium

  * Packaged from the commit $(git -C "$root" rev-parse --short=12 HEAD).

 -- The Lathe authors <lathe@localhost>  $(git -C "$root" log -1 --format=%cD)
END
(cd "$tree" && dpkg-buildpackage -us -uc >"$out/build.log" 2>&1) || { tail -30 "$out/build.log" >&2; exit 1; }
rm -rf "$tree"
ls -l "$out"/*.deb
# Tags of an upload to Debian, which nobody has made: it needs a maintainer's address and a bug that asks for it.
lintian --fail-on error,warning --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog,initial-upload-closes-no-bugs "$out"/*.changes
