#!/usr/bin/env bash
# Starts a Kafka 4 broker (KRaft) on loopback, in the foreground, with new data in a temporary folder. Fetches its
# jars from Maven Central into target/kafka first.
#
#   scripts/kafka.sh               port 9092
#   scripts/kafka.sh --install     only fetches
#
#   KAFKA_PORT, KAFKA_CONTROLLER_PORT   other ports
#   KAFKA_DATA                     its folder, which must be empty or its own
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

from=test-classes/skywalking/kafka
install_jars "$from/pom.xml" target/kafka
[ "${1:-}" = --install ] && exit
ensure_jdk
port=${KAFKA_PORT:-9092}
controller=${KAFKA_CONTROLLER_PORT:-$((port + 1))}
data=${KAFKA_DATA:-$(mktemp -d)}
{
    cat "$from/server.properties"
    echo "controller.quorum.voters=1@127.0.0.1:$controller"
    echo "listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller"
    echo "advertised.listeners=PLAINTEXT://127.0.0.1:$port"
    echo "log.dirs=$data/log"
} >"$data/server.properties"
jars="target/kafka/jars/*"
if ! [ -e "$data/log/meta.properties" ]; then
    id=$("$JDK/bin/java" -cp "$jars" kafka.tools.StorageTool random-uuid 2>/dev/null | tail -1)
    "$JDK/bin/java" -cp "$jars" kafka.tools.StorageTool format -t "$id" -c "$data/server.properties"
fi
exec "$JDK/bin/java" -Xmx400m -cp "$jars" kafka.Kafka "$data/server.properties"
