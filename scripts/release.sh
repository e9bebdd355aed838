#!/usr/bin/env bash
# Builds the files of a release for x86-64 and arm64 Linux with glibc 2.17 or newer, into target/release-files:
# archives, their debug information in archives apart, an SBOM (CycloneDX) of each crate, Debian packages,
# tprofiler-agent.jar with the libraries of both and what Maven Central takes, and SHA256SUMS.
#
#   scripts/release.sh              both
#   scripts/release.sh x64          one: x64 or arm64
#   MINISIGN_KEY=FILE scripts/release.sh         signs SHA256SUMS
#   CARGO_PROFILE_RELEASE_LTO=off scripts/release.sh    a faster build, to try the script
#
# The files depend on the commit only, not on the folder or the time; but the debug information also on the folder, and
# arm64 code, rarely, on LLVM: a function of `analyze` once had its instructions in another order.
# `addr2line -e libtprofiler.so.debug ADDRESS` reads it. Without git, set SOURCE_DATE_EPOCH and
# TPROFILER_COMMIT. CONTRIBUTING.md says how keys are made and kept.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

machines=${1:-x64 arm64}
[ $# -le 1 ] || fail "usage: release.sh [x64|arm64]"
case $machines in "x64 arm64" | x64 | arm64) ;; *) fail "usage: release.sh [x64|arm64]" ;; esac
case $(uname -m) in aarch64) host=arm64 ;; *) host=x64 ;; esac
case $machines in *$host*) ;; *) fail "manual pages need programs that run here: build $host too" ;; esac
[ -z "${MINISIGN_KEY:-}" ] || [ -f "$MINISIGN_KEY" ] || fail "MINISIGN_KEY=$MINISIGN_KEY: no such file"
packages="runtime-agent analyzer rewriter skywalking"
programs="tprofiler tprofiler-skywalking analyze rewrite"
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
name=tprofiler-$version
out=$PWD/target/release-files
built=${CARGO_TARGET_DIR:-$PWD/target}

# What the files depend on.
export LC_ALL=C TZ=UTC
umask 022
if git rev-parse HEAD >/dev/null 2>&1; then
    : "${TPROFILER_COMMIT:=$(git rev-parse --short=12 HEAD)$(git diff --quiet HEAD || echo ' and changes')}"
    : "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct)}"
fi
[ -n "${SOURCE_DATE_EPOCH:-}" ] || fail "there is no git repository: set SOURCE_DATE_EPOCH (and TPROFILER_COMMIT)"
export SOURCE_DATE_EPOCH TPROFILER_COMMIT="${TPROFILER_COMMIT:-}"
case $TPROFILER_COMMIT in *changes) say "WARNING: there are uncommitted changes" ;; esac

triple() { case $1 in x64) echo x86_64-linux-gnu ;; arm64) echo aarch64-linux-gnu ;; esac; }
target() { triple "$1" | sed 's/-/-unknown-/'; }

install_tools() {
    ensure_rust
    ensure python3 python3 || exit 1
    local tools=target/tools/release machine
    if ! cmp -s scripts/release-tools.txt "$tools/release-tools.txt"; then
        rm -rf "$tools"
        mkdir -p target/tools
        python3 -c 'import ensurepip' 2>/dev/null || install_package python3-venv || true
        python3 -m venv "$tools" || fail "no venv: install the Debian package python3-venv"
        "$tools/bin/pip" install --quiet --disable-pip-version-check --only-binary=:all: --require-hashes \
            -r scripts/release-tools.txt || fail "cargo-zigbuild and ziglang cannot be fetched from PyPI"
        cp scripts/release-tools.txt "$tools/"
    fi
    export PATH="$PWD/$tools/bin:$PWD/target/tools/bin:$PATH"
    export ZIG_GLOBAL_CACHE_DIR="$PWD/target/tools/zig-cache"
    export CARGO_ZIGBUILD_CACHE_DIR="$PWD/target/tools/zigbuild-cache"
    if [ ! -x target/tools/bin/cargo-cyclonedx ]; then
        say "building cargo-cyclonedx"
        env -u CARGO_TARGET_DIR cargo install --quiet --locked --version 0.5.9 --root target/tools cargo-cyclonedx ||
            fail "cargo-cyclonedx cannot be built"
    fi
    for machine in $machines; do
        ensure "$(triple "$machine")-objcopy" "binutils-$(triple "$machine" | sed 's/_/-/g')" || exit 1
        rustup target add "$(target "$machine")" 2>/dev/null || true
    done
}

