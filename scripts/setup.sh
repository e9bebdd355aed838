#!/usr/bin/env bash
# Gets what the tests need, beside Rust and a JDK: see docs/testing.md. What is there is kept.
#
#   scripts/setup.sh          for the fast lane
#   scripts/setup.sh --full   for `scripts/test.sh --full`
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

full=${1:-}
scripts/jdks.sh ${full:+--all}
scripts/libraries.sh
if [ -n "$full" ]; then
    # test-classes/tests/sql_servers.rs starts these servers.
    compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || install_package postgresql ||
        say "PostgreSQL is missing: install the Debian package postgresql"
    ensure mariadb-install-db mariadb-server || true
    # test-classes/tests/skywalking.rs starts these, and makes certificates.
    ensure openssl openssl || true
    scripts/oap.sh --install
    scripts/kafka.sh --install
    # test-classes/tests/release.rs unpacks and runs these.
    scripts/release.sh
    scripts/arm64.sh
fi
# test-classes/tests/startup.rs runs a JVM under it.
ensure strace strace || true
scripts/browser.sh || say "WARNING: there is no browser, so the report's pages are not tried in one."
