#!/usr/bin/env bash
# Makes Debian packages of release archives, beside them: the same files as in the archives, which run on any
# distribution. The same archive gives the same package, byte by byte. dpkg-deb does it: cargo-deb would build for
# this machine's C library, and one package of several programs of a workspace needs all its lists anyway.
#
#   scripts/deb.sh target/release-files/tprofiler-0.2.0-linux-{x64,arm64}.tar.gz
#
# Everything is in /usr/lib/tprofiler, where the programs find each other; /usr/bin has links. `analyze` and `rewrite`
# get none: other packages may have such names. `tprofiler analyze` runs it.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

[ $# -gt 0 ] || fail "usage: deb.sh ARCHIVE..."
ensure dpkg-deb dpkg || exit 1
ensure readelf binutils || exit 1

# depends FILE...: the packages with the libraries that the files need, and the oldest C library.
depends() {
    local library glibc packages
    glibc=$(readelf --version-info --wide "$@" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1)
    packages="libc6 (>= ${glibc#GLIBC_})"
    for library in $(readelf --dynamic --wide "$@" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort -u); do
        case $library in
            libc.so.6 | libm.so.6 | libdl.so.2 | librt.so.1 | libpthread.so.0 | libutil.so.1 | ld-linux*) ;;
            libgcc_s.so.1) packages+=", libgcc-s1" ;;
            *) fail "no package is known for $library" ;;
        esac
    done
    printf '%s\n' "$packages"
}

# pages FOLDER: the manual pages of an unpacked archive. That of `analyze` gets a name that is only ours.
pages() {
    local page name
    install -d "$root/usr/share/man/man1"
    for page in "$1"/man/man1/*.1; do
        name=$(basename "$page")
        [ "$name" != rewrite.1 ] || continue
        [ "$name" != analyze.1 ] || name=tprofiler-analyze.1
        gzip -n9 <"$page" >"$root/usr/share/man/man1/$name.gz"
    done
}

# completions FOLDER: those of the program that users type.
completions() {
    local share=$root/usr/share
    [ -f "$1/completions/tprofiler.bash" ] || return 0
    install -D -m 644 "$1/completions/tprofiler.bash" "$share/bash-completion/completions/tprofiler"
    install -D -m 644 "$1/completions/tprofiler.zsh" "$share/zsh/vendor-completions/_tprofiler"
    install -D -m 644 "$1/completions/tprofiler.fish" "$share/fish/vendor_completions.d/tprofiler.fish"
}

# package ARCHIVE
package() {
    local name version debian_version architecture files root doc depends
    name=$(basename "$1")
    [[ "$name" =~ ^tprofiler-(.+)-linux-(x64|arm64)\.tar\.gz$ ]] ||
        fail "$1: not a name like tprofiler-0.2.0-linux-x64.tar.gz"
    [ -f "$1" ] || fail "$1 is not there"
    version=${BASH_REMATCH[1]}
    # A release candidate is older than its release.
    debian_version=${version/-/'~'}
    architecture=${BASH_REMATCH[2]/x64/amd64}
    tar -xzf "$1" -C "$work" 2>/dev/null || fail "$1 is no whole archive"
    files=$work/tprofiler-$version
    [ -d "$files" ] || fail "$1 has no folder tprofiler-$version"
    root=$work/root
    doc=$root/usr/share/doc/tprofiler
    install -d "$root/DEBIAN" "$root/usr/bin" "$root/usr/lib/tprofiler" "$doc/examples"
    install -m 644 "$files/libtprofiler.so" "$root/usr/lib/tprofiler"
    install -m 755 "$files"/{tprofiler,tprofiler-skywalking,analyze,rewrite} "$root/usr/lib/tprofiler"
    ln -s ../lib/tprofiler/tprofiler ../lib/tprofiler/tprofiler-skywalking "$root/usr/bin"
    pages "$files"
    completions "$files"
    install -m 644 "$files/README.md" "$files"/LICENSE* deploy/debian/copyright "$doc"
    [ ! -d "$files/docs" ] || cp -r "$files/docs" "$files/maven" "$doc"
    cp -r deploy/systemd/tomcat10.service.d "$doc/examples"
    depends=$(depends "$root"/usr/lib/tprofiler/*)
    cat >"$root/DEBIAN/control" <<CONTROL
Package: tprofiler
Version: $debian_version
Architecture: $architecture
Maintainer: The tprofiler developers <tprofiler@localhost>
Depends: $depends
Section: java
Priority: optional
Installed-Size: $(du -sk --apparent-size "$root/usr" | cut -f1)
Description: method profiler for JVM services that can stay on in production
 It counts every call of the methods that it instruments, records slow calls with
 their callers, and reports which methods cost the time, hour by hour: CPU time,
 waits, locks, exceptions, SQL and allocations.
 .
 Load /usr/lib/tprofiler/libtprofiler.so with -agentpath, or attach it to a running
 JVM with "tprofiler attach"; "tprofiler analyze" prints the report.
CONTROL
    (cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
    # Modes and times must not depend on this machine's umask and clock.
    chmod -R u=rwX,go=rX "$root"
    SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(stat -c %Y "$files/libtprofiler.so")}
    export SOURCE_DATE_EPOCH
    find "$root" -print0 | xargs -0 touch --no-dereference --date="@$SOURCE_DATE_EPOCH"
    dpkg-deb --root-owner-group -Zxz --build "$root" "$work/package.deb" >/dev/null
    mv "$work/package.deb" "$(dirname "$1")/tprofiler_${debian_version}_$architecture.deb"
    say "$(dirname "$1")/tprofiler_${debian_version}_$architecture.deb"
}

mkdir -p target
for archive; do
    work=$(mktemp -d target/deb.XXXXXX)
    trap 'rm -rf "$work"' EXIT
    # A time for all archives would be that of the first one.
    (package "$archive")
    rm -rf "$work"
done
