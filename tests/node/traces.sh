# What a node leaves on the machine, and whether it is gone: for the checks of clean-up, which set `base`. Sourced
# after lib.sh, not run.
# shellcheck shell=bash

# within SECONDS WHAT COMMAND...
within() {
    local end=$((SECONDS + $1)) what=$2
    shift 2
    until "$@"; do
        ((SECONDS < end)) || { tail -n 50 "$base"/log-* >&2; die "lifecycle: $what"; }
        sleep 0.1
    done
}

# The settings that container tools like to change, and everything mounted where everybody sees it.
machine() {
    local setting
    for setting in net/ipv4/ip_forward vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
        echo "$setting $(cat "/proc/sys/$setting" 2>/dev/null)"
    done
    cut -d' ' -f2 /proc/mounts | sort
    ls -A /run/netns 2>/dev/null || true
}

# Writes down what belongs to the run directory $1 of the root, and makes sure that there is something: the check must be
# able to fail.
snapshot() {
    local id=$1 dir=$root/$1/node list pid began name port link
    for list in "$root/$id/pids" "$dir/pids"; do [ ! -f "$list" ] || cat "$list"; done >"$base/pids-$id"
    cat "$dir/ports" >"$base/ports-$id"
    cp "$dir/namespace" "$base/namespace-$id"
    cp "$dir/cgroup" "$base/cgroup-$id"
    { cat "$dir/bridge" && ls "/sys/class/net/$(<"$dir/bridge")/brif"; } >"$base/links-$id"
    while read -r pid began name; do
        runs "$pid" "$began" || die "lifecycle: $name does not run before its end"
    done <"$base/pids-$id"
    while read -r port; do
        listening "$port" || die "lifecycle: nobody listens on $port before its end"
    done <"$base/ports-$id"
    (($(wc -l <"$base/links-$id") >= 2)) || die "lifecycle: not a bridge and a Pod's interface: $(<"$base/links-$id")"
    while read -r link; do
        [ -e "/sys/class/net/$link" ] || die "lifecycle: $link is not there before its end"
    done <"$base/links-$id"
    inhabited "$(<"$base/namespace-$id")" || die "lifecycle: the node's namespace is empty before its end"
    groups_of "$id" >/dev/null || die "lifecycle: no control groups before its end"
}

groups_of() { compgen -G "/sys/fs/cgroup/$(<"$base/cgroup-$1")" || compgen -G "/sys/fs/cgroup/*/$(<"$base/cgroup-$1")"; }

# No process of the run $1 is left, and no port is taken.
ended() {
    local pid began name port
    while read -r pid began name; do
        ! runs "$pid" "$began" || return 1
    done <"$base/pids-$1"
    while read -r port; do
        ! listening "$port" || return 1
    done <"$base/ports-$1"
    ! inhabited "$(<"$base/namespace-$1")"
}

# Nothing at all of it is left. A Pod's interface goes when its network namespace does.
gone() {
    local link
    ended "$1" || return 1
    while read -r link; do
        [ ! -e "/sys/class/net/$link" ] || return 1
    done <"$base/links-$1"
    ! groups_of "$1" >/dev/null && [ ! -e "$root/$1" ]
}
