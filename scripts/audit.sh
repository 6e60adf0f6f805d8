#!/bin/sh
# Holds Cargo.lock against the RustSec advisories, by cargo-deny, and closes with one line:
#
#   1 passed, 0 failed, 0 skipped
#
# For whoever releases, and for a daily run where there is a network: it is no part of `make test`, which must
# give the same answer tomorrow. What could not be checked is never passed: without cargo-deny, or where the
# database cannot be fetched, the audit is skipped, and the exit code is 1. A database fetched on another day
# does not count.
#
# Exit codes: 0 nothing known; 1 an advisory concerns us, or nothing was checked.
set -eu
cd "$(dirname "$0")/.."
PATH=$PWD/target/tools/bin:$PWD/target/rust/bin:${CARGO_HOME:-$HOME/.cargo}/bin:$PATH

main() {
    command -v cargo-deny >/dev/null 2>&1 ||
        skipped "cargo-deny is not installed; install it: scripts/install.sh deny"
    cargo-deny --locked fetch db || skipped "the advisory database could not be fetched (above); is there a network?"
    if cargo-deny --locked check --disable-fetch advisories; then
        close 1 0 0
    fi
    close 0 1 0
}

skipped() {
    echo "audit: SKIPPED, NOTHING WAS CHECKED: $1" >&2
    close 0 0 1
}

# close <passed> <failed> <skipped>
close() {
    echo "$1 passed, $2 failed, $3 skipped"
    [ "$1" = 1 ] && exit 0
    exit 1
}

main "$@"
