#!/usr/bin/env bash
# Installs the Debian package in a clean Debian with a JVM, profiles a program there, prints the report, attaches to a
# JVM of another user, and removes the package again: then nothing of it may be left. Then the archive from which the
# package was made, beside it, with README's commands. As root, on Debian: the clean one has this machine's release and
# mirror, and no build tools. It is kept in target/.
#
#   scripts/check-deb.sh PACKAGE.deb
#   scripts/check-deb.sh                a package of the release build of this tree
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

[ $# -le 1 ] || fail "usage: check-deb.sh [PACKAGE.deb]"
[ "$(id -u)" = 0 ] || fail "only root can install packages"
ensure mmdebstrap mmdebstrap || exit 1
release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
[ -n "$release" ] || fail "this is no Debian with a name"
ensure_jdk

mkdir -p target
work=$(mktemp -d "${TMPDIR:-/tmp}/check-deb.XXXXXX")
trap 'rm -rf "$work"' EXIT

# An archive of the release build, as scripts/release.sh makes them.
pack_build() {
    local version programs name program shell
    ensure_rust
    build_artifacts
    build_skywalking
    programs=${CARGO_TARGET_DIR:-target}/release
    version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
    name=tprofiler-$version
    install -d "$work/$name"/{man/man1,completions}
    cp "$programs"/{libtprofiler.so,tprofiler,tprofiler-skywalking,analyze,rewrite} README.md LICENSE-* "$work/$name"
    for program in tprofiler analyze; do
        "$programs/$program" --generate man >"$work/$name/man/man1/$program.1"
        for shell in bash zsh fish; do
            "$programs/$program" --generate "$shell" >"$work/$name/completions/$program.$shell"
        done
    done
    tar -czf "$work/$name-linux-x64.tar.gz" -C "$work" "$name"
    scripts/deb.sh "$work/$name-linux-x64.tar.gz"
    package=$(echo "$work"/*.deb)
}

# The mirrors of this machine, in one of the places where Debian has them.
sources() {
    local file
    for file in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
        [ ! -s "$file" ] || {
            echo "$file"
            return
        }
    done
}

# within COMMAND...: runs it in the clean Debian, whose processes end with it.
within() {
    unshare --mount --pid --fork --kill-child sh -c \
        'mount -t proc proc "$0/proc" && mount -t tmpfs tmp "$0/tmp" && exec chroot "$0" "$@"' "$work/root" "$@"
}

# All files but what dpkg writes itself.
files() { (cd "$work/root" && find . -path ./var/lib/dpkg -prune -o -path ./var/log -prune -o -print | sort); }

package=${1:-}
[ -z "$package" ] || [ -f "$package" ] || fail "$package is not there"
[ -n "$package" ] || pack_build
archive=$(basename "$package" | sed 's/_amd64\.deb$/-linux-x64.tar.gz/; s/^tprofiler_/tprofiler-/; s/~/-/')
[ -f "$(dirname "$package")/$archive" ] || fail "$archive is not beside the package"
clean=target/debian-$release.tar
if [ ! -f "$clean" ]; then
    say "making a clean Debian ($release)"
    # shellcheck disable=SC2046 # nothing, if the machine has no list
    mmdebstrap --quiet --format=tar --variant=minbase --include=openjdk-17-jre-headless \
        "$release" "$clean.new" $(sources) || fail "a clean Debian cannot be made here"
    mv "$clean.new" "$clean"
fi
mkdir "$work/root"
tar -xf "$clean" -C "$work/root"
cp "$package" "$work/root/root/tprofiler.deb"
"$JDK/bin/javac" --release 11 -nowarn -sourcepath test-classes/java -d "$work/root/opt/classes" \
    test-classes/java/sql/Frozen.java

files >"$work/before"
say "dpkg --install $(basename "$package")"
within dpkg --install /root/tprofiler.deb
within sh -euc '
    tprofiler --version
    tprofiler analyze --version
    cd /tmp
    echo "-- loaded at the start"
    java -agentpath:/usr/lib/tprofiler/libtprofiler.so=include=sql,logs=/tmp/logs -cp /opt/classes sql.Frozen 3
    tprofiler analyze /tmp/logs --top 3
    echo "-- attached to a JVM of another user"
    setpriv --reuid=nobody --regid=nogroup --clear-groups \
        java -cp /opt/classes sql.Frozen 20 &
    for _ in $(seq 50); do
        ! tprofiler list | grep sql.Frozen || break
        sleep 0.2
    done
    tprofiler list | grep -q sql.Frozen || { echo "no JVM is listed after 10 s"; exit 1; }
    mkdir --mode=1777 /tmp/attached
    tprofiler profile "$(pidof java)" -d 3s include=sql,logs=/tmp/attached
'
say "dpkg --purge tprofiler"
within dpkg --purge tprofiler
files >"$work/after"
diff "$work/before" "$work/after" || fail "the package leaves files behind"
say "nothing is left"
cp "$(dirname "$package")/$archive" "$work/root/root/"
within sh -euc '
    echo "-- the archive"
    cd /tmp
    tar -xf "/root/$1"
    folder=${1%-linux-x64.tar.gz}
    java -agentpath:$PWD/$folder/libtprofiler.so=include=sql,logs=/tmp/tprofiler -cp /opt/classes sql.Frozen 3
    $folder/analyze /tmp/tprofiler --top 3
' sh "$archive"
