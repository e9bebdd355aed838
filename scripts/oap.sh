#!/usr/bin/env bash
# Starts a SkyWalking server 10.1.0 (the OAP) on loopback, in the foreground, with H2 inside it. It is ready
# after some 20 seconds and takes some 450 MB. Fetches its jars from Maven Central into target/oap first.
#
#   scripts/oap.sh                 gRPC on port 11800, GraphQL on 12800, all in memory
#   scripts/oap.sh --install       only fetches
#
#   OAP_GRPC_PORT, OAP_HTTP_PORT   other ports
#   OAP_H2=file:/tmp/oap           keeps its data in this file
#   OAP_KAFKA=127.0.0.1:9092       takes snapshots from Kafka too (scripts/kafka.sh)
#   OAP_PROFILING=-                without profile tasks and profiling of processes
#   OAP_AGENT_PORT, OAP_AUTHENTICATION   a gRPC port on which it asks agents for this token
#   OAP_TLS=true, OAP_TLS_KEY, _CERT, _CA   that port has TLS, and asks agents for a certificate of this authority
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

from=test-classes/skywalking/oap
install_jars "$from/pom.xml" target/oap
conf=target/oap/conf
# One that starts at the same time must not take the files away.
exec {lock}>target/oap.lock
flock "$lock"
if ! [ -d "$conf" ] || ! cmp -s "$from/application.yml" "$conf/application.yml"; then
    # The jars lack these files; without one of them it does not start.
    work=$(mktemp -d target/oap/conf.XXXXXX)
    cp "$from/application.yml" "$from/log4j2.xml" "$work"
    mkdir "$work"/{oal,lal,log-mal-rules,ui-initialized-templates}
    for name in browser cilium core disable dotnet-agent ebpf java-agent mesh tcp; do
        echo '// no metrics' >"$work/oal/$name.oal"
    done
    echo 'rules: {}' >"$work/alarm-settings.yml"
    echo 'grouping: []' >"$work/endpoint-name-grouping.yml"
    echo 'gateways: []' >"$work/gateways.yml"
    echo 'default: 500' >"$work/service-apdex-threshold.yml"
    printf 'default:\n  rate: 10000\n  duration: -1\n' >"$work/trace-sampling-policy-settings.yml"
    printf 'Unknown: { id: 0, languages: All, priority: 0 }\nComponent-Server-Mappings: {}\n' \
        >"$work/component-libraries.yml"
    printf 'menus:\n  - title: Services\n    icon: general_service\n    menus:\n      - title: Services\n        layer: GENERAL\n' \
        >"$work/ui-initialized-templates/menu.yaml"
    rm -rf "$conf"
    mv -T "$work" "$conf"
fi
exec {lock}>&-
[ "${1:-}" = --install ] && exit
ensure_jdk
[ -z "${OAP_KAFKA:-}" ] || export OAP_KAFKA_MODULES=default
exec "$JDK/bin/java" -Xms256m -Xmx1g -cp "$conf:target/oap/jars/*" \
    org.apache.skywalking.oap.server.starter.OAPServerStartUp
