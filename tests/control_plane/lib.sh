# Shared by up, down, with and lifecycle: starts real control planes and ends them again. Sourced, not run.
# shellcheck shell=bash

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

say() { printf '%s\n' "$*" >&2; }
die() { say "tests: $*"; exit 1; }

# ---------------------------------------------------------------- where state lives

runtime=${XDG_RUNTIME_DIR:-}
[ -n "$runtime" ] && [ -d "$runtime" ] && [ -w "$runtime" ] || runtime=${TMPDIR:-/tmp}
root=$runtime/saferollback-tests-$UID

open_root() {
    mkdir -p -m 700 "$root"
    # The name is guessable: keys and process ids must not be read from a directory of someone else.
    [ -O "$root" ] && [ ! -L "$root" ] || die "$root belongs to someone else"
}

# ---------------------------------------------------------------- processes

# Field 22 of /proc/PID/stat; with it a reused process id is told from the process that was recorded.
# The second field may hold blanks and brackets, so counting starts after the last bracket.
start_time() {
    local stat
    { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
    stat=${stat##*) }
    local -a fields
    read -ra fields <<<"$stat"
    # A zombie no longer runs anything.
    [ "${fields[0]}" != Z ] || return 1
    echo "${fields[19]}"
}

# Whether the process PID that began at START still runs.
runs() { [ "$(start_time "$1")" = "$2" ]; }

# record_and_exec DIR NAME COMMAND...: becomes COMMAND in a session of its own, written down before it starts.
# Must be called in a subshell of its own.
record_and_exec() {
    # Taken here: within $(...) it is another process's.
    local dir=$1 name=$2 pid=$BASHPID
    shift 2
    echo "$pid $(start_time "$pid") $name" >>"$dir/pids"
    # Out of the terminal's group: Ctrl-C goes to the runner, which then ends its children itself.
    # Background children of a shell ignore SIGINT and SIGQUIT; programs under test must not inherit that.
    exec env --default-signal=INT,QUIT setpriv ${DIES_WITH_RUNNER:+--pdeathsig KILL} setsid "$@"
}

# start DIR NAME COMMAND...: a server in the background, its output in DIR/NAME.log.
# With DIES_WITH_RUNNER set the kernel ends it when this shell dies, even by SIGKILL.
start() {
    (record_and_exec "$1" "$2" "${@:3}" </dev/null >"$1/$2.log" 2>&1 9>&-) &
    # Their end by SIGKILL is the usual one; the shell need not report it.
    disown "$!"
}

# Ends every recorded process under the directory $1 (itself or one level below), and only those.
end_recorded() {
    local list pid began name
    local -a left=()
    for list in "$1/pids" "$1"/*/pids; do
        [ -f "$list" ] || continue
        while read -r pid began name; do
            if runs "$pid" "$began"; then
                # Nothing here is worth an orderly end: the data goes with the directory.
                kill -KILL "$pid" 2>/dev/null || true
                left+=("$pid $began $name")
            fi
        done <"$list"
    done
    local entry tries
    for entry in ${left[@]+"${left[@]}"}; do
        read -r pid began name <<<"$entry"
        for ((tries = 0; tries < 500; tries++)); do
            runs "$pid" "$began" || continue 2
            sleep 0.02
        done
        say "tests: process $pid ($name) does not end"
    done
}

# Whether the runner that owns the run directory $1 still lives.
owner_lives() {
    local pid began
    read -r pid began 2>/dev/null <"$1/runner" || return 1
    runs "$pid" "$began"
}

# The directories of runners begin with this. The node's scripts have another, and an end_run of their own.
prefix=run

# Ends everything that belongs to the run directory $1, and removes it.
end_run() {
    end_recorded "$1"
    rm -rf "$1"
}

# Ends what runners left behind that were killed. Directories made by `up` have no runner and are left alone.
end_leftovers() {
    local dir
    for dir in "$root/$prefix"-*/; do
        dir=${dir%/}
        [ -d "$dir" ] || continue
        owner_lives "$dir" && continue
        say "ending what the test run in $dir left behind"
        end_run "$dir"
    done
}

# Sets `run` to a fresh directory that belongs to this shell.
open_run() {
    open_root
    exec 9>"$root/lock"
    flock 9
    end_leftovers
    run=$root/$prefix-$$
    mkdir -m 700 "$run"
    echo "$$ $(start_time $$)" >"$run/runner"
    exec 9>&-
}

# ---------------------------------------------------------------- a runner

# Ends everything that this shell started, however the shell ends.
arm() {
    DIES_WITH_RUNNER=yes
    run=
    command=
    trap end_all EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    trap 'exit 129' HUP
}

end_all() {
    local status=$? tries log
    # Nothing may cut this short, not even that nobody reads the output any more.
    trap '' INT TERM HUP PIPE
    if [ -n "$command" ] && kill -0 "$command" 2>/dev/null; then
        # The command leads a group of its own: end its children with it, first politely.
        kill -TERM -- "-$command" 2>/dev/null || true
        for ((tries = 0; tries < 50; tries++)); do
            kill -0 -- "-$command" 2>/dev/null || break
            sleep 0.1
        done
        kill -KILL -- "-$command" 2>/dev/null || true
    fi
    if [ -n "$run" ] && [ -d "$run" ]; then
        if [ "$status" != 0 ] && [ -n "${SAFEROLLBACK_TEST_LOGS:-}" ]; then
            mkdir -p "$SAFEROLLBACK_TEST_LOGS"
            for log in "$run"/*/*.log; do
                cp "$log" "$SAFEROLLBACK_TEST_LOGS/$(basename "$(dirname "$log")")-${log##*/}"
            done
        fi
        end_run "$run"
    fi
    exit "$status"
}

# run_command COMMAND...: what the runner is for; ends the shell with the command's status.
run_command() {
    (record_and_exec "$run" command "$@" <&0) &
    command=$!
    local status=0
    wait "$command" || status=$?
    exit "$status"
}

# ---------------------------------------------------------------- ports

listening() {
    local hex
    printf -v hex ':%04X' "$1"
    awk -v end="$hex" '$4 == "0A" && substr($2, length($2) - 4) == end { found = 1 } END { exit !found }' \
        /proc/net/tcp /proc/net/tcp6 2>/dev/null
}

# reserve_ports DIR COUNT: sets `ports`. They lie below the range from which the kernel serves outgoing
# connections, so nobody gets one by chance between this choice and the server's bind; other runs of ours
# see them in DIR/ports.
reserve_ports() {
    local dir=$1 count=$2 low port
    read -r low _ </proc/sys/net/ipv4/ip_local_port_range
    ((low > 22000)) || low=60000
    ports=()
    exec 9>"$root/lock"
    flock 9
    while ((${#ports[@]} < count)); do
        port=$((20000 + (RANDOM * 32768 + RANDOM) % (low - 20000)))
        listening "$port" && continue
        cat "$root"/*/ports "$root"/*/*/ports 2>/dev/null | grep -qx "$port" && continue
        echo "$port" >>"$dir/ports"
        ports+=("$port")
    done
    exec 9>&-
}

# ---------------------------------------------------------------- certificates

leaf() {
    local dir=$1 name=$2 subject=$3
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$dir/$name.key" -out "$dir/$name.csr" -subj "$subject"
    # A leaf of its own for each: rustls refuses a CA certificate that is used as a server's.
    openssl x509 -req -in "$dir/$name.csr" -CA "$dir/ca.crt" -CAkey "$dir/ca.key" -set_serial "0x$(openssl rand -hex 8)" -days 7 -out "$dir/$name.crt" -extfile <(
        printf '%s\n' 'basicConstraints=CA:FALSE' 'keyUsage=digitalSignature' 'extendedKeyUsage=serverAuth,clientAuth' \
            'subjectAltName=IP:127.0.0.1,IP:10.96.0.1,DNS:localhost,DNS:kubernetes.default.svc'
    )
}

make_certificates() {
    local dir=$1
    mkdir -m 700 "$dir"
    if ! {
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$dir/ca.key" -out "$dir/ca.crt" -days 7 -subj /CN=saferollback-tests \
            -addext 'basicConstraints=critical,CA:TRUE' -addext 'keyUsage=critical,keyCertSign,cRLSign' &&
            openssl ecparam -genkey -name prime256v1 -noout -out "$dir/sa.key" &&
            openssl ec -in "$dir/sa.key" -pubout -out "$dir/sa.pub" &&
            leaf "$dir" server /CN=kube-apiserver &&
            leaf "$dir" admin /O=system:masters/CN=saferollback-tests &&
            leaf "$dir" kcm /CN=system:kube-controller-manager
    } >"$dir/openssl.log" 2>&1; then
        cat "$dir/openssl.log" >&2
        die "could not make certificates"
    fi
}

kubeconfig() {
    local pki=$1 user=$2 server=$3
    # Embedded, so that a test may copy the file.
    cat <<YAML
apiVersion: v1
kind: Config
clusters:
- name: saferollback-tests
  cluster:
    server: $server
    certificate-authority-data: $(base64 -w0 "$pki/ca.crt")
users:
- name: $user
  user:
    client-certificate-data: $(base64 -w0 "$pki/$user.crt")
    client-key-data: $(base64 -w0 "$pki/$user.key")
contexts:
- name: saferollback-tests
  context:
    cluster: saferollback-tests
    user: $user
current-context: saferollback-tests
YAML
}

# ---------------------------------------------------------------- a control plane

start_etcd() {
    local dir=$1 name=$2 client=$3 peer=$4
    # Nothing outlives the run, so no write need reach the disk.
    start "$dir" "$name" "$tools/etcd" --name "$name" --data-dir "$dir/$name" --unsafe-no-fsync --log-level warn \
        --listen-client-urls "http://127.0.0.1:$client" --advertise-client-urls "http://127.0.0.1:$client" \
        --listen-peer-urls "http://127.0.0.1:$peer" --initial-advertise-peer-urls "http://127.0.0.1:$peer" \
        --initial-cluster "$name=http://127.0.0.1:$peer"
    echo "http://127.0.0.1:$client" >>"$dir/etcd-urls"
}

# launch DIR PKI [--split RESOURCE]... [-- FLAG...]: starts etcd and kube-apiserver, waits for nothing.
launch() {
    local dir=$1 pki=$2 resource
    local -a splits=() flags=()
    shift 2
    while (($#)); do
        case $1 in
        --split) splits+=("$2") && shift 2 ;;
        --) shift && flags=("$@") && break ;;
        *) die "launch: $1?" ;;
        esac
    done
    mkdir -m 700 "$dir"
    reserve_ports "$dir" $((1 + 2 + 2 * ${#splits[@]}))
    local secure=${ports[0]}
    start_etcd "$dir" etcd "${ports[1]}" "${ports[2]}"
    local next=3
    for resource in ${splits[@]+"${splits[@]}"}; do
        start_etcd "$dir" "etcd-$resource" "${ports[next]}" "${ports[next + 1]}"
        # The part before the slash is the API group: empty for the core group.
        flags+=("--etcd-servers-overrides=/$resource#http://127.0.0.1:${ports[next]}")
        next=$((next + 2))
    done

    cat >"$dir/audit-policy.yaml" <<'YAML'
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
YAML
    echo "https://127.0.0.1:$secure" >"$dir/server"
    kubeconfig "$pki" admin "https://127.0.0.1:$secure" >"$dir/kubeconfig"
    kubeconfig "$pki" kcm "https://127.0.0.1:$secure" >"$dir/kcm.kubeconfig"
    echo "$tools" >"$dir/tools"
    echo "$pki" >"$dir/pki-directory"

    # Audit in blocking mode: a request is in the log before its answer is complete.
    # No compaction by itself: history ends only where a test ends it.
    start "$dir" kube-apiserver "$tools/kube-apiserver" --etcd-servers="http://127.0.0.1:$(sed -n 2p "$dir/ports")" \
        --bind-address=127.0.0.1 --advertise-address=127.0.0.1 --secure-port="$secure" --endpoint-reconciler-type=none \
        --tls-cert-file="$pki/server.crt" --tls-private-key-file="$pki/server.key" --client-ca-file="$pki/ca.crt" \
        --service-account-issuer=https://kubernetes.default.svc --service-account-key-file="$pki/sa.pub" --service-account-signing-key-file="$pki/sa.key" \
        --service-cluster-ip-range=10.96.0.0/16 --authorization-mode=Node,RBAC --allow-privileged=true --etcd-compaction-interval=0 \
        --audit-policy-file="$dir/audit-policy.yaml" --audit-log-path="$dir/audit.log" --audit-log-mode=blocking --audit-log-maxsize=4000 \
        ${flags[@]+"${flags[@]}"}
}

request() {
    local dir=$1 method=$2 path=$3 pki
    shift 3
    pki=$(<"$dir/pki-directory")
    curl -sS --fail-with-body --noproxy '*' --max-time 10 --cacert "$pki/ca.crt" --cert "$pki/admin.crt" --key "$pki/admin.key" -X "$method" "$(<"$dir/server")$path" "$@"
}

failed() {
    local dir=$1 log
    for log in "$dir"/*.log; do
        [ "${log##*/}" = audit.log ] && continue
        say "---- the end of $log"
        tail -n 15 "$log" >&2
    done
    die "the control plane in $dir did not start"
}

all_run() {
    local pid began name
    while read -r pid began name; do
        runs "$pid" "$began" || return 1
    done <"$1/pids"
}

# until_ok DIR SECONDS COMMAND...: its last answer is in DIR/answer.log, for the case of a failure.
until_ok() {
    local dir=$1 end=$((SECONDS + $2))
    shift 2
    until "$@" >"$dir/answer.log" 2>&1; do
        if ((SECONDS > end)) || ! all_run "$dir"; then failed "$dir"; fi
        sleep 0.1
    done
}

# finish_launch DIR [CONTROLLERS]: waits until the server answers, then starts the controllers.
finish_launch() {
    local dir=$1 pki
    # Nodes that are played by the tests send no heartbeat: the node lifecycle controller would call them dead.
    local controllers=${2:-*,-node-lifecycle-controller}
    pki=$(<"$dir/pki-directory")
    until_ok "$dir" 60 request "$dir" GET /readyz
    start "$dir" kube-controller-manager "$tools/kube-controller-manager" --kubeconfig="$dir/kcm.kubeconfig" \
        --use-service-account-credentials --service-account-private-key-file="$pki/sa.key" --root-ca-file="$pki/ca.crt" \
        --leader-elect=false --secure-port=0 --controllers="$controllers" --kube-api-qps=500 --kube-api-burst=1000
}

# ensure DIR PATH BODY: creates an object; once more is as good. A young server may still refuse the first try.
ensure() {
    until_ok "$1" 20 create_or_known "$@"
}

create_or_known() {
    local answer
    if answer=$(request "$1" POST "$2" -H 'Content-Type: application/json' -d "$3" 2>&1); then return 0; fi
    printf '%s\n' "$answer"
    [[ $answer == *'"reason": "AlreadyExists"'* || $answer == *'"reason":"AlreadyExists"'* ]]
}

# finish_controllers DIR: waits for the controllers, then marks the cluster as ours.
finish_controllers() {
    controllers_run "$1"
    play_nodes "$1"
    mark "$1"
}

controllers_run() { until_ok "$1" 60 request "$1" GET /api/v1/namespaces/default/serviceaccounts/default; }

play_nodes() {
    local dir=$1 node
    for node in node-a node-b; do
        ensure "$dir" /api/v1/nodes '{"metadata":{"name":"'$node'","labels":{"kubernetes.io/hostname":"'$node'","kubernetes.io/os":"linux"}},
          "status":{"capacity":{"cpu":"64","memory":"64Gi","pods":"1000"},"allocatable":{"cpu":"64","memory":"64Gi","pods":"1000"},
          "conditions":[{"type":"Ready","status":"True","reason":"KubeletReady","message":"played by the tests"}]}}'
        # Admission taints every new Node as not ready, and the controller that lifts that is off.
        until_ok "$dir" 20 request "$dir" PATCH "/api/v1/nodes/$node" -H 'Content-Type: application/merge-patch+json' -d '{"spec":{"taints":null}}'
    done
}

mark() {
    local dir=$1 marker
    # Tests compare this value with the file before they write anything: no other cluster has it.
    marker=$(openssl rand -hex 16)
    echo "$marker" >"$dir/marker"
    ensure "$dir" /api/v1/namespaces/kube-system/configmaps '{"metadata":{"name":"saferollback-tests"},"data":{"marker":"'"$marker"'"}}'
    touch "$dir/ready"
}
