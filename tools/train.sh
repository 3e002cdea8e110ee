#!/usr/bin/env bash
# Installs what is missing, builds the release and trains: `tools/train.sh [arguments of lathe train]`.
# Without arguments `lathe train` chooses a model and a data set that suit the machine, and fetches the set if need be.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

"$root/tools/install_deps.sh" dataset-fashion-mnist
"$root/tools/build.sh" release lathe_cli
[ $# -gt 0 ] || set -- --download
exec "$root/build/release/bin/lathe" train "$@"
