#!/usr/bin/env bash
# Makes Debian packages of the last commit: source, liblathe0.1, liblathe-dev and lathe. Ends with lintian's judgement.
#     tools/packages/debian.sh OUT [PREFIX]
# Installs the same build to PREFIX, too, if that is given: as archive.py and wheel.py want it, with the libraries in PREFIX/lib.
# It needs what `tools/install_deps.sh build-essential debhelper help2man lintian` installs.
# DEB_BUILD_OPTIONS and the variables of dpkg-buildflags(1) work as for any Debian package.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
mkdir -p "${1:?usage: tools/packages/debian.sh OUT [PREFIX]}"
out=$(cd "$1" && pwd)
prefix=${2:+$(realpath -m "$2")}
umask 022  # files of the source package carry their modes

version=$(sed -n 's/^project(lathe VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")
tree=$out/lathe-$version
rm -rf "$tree"
git -C "$root" archive --prefix="lathe-$version/" HEAD | gzip -n >"$out/lathe_$version.orig.tar.gz"
tar -x --no-same-permissions -f "$out/lathe_$version.orig.tar.gz" -C "$out"
cp -r "$tree/tools/packages/debian" "$tree/debian"
cat >"$tree/debian/changelog" <<END
lathe ($version-1) unstable; urgency=medium

  * Packaged from the commit $(git -C "$root" rev-parse --short=12 HEAD).

 -- The Lathe authors <lathe@localhost>  $(git -C "$root" log -1 --format=%cD)
END
run() { "$@" >>"$out/build.log" 2>&1 || { tail -30 "$out/build.log" >&2; exit 1; }; }
: >"$out/build.log"
(cd "$tree" && run dpkg-buildpackage -us -uc)
if [ -n "$prefix" ]; then
  run cmake -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_SKIP_RPATH=OFF "$tree/debian/build"  # links again, compiles nothing
  run cmake --build "$tree/debian/build"
  run cmake --install "$tree/debian/build" --prefix "$prefix"
fi
rm -rf "$tree"
ls -l "$out"/*.deb
# Tags of an upload to Debian, which nobody has made: it needs a maintainer's address and a bug that asks for it.
lintian --fail-on error,warning --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog,initial-upload-closes-no-bugs "$out"/*.changes
