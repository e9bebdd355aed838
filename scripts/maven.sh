#!/usr/bin/env bash
# Builds tprofiler-agent.jar with its POM, sources and javadoc, and puts them into a local Maven repository:
#
#     scripts/maven.sh [--library PLATFORM=FILE]... [--bundle FILE] [REPOSITORY]
#
# PLATFORM is linux-x64 or linux-arm64; FILE is a libtprofiler.so, or an archive .tar.gz that has one. Without
# --library, the jar has the release build for this machine. REPOSITORY is target/maven unless given. --bundle also
# writes what can be uploaded to Maven Central. With TPROFILER_GPG_KEY, that key of gpg signs the files. The time in the
# jars is SOURCE_DATE_EPOCH, or else that of the last commit.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

platforms=(linux-x64 linux-arm64)
declare -A libraries=()
bundle=
repository=
while [ $# -gt 0 ]; do
    case $1 in
    --library)
        [[ ${2:-} == *=* ]] || fail "--library needs PLATFORM=FILE"
        [[ " ${platforms[*]} " == *" ${2%%=*} "* ]] || fail "unknown platform ${2%%=*}; use ${platforms[*]}"
        [ -f "${2#*=}" ] || fail "${2#*=} is not there"
        libraries[${2%%=*}]=${2#*=}
        shift
        ;;
    --bundle)
        [ -n "${2:-}" ] || fail "--bundle needs a file"
        bundle=$(realpath -m "$2")
        [ -d "$(dirname "$bundle")" ] || fail "$(dirname "$bundle") is not there"
        shift
        ;;
    -*) fail "unknown option $1; use --library or --bundle" ;;
    *)
        [ -z "$repository" ] || fail "one repository only, not also $1"
        repository=$1
        ;;
    esac
    shift
done
repository=$(realpath -m "${repository:-target/maven}")

ensure_jdk
if [ ${#libraries[@]} = 0 ]; then
    case $(uname -m) in
    x86_64) platform=linux-x64 ;;
    aarch64) platform=linux-arm64 ;;
    *) fail "no platform for $(uname -m); give --library" ;;
    esac
    ensure_rust
    build_artifacts
    libraries[$platform]=${CARGO_TARGET_DIR:-target}/release/libtprofiler.so
fi

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
group=io/github/tprofiler
name=tprofiler-agent-$version
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
date=$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ 2>/dev/null) || fail "SOURCE_DATE_EPOCH=$epoch: not seconds"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# make_jar FILE FOLDER [OPTION...]: the same files always give the same jar.
make_jar() {
    local file=$1 folder=$2
    shift 2
    (cd "$folder" && find . -type f | sed 's|^\./||' | LC_ALL=C sort >"$work/files")
    (cd "$folder" && "$JDK/bin/jar" --create --date "$date" --file "$file" "$@" "@$work/files")
}

# unpack FILE TARGET: the library, of an archive too.
unpack() {
    case $1 in
    *.tar.gz) tar -xzOf "$1" --wildcards '*/libtprofiler.so' >"$2" || fail "$1 has no libtprofiler.so" ;;
    *) cp "$1" "$2" ;;
    esac
}

# check_machine PLATFORM FILE: ELF says for which machine a library is.
check_machine() {
    local machine
    machine=$(head -c 20 "$2" | od -An -tx1 | tr -d ' \n')
    case $1-${machine:0:8}-${machine:36:4} in
    linux-x64-7f454c46-3e00 | linux-arm64-7f454c46-b700) ;;
    *) fail "${libraries[$1]}: not a library for $1" ;;
    esac
}

say "building $name.jar for ${!libraries[*]}"
out=$work/repository/$group/tprofiler-agent/$version
mkdir -p "$work/classes/META-INF" "$work/sources/META-INF" "$out"
cp LICENSE-APACHE LICENSE-MIT "$work/classes/META-INF"
cp LICENSE-APACHE LICENSE-MIT "$work/sources/META-INF"
cp -r maven/java/. "$work/sources"
"$JDK/bin/javac" --release 8 -Xlint:all,-options -Werror -d "$work/classes" "maven/java/$group"/*.java
for platform in "${!libraries[@]}"; do
    folder=$work/classes/$group/$platform
    mkdir "$folder"
    unpack "${libraries[$platform]}" "$folder/libtprofiler.so"
    check_machine "$platform" "$folder/libtprofiler.so"
    sha256sum <"$folder/libtprofiler.so" | cut -c 1-64 | tr -d '\n' >"$folder/libtprofiler.so.sha256"
done
{
    cat maven/MANIFEST.MF
    printf 'Implementation-Version: %s\n' "$version"
} >"$work/manifest"
"$JDK/bin/javadoc" -quiet -notimestamp -public -Xdoclint:all -Werror -encoding UTF-8 --release 8 \
    -windowtitle "tprofiler agent $version" -d "$work/javadoc" "maven/java/$group"/*.java >"$work/javadoc.log" 2>&1 ||
    fail "javadoc: $(cat "$work/javadoc.log")"

make_jar "$out/$name.jar" "$work/classes" --manifest "$work/manifest"
make_jar "$out/$name-sources.jar" "$work/sources"
make_jar "$out/$name-javadoc.jar" "$work/javadoc"
sed "s/@VERSION@/$version/" maven/pom.xml >"$out/$name.pom"

[ -n "${TPROFILER_GPG_KEY:-}" ] || say "not signed: TPROFILER_GPG_KEY names no key"
for file in "$out"/*.{jar,pom}; do
    [ -z "${TPROFILER_GPG_KEY:-}" ] ||
        gpg --batch --yes --quiet --local-user "$TPROFILER_GPG_KEY" --armor --detach-sign "$file" ||
        fail "gpg does not sign with the key $TPROFILER_GPG_KEY"
    for sum in md5 sha1 sha256 sha512; do
        "${sum}sum" <"$file" | cut -d ' ' -f 1 | tr -d '\n' >"$file.$sum"
    done
done

if [ -n "$bundle" ]; then
    rm -f "$bundle"
    make_jar "$bundle" "$work/repository" --no-manifest
    say "for Maven Central: $bundle"
fi
place=$repository/$group/tprofiler-agent
mkdir -p "$place"
rm -rf "${place:?}/$version"
cp -r "$out" "$place/"
say "installed $place/$version/$name.jar"
