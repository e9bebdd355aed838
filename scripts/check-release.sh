#!/usr/bin/env bash
# Checks the files of scripts/release.sh as users get them: sums, the glibc that they ask for, paths of this machine,
# versions, completions; the library is loaded with musl, and by each Java runtime from 11 on; `analyze` reads the logs.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

out=target/release-files
[ $# = 0 ] || fail "usage: check-release.sh"
[ -f "$out/SHA256SUMS" ] || fail "$out is empty: run scripts/release.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ensure_jdk
ensure_rust
ensure readelf binutils
ensure dpkg-deb dpkg
(cd "$out" && sha256sum --quiet --strict --check SHA256SUMS) || fail "wrong sums"
listed=$(sed 's/^[0-9a-f]* [ *]//' "$out/SHA256SUMS" | sort)
there=$(ls "$out" | grep -v '^SHA256SUMS' | sort)
[ "$listed" = "$there" ] || fail "SHA256SUMS does not list the files that are there: $(diff <(echo "$listed") <(echo "$there"))"
if [ -f "$out/SHA256SUMS.minisig" ]; then
    [ -f "${MINISIGN_PUBLIC_KEY:-}" ] || fail "set MINISIGN_PUBLIC_KEY to the file with the public key"
    minisign -V -q -p "$MINISIGN_PUBLIC_KEY" -m "$out/SHA256SUMS"
fi

# newest_glibc FILE: the newest version of glibc whose symbols it needs.
newest_glibc() { readelf --version-info --wide "$1" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -1; }

# check_elf FILE DEBUG
check_elf() {
    local newest
    newest=$(newest_glibc "$1")
    [ "$(printf 'GLIBC_2.17\n%s\n' "$newest" | sort -V | tail -1)" = GLIBC_2.17 ] ||
        fail "$1 needs $newest"
    # Symbols that this glibc lacks have no version.
    ! nm --dynamic --undefined-only "$1" | grep -v -e @ -e ' w ' || fail "$1 needs symbols that are nowhere"
    ! readelf --dynamic --wide "$1" | grep -E 'NEEDED.*\[(ld-|libgcc|libstdc)|RPATH|RUNPATH' ||
        fail "$1 needs a library that is not everywhere"
    readelf --sections --wide "$2" 2>/dev/null | grep -q '\.debug_line' || fail "$2 has no debug information"
}

for machine in x64 arm64; do
    [ -f "$out"/tprofiler-*-linux-$machine.tar.gz ] || continue
    mkdir "$work/$machine"
    for archive in "$out"/tprofiler-*-linux-$machine*.tar.gz; do
        tar -xf "$archive" -C "$work/$machine"
    done
    debug=$(echo "$work/$machine"/tprofiler-*-debug)
    folder=${debug%-debug}
    for file in libtprofiler.so tprofiler tprofiler-skywalking analyze rewrite; do
        check_elf "$folder/$file" "$debug/$file.debug"
    done
    for file in README.md LICENSE-MIT LICENSE-APACHE LICENSES-THIRD-PARTY man/man1/tprofiler.1; do
        [ -s "$folder/$file" ] || fail "$folder/$file is missing"
    done
    for file in "$folder"/completions/*.bash; do
        bash -n "$file"
    done
    echo "$machine: $(newest_glibc "$folder/libtprofiler.so"), $(stat -c %s "$folder/libtprofiler.so") bytes of library"
done

# The programs of this machine.
case $(uname -m) in
x86_64) machine=x64 ;;
*) machine=arm64 ;;
esac
mkdir "$work/other"
cp "$out"/*.json "$work/other"
for file in "$out"/*.deb; do
    [ ! -f "$file" ] || dpkg-deb --extract "$file" "$work/other/$(basename "$file")"
done
(cd "$work/other" && "$JDK/bin/jar" --extract --file "$OLDPWD"/"$out"/tprofiler-agent-*.jar)
! grep -ralF -e "$PWD" -e "${CARGO_HOME:-$HOME/.cargo}" -e "$(rustc --print sysroot)" "$work" ||
    fail "these files have paths of this machine"

folder=$(echo "$work/$machine"/tprofiler-*[0-9])
for program in tprofiler tprofiler-skywalking analyze rewrite; do
    "$folder/$program" --version
done

# The library with musl, loaded by a program that pretends to be a JVM without JVMTI: the library says so.
ensure musl-gcc musl-tools || exit 1
cat >"$work/load.c" <<'C'
#include <dlfcn.h>
#include <stdio.h>

static int get_env(void *jvm, void **env, int version) { return -3; }
static void *functions[] = {0, 0, 0, 0, 0, 0, (void *)get_env, 0};

int main(int count, char **words) {
    void *library = count == 2 ? dlopen(words[1], RTLD_NOW) : 0;
    int (*on_load)(void *, char *, void *) = 0;
    if (library) *(void **)&on_load = dlsym(library, "Agent_OnLoad");
    void **jvm = functions;
    if (!on_load) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    int result = on_load(&jvm, "include=Work", 0);
    printf("musl loads the library, and Agent_OnLoad returns %d\n", result);
    return 0;
}
C
musl-gcc -o "$work/load" "$work/load.c"
"$work/load" "$folder/libtprofiler.so" >"$work/loaded" 2>&1 || fail "musl does not load it: $(cat "$work/loaded")"
cat "$work/loaded"

cat >"$work/Work.java" <<'JAVA'
public class Work {
    static void step() throws InterruptedException {
        Thread.sleep(3);
    }

    public static void main(String[] arguments) throws InterruptedException {
        for (int number = 0; number < 20; number++) {
            step();
        }
    }
}
JAVA
"$JDK/bin/javac" --release 11 -nowarn -d "$work" "$work/Work.java"
java_homes | while read -r home; do
    logs=$work/logs-$(basename "$home")
    # It says nothing.
    said=$("$home/bin/java" "-agentpath:$folder/libtprofiler.so=include=Work,port=off,logs=$logs" -cp "$work" Work 2>&1)
    [ -z "$said" ] || fail "$home: $said"
    "$folder/analyze" "$logs" --format csv >"$work/report.csv" 2>"$work/remarks"
    grep -q '^Work,step,()V,20,0,' "$work/report.csv" || fail "$home: $(cat "$work/report.csv" "$work/remarks")"
    echo "JDK $(java_major "$home"): 20 calls recorded and reported"
done
