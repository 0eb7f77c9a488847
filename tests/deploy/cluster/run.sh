#!/usr/bin/env bash
# Install the chart on a kind cluster, play a run through what clusters do, and write the table of
# docs/deploy_cluster.md. Needs docker, kind 0.29 or newer, kubectl, helm and the images of
# `make images`; a cluster of four nodes, 16 GB of memory, an hour.
#   make cluster-test
#   GPU=1    one engine of vLLM on a GPU of this machine (NVIDIA's container toolkit; -cuda images)
#   KEEP=1   the cluster stays
# Every command and every wait has a limit.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(cd "$HERE/../../.." && pwd)
CLUSTER=assay-test NAMESPACE=assay-test RELEASE=assay RUN=cluster TRAINER_POD=assay-trainer-0
VERSION=${ASSAY_VERSION:-0.1.0}
NODE_IMAGE=${NODE_IMAGE:-kindest/node:v1.33.1}
CALICO=${CALICO:-https://raw.githubusercontent.com/projectcalico/calico/v3.30.2/manifests/calico.yaml}
DEVICE_PLUGIN=${DEVICE_PLUGIN:-https://raw.githubusercontent.com/NVIDIA/k8s-device-plugin/v0.17.3/deployments/static/nvidia-device-plugin.yml}
PAGE=${PAGE:-$ROOT/docs/deploy_cluster.md}
NOTICES_S=${NOTICES_S:-120 30 0} # of spot machines: Azure has 30, AWS 120
SETTLE_S=${SETTLE_S:-10}
ALONE_S=600 BACK_S=900
# shellcheck source=tests/deploy/cluster/lib.sh
. "$HERE/lib.sh"

check_machine() {
    local tool missing=()
    for tool in docker kind kubectl helm openssl timeout awk; do
        command -v "$tool" >/dev/null || missing+=("$tool")
    done
    ((${#missing[@]} == 0)) || refuse "not found on the path: ${missing[*]}"
    within 30 docker info >/dev/null 2>&1 || refuse "no Docker engine answers (docker info)"
    [[ $NODE_IMAGE =~ :v1\.(3[3-9]|[4-9][0-9])\. ]] ||
        refuse "NODE_IMAGE is $NODE_IMAGE: Kubernetes 1.33 or newer is needed, for user namespaces"
    ! within 30 kind get clusters 2>/dev/null | grep -qx "$CLUSTER" ||
        refuse "a cluster $CLUSTER is there: kind delete cluster --name $CLUSTER"
    local image
    for image in "${IMAGES[@]}"; do
        within 30 docker image inspect "$image:$VERSION${SUFFIX[$image]:-}" >/dev/null 2>&1 ||
            refuse "no image $image:$VERSION${SUFFIX[$image]:-}: make images"
    done
    if [[ ${GPU:-} == 1 ]]; then
        within 30 nvidia-smi >/dev/null 2>&1 || refuse "GPU=1, and nvidia-smi finds no GPU"
    fi
}

IMAGES=(assay-inference assay-sandbox assay-judge assay-reward assay-trainer assay-worker)
declare -A SUFFIX=([assay-inference]=-cpu [assay-trainer]=-cpu [assay-sandbox]=-slim)
VALUES=(--values "$ROOT/k8s/assay/values-kind-cpu.yaml" --values "$HERE/values.yaml")
if [[ ${GPU:-} == 1 ]]; then
    SUFFIX[assay-inference]=-cuda
    VALUES+=(--values "$HERE/values-gpu.yaml")
fi
SHARED=''

clean_up() {
    local status=$?
    if [[ -n $SHARED && ${KEEP:-} != 1 ]]; then
        within 300 kind delete cluster --name "$CLUSTER" || true
        # Pods wrote as other users.
        d run --rm --user 0 --volume "$SHARED:/shared" "assay-worker:$VERSION" \
            rm -rf /shared/runs /shared/models || true
        rm -rf --one-file-system "$SHARED" || say "left behind: $SHARED"
    fi
    rm -f "$ROWS" "$OWN_CONFIG"
    exit "$status"
}

create_cluster() {
    SHARED=$(mktemp -d)
    mkdir -p "$SHARED/runs" "$SHARED/models"
    chmod 0777 "$SHARED" "$SHARED/runs" "$SHARED/models"
    local config
    config=$(sed "s|SHARED, containerPath|$SHARED, containerPath|" "$HERE/kind.yaml")
    if [[ ${GPU:-} == 1 ]]; then # the container toolkit's way of giving all GPUs to a container
        config=${config/"containerPath: /shared}"/"containerPath: /shared}
      - {hostPath: /dev/null, containerPath: /var/run/nvidia-container-devices/all}"}
    fi
    within 600 kind create cluster --name "$CLUSTER" --image "$NODE_IMAGE" --config - <<<"$config"
    NAMESPACE=kube-system k apply --filename "$CALICO"
    NAMESPACE=kube-system K_LIMIT_S=400 k rollout status daemonset/calico-node --timeout=380s
    K_LIMIT_S=320 k wait node --all --for=condition=Ready --timeout=300s
    local runtimes
    runtimes=$(k get nodes --output 'jsonpath={.items[*].status.nodeInfo.containerRuntimeVersion}')
    [[ $runtimes != *containerd://1.* ]] || refuse "containerd 2 is needed, and there is: $runtimes"
    [[ ${GPU:-} != 1 ]] || NAMESPACE=kube-system k apply --filename "$DEVICE_PLUGIN"
}

load_images() {
    local image name
    for image in "${IMAGES[@]}"; do
        name=$image:$VERSION${SUFFIX[$image]:-}
        # The same image under another tag: an upgrade replaces every pod by it.
        d tag "$name" "$image:upgraded${SUFFIX[$image]:-}"
        within 900 kind load docker-image --name "$CLUSTER" "$name" \
            "$image:upgraded${SUFFIX[$image]:-}"
    done
}

install() {
    k create namespace "$NAMESPACE"
    k create secret generic assay-tokens --from-literal=inference="$(openssl rand -hex 32)" \
        --from-literal=sandbox="$(openssl rand -hex 32)" \
        --from-literal=judge="$(openssl rand -hex 32)" \
        --from-literal=reward="$(openssl rand -hex 32)" \
        --from-literal=trainer="$(openssl rand -hex 32)"
    k create secret generic assay-redis --from-literal=password="$(openssl rand -hex 32)"
    k apply --filename "$HERE/volumes.yaml"
    h install "$RELEASE" "$ROOT/k8s/assay" "${VALUES[@]}" --wait --timeout 14m
}

# The tests pass with the policies, and fail without: else they would show nothing.
check_policies() {
    local started=$SECONDS
    h test "$RELEASE" --timeout 10m
    row "helm test, with policies" - "$((SECONDS - started))" - "passes"
    k delete networkpolicy --all
    sleep "$SETTLE_S" # until the nodes have taken them away
    started=$SECONDS
    if h test "$RELEASE" --timeout 10m; then
        say "helm test passes without any policy"
        return 1
    fi
    row "helm test, policies deleted" - "$((SECONDS - started))" - "fails, as it must"
    upgrade "$VERSION"
    (($(k get networkpolicy --output name | wc -l) > 5))
}

upgrade() {
    h upgrade "$RELEASE" "$ROOT/k8s/assay" "${VALUES[@]}" --set "image.tag=$1" \
        --wait --timeout 14m
}

drain() {
    local node
    node=$(trainer_node)
    K_LIMIT_S=320 k drain "$node" --ignore-daemonsets --delete-emptydir-data --timeout=300s
    UNCORDON=$node
}

# A notice of so many seconds, in which the pod is asked to stop; then the machine is gone.
reclaim() {
    local notice_s=$1 node
    node=$(trainer_node)
    k cordon "$node"
    if ((notice_s > 0)); then
        k delete pod "$TRAINER_POD" --grace-period="$notice_s" --wait=false
        sleep "$notice_s"
    fi
    d kill "$node"
    k delete node "$node"
    GONE=$node
}

# The machine comes back, as another one of the pool would.
replace_node() {
    d start "$GONE"
    until_true 300 "node $GONE" k get node "$GONE"
    k label node "$GONE" assay-test=run --overwrite
    k uncordon "$GONE"
    K_LIMIT_S=320 k wait node "$GONE" --for=condition=Ready --timeout=300s
}

play() {
    until_true 300 "the trainer" k exec "$TRAINER_POD" -- true
    run_state start >/dev/null
    until_true 900 "the first steps" has_passed 2
    disturb "node drained" drain
    k uncordon "$UNCORDON"
    disturb "upgrade" upgrade upgraded
    disturb "rollback" h rollback "$RELEASE" --wait --timeout 14m
    local notice_s
    for notice_s in $NOTICES_S; do
        disturb "spot reclaim, $notice_s s of notice" reclaim "$notice_s"
        replace_node
    done
    run_state stop >/dev/null
    until_true 300 "the end of the run" is_stopped
    local state step again twice missing
    read -r state step again twice missing <<<"$(run_state)"
    row "the whole run: $step steps" - - "$again" "$twice groups counted twice, $missing steps missing"
    [[ $twice == 0 && $missing == 0 ]] || { say "the run is $state, and not whole"; return 1; }
}

is_stopped() { [[ $(run_state | cut -d' ' -f1) == stopped ]]; }

check_machine
ROWS=$(mktemp) OWN_CONFIG=$(mktemp)
trap clean_up EXIT
export KUBECONFIG=$OWN_CONFIG # of this cluster alone
create_cluster
load_images
install
check_policies
play
write_table "$PAGE"
say "written: $PAGE"