# build MACHINE: the programs, with the paths of this machine replaced.
build() {
    local machine=$1 cargo_home=${CARGO_HOME:-$HOME/.cargo} flags= from prefix package
    # The last one that matches counts.
    for prefix in "$(rustc --print sysroot)=/rust" "$cargo_home=/cargo" "$PWD=/$name" "$built=/target"; do
        flags+=${flags:+$'\x1f'}--remap-path-prefix=$prefix
    done
    shift
    for package in $packages; do set -- "$@" -p "$package"; done
    # The C code of crates.
    from="-ffile-prefix-map=$cargo_home=/cargo -ffile-prefix-map=$PWD=/$name"
    CARGO_ENCODED_RUSTFLAGS=$flags CFLAGS=$from CXXFLAGS=$from \
        CARGO_PROFILE_RELEASE_STRIP=none CARGO_PROFILE_RELEASE_DEBUG=line-tables-only \
        cargo zigbuild --locked --release --quiet --target "$(target "$machine").2.17" "$@"
}

# split MACHINE FILE FOLDER DEBUG: the file in FOLDER without debug information, which goes to DEBUG. The file has no
# link to it, which would be its checksum: zig's own C files put the working folder into it.
split() {
    local objcopy file debug
    objcopy=$(triple "$1")-objcopy
    file=$3/$(basename "$2")
    debug=$4/$(basename "$2").debug
    install -m 755 "$2" "$file"
    "$objcopy" --only-keep-debug "$file" "$debug"
    chmod 644 "$debug"
    "$objcopy" --strip-debug "$file"
}

# archive NAME FOLDER: the folder as NAME.tar.gz.
archive() {
    tar -C "$(dirname "$2")" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
        --format=gnu -cf - "$(basename "$2")" | gzip -n -9 >"$out/$1.tar.gz"
}

# pages FOLDER BIN: manual pages and completions, the same for all machines, written by programs that run here.
pages() {
    local program shell
    mkdir -p "$1/man/man1" "$1"/completions
    for program in $programs; do
        "$2/$program" --generate man >"$1/man/man1/$program.1"
        # This program runs as `tprofiler skywalking`.
        [ "$program" != tprofiler-skywalking ] || continue
        for shell in bash zsh fish; do
            "$2/$program" --generate "$shell" >"$1/completions/$program.$shell"
        done
    done
}

# pack MACHINE PAGES
pack() {
    local machine=$1 bin work program loader
    bin=$built/$(target "$machine")/release
    work=$out/work/$machine
    mkdir -p "$work/$name" "$work/$name-debug"
    for program in libtprofiler.so $programs; do
        split "$machine" "$bin/$program" "$work/$name" "$work/$name-debug"
    done
    # musl has no file of the loader's name, and does its part itself.
    for program in "$work/$name"/*; do
        for loader in $(patchelf --print-needed "$program" | sed -n '/^ld-linux/p'); do
            patchelf --remove-needed "$loader" "$program"
        done
    done
    chmod 644 "$work/$name/libtprofiler.so"
    cp -r "$2"/* LICENSE-APACHE LICENSE-MIT docs deploy "$work/$name/"
    # Who has the archive need not build it.
    sed '/^## Build it$/,/^## Your own/{/^## Your own/!d}' README.md >"$work/$name/README.md"
    install -D -m 644 maven/README.md "$work/$name/maven/README.md"
    python3 scripts/licences.py "$(target "$machine")" $packages >"$work/$name/LICENSES-THIRD-PARTY"
    cp "$work/$name"/LICENSE* "$work/$name-debug/"
    archive "$name-linux-$machine" "$work/$name"
    archive "$name-linux-$machine-debug" "$work/$name-debug"
}

# The parts of which each crate's programs consist. cargo-cyclonedx writes a file next to each crate of the workspace.
boms() {
    local package
    cargo cyclonedx --quiet --format json --spec-version 1.5 --target "$(target x64)" --override-filename release-bom
    for package in $packages; do
        sed "s|$PWD|/$name|g" "$package/release-bom.json" >"$out/$name-$package.cdx.json"
    done
    find . -name release-bom.json -not -path './target/*' -delete
}

install_tools
rm -rf "$out"
mkdir -p "$out/work"
for machine in $machines; do
    say "building for $machine"
    build "$machine"
done
pages "$out/work/pages" "$built/$(target "$host")/release"
for machine in $machines; do
    pack "$machine" "$out/work/pages"
done
boms
say "packages"
libraries=()
for machine in $machines; do
    archive=$out/$name-linux-$machine.tar.gz
    scripts/deb.sh "$archive"
    libraries+=(--library "linux-$machine=$archive")
done
scripts/maven.sh "${libraries[@]}" --bundle "$out/$name-maven-central.zip" "$out/work/maven"
cp "$out/work/maven/io/github/tprofiler/tprofiler-agent/$version/tprofiler-agent-$version.jar" "$out"
rm -rf "$out/work"
(cd "$out" && sha256sum -- * >../SHA256SUMS && mv ../SHA256SUMS .)
if [ -n "${MINISIGN_KEY:-}" ]; then
    ensure minisign minisign || exit 1
    # A comment of ours: minisign's has the time.
    minisign -S -s "$MINISIGN_KEY" -m "$out/SHA256SUMS" -t "tprofiler $version" >/dev/null
else
    say "not signed: MINISIGN_KEY is not set"
fi
ls -l "$out" | awk 'NR > 1 { printf "%10d  %s\n", $5, $9 }'
