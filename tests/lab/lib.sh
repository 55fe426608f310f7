# Shared by the lab's scripts. The lab keeps its files in $LAB (default: target/lab): the learner's inputs, the tools'
# observations, and where the node is.
lab_scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
project=$(cd "$lab_scripts/../.." && pwd)
lab=${LAB:-$project/target/lab}
namespace=cnpa-rollback

say() { printf '%s\n' "$*" >&2; }
die() { say "${0##*/}: $*"; exit 1; }

# The lab's kubectl and the plugin beside it, on the lab's cluster and on no other.
at_the_lab() {
    [ -f "$lab/environment" ] || die "the lab is not up: tests/lab/up"
    # shellcheck source=/dev/null
    . "$lab/environment"
}

# A file that the learner writes, and one that the tools write.
input() {
    [ -f "$lab/inputs/$1.json" ] || die "$lab/inputs/$1.json is not there: it is yours to write"
    printf '%s\n' "$lab/inputs/$1.json"
}
observation() { printf '%s\n' "$lab/observations/$1.json"; }

# look [FLAG...]: the application's Pods and Service, and what they answer.
look() {
    kubectl saferollback observe -n "$namespace" deployment/checkout --probe /ready:8080 --probe-pod-field env.HOSTNAME "$@"
}

# save NAME CONDITION...: looks for up to 75 s until all of it holds, and only then saves it, never over another.
save() {
    local name=$1 condition
    local -a until=()
    shift
    for condition in "$@"; do until+=(--until "$condition"); done
    look --show-content "${until[@]}" --timeout 75s --out "$(observation "$name")"
}
