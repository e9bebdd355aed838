#!/usr/bin/env bash
# Fetches the libraries of test-classes/libraries/pom.xml from Maven Central, with what they need,
# into target/libraries. What is there is kept until the list changes.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

list=test-classes/libraries/pom.xml
libraries=target/libraries
cmp -s "$list" "$libraries/pom.xml" && exit
ensure mvn maven
rm -rf "$libraries"
mvn --quiet --batch-mode -Dstyle.color=never -f "$list" dependency:copy-dependencies \
    -DoutputDirectory="$PWD/$libraries" ||
    fail "the libraries of $list could not be fetched from Maven Central"
cp "$list" "$libraries/pom.xml"
