# Shared by archive, package and render. Sourced, not run.
# shellcheck shell=bash

krew=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
project=$(cd "$krew/.." && pwd)

say() { printf '%s\n' "$*" >&2; }
die() { say "krew/${0##*/}: $*"; exit 1; }

# krew wants the v.
version=v$(sed -n 's/^version = "\(.*\)"/\1/p' "$project/Cargo.toml" | head -n 1)

# archive_name PLATFORM
archive_name() { echo "kubectl-saferollback_${version}_$1.tar.gz"; }
