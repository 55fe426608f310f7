# Shared by up, down, with and lifecycle: a real node with real containers beside a control plane. Sourced, not run.
# shellcheck shell=bash

node_scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=../control_plane/lib.sh
. "$node_scripts/../control_plane/lib.sh"

# Other scripts would take a node for a mere control plane, and remove its directory from under it.
prefix=node-run

# ---------------------------------------------------------------- what must be there

cni_plugins() {
    local folder
    for folder in /usr/lib/cni /opt/cni/bin /usr/libexec/cni; do
        [ ! -x "$folder/bridge" ] || { echo "$folder"; return 0; }
    done
    return 1
}

prepare() {
    local -a missing=()
    [ "$UID" = 0 ] || die "a real node starts containers, and only root may do that"
    command -v containerd >/dev/null || missing+=(containerd)
    command -v runc >/dev/null || missing+=(runc)
    command -v ip >/dev/null || missing+=(iproute2)
    # The lab's grading reads JSON with it.
    command -v jq >/dev/null || missing+=(jq)
    cni_plugins >/dev/null || missing+=(containernetworking-plugins)
    if ((${#missing[@]})); then
        command -v apt-get >/dev/null || die "please install: ${missing[*]}"
        say "installing ${missing[*]}"
        {
            apt-get update -qq
            DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
        } >&2
    fi
    tools=$("$here/build")
    image=$("$node_scripts/image")
}

# ---------------------------------------------------------------- what a node takes from the machine

# A node lives in a mount and a process namespace of its own: its containers, its mounts and its Pods' networks end
# with the namespaces' first process, and the kernel ends that one with the runner. What is left to remove is the
# bridge and the control groups. Both are written down in DIR before they exist.

# The bridge by which the API server and the kubelet reach the Pods. A subnet that nobody here uses.
make_bridge() {
    local dir=$1 bridge=$2 third tries
    echo "$bridge" >"$dir/bridge"
    ip link add "$bridge" type bridge || die "this machine makes no network bridges: see above"
    # Names may be used again: a bridge that says it is somebody else's is never deleted.
    ip link set "$bridge" alias "$dir"
    for ((tries = 0; tries < 50; tries++)); do
        third=$((RANDOM % 256))
        [ -z "$(ip -4 route show table all root "10.213.$third.0/24")" ] || continue
        ip addr add "10.213.$third.1/24" dev "$bridge"
        # Two runs that choose at the same moment both see it, and both choose again.
        [ "$(ip -4 -o addr show to "10.213.$third.1" | wc -l)" = 1 ] || { ip addr flush dev "$bridge" && continue; }
        ip link set "$bridge" up
        echo "10.213.$third" >"$dir/subnet"
        return 0
    done
    die "no free subnet below 10.213.0.0/16"
}

remove_bridge() {
    local dir=$1 bridge owner
    [ -f "$dir/bridge" ] || return 0
    bridge=$(<"$dir/bridge")
    [ -e "/sys/class/net/$bridge" ] || return 0
    # Empty if the run was killed in the moment before it could say so.
    owner=$(<"/sys/class/net/$bridge/ifalias")
    [ -z "$owner" ] || [ "$owner" = "$dir" ] || return 0
    ip link delete "$bridge"
}

# Prints the control-group hierarchies: one, or with version 1 one for each controller.
hierarchies() {
    if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
        echo /sys/fs/cgroup
        return
    fi
    awk '$3 == "cgroup" || $3 == "cgroup2" { print $2 }' /proc/mounts | sort -u
}

make_cgroups() {
    local dir=$1 name=$2 top controller
    echo "$name" >"$dir/cgroup"
    if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
        # As any kubelet does: children get a controller only where the root hands it on. It stays so afterwards.
        for controller in cpu cpuset memory hugetlb pids; do
            grep -qw "$controller" /sys/fs/cgroup/cgroup.controllers || continue
            ! grep -qw "$controller" /sys/fs/cgroup/cgroup.subtree_control || continue
            echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control ||
                die "the control-group controller $controller cannot be handed on to a node: is this a container without a control-group root of its own?"
        done
    fi
    for top in $(hierarchies); do
        mkdir "$top/$name" || die "no control groups can be made in $top"
    done
}

remove_cgroups() {
    local dir=$1 name top tries
    [ -f "$dir/cgroup" ] || return 0
    name=$(<"$dir/cgroup")
    for ((tries = 0; tries < 100; tries++)); do
        for top in $(hierarchies); do
            [ ! -d "$top/$name" ] || find "$top/$name" -depth -type d -exec rmdir {} + 2>/dev/null || true
        done
        compgen -G "/sys/fs/cgroup/*/$name" >/dev/null || [ -d "/sys/fs/cgroup/$name" ] || return 0
        # Its last process may still be on its way out.
        sleep 0.05
    done
    say "tests: the control groups $name do not go away"
}

# Whether any process is left in the process namespace $1, written `pid:[INODE]`.
inhabited() {
    local wanted=${1//[^0-9]/} all inode path
    # Processes come and go meanwhile: a failure to look at one is none.
    all=$(stat -L -c '%i %n' /proc/[0-9]*/ns/pid 2>/dev/null || true)
    while read -r inode path; do
        path=${path#/proc/}
        [ "$inode" = "$wanted" ] && start_time "${path%%/*}" >/dev/null && return 0
    done <<<"$all"
    return 1
}

end_run() {
    local dir=$1/node tries
    end_recorded "$1"
    if [ -s "$dir/namespace" ]; then
        for ((tries = 0; tries < 200; tries++)); do
            inhabited "$(<"$dir/namespace")" || break
            sleep 0.05
        done
    fi
    remove_cgroups "$dir"
    remove_bridge "$dir"
    # Never across a mount: should one have survived, its content is not the run's.
    rm -rf --one-file-system "$1"
}

# ---------------------------------------------------------------- the node

# bring_up RUN: a control plane and its one node in RUN/node. The caller's traps end it.
bring_up() {
    local run=$1 dir=$1/node pki=$1/pki id inside own namespace tries
    id=$(openssl rand -hex 4)
    make_certificates "$pki"
    if ! { leaf "$pki" scheduler /CN=system:kube-scheduler && leaf "$pki" kubelet /O=system:nodes/CN=system:node:real &&
        leaf "$pki" kubelet-client /O=system:masters/CN=kubelet-client; } >>"$pki/openssl.log" 2>&1; then
        cat "$pki/openssl.log" >&2
        die "could not make certificates"
    fi
    launch "$dir" "$pki" -- --kubelet-client-certificate="$pki/kubelet-client.crt" --kubelet-client-key="$pki/kubelet-client.key"

    make_bridge "$dir" "srt-$id"
    make_cgroups "$dir" "saferollback-tests-$id"
    configure "$dir" "$pki"
    # The first process of the new process namespace gets the kernel's SIGKILL when its parent ends, and all others
    # of the namespace with it.
    start "$dir" node unshare --mount --pid --fork --kill-child=KILL --mount-proc "$node_scripts/inside" "$dir"
    local outer=$!
    own=$(readlink /proc/self/ns/pid)
    for ((tries = 0; tries < 500; tries++)); do
        # Before it becomes unshare it has children of other kinds.
        read -r inside _ 2>/dev/null <"/proc/$outer/task/$outer/children" || true
        namespace=$(readlink "/proc/${inside:-none}/ns/pid") && [ "$namespace" != "$own" ] && break
        namespace=
        sleep 0.01
    done
    [ -n "$namespace" ] || failed "$dir"
    echo "$namespace" >"$dir/namespace"
    echo "$inside $(start_time "$inside") inside" >>"$dir/pids"

    # All controllers: this node sends heartbeats, and its taints go by themselves.
    finish_launch "$dir" '*'
    start "$dir" kube-scheduler "$tools/kube-scheduler" --kubeconfig="$dir/scheduler.kubeconfig" --leader-elect=false --secure-port=0 \
        --kube-api-qps=500 --kube-api-burst=1000
    controllers_run "$dir"
    until_ok "$dir" 90 node_is_ready "$dir"
    mark "$dir"
}

node_is_ready() {
    local ready
    ready=$("$tools/kubectl" --kubeconfig "$1/kubeconfig" get node real -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status} {.spec.taints}')
    echo "$ready"
    [ "$ready" = 'True ' ]
}

# Everything the node reads, below DIR/lib, which is /var/lib inside.
configure() {
    local dir=$1 pki=$2 subnet user server etc=$1/lib/node
    local -a kubelet_ports
    subnet=$(<"$dir/subnet")
    server=$(<"$dir/server")
    reserve_ports "$dir" 1
    kubelet_ports=("${ports[@]}")
    mkdir -p "$dir/lib"/{containerd,kubelet,cni,node/net.d,node/tools} "$dir"/{log,run,tmp}
    kubeconfig "$pki" scheduler "$server" >"$dir/scheduler.kubeconfig"
    kubeconfig "$pki" kubelet "$server" >"$etc/kubeconfig"
    cp "$pki/ca.crt" "$etc/ca.crt"
    cp "$image" "$etc/image.tar"
    cat >"$etc/net.d/10-tests.conflist" <<JSON
{"cniVersion": "1.0.0", "name": "tests", "plugins": [{
  "type": "bridge", "bridge": "$(<"$dir/bridge")", "isGateway": false, "ipMasq": false, "hairpinMode": true,
  "ipam": {"type": "host-local", "ranges": [[{"subnet": "$subnet.0/24", "gateway": "$subnet.1"}]], "routes": [{"dst": "0.0.0.0/0"}]}
}]}
JSON
    # restrict_oom_score_adj: without CAP_SYS_RESOURCE, as in some sandboxes, no container would start otherwise.
    # disable_apparmor: a loaded profile would stay in the machine's kernel.
    cat >"$etc/containerd.toml" <<TOML
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "registry.invalid/saferollback/pause:1"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "SNAPSHOTTER"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$(cni_plugins)"
    conf_dir = "/var/lib/node/net.d"
TOML
    # Its own firewall chains, image clean-up and evictions are no concern of the tests, and the machine's firewall
    # is none of the node's. Volumes are refreshed faster than a minute, so that tests need not wait for that. Many
    # tests start Pods at once: the kubelet's requests and Events are not held back, and Pods are limited by the
    # subnet's 253 addresses alone. A deleted Pod counts until its processes are gone, some seconds later.
    cat >"$etc/kubelet.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: /$(<"$dir/cgroup")
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
makeIPTablesUtilChains: false
localStorageCapacityIsolation: false
address: $subnet.1
port: ${kubelet_ports[0]}
healthzPort: 0
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: /var/lib/node/ca.crt}}
authorization: {mode: Webhook}
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
resolvConf: ""
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: "1Mi", nodefs.available: "1Mi", imagefs.available: "1Mi"}
syncFrequency: 5s
kubeAPIQPS: 500
kubeAPIBurst: 1000
eventRecordQPS: 0
maxPods: 250
volumePluginDir: /var/lib/node/volume-plugins
YAML
}
