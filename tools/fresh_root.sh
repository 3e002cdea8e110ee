#!/usr/bin/env bash
# What a newcomer gets on another distribution: `tools/fresh_root.sh SUITE [command]`, SUITE one of bookworm (Debian 12),
# trixie (Debian 13) and noble (Ubuntu 24.04). Makes a root of that suite with nothing in it but git, ca-certificates and
# sudo, clones HEAD into it, and runs the command in the clone (without one, both of README's, twice), as a user who may sudo.
# Ends with the seconds and the number of warnings, which must be 0. Wants root and debootstrap.
#
#   ROOTS    where the roots go, and the output as SUITE.log    (/var/tmp/lathe-roots)
#   MIRROR   where packages come from                           (the first mirror of that distribution that apt uses here)
#   KEYRING  the keys that the mirror's index is signed with    (/usr/share/keyrings/DISTRIBUTION-archive-keyring.gpg)
#   CACHE    a folder for ccache, to build the second time in less: the one thing that a newcomer has not
#   FILES    a folder that is copied into the root, as ~/files: packages to try
#   KEEP=1   leave the used root where it is, to look around in
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

fail() {
  echo "fresh_root: $*" >&2
  exit 1
}

suite=${1:-}
case $suite in
  bookworm | trixie) distribution=debian script=sid components=main ;;
  noble) distribution=ubuntu script=gutsy components=main,universe ;;
  *) fail "usage: tools/fresh_root.sh bookworm|trixie|noble [command]" ;;
esac
shift
[ $# -gt 0 ] || set -- bash -c 'for round in 1 2; do tools/train.sh && tools/test.sh || exit; done'
[ "$(id -u)" -eq 0 ] || fail "root is needed to make another root; run: sudo tools/fresh_root.sh $suite"
command -v debootstrap >/dev/null || fail "debootstrap is not installed; run: apt-get install debootstrap"

roots=${ROOTS:-/var/tmp/lathe-roots}
base=$roots/$suite-base
root=$roots/$suite
log=$roots/$suite.log
keyring=${KEYRING:-/usr/share/keyrings/$distribution-archive-keyring.gpg}

# The first repository of the host's apt whose address ends as this distribution's do.
mirror_of_host() {
  apt-get indextargets --format "\$(REPO_URI)" 'Created-By: Packages' 2>/dev/null | sed -n "s|/*\$||; /\/$distribution\$/p" | head -n 1
}

# The host's way out: its proxies, and whether it believes in the dates of an index.
apt_settings() {
  apt-config dump 2>/dev/null | grep -E '^Acquire::(https?::Proxy|Check-Valid-Until|Check-Date)' || true
}

make_base() {
  local mirror=${MIRROR:-$(mirror_of_host)}
  [ -n "$mirror" ] || fail "the host's apt names no mirror of $distribution; set MIRROR to the address of one"
  [ -r "$keyring" ] || fail "$suite cannot be checked without $keyring; install the package that holds it, or set KEYRING"
  echo "fresh_root: making $suite from $mirror"
  rm -rf "$base.new"
  debootstrap --variant=minbase --components="$components" --include=ca-certificates,git,sudo --keyring="$keyring" \
    "$suite" "$base.new" "$mirror" "/usr/share/debootstrap/scripts/$script" >"$log" 2>&1 ||
    fail "$suite cannot be had from $mirror: $(grep '^E: ' "$log" | tail -n 1)"
  apt_settings >"$base.new/etc/apt/apt.conf.d/90host"
  chroot "$base.new" useradd --create-home --shell /bin/bash newcomer
  echo 'newcomer ALL=(ALL) NOPASSWD: ALL' >"$base.new/etc/sudoers.d/newcomer"
  mv "$base.new" "$base"
}

# Only this namespace sees the mounts, so that nothing of the host is in the root when it is removed.
run_inside() {
  CACHE=${CACHE:+$(realpath -m "$CACHE")} unshare --mount --pid --fork --kill-child bash -s -- "$root" "$@" <<'INSIDE'
    set -e
    root=$1
    shift
    mount -t proc proc "$root/proc"
    mount --rbind --make-rslave /sys "$root/sys"
    mount --rbind --make-rslave /dev "$root/dev"
    if [ -n "$CACHE" ]; then
      mkdir -p "$CACHE" "$root/ccache"
      mount --bind "$CACHE" "$root/ccache"
      chroot "$root" sh -c 'apt-get update -q && apt-get install -y -q --no-install-recommends ccache && chown newcomer /ccache'
    fi
    export CCACHE_DIR=/ccache CCACHE_BASEDIR=/
    kept=http_proxy,https_proxy,no_proxy,CMAKE_BUILD_PARALLEL_LEVEL,CTEST_PARALLEL_LEVEL,CCACHE_DIR,CCACHE_BASEDIR
    exec chroot "$root" su newcomer --login --whitelist-environment="$kept" -c 'cd lathe && exec "$@"' -- newcomer "$@" </dev/null
INSIDE
}

mkdir -p "$roots"
[ -d "$base" ] || make_base
rm -rf "$root"
[ "${KEEP:-}" = 1 ] || trap 'rm -rf --one-file-system "$root"' EXIT
cp -a --reflink=auto "$base" "$root"
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
git clone --quiet --no-hardlinks "file://$top" "$root/home/newcomer/lathe"
[ -z "${FILES:-}" ] || cp -r "$FILES" "$root/home/newcomer/files"
chroot "$root" chown -R newcomer: /home/newcomer

echo "fresh_root: $suite: $*"
status=0
SECONDS=0
run_inside "$@" 2>&1 | tee "$log" || status=$?
warnings=$(grep -c -E ': warning: |CMake .*Warning' "$log" || true)
echo "fresh_root: $suite: exit code $status after $SECONDS s, $warnings warnings; $log"
[ $status -eq 0 ] && [ "$warnings" -eq 0 ]
