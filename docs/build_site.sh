#!/usr/bin/env bash
# Makes the site of the documentation in build/site/site: `docs/build_site.sh`. Any web server can give it out; it asks for nothing from
# elsewhere. A dead link or a missing page is an error. Needs Python with venv, and PyPI for MkDocs.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=$root/build/site

if ! [ -x "$out/venv/bin/mkdocs" ]; then
  python3 -m venv "$out/venv"
  "$out/venv/bin/pip" install --quiet mkdocs==1.6.1 mkdocs-material==9.8.2
fi
python3 "$root/docs/site/make_pages.py" "$root" "$out/pages"
cp "$root/docs/site/mkdocs.yml" "$out/mkdocs.yml"
# Not --quiet: that also hides, and forgives, what is strict about.
if ! NO_MKDOCS_2_WARNING=1 "$out/venv/bin/mkdocs" build --strict --config-file "$out/mkdocs.yml" >"$out/log.txt" 2>&1; then
  grep -E "WARNING|ERROR|Aborted" "$out/log.txt" || cat "$out/log.txt"
  exit 1
fi
echo "$out/site/index.html"
